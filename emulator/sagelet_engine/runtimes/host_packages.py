"""The Python packages of one host: a virtual environment of its own over the server's, which stays as it is.

Standard library only: the keeper makes it, on the node. What the host installs, by whatever means of pip's, goes into
this directory, which ends with the host. Its interpreter looks there first, then into packages that were kept of the
same requirements (`kept_packages`), then where the server's own interpreter looks (`base_packages`).
"""

import contextlib
import json
import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: In the host's `run_dir`.
DIRECTORY = "packages"
#: Below it: the description that it was made of, a link to packages that were kept, and the scripts of the server's
#: environment and of those, each started with this interpreter.
DESCRIPTION, KEPT, SCRIPTS = "sagelet.json", "kept", "scripts"
LOGIC, MODULE = Path(__file__).with_name("host_site.py"), "_sagelet_site"
#: Sorts after the files of packages: what those add comes before the server's, as in any virtual environment.
PATH_FILE = "zzz-sagelet.pth"
INSTALLER = Path(__file__).with_name("host_requirements.py")


def make(description: Mapping[str, Any]) -> None:
    """Makes it, of `described`, in a directory that is not there or empty. Raises OSError."""
    root = Path(description["directory"])
    own = site_directory(root, description)
    for directory in (own, root / "bin", root / SCRIPTS):
        directory.mkdir(parents=True, mode=0o700)
    # Some systems have packages that are compiled there.
    (root / "lib64").symlink_to("lib")
    for name in ("python", "python3", f"python{description['version']}"):
        (root / "bin" / name).symlink_to(description["python"])
    home = os.path.dirname(description["python"])
    # With those of the interpreter pip allows `--user`; host_site keeps them out.
    (root / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = true\n")
    (root / DESCRIPTION).write_text(json.dumps(description))
    if description["pip_configuration"] is not None:
        shutil.copy(description["pip_configuration"], root / "pip.conf")
    for place, names in description["scripts"].items():
        link_scripts(root, Path(place), names)
    _put_pip(root / SCRIPTS, description["version"])
    shutil.copy(LOGIC, own / f"{MODULE}.py")
    kept = site_directory(root / KEPT, description)
    installer = "" if description["keep"] is None else str(INSTALLER)
    call = f"{MODULE}.begin({description['site']!r}, {str(kept)!r}, {installer!r})"
    (own / PATH_FILE).write_text(f"import {MODULE}; {call}\n")


def remove(description: Mapping[str, Any]) -> None:
    """What cannot be removed goes with the job's directory."""
    shutil.rmtree(description["directory"], ignore_errors=True)


def read(root: Path) -> dict[str, Any]:
    """The description that it was made of."""
    found: dict[str, Any] = json.loads((root / DESCRIPTION).read_text())
    return found


def site_directory(root: Path, description: Mapping[str, Any]) -> Path:
    return root / "lib" / f"python{description['version']}" / "site-packages"


def environment(root: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Of the host's command: as if the environment were activated, and `pip install --user` goes there, too."""
    path = os.pathsep.join((os.path.join(root, "bin"), os.path.join(root, SCRIPTS), environment["PATH"]))
    return {**environment, "PATH": path, "VIRTUAL_ENV": root, "PYTHONUSERBASE": root}


def link_scripts(root: Path, place: Path, names: list[str]) -> None:
    """Lets scripts of another environment be started with this one's interpreter."""
    scripts = root / SCRIPTS
    number = len(list(scripts.glob(".start-*")))
    launcher = _launcher(scripts / f".start-{number}", f'{shlex.quote(str(place))}/"${{0##*/}}"')
    for name in names:
        _link(scripts / name, launcher)


def _put_pip(scripts: Path, version: str) -> None:
    """Another `pip` of the machine's would install for another interpreter."""
    launcher = _launcher(scripts / ".pip", "-m pip")
    for name in ("pip", "pip3", f"pip{version}"):
        _link(scripts / name, launcher)


def adopt(root: Path, kept: Path) -> None:
    """Shows the host packages that were kept. The link comes last: its next interpreter sees all of them or none."""
    programs = [path for path in sorted((kept / "bin").glob("*")) if path.is_file()]
    scripts = [path.name for path in programs if _is_python(path)]
    link_scripts(root, kept / "bin", scripts)
    for path in programs:
        if path.name not in scripts:
            _link(root / SCRIPTS / path.name, str(path))
    for path in sorted(kept.iterdir()):
        # Data that packages look for at the interpreter's prefix.
        if path.name not in ("bin", "lib") and not (root / path.name).exists():
            (root / path.name).symlink_to(path)
    with contextlib.suppress(FileExistsError):  # another process of the host's was faster
        (root / KEPT).symlink_to(kept)


def strip(root: Path, description: Mapping[str, Any]) -> None:
    """Leaves what was installed."""
    own = site_directory(root, description)
    shutil.rmtree(root / SCRIPTS)
    for path in (
        *(root / name for name in ("pyvenv.cfg", "lib64", "pip.conf", DESCRIPTION)),
        *(path for path in (root / "bin").glob("python*") if path.is_symlink()),
        *(own / name for name in (PATH_FILE, f"{MODULE}.py")),
        *(own / "__pycache__").glob(f"{MODULE}.*"),
    ):
        path.unlink(missing_ok=True)


def _is_python(program: Path) -> bool:
    with program.open("rb") as file:
        head = file.read(1024)
    return head.startswith(b"#!") and b"python" in b"\n".join(head.split(b"\n")[:2])


def _launcher(path: Path, what: str) -> str:
    """A script that lets this environment's interpreter run something; links to it, which say what, lie beside it."""
    path.write_text(f'#!/bin/sh\nexec "${{0%/*}}/../bin/python" {what} "$@"\n')
    path.chmod(0o700)
    return path.name


def _link(path: Path, target: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    path.symlink_to(target)
