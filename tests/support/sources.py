"""What sagelet's wheel is made of, apart from the rest of the checkout."""

import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "images" / "server" / "Dockerfile"


def names() -> list[str]:
    """Returns the files and directories that the server's image copies and installs, relative to the checkout."""
    copied = re.findall(r"^COPY (.+) /opt/sagelet/source\S*$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    return [name for line in copied for name in line.split()]


def copy(target: Path) -> Path:
    """Copies them, without caches. Returns `target`."""
    for name in names():
        source, copied = ROOT / name, target / name
        copied.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copied, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        else:
            shutil.copy(source, copied)
    return target


def repository(target: Path) -> str:
    """Makes a git repository of them, as they are now. Returns its address for `pip install 'sagelet @ git+ADDRESS'`."""
    copy(target)
    person = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "--all", "--force"], [*person, "commit", "-q", "-m", "sources"]):
        subprocess.run(["git", "-C", target, *words], check=True, capture_output=True)
    return target.as_uri()
