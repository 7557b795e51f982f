"""Lower bounds of dependencies: none admits a version with a known vulnerability. Each bound has its reason here."""

import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
#: Distribution, vulnerability, the first version without it. The last of each is its bound.
FIXED = [
    ("certifi", "CVE-2024-39689", "2024.7.4"),
    ("cryptography", "CVE-2024-12797", "44.0.1"),
    ("cryptography", "CVE-2026-26007", "46.0.5"),
    ("cryptography", "CVE-2026-34073", "46.0.6"),
    ("cryptography", "CVE-2026-39892", "46.0.7"),
    ("cryptography", "CVE-2026-69247", "50.0.0"),
    ("flask", "CVE-2025-47278", "3.1.1"),
    ("flask", "CVE-2026-27205", "3.1.3"),
    ("flask-cors", "CVE-2024-6221", "5.0.0"),
    ("flask-cors", "CVE-2024-6839", "6.0.0"),
    ("flask-cors", "CVE-2024-6844", "6.0.0"),
    ("flask-cors", "CVE-2024-6866", "6.0.0"),
    ("gevent", "CVE-2023-41419", "23.9.0"),
    ("idna", "CVE-2024-3651", "3.7"),
    ("jinja2", "CVE-2024-56326", "3.1.5"),
    ("jinja2", "CVE-2025-27516", "3.1.6"),
    ("paramiko", "CVE-2023-48795", "3.4.0"),
    ("pillow", "CVE-2025-48379", "11.3.0"),
    ("pillow", "CVE-2026-25990", "12.1.1"),
    ("pillow", "CVE-2026-40192", "12.2.0"),
    ("pillow", "CVE-2026-55379", "12.3.0"),
    ("protobuf", "CVE-2025-4565", "6.31.1"),
    ("protobuf", "CVE-2026-0994", "6.33.5"),
    ("pyyaml", "CVE-2020-14343", "5.4"),
    ("requests", "CVE-2024-47081", "2.32.4"),
    ("requests", "CVE-2026-25645", "2.33.0"),
    ("urllib3", "CVE-2025-50181", "2.5.0"),
    ("urllib3", "CVE-2025-66418", "2.6.0"),
    ("urllib3", "CVE-2025-66471", "2.6.0"),
    ("urllib3", "CVE-2026-21441", "2.6.3"),
    ("urllib3", "CVE-2026-44431", "2.7.0"),
    ("urllib3", "CVE-2026-44432", "2.7.0"),
    ("urllib3", "CVE-2026-97687", "2.8.0"),
    ("urllib3", "CVE-2026-97688", "2.8.0"),
    ("urllib3", "CVE-2026-97689", "2.8.0"),
    ("werkzeug", "CVE-2024-49767", "3.0.6"),
    ("werkzeug", "CVE-2025-66221", "3.1.4"),
    ("werkzeug", "CVE-2026-21860", "3.1.5"),
    ("werkzeug", "CVE-2026-27199", "3.1.6"),
]


def requirements() -> list[Requirement]:
    extras = PROJECT["optional-dependencies"].values()
    return [Requirement(line) for lines in (PROJECT["dependencies"], *extras) for line in lines]


def lower_bounds(name: str) -> list[Version]:
    """Of each place that names the distribution."""
    found = [requirement for requirement in requirements() if requirement.name.lower() == name]
    return [Version(clause.version) for each in found for clause in each.specifier if clause.operator in (">=", "==")]


@pytest.mark.parametrize(("name", "vulnerability", "fixed"), FIXED)
def test_a_vulnerable_version_is_not_admitted(name: str, vulnerability: str, fixed: str) -> None:
    bounds = lower_bounds(name)
    assert bounds, f"{name} has no lower bound: {vulnerability} was mended in {fixed}"
    assert min(bounds) >= Version(fixed), f"{name}: {vulnerability} was mended in {fixed}"


def installed_by_setup() -> list[Any]:
    """Returns the distributions of the table. Those that only the extra `xla` brings are marked."""
    others = {Requirement(line).name.lower() for line in PROJECT["dependencies"]}
    others |= {Requirement(line).name.lower() for line in PROJECT["optional-dependencies"]["dev"]}
    names = sorted({name for name, *_ in FIXED})
    return [name if name in others else pytest.param(name, marks=pytest.mark.xla) for name in names]


@pytest.mark.parametrize("name", installed_by_setup())
def test_what_is_installed_is_admitted(name: str) -> None:
    for requirement in requirements():
        if requirement.name.lower() == name:
            assert version(name) in requirement.specifier, requirement


def test_the_table_is_in_order_and_names_vulnerabilities() -> None:
    assert [(name, Version(fixed)) for name, _, fixed in FIXED] == sorted(
        (name, Version(fixed)) for name, _, fixed in FIXED
    )
    assert all(re.fullmatch(r"CVE-\d{4}-\d{4,}", vulnerability) for _, vulnerability, _ in FIXED)
