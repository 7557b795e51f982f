"""README, the tutorial and the install page, walked as they are printed (tests/support/walks.py says what is not).

A newcomer with a notebook's program, somebody who tests a pipeline without Docker and without torch, and somebody who
comes from moto or LocalStack. The engineer with the SDK on a laptop is the newcomer's second half: README's commands.
The user of the example notebooks is in test_notebooks.py.
"""

import json
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from support import sources, walks
from support.clients import ENVIRONMENT
from support.programs import asks
from support.walks import INSTALL, README, TUTORIAL, Serving, Terminal, Walk

#: 100 steps in the place of 500: enough for the doctor.
SHORTER = ("range(5)", "range(1)")


@pytest.mark.xla
@pytest.mark.sdk
def test_a_newcomer_trains_and_compares(tmp_path: Path) -> None:
    walk, environ = Walk("newcomer"), walks.home(tmp_path)
    terminal = Terminal(tmp_path, environ)
    for beginning in ("mkdir", "cd", "python3", "."):
        terminal.run(walk.next(beginning))
    # In the place of pip install and sagelet install-torch.
    walks.furnish(terminal.directory / ".venv", ENVIRONMENT)
    with Serving(terminal, walk.next("sagelet up --runtime process")):
        second = Terminal(terminal.directory, environ)
        second.run(walk.next(". "))
        _tutorial(walk, second)
    # README's own commands, with the tutorial's script and jobs.
    with Serving(terminal, walk.next("sagelet up")):
        estimator, _ = walks.python_blocks(README)
        (second.directory / "train_job.py").write_text(estimator)
        log = second.run(walk.next("sagelet run"))
        assert "Found configuration for Training Compiler" in log
        job, status = second.run(walk.next("sagelet jobs")).splitlines()[0].split("\t")[:2]
        assert (job.startswith("pytorch-"), status) == (True, "Completed")
        assert f"{job} (Completed)" in second.run(walk.next("sagelet doctor").replace("JOB", job))
        compare = walk.next("sagelet compare").replace("NATIVE", "native-2").replace("COMPILED", "compiled-2")
        assert "Billable time" in second.run(compare)
    walk.end()


def _tutorial(walk: Walk, terminal: Terminal) -> None:
    train, submit, every_hundred = walks.python_blocks(TUTORIAL)
    script = terminal.directory / "train.py"
    script.write_text(train.replace(*SHORTER))
    (terminal.directory / "submit.py").write_text(submit)
    log = terminal.run(walk.next("sagelet run"))
    assert "Configuring SM Training Compiler..." in log
    assert "step=100 loss=" in log
    said = terminal.run(walk.next("sagelet doctor"))
    line = script.read_text().splitlines().index('        print(f"step={step} loss={loss.item():.4f}")') + 1
    assert f"frequent-logging train.py:{line}" in said
    (last,) = [one for one in script.read_text().splitlines(keepends=True) if one.lstrip().startswith("print(")]
    script.write_text(script.read_text().replace(last, every_hundred))
    terminal.run(walk.next("sagelet run"))
    assert "frequent-logging" not in terminal.run(walk.next("sagelet doctor"))
    terminal.run(walk.next("sagelet run"))
    assert "Steady throughput" in terminal.run(walk.next("sagelet compare"))
    assert "<svg" in (terminal.directory / "report.html").read_text()


@pytest.fixture(scope="module")
@asks("git")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """The minute without torch: sagelet from its repository in a fresh environment, where no Docker Engine answers."""
    directory = tmp_path_factory.mktemp("minute")
    environ = {**walks.home(directory), "DOCKER_HOST": f"unix://{directory}/none.sock"}
    walk, terminal = Walk("without torch"), Terminal(directory, environ)
    terminal.run(walk.next("python3"))
    terminal.run(walk.next(". "))
    with sources.repository(directory) as address:
        terminal.run(walk.next("pip").replace("REPOSITORY", address))
    # Neither torch nor an image: the doctor says so, and how to get them.
    said = terminal.run(walk.next("sagelet doctor"), code=1)
    assert "`sagelet install-torch`" in said
    walk.end()
    return terminal


@pytest.mark.index
def test_a_pipeline_is_tested_without_docker_and_torch(fresh: Terminal, tmp_path: Path) -> None:
    (hour,) = walks.python_blocks(INSTALL)
    _, pipeline = walks.python_blocks(README)
    (tmp_path / "test_train.py").write_text(hour)
    (tmp_path / "test_pipeline.py").write_text(pipeline)
    assert "2 passed" in Terminal(tmp_path, fresh.environ).run("pytest")


@pytest.mark.index
def test_the_server_of_the_minute_has_a_page(fresh: Terminal) -> None:
    with Serving(fresh, "sagelet up") as server:
        assert "no Docker Engine answers" in "".join(server.output)
        page = urlopen(Request(server.endpoint, headers={"Accept": "text/html"}), timeout=60)
        assert "<title>" in page.read().decode()


@pytest.mark.index
@pytest.mark.sdk
def test_somebody_comes_from_localstack(fresh: Terminal) -> None:
    """The right column of docs/how-to/migrate-from-localstack.md."""
    shell = Terminal(fresh.directory, {**fresh.environ, "PATH": f"{fresh.environ['PATH']}:{ENVIRONMENT / 'bin'}"})
    shell.run("sagelet up --detach")
    try:
        status = json.loads(shell.run("sagelet status --json"))
        shell.run("sagelet run -- aws s3 mb s3://data")
        keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
        moved = Terminal(shell.directory, {**shell.environ, **keys, "AWS_ENDPOINT_URL": status["endpoint"]})
        assert moved.run("aws s3 ls").endswith(" data\n")
        assert json.load(urlopen(f"{status['endpoint']}/_sagelet/health", timeout=60))
        shell.run("sagelet export all.tar")
    finally:
        shell.run("sagelet down")


@pytest.mark.index
def test_somebody_comes_from_moto(fresh: Terminal, tmp_path: Path) -> None:
    """A test with moto's decorator becomes one with a fixture: what moto accepts and AWS does not, is refused."""
    (tmp_path / "test_moved.py").write_text(MOVED)
    assert "1 passed" in Terminal(tmp_path, fresh.environ).run("pytest")


MOVED = """
import boto3
import pytest


def test_a_pipeline(sagelet_environment):
    sagemaker = boto3.client("sagemaker", region_name="us-east-1")
    with pytest.raises(sagemaker.exceptions.ClientError, match="ml.nope"):
        sagemaker.create_training_job(
            TrainingJobName="job",
            AlgorithmSpecification={"TrainingImage": "image", "TrainingInputMode": "File"},
            RoleArn="arn:aws:iam::123456789012:role/training",
            OutputDataConfig={"S3OutputPath": "s3://results"},
            ResourceConfig={"InstanceType": "ml.nope", "InstanceCount": 1, "VolumeSizeInGB": 1},
            StoppingCondition={"MaxRuntimeInSeconds": 60},
        )
    with pytest.raises(sagemaker.exceptions.ClientError, match="Requested resource not found"):
        sagemaker.stop_training_job(TrainingJobName="job")
    assert sagemaker.list_training_jobs()["TrainingJobSummaries"] == []
"""
