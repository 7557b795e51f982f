"""Gathers the commits of several threads, so that they share one flush of the catalogue.

A flush takes milliseconds. Commits that come meanwhile wait, and the next thread whose turn it is makes all of them.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sagelet_engine.s3.records import StoredObject

#: Called with the existing object, or None. Raises the caller's error if the object must not be replaced.
Check = Callable[[StoredObject | None], None]


@dataclass
class Commit:
    """A staged file that is on the disk and is to become an object."""

    bucket: str
    key: str
    file_id: str
    #: Bytes.
    size: int
    check: Check
    #: The upload that this ends. None if the bytes came without one.
    upload_id: str | None
    #: What the parts of the upload are, for a client that repeats its completion.
    named: str
    #: Further members of StoredObject.
    members: dict[str, Any]
    #: Set when the object is on the disk.
    stored: StoredObject | None = None
    #: Set when the commit has failed.
    error: BaseException | None = None

    @property
    def over(self) -> bool:
        return self.stored is not None or self.error is not None

    def result(self) -> StoredObject:
        """Returns the object. Raises the error of a commit that has failed."""
        if self.stored is None:
            assert self.error is not None
            raise self.error
        return self.stored


class GroupCommit:
    """The commits of one process. `guard`: held by the thread that commits. `make`: makes commits, and sets the object
    or the error of each.
    """

    def __init__(self, guard: threading.Lock, make: Callable[[Sequence[Commit]], None]) -> None:
        self._guard = guard
        self._make = make
        self._changed = threading.Condition()
        self._waiting: list[Commit] = []
        #: True while a thread makes commits.
        self._busy = False

    def run(self, commit: Commit) -> StoredObject:
        """Makes a commit, or waits until another thread has made it. Raises the error of the commit."""
        with self._changed:
            self._waiting.append(commit)
            self._changed.wait_for(lambda: commit.over or not self._busy)
            commits: list[Commit] = []
            if not commit.over:
                commits, self._waiting = self._waiting, commits
                self._busy = True
        if commits:
            self._make_all(commits)
        return commit.result()

    def _make_all(self, commits: Sequence[Commit]) -> None:
        try:
            with self._guard:
                self._make(commits)
        except BaseException as error:
            for one in commits:
                one.error = one.error or error
        finally:
            # All of them wake up at once. A lock would wake one after another.
            with self._changed:
                self._busy = False
                self._changed.notify_all()
