"""The environment that `make setup` makes stays usable when the checkout that made it is gone (`.ci/run` keeps it)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", [".venv", pytest.param(".venv-sdk", marks=pytest.mark.sdk)])
def test_scripts_name_the_interpreter_of_the_environment_they_lie_in(name: str) -> None:
    binaries = (ROOT / name).resolve() / "bin"
    first_lines = (script.open("rb").readline() for script in binaries.glob("*") if script.is_file())
    interpreters = {line[2:].split()[0].decode() for line in first_lines if line.startswith(b"#!/")}
    foreign = {path for path in interpreters if "python" in path and not path.startswith(f"{binaries}/")}
    assert not foreign


def test_without_torch_the_unit_tests_are_collected() -> None:
    """As in the workflow. A test that needs the extra `xla` has the marker, and imports it within its function."""
    absent = ("sagemaker_training", "torch", "torch_xla", "transformers")
    program = f"import sys, pytest; sys.modules.update(dict.fromkeys({absent!r})); sys.exit(pytest.main(sys.argv[1:]))"
    suspects = [
        path for path in sorted((ROOT / "tests/unit").rglob("test_*.py"))
        if any(name in path.read_text() for name in ("sagelet_runtime", *absent))
    ]  # fmt: skip
    # In CI this demands that nothing is missing.
    environment = {name: value for name, value in os.environ.items() if name != "SAGELET_TEST_REQUIRE"}
    done = subprocess.run(
        [sys.executable, "-c", program, "--collect-only", "-q", "-p", "no:cacheprovider", *suspects],
        cwd=ROOT, capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
