"""Channels in Pipe mode: their objects are put on the disk once, and a separate process feeds them into FIFOs.

The feeder (`feeder.py`) outlives the server: a `kill -9` of sagelet neither cuts a stream nor repeats a byte. If the
feeder itself dies, its streams are cut. Training code would take that for the end of an epoch, so the job fails.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from sagelet_engine.base.errors import SageletError
from sagelet_engine.base.held_files import is_locked
from sagelet_engine.base.json_files import read_json, write_json
from sagelet_engine.data.channels.sources import JobObjects
from sagelet_engine.data.channels.spool import Spool
from sagelet_engine.data.channels.stream_plan import StreamPlan
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.model.spec import Channel, InputMode
from sagelet_engine.model.training import TrainingJob

FEEDER = Path(__file__).with_name("feeder.py")
START_TIMEOUT_S = 30.0
#: If its server never comes back, a feeder ends this long after the job's longest possible life.
SPARE_SECONDS = 24 * 3600


class PipeFeedLost(SageletError):
    """The process that feeds the job's pipes is gone, and its streams are cut."""


class PipeFeed:
    """The feeder of one job. It does nothing for a job without Pipe channels. Every method may be repeated."""

    def __init__(self, job: TrainingJob, directories: JobDirectories) -> None:
        self._job = job
        self._directories = directories
        self._root = directories.root / "pipe"
        self._channels = [channel for channel in job.spec.channels if channel.mode is InputMode.PIPE]

    def stage(self, objects: JobObjects) -> None:
        """Fetches all that is to be streamed and writes the feeder's plan. Raises ClientFault."""
        shutil.rmtree(self._root, ignore_errors=True)
        if not self._channels:
            return
        for channel in self._channels:
            Spool(objects, channel, self._spool(channel)).fill()
        streams = [stream for channel in self._channels for stream in self._streams(channel)]
        write_json(
            self._root / "plan.json",
            {"seconds": self._job.spec.max_runtime_seconds + SPARE_SECONDS, "streams": streams},
        )

    def start(self) -> None:
        """Starts the feeder unless it runs already. The FIFOs of the first epoch exist when this returns."""
        if not self._channels or self._alive():
            return
        command = [sys.executable, "-I", "-S", str(FEEDER), str(self._root.absolute())]
        with (self._root / "log").open("ab") as log:
            started = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=START_TIMEOUT_S, check=False
            )
        if started.returncode != 0:
            raise PipeFeedLost(f"the feeder of the Pipe channels did not start: {self._last_words()}")

    def check(self) -> None:
        """Raises PipeFeedLost if the feeder of a running job is gone."""
        if self._channels and not self._alive():
            raise PipeFeedLost(f"the feeder of the Pipe channels ended before the job: {self._last_words()}")

    def end(self) -> None:
        """Ends the feeder and removes the copies of what it streamed."""
        if not self._channels:
            return
        known = read_json(self._root / "feeder.json")
        if known is not None and self._alive():
            # The process that holds the lock is alive, so the process id is still its own.
            with contextlib.suppress(ProcessLookupError):
                os.kill(known["pid"], signal.SIGKILL)
        shutil.rmtree(self._root, ignore_errors=True)

    def _alive(self) -> bool:
        return is_locked(self._root / "lock")

    def _spool(self, channel: Channel) -> Path:
        return self._root / "channels" / channel.name

    def _streams(self, channel: Channel) -> list[StreamPlan]:
        """Returns a stream for each host that has the channel; see feeder.Stream."""
        hosts = self._job.spec.receivers(channel)
        return [
            {
                "channel": channel.name,
                # Relative to the feeder's own directory, because the data directory may be moved.
                "directory": os.path.relpath(self._directories.host(name).channels, self._root),
                "spool": os.path.relpath(self._spool(channel), self._root),
                "host": number if channel.sharded else 0,
                "hosts": len(hosts) if channel.sharded else 1,
                "seed": channel.seed,
                "record_io": channel.record_io,
            }
            for number, name in enumerate(hosts)
        ]

    def _last_words(self) -> str:
        log = self._root / "log"
        said = log.read_text(errors="replace").strip() if log.exists() else ""
        return said[-500:] or "it said nothing"
