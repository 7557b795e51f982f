"""The engine broken on purpose. The sooner a simulation finds each mutant, the more it is worth.

A mutant is a mistake that somebody could make in a small change. It patches one name.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from unittest import mock

from sagelet_engine.execution.host_watch import HostWatch
from sagelet_engine.execution.job_context import JobContext
from sagelet_engine.execution.log_recorder import Follower, Output
from sagelet_engine.execution.outbox import BATCH, Outbox
from sagelet_engine.instances.gpus import GpuPool
from sagelet_engine.model import lifecycle, verdict
from sagelet_engine.model.job import Job, Verdict
from sagelet_engine.model.log_events import LogStream
from sagelet_engine.model.runtime import Observation
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.model.verdict import EndNotes
from sagelet_engine.scheduling.local import LocalScheduler, WaitingJobs
from sagelet_engine.store.jobs import Store

Mutant = Callable[[], Any]


def _without_version_guard() -> Any:
    """Of two writers of a record, the later one wins, whatever the earlier one wrote."""
    work = Store.update_all

    def update_all(store: Store, *jobs: Job) -> list[Job]:
        return work(store, *(replace(job, version=store.get_by_id(job.id).version) for job in jobs))

    return mock.patch.object(Store, "update_all", update_all)


def _one_launch_id() -> Any:
    """The second attempt's hosts have the names of the first one's."""
    return mock.patch.object(TrainingJob, "launch_id", property(lambda job: job.id))


def _keeps_the_place() -> Any:
    return mock.patch.object(LocalScheduler, "release", lambda scheduler, job_id: scheduler.wake())


def _keeps_the_gpus() -> Any:
    return mock.patch.object(GpuPool, "release", return_value=None)


def _forgets_places_at_a_restart() -> Any:
    return mock.patch.object(LocalScheduler, "occupy", return_value=None)


def _last_in_first_out() -> Any:
    return mock.patch.object(WaitingJobs, "head", lambda waiting: next(reversed(waiting._keys)))


def _lines_without_their_position() -> Any:
    """The position up to which lines were read is not saved in the transaction of the lines."""
    work = Store.append_output

    def append(store: Store, stream: LogStream, events: Any, position: Any, points: Any, now_ms: int) -> LogStream:
        after = work(store, stream, events, None, points, now_ms)
        return replace(after, position=position or after.position)

    return mock.patch.object(Store, "append_output", append)


def _believes_any_end_of_lines() -> Any:
    """When the runtime's lines end, the host counts as down and all its lines as read."""
    work = Follower._follow

    def follow(follower: Follower) -> None:
        work(follower)
        follower._mailbox.put(Output(follower._followed.host, None))
        follower._mailbox.close()

    return mock.patch.object(Follower, "_follow", follow)


def _drops_notes_before_it_tells() -> Any:
    def announce(outbox: Outbox) -> bool:
        notes = outbox._store.noted_statuses(BATCH)
        if notes:
            outbox._store.drop_noted_statuses(notes[-1][0])
        for _, job in notes:
            outbox._sink.announce(job)
        return bool(notes)

    return mock.patch.object(Outbox, "_announce_batch", announce)


def _kills_at_once() -> Any:
    return mock.patch.object(HostWatch, "_deadline", lambda watch: 0 if watch._job.stop_ms else None)


def _never_kills() -> Any:
    work = HostWatch._take_down
    return mock.patch.object(HostWatch, "_take_down", lambda watch, running, _: work(watch, running, 2**62))


def _has_no_limit() -> Any:
    return mock.patch.object(lifecycle, "overdue", return_value=None)


def _prefers_the_failure_to_the_stop() -> Any:
    """An acknowledged stop is forgotten if the job ends in another way meanwhile."""

    def conclude(under_way: JobContext, outcome: Verdict) -> None:
        now = under_way._services.clock.now_ms()
        under_way.apply(lambda job: lifecycle.advance(job, outcome.status, now, failure_reason=outcome.failure_reason))

    return mock.patch.object(JobContext, "conclude", conclude)


def _reads_one_exit_code() -> Any:
    """Of several hosts, only the first one's exit code counts."""
    work = verdict.judge

    def judge(job: TrainingJob, hosts: Mapping[str, Observation], notes: Mapping[str, EndNotes]) -> Verdict:
        first = {name: hosts[name] for name in list(hosts)[:1]}
        return work(job, first, {name: notes[name] for name in first})

    return mock.patch.object(verdict, "judge", judge)


def _leaves_hosts() -> Any:
    return mock.patch.object(HostWatch, "reap", return_value=None)


MUTANTS: dict[str, Mutant] = {
    "the version guard is skipped": _without_version_guard,
    "attempts share a launch id": _one_launch_id,
    "a place is not given back": _keeps_the_place,
    "GPUs are not given back": _keeps_the_gpus,
    "places are forgotten at a restart": _forgets_places_at_a_restart,
    "the last job goes first": _last_in_first_out,
    "lines are committed without their position": _lines_without_their_position,
    "any end of lines is believed": _believes_any_end_of_lines,
    "notes are dropped before they are told": _drops_notes_before_it_tells,
    "a stop kills at once": _kills_at_once,
    "a stop never kills": _never_kills,
    "MaxRuntimeInSeconds is not enforced": _has_no_limit,
    "a failure wins over a stop": _prefers_the_failure_to_the_stop,
    "one host speaks for all": _reads_one_exit_code,
    "hosts are not removed": _leaves_hosts,
}
