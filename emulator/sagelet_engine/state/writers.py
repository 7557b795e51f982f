"""Keeps commands that need no server (`sagelet s3 import`, `hub`) off a directory that is to be replaced."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from sagelet_engine.base.errors import DataDirectoryInUse
from sagelet_engine.hub.store import HubStore
from sagelet_engine.state.contents import OBJECTS


@contextmanager
def without_imports(data: Path) -> Iterator[None]:
    """Keeps imports from beginning while the block lasts. Raises DataDirectoryInUse if one is under way.

    What `sagelet hub add` has copied so far is removed with its directory, and the command reports that at its end.
    """
    hub = HubStore(data)
    with hub.committing() if hub.root.is_dir() else nullcontext():
        yield from _without_imports(data)


def _without_imports(data: Path) -> Iterator[None]:
    path = data / OBJECTS / ".imports"
    if not path.parent.is_dir():
        yield
        return
    with path.open("a") as imports:
        try:
            fcntl.flock(imports, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DataDirectoryInUse(f"--data {data}: a `sagelet s3 import` is under way; let it end") from error
        yield
