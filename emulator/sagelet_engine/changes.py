"""Word that something has changed, for those who wait for it in this process."""

import threading


class Changes:
    """Counts changes; `wait` ends with the next one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        #: Whether nobody notes any more.
        self.over = False

    @property
    def count(self) -> int:
        return self._count

    def note(self) -> None:
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def wait(self, seen: int, seconds: float) -> int:
        """The count once it is another than `seen`, once `seconds` have gone by, or once nobody notes any more."""
        with self._changed:
            self._changed.wait_for(lambda: self.over or self._count != seen, seconds)
            return self._count

    def close(self) -> None:
        """Lets all go who wait, now and later."""
        with self._changed:
            self.over = True
            self._changed.notify_all()
