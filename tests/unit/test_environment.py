"""The environment that `make setup` makes stays usable when the checkout that made it is gone (`.ci/run` keeps it)."""

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
