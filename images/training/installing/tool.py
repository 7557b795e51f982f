"""Runs `uv pip`, or `python -m pip` where uv cannot be had or has no counterpart of one of pip's settings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from installing.pip_settings import read, translate, words_for_uv
from installing.remote_wheel import RemoteWheel

#: `uv`, `pip`, or `auto`: uv where it can be had.
VARIABLE = "SAGELET_INSTALLER"
CHOICES = ("auto", "uv", "pip")
#: The release that is installed has the lock files (`--format pylock.toml`) by which an index's address is found.
UV_REQUIREMENT = "uv>=0.8,<1"

Say = Callable[[str], None]
#: Runs a command in this environment and returns its exit status.
Run = Callable[[Sequence[str], Mapping[str, str]], int]
#: The only wheel of a lock file of one package.
_WHEEL = re.compile(r'\burl = "([^"\\]+\.whl)"')


class InstallFailed(Exception):
    """uv or pip failed, or there is none. The message says what to do."""


def run_command(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Runs the command with this process's own output."""
    return subprocess.run(command, env=environ, check=False).returncode


@dataclass(frozen=True)
class Tool:
    """Installs packages into one Python, by pip if `uv` is None."""

    python: str
    uv: str | None = None
    #: Variables of uv's environment, beside this process's own.
    variables: Mapping[str, str] = field(default_factory=dict)
    run: Run = run_command

    @property
    def environ(self) -> dict[str, str]:
        return {**os.environ, **self.variables}

    def __call__(self, arguments: Sequence[str]) -> None:
        """Does what pip would do for these arguments. uv has no `download`, so pip does that. Raises InstallFailed."""
        by_uv = self.uv is not None and arguments[0] != "download"
        command, environ = self._by_uv(arguments) if by_uv else self._by_pip(arguments)
        if self.run(command, environ):
            other = f". {VARIABLE}=pip uses pip in its place" if by_uv else ""
            raise InstallFailed(f"{'uv' if by_uv else 'pip'} failed: {' '.join(arguments)}{other}")

    def _by_uv(self, arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
        return [str(self.uv), "pip", arguments[0], "--python", self.python, *words_for_uv(arguments[1:])], self.environ

    def _by_pip(self, arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
        command = [self.python, "-m", "pip", arguments[0], "--disable-pip-version-check", *arguments[1:]]
        return command, dict(os.environ)

    def find_wheel(self, requirement: str) -> RemoteWheel | None:
        """Returns the wheel that fulfils `NAME==VERSION`. None without uv, and where no index has a single one."""
        if self.uv is None:
            return None
        words = ["--no-deps", "--only-binary", ":all:", "--format", "pylock.toml", "--quiet", "-"]
        command = [self.uv, "pip", "compile", "--python", self.python, *words]
        done = subprocess.run(
            command, env=self.environ, input=requirement, stdout=subprocess.PIPE, text=True, check=False
        )
        wheels = _WHEEL.findall(done.stdout) if done.returncode == 0 else []
        return RemoteWheel(wheels[0], self.environ) if len(wheels) == 1 else None


def find_uv(beside: Sequence[str], environ: Mapping[str, str] = os.environ) -> str | None:
    """Returns the uv on PATH, or the one beside one of these Pythons, or None."""
    on_path = shutil.which("uv", path=environ.get("PATH"))
    if on_path is not None and _works(on_path):
        return on_path
    places = (Path(python).with_name("uv") for python in beside)
    return next((str(place) for place in places if place.is_file() and _works(str(place))), None)


def choose(
    python: str = sys.executable,
    beside: Sequence[str] = (),
    say: Say = print,
    run: Run = run_command,
    environ: Mapping[str, str] = os.environ,
) -> Tool:
    """Returns what installs into this Python. Installs uv there if it is neither on PATH nor beside one of `beside`.

    Raises InstallFailed if uv is asked for and cannot be had.
    """
    choice = environ.get(VARIABLE) or "auto"
    if choice not in CHOICES:
        raise InstallFailed(f"{VARIABLE}={choice}: it is {', '.join(CHOICES)}")
    pip = Tool(python, run=run)
    if choice == "pip":
        return pip
    translation = translate(read(python), environ)
    if translation.untranslated and choice == "auto":
        say(f"pip installs, because uv has nothing like pip's setting {', '.join(translation.untranslated)}")
        return pip
    uv = find_uv((python, *beside), environ) or _install_uv(pip)
    if uv is None and choice == "uv":
        raise InstallFailed(f"uv is not on PATH and pip cannot install it. {VARIABLE}=pip does without it")
    if uv is None:
        say("pip installs, because uv cannot be had")
        return pip
    return Tool(python, uv, {**translation.variables, **_bytecode(environ)}, run)


def _install_uv(pip: Tool) -> str | None:
    try:
        pip(["install", UV_REQUIREMENT])
    except InstallFailed:
        return None
    # A Python of the system may have its scripts elsewhere.
    program = "import sysconfig; print(sysconfig.get_path('scripts'))"
    done = subprocess.run([pip.python, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    return find_uv((pip.python, str(Path(done.stdout.strip(), "python"))))


def _bytecode(environ: Mapping[str, str]) -> dict[str, str]:
    """Where Python may not write what it compiles, each process would compile torch anew, so uv compiles it now."""
    return {"UV_COMPILE_BYTECODE": "1"} if environ.get("PYTHONDONTWRITEBYTECODE") else {}


def _works(uv: str) -> bool:
    """False for a command of pyenv's whose version is not chosen, and for a release that is too old."""
    try:
        done = subprocess.run(
            [uv, "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
        )
    except OSError:
        return False
    words = done.stdout.split()
    return done.returncode == 0 and len(words) > 1 and _release(words[1]) >= (0, 8)


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in version.split(".")[:2])
