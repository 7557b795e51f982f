"""Looks at the workers' reports while a job trains, and passes on what is new."""

import logging
import threading
from collections.abc import Callable

from sagelet_engine.base.database import StoreUnavailable
from sagelet_engine.base.errors import is_known

log = logging.getLogger(__name__)

#: Seconds between looks; the last value repeats. The first are short so that a job of seconds is seen while it runs.
LOOKS = (2.0, 3.0, 5.0, 10.0, 10.0, 30.0, 60.0)


class ReportSampler(threading.Thread):
    """Calls `look` while the hosts are watched. It never fails the job."""

    def __init__(self, look: Callable[[], None], closing: threading.Event, note: Callable[[str, str], None]) -> None:
        """`closing` is set when the server goes down. Then nothing more is written. `note` takes a line for the job's
        log.
        """
        super().__init__(name="compile-report", daemon=True)
        self._look = look
        self._closing = closing
        self._note = note
        self._ended = threading.Event()

    def stop(self) -> None:
        """Ends the looks when the hosts are down, or left alone. Waits for a look that runs, which is short."""
        self._ended.set()
        if self.is_alive():
            self.join()

    def run(self) -> None:
        looks, broken = iter(LOOKS), False
        while not self._ended.wait(next(looks, LOOKS[-1])) and not self._closing.is_set():
            try:
                self._look()
            except StoreUnavailable as error:
                log.warning("the compile report waits: %s", error)
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
                self._note("", f"sagelet: warning: the compile report cannot be read while the job runs: {why}")
                if not broken:  # Once for each job: a lasting fault must not fill the log.
                    log.error("the compile report could not be read: %s", error, exc_info=not is_known(error))
                broken = True
