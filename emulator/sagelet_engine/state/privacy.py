"""Keeps a data directory private to its owner: it holds the key pair, jobs' secrets and objects, and a lock."""

import os
import stat
from pathlib import Path

from sagelet_engine.base.errors import SettingsError
from sagelet_engine.base.keys import make_private
from sagelet_engine.state.contents import is_data_directory, is_empty

_OTHERS = 0o077


def keep_private(data: Path) -> None:
    """Makes a data directory, or removes the rights of others on an existing one. Raises SettingsError.

    It refuses a directory that others can read and that holds files that are not sagelet's: somebody uses that for
    something else.
    """
    make_private(data)
    mode = stat.S_IMODE(data.stat().st_mode)
    if not mode & _OTHERS:
        return
    if not is_data_directory(data) and not is_empty(data):
        raise SettingsError(
            f"--data {data}: others can read this directory, and it holds files that are not sagelet's: name another "
            f"one, or `chmod 700 {data}`"
        )
    try:
        os.chmod(data, mode & ~_OTHERS)
    except OSError as error:
        raise SettingsError(
            f"--data {data}: others can read this directory: `chmod 700 {data}` as its owner ({error.strerror})"
        ) from error
