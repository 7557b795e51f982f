"""What a user reads after a mistake: in `sagelet describe`, from the doctor, and in the last line of the log."""

from collections.abc import Callable

import pytest

from support.job_mistakes import MISTAKES, Mistake
from support.jobs import Jobs
from support.server import ACCOUNT, SageletProcess, printed

pytestmark = pytest.mark.xla


@pytest.fixture(scope="module")
def jobs(servers: Callable[[str], SageletProcess]) -> Jobs:
    return Jobs(servers("process"))


@pytest.fixture(scope="module")
def submitted(jobs: Jobs) -> dict[str, str]:
    """Names of the jobs, by mistake. All are submitted at once, so that the machine is never idle."""
    jobs.s3.create_bucket(Bucket="tests")
    jobs.s3.put_object(Bucket="tests", Key="no-archive.tar.gz", Body=b"this is no archive")
    return {one.name: jobs.submit(one.files, **one.options) for one in MISTAKES}


def described(jobs: Jobs, name: str) -> dict[str, str]:
    """Returns the facts that `sagelet describe` prints, by their titles."""
    lines = printed("describe", name, "--endpoint", jobs.server.endpoint, "--account", ACCOUNT).splitlines()
    titles = ("What happened", "Why", "What to do")
    return {title: line.removeprefix(title).strip() for title in titles for line in lines if line.startswith(title)}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: one.name)
def test_a_mistake_is_explained(mistake: Mistake, jobs: Jobs, submitted: dict[str, str]) -> None:
    name = submitted[mistake.name]
    assert jobs.ended(name)["TrainingJobStatus"] == mistake.status
    (finding,) = jobs.server.doctor(name)["findings"]
    assert finding["rule"] == mistake.rule
    told = described(jobs, name)
    assert mistake.seen in told["What happened"]
    assert told["Why"] == finding["why"]
    assert mistake.remedy in told["What to do"]
    assert jobs.log(name)[-1] == f"sagelet doctor: instead: {finding['instead']}"


def test_a_job_without_a_model_shows_no_address_of_one(jobs: Jobs, submitted: dict[str, str]) -> None:
    name = submitted["nothing-saved"]
    # AWS's own answer has one all the same.
    assert jobs.ended(name)["ModelArtifacts"]["S3ModelArtifacts"].endswith("/model.tar.gz")
    lines = printed("describe", name, "--endpoint", jobs.server.endpoint, "--account", ACCOUNT).splitlines()
    (model,) = [line for line in lines if line.startswith("Model")]
    assert model == "Model\tnone: nothing was saved in SM_MODEL_DIR, or it was deleted"
