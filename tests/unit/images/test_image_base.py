"""Which base the image is built on, and what the user reads when there is none."""

import gzip
from pathlib import Path

import pytest

from sagelet_engine.images import debian
from sagelet_engine.images.base import PYTHONS, REGISTRY_BASE, choose_base
from sagelet_engine.images.debian import BASE_IMAGE, apt_mirror
from sagelet_engine.images.output import BaseImageUnavailable, EventKind, ImageBuildFailed
from support.docker_double import EngineDouble, Recorder, unpacked


def test_auto_takes_the_registry(engine: EngineDouble, report: Recorder) -> None:
    engine.registry.add(REGISTRY_BASE)
    assert choose_base(engine, "auto", report) == REGISTRY_BASE
    assert [(event.done, event.total) for event in report if event.kind is EventKind.PROGRESS] == [(5, 10)]


def test_a_base_that_is_here_is_not_pulled(engine: EngineDouble, report: Recorder) -> None:
    engine.local[REGISTRY_BASE] = {}
    assert choose_base(engine, "auto", report) == REGISTRY_BASE
    assert engine.pulls == []


def test_pull_asks_the_registry_again_and_makes_do(engine: EngineDouble, report: Recorder) -> None:
    engine.local[REGISTRY_BASE] = {}
    assert choose_base(engine, "registry", report, pull=True) == REGISTRY_BASE
    assert engine.pulls == [REGISTRY_BASE]
    assert "the one that is here is used" in report.notes()


def test_an_engine_of_another_architecture_pulls_the_platform_that_pytorch_xla_needs(
    engine: EngineDouble, report: Recorder
) -> None:
    """`docker info` says aarch64 on Apple silicon. An image of that architecture cannot be a base."""
    engine.architecture = "aarch64"
    engine.registry.add(REGISTRY_BASE)
    engine.local[REGISTRY_BASE] = {"architecture": "arm64"}
    assert choose_base(engine, "auto", report) == REGISTRY_BASE
    assert engine.pulls == [f"{REGISTRY_BASE} linux/amd64"]
    engine.local[REGISTRY_BASE] = {"architecture": "amd64"}
    assert choose_base(engine, "auto", report) == REGISTRY_BASE
    assert len(engine.pulls) == 1


def test_debian_packages_of_another_machine_are_no_base(
    engine: EngineDouble, report: Recorder, debootstrap: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debian, "machine", lambda: "aarch64")
    with pytest.raises(BaseImageUnavailable, match=r"this machine, aarch64, .* needs x86-64"):
        choose_base(engine, "debian", report)


def test_auto_falls_to_debian(engine: EngineDouble, report: Recorder, debootstrap: Path) -> None:
    assert choose_base(engine, "auto", report) == BASE_IMAGE
    assert f"{REGISTRY_BASE} cannot be pulled (no such host)" in report.notes()
    assert BASE_IMAGE in engine.local


def test_auto_takes_a_debian_base_made_before(engine: EngineDouble, report: Recorder, no_debootstrap: None) -> None:
    engine.local[BASE_IMAGE] = {}
    assert choose_base(engine, "auto", report) == BASE_IMAGE
    assert engine.imports == []


def test_auto_without_any_names_the_remedies(engine: EngineDouble, report: Recorder, no_debootstrap: None) -> None:
    with pytest.raises(BaseImageUnavailable) as raised:
        choose_base(engine, "auto", report)
    for remedy in ("apt-get install debootstrap", "docker load", "--base REF"):
        assert remedy in str(raised.value)


