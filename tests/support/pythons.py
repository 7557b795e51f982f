"""The Pythons that sagelet is for, as they lie on this machine, and an environment of each: `make setup-pythons`.

    python pythons.py --check         # exits with 1 unless all of them are here
    python pythons.py DIRECTORY

makes DIRECTORY/3.10, DIRECTORY/3.11, ... with pytest and what sagelet depends on, without sagelet: a test installs the
wheel beside them (`WheelPython`). It fails if a Python has no version of a tool that the extra `dev` names, because
`make setup` and the workflow of the unit tests install that extra. Standard library only.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "images/training"))

from installing.tool import choose  # noqa: E402

VERSIONS = ("3.10", "3.11", "3.12", "3.13")
#: What `make setup-pythons` makes.
ENVIRONMENTS = ROOT / ".venv-pythons"
#: Beginnings of variables that belong to the tests' own environment, or to the person's AWS.
OTHERS = ("AWS_", "COVERAGE_", "PYTEST", "PYTHON", "SAGE", "VIRTUAL_ENV")
#: In an environment: what it was made of.
STAMP = "made-of"
_PIP = ("-m", "pip", "--disable-pip-version-check", "-q")


def marker_of(version: str) -> str:
    """Returns the name of pytest's marker for tests that need this Python."""
    return "python" + version.replace(".", "_")


def missing_python(version: str) -> str | None:
    """Returns what to do if there is no environment of this Python, else None."""
    if (ENVIRONMENTS / version / STAMP).exists():
        return None
    if find_python(version) is None:
        return f"Python {version} is not on PATH, in pyenv or in uv: install it, then run `make setup-pythons`"
    return f"the environment of Python {version} is not there: run `make setup-pythons`"


def find_python(version: str, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Returns a Python of this version that works and can make environments, or None.

    A file of the right name is not enough: pyenv puts commands on PATH for all its versions, and lets only the chosen
    ones run.
    """
    return next((python for python in _candidates(version, environ) if _works(python, version)), None)


def _candidates(version: str, environ: Mapping[str, str]) -> Iterator[Path]:
    found = shutil.which(f"python{version}", path=environ.get("PATH"))
    if found:
        yield Path(found)
    home = Path(environ.get("HOME", "/"))
    pyenv = Path(environ.get("PYENV_ROOT", home / ".pyenv"))
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python"), reverse=True)
    data = Path(environ.get("XDG_DATA_HOME", home / ".local/share"))
    uv = Path(environ.get("UV_PYTHON_INSTALL_DIR", data / "uv/python"))
    yield from sorted(uv.glob(f"cpython-{version}.*/bin/python"), reverse=True)


def _works(python: Path, version: str) -> bool:
    program = "import ensurepip, sqlite3, ssl, sys, venv; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode == 0 and done.stdout.strip() == version


def make_environment(python: Path, directory: Path) -> None:
    """Makes an environment with sagelet's dependencies and pytest, unless it is there.

    Raises CalledProcessError and InstallFailed.
    """
    said = subprocess.run([python, "-VV"], capture_output=True, text=True, check=True).stdout
    wanted = hashlib.sha256(said.encode() + (ROOT / "pyproject.toml").read_bytes()).hexdigest()
    stamp = directory / STAMP
    if stamp.exists() and stamp.read_text() == wanted:
        return
    shutil.rmtree(directory, ignore_errors=True)
    subprocess.run([python, "-m", "venv", directory], check=True)
    tool = choose(str(directory / "bin" / "python"), (sys.executable, str(ROOT / ".venv/bin/python")))
    tool(["install", str(ROOT), "pytest>=9,<10"])
    tool(["install", "--dry-run", f"{ROOT}[dev]"])
    tool(["uninstall", "--yes", "sagelet"])
    stamp.write_text(wanted)


class WheelPython:
    """A fresh environment of one Python with sagelet's wheel, beside the dependencies that `make setup-pythons` keeps.

    So the wheel is installed anew by each test run, and nobody else's run sees it.
    """

    def __init__(self, version: str, root: Path, wheel: Path) -> None:
        kept = ENVIRONMENTS / version
        (packages,) = kept.resolve().glob("lib/python*/site-packages")
        self.python = root / "bin" / "python"
        self.sagelet = root / "bin" / "sagelet"
        #: Variables of a shell in which the environment is active, without those of the tests' own environment.
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS)}
        self.environ.update(PATH=f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}", HOME=str(root / "home"))
        self._kept = kept / "bin" / "python"
        subprocess.run([self._kept, "-m", "venv", "--without-pip", root], check=True)
        (root / "home").mkdir()
        (own,) = root.glob("lib/python*/site-packages")
        (own / "dependencies.pth").write_text(f"{packages}\n")
        self.pip("install", "--no-deps", str(wheel))

    def pip(self, *arguments: str) -> str:
        """Runs pip for this environment, with the pip of the kept one. Raises AssertionError if it fails."""
        return self.run(str(self._kept), *_PIP, "--python", str(self.python), *arguments)

    def run(self, *command: str, directory: Path | None = None) -> str:
        """Runs a command and returns what it wrote to stdout. Raises AssertionError if it fails."""
        done = self.call(*command, directory=directory)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def call(self, *command: str, directory: Path | None = None) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command, cwd=directory, env=self.environ, capture_output=True, text=True, timeout=300, check=False
        )


def main(given: str) -> int:
    found = {version: find_python(version) for version in VERSIONS}
    for version, python in found.items():
        print(f"Python {version}: {python or 'not on PATH, in pyenv or in uv'}", flush=True)
        if python and given != "--check":
            make_environment(python, Path(given, version))
    if given == "--check":
        return 0 if all(found.values()) else 1
    if all(found.values()):
        Path(given, ".ready").touch()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
