"""Copies compiled programs to the hosts of a job and keeps the new ones after its success."""

import logging
import os
import re
import threading
from pathlib import Path

from sagelet_engine.base.clock import Clock
from sagelet_engine.compile_cache import inductor, plugin_verdicts
from sagelet_engine.compile_cache.store import CacheStore
from sagelet_engine.data.compilation import AUTO, INDUCTOR, XLA, asks_for_compiler, chosen_compiler
from sagelet_engine.data.layout import HostDirectories, JobDirectories
from sagelet_engine.data.removal import DirectoryStays, remove_tree
from sagelet_engine.model.job import SecondaryStatus
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.s3.files import copy_file

log = logging.getLogger(__name__)

#: In /opt/ml: the host's own copies, which its workers read and add to.
PLACE = "sagelet/compile-cache"
#: Number of names at the end of a copy's path that a host may have made.
WITHIN = 3
#: The mtime in s of a copy that no worker has read. Reading a copy sets it to the present (pjrt_front.c).
UNREAD = 1
#: The variable with which a job chooses XLA's client on CPUs, and the default (images/runtime, gpu/device.py).
CLIENT, DEFAULT_CLIENT = "SAGELET_XLA_CLIENT", "plugin"
#: The name of an entry of XLA's.
PROGRAM = re.compile(r"[0-9a-f]{64}")
#: Behind the name of a copy that a worker could not load (pjrt_front.c).
BROKEN = ".broken"


class HostCopies:
    """Gives hosts copies of their account's entries for their image, and takes what successful jobs have compiled.

    An account's jobs share entries and trust each other. No other account sees them. A job that fails or is stopped
    leaves no programs behind.
    """

    def __init__(self, store: CacheStore, clock: Clock) -> None:
        self.store = store
        self._clock = clock
        self._guard = threading.Lock()

    def serves(self, job: TrainingJob) -> bool:
        """True if the job gets a cache. torch_xla's built-in CPU client could not read one.

        docs/how-to/compile-cache.md says why.
        """
        return bool(self.store.limit and (_by_xla(job) or _by_inductor(job)) and asks_for_compiler(job.spec))

    def populate(self, job: TrainingJob, directories: JobDirectories) -> None:
        """Puts copies where the job's hosts find them. If repeated, it begins anew."""
        if not self.serves(job) or job.image is None:
            return
        source = self.store.directory(job.key.account, job.image)
        for name in job.hosts:
            place = directories.host(name).opt_ml / PLACE
            remove_tree(place)
            place.mkdir(parents=True)
            for entry in sorted(source.glob("*")) if _by_xla(job) else ():
                _copy(entry, place / entry.name)
            if _by_xla(job):
                plugin_verdicts.lay_out(self.store, job.key.account, job.image, place)
            if _by_inductor(job):
                inductor.lay_out(self.store, job.key.account, job.image, place / inductor.DIRECTORY)

    def harvest(self, job: TrainingJob, directories: JobDirectories) -> list[str]:
        """Keeps what a successful job compiled, notes what it read, and removes the copies. Called after the last host
        is down.

        Never fails the job, because its result is worth more than the cache. Returns lines about what is not kept.
        """
        if not self.serves(job) or job.image is None:
            return []
        lines = []
        for name in job.hosts:
            host = directories.host(name)
            place = host.opt_ml / PLACE
            if host.behind_link(place) or not place.is_dir():
                continue
            try:
                if job.verdict is not None and job.verdict.status is SecondaryStatus.COMPLETED:
                    self._take(job, job.image, host, place)
                if job.verdict is not None and _by_xla(job):
                    self._take_trials(job, job.image, host, job.verdict.status)
                remove_tree(place)
            except (OSError, DirectoryStays) as error:
                log.warning("%s: what %s compiled is not kept: %s", job.key.name, name, error)
                lines.append(f"sagelet: warning: what {name} compiled is not kept for other jobs: {error}")
        return lines

    def _take_trials(self, job: TrainingJob, image: str, host: HostDirectories, status: SecondaryStatus) -> None:
        """Keeps verdicts on plugins, also of stopped jobs: the trial was over before the script."""
        account = job.key.account
        with self._guard:
            if status is SecondaryStatus.FAILED:
                plugin_verdicts.take_back(self.store, account, image, host.opt_ml, PLACE)
            else:
                plugin_verdicts.take(self.store, account, image, host.opt_ml, PLACE, self._clock.now_ms())

    def _take(self, job: TrainingJob, image: str, host: HostDirectories, place: Path) -> None:
        account, now = job.key.account, self._clock.now_ms()
        with self._guard:
            for file in sorted(place.iterdir()):
                if file.suffix == BROKEN and PROGRAM.fullmatch(file.stem) and not host.behind_link(file):
                    self.store.reject(account, image, file.stem, file, WITHIN)
                if not PROGRAM.fullmatch(file.name) or host.behind_link(file):
                    continue
                there = (self.store.directory(account, image) / file.name).exists()
                if there and file.lstat().st_mtime != UNREAD:
                    self.store.use(account, image, file.name, now)
                elif not there and not self.store.publish(account, image, file, now, WITHIN):
                    log.warning(
                        "%s: %s of %s is not a complete entry of the compile cache", job.key.name, file.name, host.root
                    )
            if _by_inductor(job):
                inductor.take(self.store, account, image, host.opt_ml, f"{PLACE}/{inductor.DIRECTORY}", now)
            for entry in self.store.trim():
                log.info("the compile cache is full: %s of %s is dropped", entry.name, entry.image)


def _by_xla(job: TrainingJob) -> bool:
    """True if XLA may compile the job, with a client that can read a cache."""
    client = job.spec.environment.get(CLIENT) or DEFAULT_CLIENT
    return chosen_compiler(job.spec) != INDUCTOR and bool(job.gpus or client == "plugin")


def _by_inductor(job: TrainingJob) -> bool:
    """True if Inductor may compile the job: by the user's choice, or where the trial of its GPUs fails."""
    return chosen_compiler(job.spec) in (INDUCTOR, AUTO) or (bool(job.gpus) and chosen_compiler(job.spec) != XLA)


def _copy(entry: Path, target: Path) -> None:
    if not PROGRAM.fullmatch(entry.name):
        return
    try:
        with entry.open("rb") as opened:
            copy_file(opened, target)
    except FileNotFoundError:  # Dropped since it was listed.
        return
    os.utime(target, (UNREAD, UNREAD))
