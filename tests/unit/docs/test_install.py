"""docs/how-to/install.md: what it prints works, and no other page tells people to install what is not there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
INSTALL = ROOT / "docs" / "how-to" / "install.md"
#: sagelet by its bare name, or with an extra, which pip would look for on an index.
FROM_AN_INDEX = re.compile(r"pip\w* install\b(?!ed)[^`\n&;]*?(?<![\w/.-])sagelet(\[\w+\])?(?![\w@/\[-]|\.\w| @)")


def texts() -> list[Path]:
    """The pages, the examples and what the program says."""
    folders = [ROOT / name for name in ("docs", "examples", "api", "emulator", "images")]
    found = [path for folder in folders for path in folder.rglob("*")]
    kinds = {".md", ".py", ".yml", ".json", ".ipynb", ".toml", ".html"}
    return sorted([*ROOT.glob("*.md"), *(path for path in found if path.suffix in kinds)])


def test_nobody_is_told_to_install_it_from_an_index_that_does_not_have_it() -> None:
    told = {
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in texts()
        for found in FROM_AN_INDEX.finditer(path.read_text(encoding="utf-8"))
    }
    assert told == {"docs/how-to/install.md: pip install sagelet"}, "install.md says that this finds nothing"


@pytest.mark.parametrize(
    ("command", "is_told"),
    [
        ("pip install sagelet", True),
        ("pip install 'sagelet[xla]' 'sagemaker<3'", True),
        ("pip install sagelet pytest", True),
        ("pip install 'sagelet @ git+REPOSITORY' pytest", False),
        ("pip install 'sagelet[xla] @ git+REPOSITORY'", False),
        ("pip install dist/sagelet-*.whl", False),
        ("pip install --no-cache-dir /opt/sagelet/source", False),
    ],
)
def test_the_search_finds_what_it_is_for(command: str, is_told: bool) -> None:
    assert bool(FROM_AN_INDEX.search(command)) is is_told


def test_the_minute_without_torch_is_as_printed(tmp_path: Path) -> None:
    (printed,) = re.findall(r"```python\n(.*?)```", INSTALL.read_text(), re.DOTALL)
    (tmp_path / "test_train.py").write_text(printed)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "SAGELET", "AWS"))},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr
