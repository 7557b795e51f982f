"""Decides how a job ended: facts about its hosts become a status and AWS's FailureReason."""

from collections.abc import Mapping
from dataclasses import dataclass

from sagelet_engine.model import aws_texts
from sagelet_engine.model.job import Job, SecondaryStatus, Verdict
from sagelet_engine.model.lifecycle import RULES, STOPPED_AS
from sagelet_engine.model.processing import ProcessingJob
from sagelet_engine.model.runtime import Observation

#: botocore shape FailureReason.
REASON_LIMIT = 1024

#: The head start of a killed process over those that fail by its death. They notice at once, its launcher a little
#: later.
KILLED_BEFORE_MS = 2000
#: 128 + SIGKILL.
KILLED = 137
#: The beginning of what only sagelet knows, in a StatusMessage.
_CAUSE = " (sagelet: "

#: AWS's words and nothing else, because clients compare the whole text.
INTERNAL = Verdict(SecondaryStatus.FAILED, aws_texts.INTERNAL_ERROR)
CAPACITY = Verdict(SecondaryStatus.FAILED, f"CapacityError: {aws_texts.NO_CAPACITY}")


@dataclass(frozen=True)
class EndNotes:
    """What a host's container wrote about its end (`data/end_notes.py` reads it)."""

    #: The first 1024 characters of the failure file. None if there is none.
    failure: str | None = None
    #: When the first of its workers died, in ms since the epoch. None if no worker left a note.
    worker_died_ms: int | None = None
    #: What the doctor says of a failed processing job, for people. Empty if it says nothing.
    explanation: str = ""


#: Those of a job whose kind has no such files.
NO_NOTES = EndNotes()


def judge(job: Job, hosts: Mapping[str, Observation], notes: Mapping[str, EndNotes]) -> Verdict:
    """Returns the verdict of a job whose hosts are all down.

    A stopped job is stopped whatever its script returned. Otherwise the host that failed first decides, because the
    others were ended because of it. As on AWS a failure file fails the job even with exit code 0.

    A host whose workers died says when the first of them did (images/runtime, workers/worker_failures.py): its peers on
    other hosts fail by that at once, and their hosts may end before its own.
    """
    if job.stop_cause is not None:
        return Verdict(STOPPED_AS[job.stop_cause])
    first = first_failed(hosts, notes)
    if first is None:
        return Verdict(SecondaryStatus.COMPLETED)
    host = hosts[first]
    if host.refused:
        return client_error(f"{first}: {host.error}")
    if host.exit_code is None:
        return internal_error(f"{first}: {host.error or 'the host disappeared'}")
    if isinstance(job, ProcessingJob):
        return Verdict(SecondaryStatus.FAILED, _processing_failure(job, host, host.exit_code, notes[first].explanation))
    return Verdict(SecondaryStatus.FAILED, algorithm_error(notes[first].failure or host_error(host), host.exit_code))


def _processing_failure(job: ProcessingJob, host: Observation, exit_code: int, explanation: str) -> str:
    """Returns the FailureReason of a processing job, whose container's words are in ExitMessage.

    AWS says no more than the exit code there if the container left no message. sagelet adds what happened.
    """
    if host.out_of_memory:
        return f"ClientError: {aws_texts.PROCESSING_OUT_OF_MEMORY}"
    if job.exit_message is not None:
        return f"AlgorithmError: {aws_texts.SEE_JOB_LOGS}"
    return algorithm_error(explanation or host.error or "", exit_code)


def first_failed(hosts: Mapping[str, Observation], notes: Mapping[str, EndNotes]) -> str | None:
    """Returns the host that failed first, of hosts that are down, or None if none failed."""
    bad = [name for name, host in hosts.items() if failed(host, notes[name])]
    # A host with an unknown end has vanished. It comes before those that were ended because of it.
    return min(bad, key=lambda name: _failed_ms(hosts[name], notes[name]), default=None)


def _failed_ms(host: Observation, notes: EndNotes) -> int:
    """Returns when a host failed, in ms since the epoch. A host with an unknown end comes before all others."""
    if not host.finished_ms:
        return 0
    if notes.worker_died_ms is None:
        # The host was killed as a whole, so it left no note. Its peers saw their connections close before its end was
        # seen.
        return host.finished_ms - (KILLED_BEFORE_MS if host.exit_code == KILLED else 0)
    return min(notes.worker_died_ms, host.finished_ms)


def failed(host: Observation, notes: EndNotes) -> bool:
    """True if a host that is down fails its job."""
    return host.exit_code != 0 or notes.failure is not None


def algorithm_error(text: str, exit_code: int) -> str:
    """`AlgorithmError: <failure file>, exit code: N`, cut within the text so that the exit code survives."""
    room = REASON_LIMIT - len(aws_texts.algorithm_error("", exit_code))
    return aws_texts.algorithm_error(text[:room], exit_code)


def host_error(host: Observation) -> str:
    """Returns what the platform knows if the container left no failure file. AWS's text is empty then."""
    if host.out_of_memory:
        return "OutOfMemory: Process killed by SIGKILL (signal 9)"
    return host.error or ""


def internal_error(cause: str) -> Verdict:
    return Verdict(SecondaryStatus.FAILED, aws_texts.INTERNAL_ERROR, cause.strip().rstrip("."))


def with_cause(message: str, verdict: Verdict) -> str:
    """Returns a StatusMessage with what only sagelet knows."""
    return f"{message}{_CAUSE}{verdict.cause})"[:REASON_LIMIT] if verdict.cause else message


def cause_in(message: str) -> str:
    """Returns what `with_cause` has added to a StatusMessage. Empty if it has added nothing."""
    return message.partition(_CAUSE)[2].removesuffix(")")


def is_internal(verdict: Verdict) -> bool:
    """True if RetryStrategy applies: AWS retries after an InternalServerError only."""
    return (verdict.failure_reason or "").startswith("InternalServerError")


def is_retried(job: Job, verdict: Verdict) -> bool:
    """True if the verdict ends only the job's attempt, because RetryStrategy grants another one."""
    granted = job.stop_cause is None and job.retries_left > 0 and is_internal(verdict)
    return granted and job.secondary in RULES[SecondaryStatus.RESTARTING].follows


def client_error(message: str) -> Verdict:
    return Verdict(SecondaryStatus.FAILED, f"ClientError: {message}"[:REASON_LIMIT])


def capacity_error(message: str) -> Verdict:
    return Verdict(SecondaryStatus.FAILED, f"CapacityError: {message}"[:REASON_LIMIT])