def test_debian_without_root_says_so(engine: EngineDouble, report: Recorder, debootstrap: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(debian.os, "geteuid", lambda: 1000)
        with pytest.raises(BaseImageUnavailable, match="needs root"):
            choose_base(engine, "debian", report)


@pytest.mark.parametrize("base", ["registry", "corp.example/python:3.12"])
def test_a_base_that_was_asked_for_is_not_replaced(
    engine: EngineDouble, report: Recorder, debootstrap: Path, base: str
) -> None:
    with pytest.raises(BaseImageUnavailable, match="--base debian"):
        choose_base(engine, base, report)
    assert engine.imports == []


def test_a_base_of_ones_own_is_pulled(engine: EngineDouble, report: Recorder) -> None:
    engine.registry.add("corp.example:5000/python:3.12")
    assert choose_base(engine, "corp.example:5000/python:3.12", report) == "corp.example:5000/python:3.12"


def test_debootstrap_gets_suite_packages_and_mirror(
    engine: EngineDouble, report: Recorder, debootstrap: Path, tmp_path: Path
) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text("PEM of the company")
    assert choose_base(engine, "debian", report, ca_bundle=bundle) == BASE_IMAGE
    variant, include, suite, _, mirror = debootstrap.read_text().split()
    assert (variant, suite, mirror) == ("--variant=minbase", "bookworm", apt_mirror())
    assert {"python3", "g++", "ca-certificates"} <= set(include.removeprefix("--include=").split(","))
    tree = _tree(engine.imports[0]["content"])
    assert tree["./etc/ssl/certs/ca-certificates.crt"] == b"PEM of the company"
    assert tree["./etc/os-release"] == b"ours\n"
    assert not any(name.endswith(".deb") for name in tree)
    assert "LABEL org.sagelet.image=base" in engine.imports[0]["changes"]
    assert "Retrieving Packages" in [event.text for event in report]


def test_an_older_python_comes_of_an_older_debian(engine: EngineDouble, report: Recorder, debootstrap: Path) -> None:
    assert choose_base(engine, "auto", report, python=PYTHONS["3.9"]) == "sagelet/base:bullseye"
    assert "python:3.9-slim cannot be pulled" in report.notes()
    assert debootstrap.read_text().split()[2] == "bullseye"
    assert choose_base(engine, "auto", report) == BASE_IMAGE, "the one of another Python is none"


def test_a_failed_debootstrap_shows_its_last_lines(engine: EngineDouble, report: Recorder, debootstrap: Path) -> None:
    program = debootstrap.parent / "bin" / "debootstrap"
    program.write_text("#!/bin/sh\necho 'E: Failed getting release file'\nexit 3\n")
    with pytest.raises(ImageBuildFailed) as raised:
        choose_base(engine, "debian", report)
    assert "exit code 3" in str(raised.value)
    assert "E: Failed getting release file" in str(raised.value)
    assert "--base" in raised.value.remedy
    assert engine.imports == []


def _tree(archive: bytes) -> dict[str, bytes]:
    return unpacked(gzip.compress(archive))


@pytest.mark.parametrize(
    ("files", "mirror"),
    [
        ({}, None),
        ({"sources.list": "deb http://mirror.example/debian bookworm main\n"}, "http://mirror.example/debian"),
        (
            {
                "sources.list": "# deb http://old.example bookworm main\n"
                "deb [arch=amd64 signed-by=/k] http://m.example/d/ bookworm main"
            },
            "http://m.example/d",
        ),
        ({"sources.list": "deb http://archive.ubuntu.example/ubuntu noble main"}, None),
        (
            {
                "sources.list.d/a.list": "deb http://other.example/debian trixie main\n"
                "deb http://b.example/debian bookworm main"
            },
            "http://b.example/debian",
        ),
        ({"sources.list": "deb http://other.example/debian trixie main"}, "http://other.example/debian"),
        (
            {
                "sources.list.d/debian.sources": "Types: deb-src\nURIs: http://src.example/debian\nSuites: bookworm\n\n"
                "Enabled: no\nTypes: deb\nURIs: http://off.example/debian\nSuites: bookworm\n\n"
                "Types: deb\n# a comment\nURIs: https://d822.example/debian\nSuites: bookworm bookworm-updates\n"
            },
            "https://d822.example/debian",
        ),
        (
            {
                "sources.list.d/s.sources": "Types: deb\n"
                "URIs: http://sec.example/debian-security\nSuites: bookworm-security\n"
            },
            None,
        ),
    ],
)
def test_the_mirror_is_that_of_the_machine(tmp_path: Path, files: dict[str, str], mirror: str | None) -> None:
    (tmp_path / "sources.list.d").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert apt_mirror(tmp_path) == mirror
