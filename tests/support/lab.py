"""A whole sagelet in this process: its own composition, the real process runtime, and a clock that tests turn.

`Steps` holds the server's threads after each change of a job's status until the client has looked at it. So a client
sees every status, however short it is, and all times are the clock's.
"""

import queue
import sys
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import boto3
import pytest

from sagelet_api.serve import Sagelet, Surroundings
from sagelet_engine.base import held_files, json_files
from sagelet_engine.data import directory_sync
from sagelet_engine.execution import supervisor
from sagelet_engine.images.variants import training_image
from sagelet_engine.machine.runtimes import Choice
from sagelet_engine.model.job import Job
from sagelet_engine.runtimes.node import host_files
from sagelet_engine.runtimes.process.runtime import ProcessRuntime, StandIn
from sagelet_engine.settings import Settings
from sagelet_engine.store.jobs import Store
from support.fakes import FakeClock
from support.server import ACCOUNT, until
from support.transcripts import Step

IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:1.13.1-gpu-py39"
PATIENCE = 120.0


class Steps:
    """Holds supervisors and the scheduler at each status of the watched jobs."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._queue: queue.Queue[Step] = queue.Queue()
        self._watched: set[str] = set()
        #: Jobs that a client's call changed. The client waits for the answer, so the call cannot be held.
        self._unseen: set[str] = set()
        self._open = threading.Event()
        self._known: dict[str, tuple[Any, str]] = {}
        self._update_all, self._get, self._by_ids = Store.update_all, Store.get_by_id, Store.by_ids
        steps = self
        patch.setattr(Store, "update_all", lambda store, *jobs, **how: steps.update_all(store, *jobs, **how))
        patch.setattr(Store, "get_by_id", lambda store, job_id: steps.get_by_id(store, job_id))
        patch.setattr(Store, "by_ids", lambda store, job_ids: steps.by_ids(store, job_ids))

    def watch(self, job_name: str) -> None:
        self._watched.add(job_name)

    def next(self) -> Step:
        return self._queue.get(timeout=PATIENCE)

    def let_go(self) -> None:
        """Releases all threads and holds none any more."""
        self._open.set()

    def seen(self, job_name: str) -> None:
        """Notes that the client has looked at what its own call changed."""
        self._unseen.discard(job_name)

    def update_all(self, store: Store, *jobs: Job, **how: bool) -> list[Job]:
        names = {job.key.name for job in jobs}
        while _is_server() and names & self._unseen and not self._open.wait(0.01):
            pass
        updated = self._update_all(store, *jobs, **how)
        for job in updated:
            self._hold(job)
        return updated

    def get_by_id(self, store: Store, job_id: str) -> Job:
        """Holds the scheduler at its first look at a job, which has the status from CreateTrainingJob."""
        job = self._get(store, job_id)
        if threading.current_thread().name != "scheduler" or job_id in self._known:
            return job
        self._hold(job)
        return self._get(store, job_id)

    def by_ids(self, store: Store, job_ids: Sequence[str]) -> dict[str, Job]:
        """Does the same for several jobs."""
        for job in self._by_ids(store, job_ids).values():
            if threading.current_thread().name == "scheduler" and job.id not in self._known:
                self._hold(job)
        return self._by_ids(store, job_ids)

    def _hold(self, job: Job) -> None:
        now = (len(job.transitions), job.transitions[-1].message)
        changed, self._known[job.id] = self._known.get(job.id) != now, now
        if not changed or job.key.name not in self._watched:
            return
        if not _is_server():
            self._unseen.add(job.key.name)
            return
        step = Step()
        self._queue.put(step)
        while not step.release.wait(0.01) and not self._open.is_set():
            pass


def _is_server() -> bool:
    """True if this thread works by itself and not for a client's call."""
    name = threading.current_thread().name
    return name == "scheduler" or name.startswith("job-")


class Lab:
    """A server on a free port, used as `with Lab(directory, patch) as lab`. It is a Stage of `support.transcripts`."""

    image = IMAGE
    tells_time = True

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch, **settings: Any) -> None:
        patch.setattr(supervisor, "POLL_S", 0.02)
        patch.setattr(directory_sync, "PERIOD", 0.02)
        self.clock = FakeClock()
        self.steps = Steps(patch)
        self._data = directory / "data"
        stand_in = StandIn((sys.executable,), image=training_image())
        runtime = ProcessRuntime(self._data / "runtime", stand_in, self.clock)
        self._settings = Settings(data=self._data, port=0, **{"max_jobs": 1, **settings})
        self._server = Sagelet(self._settings, Surroundings(self.clock, Choice(runtime, "a test")))

    def __enter__(self) -> "Lab":
        self._server.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.steps.let_go()
        self.lose_host()
        self._server.stop()
        # A host may have been started in between.
        self.lose_host()

    def client(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self._server.server.endpoint,
            region_name="us-east-1",
            aws_access_key_id=ACCOUNT,
            aws_secret_access_key="any",
        )

    def watch(self, job_name: str) -> None:
        self.steps.watch(job_name)

    def seen(self, job_name: str) -> None:
        self.steps.seen(job_name)

    def next_step(self) -> Step:
        return self.steps.next()

    def interrupt(self, job_name: str) -> None:
        url = f"{self._server.server.endpoint}/_sagelet/jobs/{job_name}/interrupt?account={ACCOUNT}"
        with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=PATIENCE):
            pass

    def now(self) -> float:
        return self.clock.now_ms() / 1000

    def turn(self, seconds: float) -> None:
        self.clock.turn(seconds)

    def touch(self, word: str) -> None:
        """Makes /opt/ml/WORD in every host. Scripts wait for it."""
        for opt_ml in opt_mls(self._data):
            (opt_ml / word).touch()

    def lose_host(self) -> None:
        """Makes the host vanish, like an instance whose hardware fails."""
        for run_dir in self._hosts():
            self._kill(run_dir)

    def _hosts(self) -> Iterator[Path]:
        return self._data.glob("jobs/**/algo-*/run")

    def _kill(self, run_dir: Path) -> None:
        started = json_files.read_json(run_dir / host_files.STARTED)
        if started is not None and held_files.is_locked(run_dir / host_files.LOCK):
            host_files.kill(started["pid"])
            until(lambda: not held_files.is_locked(run_dir / host_files.LOCK), PATIENCE, 0.01)


def opt_mls(data: Path) -> Iterator[Path]:
    """The directories that jobs of a data directory see as /opt/ml."""
    return data.glob("jobs/*/*/**/algo-*/opt-ml")
