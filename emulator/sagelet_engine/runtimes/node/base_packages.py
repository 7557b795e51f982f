"""Describes the server's Python environment: jobs of the process runtime see it below their own packages."""

import functools
import os
import site
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from sagelet_engine.runtimes.node.plan import BasePackages

#: Names of the directories of sys.path into which packages are installed.
PACKAGES = ("site-packages", "dist-packages")
#: Bytes at the start of a script that hold the lines which name its interpreter.
HEAD = 1024


@functools.cache
def described() -> BasePackages:
    """Describes the server's environment for `host_packages`. Only the first call examines it."""
    configuration = Path(sys.prefix, "pip.conf")
    return {
        # Never the interpreter of a virtual environment: an environment made from it would not see the packages there.
        "python": getattr(sys, "_base_executable", None) or sys.executable,
        "version": f"{sys.version_info.major}.{sys.version_info.minor}",
        "site": _site_directories(),
        "scripts": {str(place): names for place in _script_directories() if (names := sorted(_scripts(place)))},
        "pip_configuration": str(configuration) if _is_virtual() and configuration.is_file() else None,
        "read_only": _installed(),
    }


def _is_virtual() -> bool:
    return sys.prefix != sys.base_prefix


def _site_directories() -> list[str]:
    """Returns directories of packages in this interpreter's order."""
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return [path for path in (*user, *site.getsitepackages()) if os.path.isdir(path)]


def _script_directories() -> list[Path]:
    user = [Path(site.getuserbase(), "bin")] if site.ENABLE_USER_SITE else []
    places = [Path(sys.executable).parent, Path(sysconfig.get_path("scripts")), *user]
    return [place for place in dict.fromkeys(places) if place.is_dir()]


def _scripts(place: Path) -> Iterator[str]:
    """Yields scripts that name this interpreter. Started unchanged, they would not see a job's own packages."""
    directory = Path(sys.executable).parent
    interpreters = [os.fsencode(one) + b"/python" for one in {directory, directory.resolve()}]
    for path in place.iterdir():
        try:
            with path.open("rb") as file:
                head = file.read(HEAD) if path.is_file() else b""
        except OSError:
            continue
        # The second line names an interpreter whose path is too long for the first.
        lines = b"\n".join(head.split(b"\n")[:2])
        if lines.startswith(b"#!") and any(interpreter in lines for interpreter in interpreters):
            yield path.name


def _installed() -> list[str]:
    """Returns the directories of packages, which jobs must not write to. None of them is below another."""
    found = {os.path.realpath(path) for path in (*sys.path, *_site_directories()) if _holds_packages(path)}
    found |= {os.path.realpath(sys.prefix)} if _is_virtual() else set()
    # The base interpreter's directory: a `pip` other than the server's installs there.
    machine = sysconfig.get_path("purelib", vars={"base": sys.base_prefix})
    found |= {os.path.realpath(machine)} if os.path.isdir(machine) else set()
    return sorted(path for path in found if not any(path.startswith(f"{other}/") for other in found))


def _holds_packages(path: str) -> bool:
    return os.path.basename(path) in PACKAGES and os.path.isdir(path)
