"""What sagelet's wheel is made of, apart from the rest of the checkout."""

import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

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


@contextmanager
def repository(directory: Path) -> Iterator[str]:
    """Serves a git repository of them, as they are now. Yields its address, which pip takes after `git+`.

    By HTTP, because the pip of Python 3.11 takes no file:///.
    """
    work = copy(directory / "work")
    person = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "--all", "--force"], [*person, "commit", "-q", "-m", "sources"]):
        _git(work, *words)
    bare = directory / "sagelet.git"
    _git(directory, "clone", "-q", "--bare", work, bare)
    _git(bare, "update-server-info")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=str(directory))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/sagelet.git"
        server.shutdown()


class _Files(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


def _git(directory: Path, *words: str | Path) -> None:
    subprocess.run(["git", "-C", directory, *words], check=True, capture_output=True)
