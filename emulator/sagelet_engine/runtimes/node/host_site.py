"""Runs at the start of every interpreter of a host: sets where it looks for packages, and handles `pip install -r`.

A copy of this file lies among the packages; a path file there calls it. Standard library only and short: every Python
process of a job pays for it.
"""

import os
import site
import sys
from collections.abc import Sequence

#: Set if pip itself is to run `pip install -r FILE`.
PLAIN = "SAGELET_PLAIN_PIP"
PIPS = ("pip", "pip3", f"pip3.{sys.version_info.minor}")
#: Endings of the names by which pip notes an installed package.
NOTES = (".dist-info", ".egg-info", ".egg-link")
_begun: list[bool] = []


def begin(base: Sequence[str], kept: str, installer: str) -> None:
    """Sets up the interpreter. `base`: directories of the server's packages. `kept`: the directory of kept packages.

    `installer`: the script that installs a requirements file, or empty if pip does.
    """
    # pyvenv.cfg includes the interpreter's packages, so that `pip install --user` works. They are taken out here: the
    # server may not see them, so its jobs must not.
    site.PREFIXES[:] = [sys.prefix]
    if _begun:
        # Python reads the path file twice.
        return
    _begun.append(True)
    own = os.path.dirname(os.path.abspath(__file__))
    # pip takes packages below the prefix for the host's own.
    kept = os.path.realpath(kept)
    _look(own, base, kept)
    file = _requirements(sys.orig_argv[1:])
    if installer and file and PLAIN not in os.environ and not os.path.isdir(kept) and not _has_packages(own):
        os.execv(sys.executable, [sys.executable, "-I", installer, file])


def _look(own: str, base: Sequence[str], kept: str) -> None:
    if os.path.isdir(kept):
        # Not at the end: PYTHONPATH may name the server's packages, as AWS's toolkit does.
        if kept not in sys.path:
            sys.path.insert(sys.path.index(own) + 1, kept)
        site.addsitedir(kept)
    for directory in base:
        site.addsitedir(directory)


def _requirements(words: list[str]) -> str | None:
    """Returns the file of `pip install -r FILE`, or None if this process does anything else."""
    if words[:1] == ["-m"]:
        words = words[1:]
    elif words:
        words = [os.path.basename(words[0]), *words[1:]]
    if len(words) != 4 or words[0] not in PIPS or words[1:3] != ["install", "-r"]:
        return None
    return words[3]


def _has_packages(own: str) -> bool:
    return any(name.endswith(NOTES) for name in os.listdir(own))
