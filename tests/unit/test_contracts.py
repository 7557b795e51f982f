"""Each contract of `make lint` is broken by a small import of the kind that it forbids."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("api", "emulator", "images/runtime")
#: What is added to a file, and the contract that it breaks.
WRONG = [
    ("emulator/sagelet_engine/simulation/functions.py", "def f(): import sagelet_api.durations", "The API calls"),
    ("emulator/sagelet_engine/store/notes.py", "import sagelet_engine.machine.ports", "Layers of the engine"),
    ("api/sagelet_api/auth/people.py", "import sagelet_api.web.units", "Layers of the API"),
    ("images/runtime/sagelet_runtime/base/say.py", "import sagelet_runtime.entry.init", "Layers of the runtime"),
    ("emulator/sagelet_engine/runtimes/process/usage.py", "import sagelet_engine.runtimes.slurm.setup", "No circles"),
    ("images/runtime/sagelet_runtime/base/pairs.py", "import sagelet_engine", "The container side"),
    ("api/sagelet_api/display.py", "import sagelet_runtime.base.wire", "The engine and the API start"),
    ("emulator/sagelet_engine/runtimes/node/plan.py", "def f(): import cheroot", "What runs on a node"),
    ("emulator/sagelet_engine/runtimes/slurm/usage.py", "import numpy", "What runs on a node"),
    ("emulator/sagelet_engine/model/series.py", "import time", "The model is pure"),
    ("emulator/sagelet_engine/scheduling/local.py", "import sagelet_engine.model.training", "What is common"),
    ("emulator/sagelet_engine/facets.py", "import sagelet_engine.runtimes.slurm.file_sync.server", "The file sync"),
    ("emulator/sagelet_engine/execution/outbox.py", "import docker", "Docker's client"),
    ("api/sagelet_api/auth/callers.py", "def f(): import botocore.auth", "A server loads botocore"),
    ("emulator/sagelet_engine/execution/launch.py", "import sqlite3", "SQL is in the store"),
    ("api/sagelet_api/web/units.py", 'ROWS = "SELECT * FROM jobs"', "SQL statements"),
    ("api/sagelet_api/services/moto/bridge.py", "import moto", "moto is never loaded"),
    ("emulator/sagelet_engine/base/keys.py", '__import__("sagelet_api.app")', "Only these imports"),
    ("api/sagelet_api/web/pages.py", 'import importlib; importlib.import_module("moto")', "Only these imports"),
    ("images/runtime/sagelet_runtime/train.py", '__import__("sagelet_engine")', "Only these imports"),
    ("api/sagelet_api/web/graph.py", '__import__("docker".strip())', "Only these imports"),
]


def lint(tree: Path) -> str:
    """What lint-imports prints of the packages below `tree`. Its lines are not wrapped."""
    path = os.pathsep.join(str(tree / package) for package in PACKAGES)
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "400"},
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What is printed of a copy of the code with all that is wrong at once."""
    tree = tmp_path_factory.mktemp("tree")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    (tree / "tests/support").mkdir(parents=True)
    for file in ("pyproject.toml", "tests/support/import_contracts.py"):
        shutil.copyfile(ROOT / file, tree / file)
    for file, line, _ in WRONG:
        with (tree / file).open("a", encoding="utf-8") as code:
            code.write(f"\n{line}\n")
    return lint(tree)


@pytest.mark.parametrize(("file", "line", "contract"), WRONG)
def test_a_wrong_import_breaks_its_contract(file: str, line: str, contract: str, printed: str) -> None:
    named = [one for one in printed.splitlines() if one.startswith(contract)]
    assert named, printed
    assert "BROKEN" in named[0]
    # A circle is shown as the packages in it.
    module = "runtimes.slurm" if contract == "No circles" else "sagelet" + file.partition("sagelet")[2]
    assert module.removesuffix(".py").replace("/", ".") in printed.partition("Broken contracts")[2]


def test_every_contract_has_a_wrong_import(printed: str) -> None:
    contracts = [one for one in printed.splitlines() if "KEPT" in one or " BROKEN" in one]
    assert contracts
    assert [one for one in contracts if "KEPT" in one] == []
