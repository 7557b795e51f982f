"""What a user reads after a mistake in a processing job: in `describe`, from the doctor, and at the end of the log."""

from collections.abc import Callable

import pytest

from support.processing_jobs import ProcessingJobs
from support.processing_mistakes import IN_DOCKER, MISTAKES, Mistake
from support.server import ACCOUNT, SageletProcess, printed

TITLES = ("What happened", "Why", "What to do")


@pytest.fixture(scope="module")
def jobs(servers: Callable[[str], SageletProcess]) -> ProcessingJobs:
    return ProcessingJobs(servers("process"))


@pytest.fixture(scope="module")
def in_docker(servers: Callable[[str], SageletProcess]) -> ProcessingJobs:
    return ProcessingJobs(servers("docker"))


@pytest.fixture(scope="module")
def submitted(jobs: ProcessingJobs) -> dict[str, str]:
    """Names of the jobs, by mistake. All are submitted at once, so that the machine is never idle."""
    return {one.name: jobs.submit(one.files, one.command, **one.options) for one in MISTAKES}


def is_explained(mistake: Mistake, jobs: ProcessingJobs, name: str) -> None:
    """Each explanation has three points: what happened, why, and what to do."""
    job = jobs.ended(name)
    assert job["ProcessingJobStatus"] == mistake.status
    (finding,) = jobs.server.processing_doctor(name)["findings"]
    assert finding["rule"] == mistake.rule
    lines = printed("processing", "describe", name, "--endpoint", jobs.server.endpoint, "--account", ACCOUNT)
    told = {
        title: line[len(title) :].strip() for title in TITLES for line in lines.split("\n") if line.startswith(title)
    }
    assert mistake.seen in told["What happened"]
    assert told["Why"] == finding["why"]
    assert mistake.remedy in told["What to do"]
    # A job that no host ran has no log.
    assert jobs.log(name)[-1:] == (
        [] if mistake.rule == "not-run" else [f"sagelet doctor: instead: {finding['instead']}"]
    )
    if mistake.status == "Failed" and "ExitMessage" not in job and mistake.rule not in ("not-run", "script-exit"):
        assert job["FailureReason"].startswith(f"AlgorithmError: {finding['seen']}, exit code: ")


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: one.name)
def test_a_mistake_is_explained(mistake: Mistake, jobs: ProcessingJobs, submitted: dict[str, str]) -> None:
    is_explained(mistake, jobs, submitted[mistake.name])


@pytest.mark.docker
@pytest.mark.parametrize("mistake", IN_DOCKER, ids=lambda one: one.name)
def test_a_mistake_in_a_container_is_explained(mistake: Mistake, in_docker: ProcessingJobs) -> None:
    is_explained(mistake, in_docker, in_docker.submit(mistake.files, mistake.command, **mistake.options))
