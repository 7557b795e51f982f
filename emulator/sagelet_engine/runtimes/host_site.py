"""Run at the start of every interpreter of a host (`host_packages`): where it looks, and what `pip install -r` does.

A copy of this file is among the packages, called by a path file there. Standard library only, and little of it: every
Python process of a job pays for it.
"""

import os
import site
import sys
from collections.abc import Sequence

#: Of the environment: `pip install -r FILE` is to be pip's own.
PLAIN = "SAGELET_PLAIN_PIP"
PIPS = ("pip", "pip3", f"pip3.{sys.version_info.minor}")
#: What pip notes an installed package by.
NOTES = (".dist-info", ".egg-info", ".egg-link")
_begun: list[bool] = []


def begin(base: Sequence[str], kept: str, installer: str) -> None:
    """`base`: directories of the server's packages; `kept`: where those that were kept are, if there are any.

    `installer`: the script that installs a file of requirements; empty: pip does.
    """
    # pyvenv.cfg lets in the packages of the interpreter, so that `pip install --user` works. The server may not see
    # them, so its jobs do not.
    site.PREFIXES[:] = [sys.prefix]
    if _begun:
        # Python reads our path file twice.
        return
    _begun.append(True)
    own = os.path.dirname(os.path.abspath(__file__))
    # pip takes what is below the prefix for the host's own.
    kept = os.path.realpath(kept)
    _look(own, base, kept)
    file = _requirements(sys.orig_argv[1:])
    if installer and file and PLAIN not in os.environ and not os.path.isdir(kept) and not _has_packages(own):
        os.execv(sys.executable, [sys.executable, "-I", installer, file])


def _look(own: str, base: Sequence[str], kept: str) -> None:
    if os.path.isdir(kept):
        # Not at the end: PYTHONPATH may name the server's, as AWS's toolkit lets it.
        if kept not in sys.path:
            sys.path.insert(sys.path.index(own) + 1, kept)
        site.addsitedir(kept)
    for directory in base:
        site.addsitedir(directory)


def _requirements(words: list[str]) -> str | None:
    """The file of a `pip install -r FILE`, if that is all that this process is to do."""
    if words[:1] == ["-m"]:
        words = words[1:]
    elif words:
        words = [os.path.basename(words[0]), *words[1:]]
    if len(words) != 4 or words[0] not in PIPS or words[1:3] != ["install", "-r"]:
        return None
    return words[3]


def _has_packages(own: str) -> bool:
    return any(name.endswith(NOTES) for name in os.listdir(own))
