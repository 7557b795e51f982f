"""The Python packages of one host: a virtual environment of its own over the server's, which stays unchanged.

Standard library only: the shim makes it, on the node. Whatever the host installs with pip goes into this directory,
which is removed with the host. The host's interpreter looks there first, then into kept packages of the same
requirements (`kept_packages.py`), then where the server's own interpreter looks (`base_packages.py`).
"""

import contextlib
import json
import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from sagelet_engine.runtimes.node.plan import BasePackages, MadePackages, Packages

#: In the host's `run_dir`.
DIRECTORY = "packages"
#: Below it: the description that it was made from, a link to kept packages, and scripts of the server's environment
#: and of the kept packages, each started with this interpreter.
DESCRIPTION, KEPT, SCRIPTS = "sagelet.json", "kept", "scripts"
LOGIC, MODULE = Path(__file__).with_name("host_site.py"), "_sagelet_site"
#: Sorts after the path files of packages, so that what they add comes before the server's packages, as in any
#: virtual environment.
PATH_FILE = "zzz-sagelet.pth"
#: The directory of the host's downloads from sagelet's hub, and the path of that hub on the server.
CACHE, HUB = "huggingface", "/_sagelet/hub/"
INSTALLER = Path(__file__).with_name("host_requirements.py")


def make(description: MadePackages) -> None:
    """Makes the environment in a directory that is empty or missing. Raises OSError."""
    root = Path(description["directory"])
    own = site_directory(root, description)
    for directory in (own, root / "bin", root / SCRIPTS):
        directory.mkdir(parents=True, mode=0o700)
    # On some systems compiled packages are in lib64.
    (root / "lib64").symlink_to("lib")
    for name in ("python", "python3", f"python{description['version']}"):
        (root / "bin" / name).symlink_to(description["python"])
    home = os.path.dirname(description["python"])
    # pip allows `--user` only if system packages are included. host_site keeps these packages out again.
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


def remove(description: Packages) -> None:
    """Removes the environment. Files that cannot be removed now are removed with the job's directory."""
    shutil.rmtree(description["directory"], ignore_errors=True)


def read(root: Path) -> MadePackages:
    """Returns the description that the environment was made from."""
    found: MadePackages = json.loads((root / DESCRIPTION).read_text())
    return found


def site_directory(root: Path, description: BasePackages) -> Path:
    return root / "lib" / f"python{description['version']}" / "site-packages"


def environment(root: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables of the activated environment. `pip install --user` installs there, too."""
    path = os.pathsep.join((os.path.join(root, "bin"), os.path.join(root, SCRIPTS), environment["PATH"]))
    return {**_hub_cache(root, environment), **environment, "PATH": path, "VIRTUAL_ENV": root, "PYTHONUSERBASE": root}


def _hub_cache(root: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Gives clients of the Hugging Face Hub a cache of the host's own, as in a container.

    sagelet's hub may hold a small random model under the name of a model in the cache of the user's home.
    """
    return {"HF_HOME": os.path.join(root, CACHE)} if HUB in environment.get("HF_ENDPOINT", "") else {}


def link_scripts(root: Path, place: Path, names: list[str]) -> None:
    """Makes scripts of another environment start with this environment's interpreter."""
    scripts = root / SCRIPTS
    number = len(list(scripts.glob(".start-*")))
    launcher = _launcher(scripts / f".start-{number}", f'{shlex.quote(str(place))}/"${{0##*/}}"')
    for name in names:
        _link(scripts / name, launcher)


def _put_pip(scripts: Path, version: str) -> None:
    """Puts a `pip` of this environment into `scripts`. Another `pip` would install for another interpreter."""
    launcher = _launcher(scripts / ".pip", "-m pip")
    for name in ("pip", "pip3", f"pip{version}"):
        _link(scripts / name, launcher)


def adopt(root: Path, kept: Path) -> None:
    """Makes kept packages visible to the host. The link is made last, so the next interpreter sees all or none."""
    programs = [path for path in sorted((kept / "bin").glob("*")) if path.is_file()]
    scripts = [path.name for path in programs if _is_python(path)]
    link_scripts(root, kept / "bin", scripts)
    for path in programs:
        if path.name not in scripts:
            _link(root / SCRIPTS / path.name, str(path))
    for path in sorted(kept.iterdir()):
        # Packages look for their data at the interpreter's prefix.
        if path.name not in ("bin", "lib") and not (root / path.name).exists():
            (root / path.name).symlink_to(path)
    with contextlib.suppress(FileExistsError):  # another process of the host was faster
        (root / KEPT).symlink_to(kept)


def strip(root: Path, description: Packages) -> None:
    """Removes everything except the installed packages."""
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
    """Writes a script that runs other scripts with this environment's interpreter. A link to it names what it runs."""
    path.write_text(f'#!/bin/sh\nexec "${{0%/*}}/../bin/python" {what} "$@"\n')
    path.chmod(0o700)
    return path.name


def _link(path: Path, target: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    path.symlink_to(target)
