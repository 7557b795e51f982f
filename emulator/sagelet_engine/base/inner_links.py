"""Files that links within a directory name: the files that scripts link to, such as Lightning's `last.ckpt`.

A link counts if all of its way stays in the directory. The way is found by reading links, name by name, and the file is
opened by the way that was found, through no link (`nofollow.py`). So a script that changes a link meanwhile gets a
missing file, never one of this machine's. Links that lead back, and links upon links, are bounded by a Budget.
"""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from sagelet_engine.base import nofollow
from sagelet_engine.base.key_names import Why

Parts = tuple[str, ...]

#: Files and directories that the links of one directory may name, together.
MOST_ENTRIES = 10_000
#: Directories that are opened to find the way of one link, and of all links of one directory. A link may have 800 times
#: `a/../`, and lead to 40 more of the kind.
MOST_OPENED, MOST_OPENED_IN_ALL = 10_000, 300_000


class Linked(NamedTuple):
    """An ordinary file behind a link."""

    #: By the link's name, below the directory.
    name: str
    #: Where it is, below the directory. No part of it was a link.
    parts: Parts
    status: os.stat_result


class Budget:
    """What the links of one directory may still name. Each name of a file is another copy of it in S3."""

    def __init__(
        self, most_bytes: int, most_entries: int = MOST_ENTRIES, most_opened: int = MOST_OPENED_IN_ALL
    ) -> None:
        self._bytes, self._entries, self._opened = most_bytes, most_entries, most_opened

    @property
    def is_spent(self) -> bool:
        """True if no further way may be looked for."""
        return self._opened <= 0

    def open(self, directories: int) -> None:
        """Notes that directories were opened to find a way."""
        self._opened -= directories

    def take(self, size: int) -> bool:
        """Returns False for an entry that is too much. Smaller ones may follow."""
        if self._entries <= 0 or size > self._bytes:
            return False
        self._entries -= 1
        self._bytes -= size
        return True


class InnerLinks:
    """The links of one directory."""

    def __init__(self, root: Path, names: Sequence[str], budget: Budget, left_out: Callable[[str, Why], None]) -> None:
        """`names`: absolute paths under which scripts know the directory. `left_out` takes a link, or a name behind
        one, that cannot be uploaded, and why.
        """
        self._root = root
        self._names = names
        self._budget = budget
        self._left_out = left_out

    def files(self, link: Parts) -> Iterator[Linked]:
        """Yields the file that a link names, or all below the directory that it names."""
        waiting: list[tuple[Parts, Parts]] = [(link, link)]
        #: Places of the directories above each directory that is waiting, by its name.
        above: dict[Parts, frozenset[Parts]] = {link: frozenset(link[:length] for length in range(len(link)))}
        while waiting:
            name, place = waiting.pop()
            entered = above.pop(name)
            shown = "/".join(name)
            if self._budget.is_spent:
                self._left_out(shown, Why.MANY)
                continue
            target = resolved(self._root, place, self._names, self._budget)
            status = None if target is None else self._status(target)
            if target is None or status is None:
                self._left_out(shown, Why.LINK)
            elif target in entered:
                self._left_out(shown, Why.LOOP)
            elif not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
                self._left_out(shown, Why.SPECIAL)
            elif not self._budget.take(status.st_size if stat.S_ISREG(status.st_mode) else 0):
                self._left_out(shown, Why.MANY)
            elif stat.S_ISREG(status.st_mode):
                yield Linked(shown, target, status)
            else:
                for entry in self._entries(shown, target):
                    inner = (*name, entry)
                    waiting.append((inner, (*target, entry)))
                    above[inner] = entered | {target}

    def _status(self, parts: Parts) -> os.stat_result | None:
        return status_of(self._root, parts)

    def _entries(self, shown: str, parts: Parts) -> list[str]:
        try:
            with nofollow.directory(self._root, parts, listing=True) as opened:
                return sorted(os.listdir(opened), reverse=True)
        except PermissionError:
            self._left_out(f"{shown}/", Why.UNREADABLE)
        except nofollow.NoFile:
            self._left_out(shown, Why.LINK)
        return []


def status_of(root: Path, parts: Parts) -> os.stat_result | None:
    """Returns the status of an entry, through no link. None if it is missing or out of reach."""
    if not parts:
        return root.lstat()
    try:
        with nofollow.directory(root, parts[:-1]) as parent:
            return os.lstat(parts[-1], dir_fd=parent)
    except OSError:
        return None


def resolved(root: Path, place: Parts, names: Sequence[str] = (), budget: Budget | None = None) -> Parts | None:
    """Returns where an entry of a directory really is, if no part of the way leads out. It need not exist.

    `names`: see InnerLinks. None for what leads out, for more links in a row than the kernel follows, and for a way
    longer than MOST_OPENED.
    """
    opened = [0]
    try:
        return _walked(root, place, names, opened)
    finally:
        if budget is not None:
            budget.open(opened[0])


def _walked(root: Path, place: Parts, names: Sequence[str], opened: list[int]) -> Parts | None:
    """As `resolved`. Counts in `opened`."""
    here, todo, followed = list(place[:-1]), list(place[-1:]), 0
    while todo:
        part = todo.pop()
        # Each look at a name opens all directories above it.
        opened[0] += len(here) + 1
        if opened[0] > MOST_OPENED:
            return None
        if part in ("", "."):
            continue
        if part == "..":
            if not here:
                return None
            here.pop()
            continue
        link = nofollow.target_of(root, here, part)
        if link is None:
            here.append(part)
            continue
        followed += 1
        inner = link
        if link.startswith("/"):
            here, inner = [], _below(link, names)
        if followed > nofollow.MOST_LINKS or not inner or "\0" in inner:
            return None
        todo += inner.split("/")[::-1]
    return tuple(here)


def _below(target: str, names: Sequence[str]) -> str:
    """Returns the way of an absolute link below the directory. Empty if it is not below."""
    return next((target[len(name) + 1 :] or "." for name in names if f"{target}/".startswith(f"{name}/")), "")
