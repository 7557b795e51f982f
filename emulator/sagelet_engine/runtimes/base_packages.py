"""The Python environment of this server: what the jobs of the process runtime see below their own packages."""

import functools
import os
import site
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Names of directories of sys.path that packages are installed into.
PACKAGES = ("site-packages", "dist-packages")
#: Bytes that hold the lines by which a script names its interpreter.
HEAD = 1024


@functools.cache
def described() -> dict[str, Any]:
    """What `host_packages` makes a host's packages of; looked for once."""
    configuration = Path(sys.prefix, "pip.conf")
    return {
        # Never that of a virtual environment: one made from it would not see the other's packages anyway.
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
    """In the order in which this interpreter has them."""
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return [path for path in (*user, *site.getsitepackages()) if os.path.isdir(path)]


def _script_directories() -> list[Path]:
    user = [Path(site.getuserbase(), "bin")] if site.ENABLE_USER_SITE else []
    places = [Path(sys.executable).parent, Path(sysconfig.get_path("scripts")), *user]
    return [place for place in dict.fromkeys(places) if place.is_dir()]


def _scripts(place: Path) -> Iterator[str]:
    """Scripts that name this interpreter: started as they are, they would not see what a job has installed."""
    directory = Path(sys.executable).parent
    interpreters = [os.fsencode(one) + b"/python" for one in {directory, directory.resolve()}]
    for path in place.iterdir():
        try:
            with path.open("rb") as file:
                head = file.read(HEAD) if path.is_file() else b""
        except OSError:
            continue
        # The second line names one whose path is too long for the first.
        lines = b"\n".join(head.split(b"\n")[:2])
        if lines.startswith(b"#!") and any(interpreter in lines for interpreter in interpreters):
            yield path.name


def _installed() -> list[str]:
    """What jobs are not to write: the directories that hold the packages, none of them below another."""
    found = {os.path.realpath(path) for path in (*sys.path, *_site_directories()) if _holds_packages(path)}
    found |= {os.path.realpath(sys.prefix)} if _is_virtual() else set()
    # Of the interpreter itself: a `pip` that is not the server's installs there.
    machine = sysconfig.get_path("purelib", vars={"base": sys.base_prefix})
    found |= {os.path.realpath(machine)} if os.path.isdir(machine) else set()
    return sorted(path for path in found if not any(path.startswith(f"{other}/") for other in found))


def _holds_packages(path: str) -> bool:
    return os.path.basename(path) in PACKAGES and os.path.isdir(path)
