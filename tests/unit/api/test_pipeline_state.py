"""Executions of pipelines in the data directory: what is removed and when, what an export has, what a check finds."""

import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.retention.gc import Keep
from sagelet_engine.state.archive import ArchiveDamaged
from sagelet_engine.state.checking.check import check_data
from sagelet_engine.state.exporting import export_data
from sagelet_engine.state.importing import import_data
from sagelet_engine.store.jobs import Store
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.pipelines import ROLE, definition, fail, get, step, train
from support.tuning import tuning_request
from support.world import until

NOTHING_STAYS = Keep(files_seconds=0, jobs_seconds=0)


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        running.objects.put("b", "k", b"1")
        yield running


def run(world: ApiWorld, text: str) -> str:
    """Makes a pipeline and starts it. Returns the execution's ARN."""
    token = uuid.uuid4().hex
    world.sagemaker.create_pipeline(
        PipelineName="Pipe", PipelineDefinition=text, RoleArn=ROLE, ClientRequestToken=token
    )
    answer = world.sagemaker.start_pipeline_execution(PipelineName="Pipe", ClientRequestToken=token)
    return str(answer["PipelineExecutionArn"])


def status(world: ApiWorld, arn: str) -> str:
    return str(world.sagemaker.describe_pipeline_execution(PipelineExecutionArn=arn)["PipelineExecutionStatus"])


def steps(world: ApiWorld, arn: str) -> dict[str, str]:
    listed = world.sagemaker.list_pipeline_execution_steps(PipelineExecutionArn=arn, SortOrder="Ascending")
    return {one["StepName"]: one["StepStatus"] for one in listed["PipelineExecutionSteps"]}


def end(world: ApiWorld, name: str) -> str:
    """Lets the job of a Training step, or a tuning job's, complete. Returns its name."""

    def running() -> str | None:
        jobs = world.sagemaker.list_training_jobs(StatusEquals="InProgress")["TrainingJobSummaries"]
        return next((one["TrainingJobName"] for one in jobs if f"-{name}-" in one["TrainingJobName"]), None)

    job = str(until(running))
    host = world.host(job)
    until(lambda: world.job(job).launched)
    host.say("loss=0.5")
    host.end(0)
    world.ended(job)
    return job


def jobs(world: ApiWorld) -> set[str]:
    return {one["TrainingJobName"] for one in world.sagemaker.list_training_jobs()["TrainingJobSummaries"]}


# --- retention --------------------------------------------------------------------------------------------------------


def test_the_jobs_of_a_running_execution_stay_and_go_with_it(world: ApiWorld) -> None:
    arn = run(world, definition(train("one"), train("two", DependsOn=["one"])))
    first = end(world, "one")
    until(lambda: "two" in steps(world, arn))
    done = world.engine.collect(NOTHING_STAYS)
    assert (done.jobs, done.directories, done.executions) == (0, 1, 0)
    second = end(world, "two")
    until(lambda: status(world, arn) == "Succeeded")
    assert jobs(world) == {first, second}
    found = world.engine.collect(NOTHING_STAYS, dry_run=True)
    done = world.engine.collect(NOTHING_STAYS)
    assert (found.jobs, found.executions, found.tuning_jobs) == (done.jobs, done.executions, done.tuning_jobs)
    assert (done.jobs, done.executions, done.tuning_jobs) == (2, 1, 0)
    with pytest.raises(ClientError, match="does not exist"):
        status(world, arn)
    # The pipeline itself stays.
    assert world.sagemaker.list_pipeline_executions(PipelineName="Pipe")["PipelineExecutionSummaries"] == []


def test_a_tuning_job_stays_while_the_execution_that_made_it_runs(world: ApiWorld) -> None:
    body = tuning_request("x", ResourceLimits={"MaxNumberOfTrainingJobs": 1, "MaxParallelTrainingJobs": 1})
    del body["HyperParameterTuningJobName"]
    arn = run(world, definition(step("tune", "Tuning", body), train("last", DependsOn=["tune"])))
    end(world, "tune")
    until(lambda: "last" in steps(world, arn))
    done = world.engine.collect(NOTHING_STAYS)
    assert (done.jobs, done.tuning_jobs, done.executions) == (0, 0, 0)
    end(world, "last")
    until(lambda: status(world, arn) == "Succeeded")
    done = world.engine.collect(NOTHING_STAYS)
    assert (done.jobs, done.tuning_jobs, done.executions) == (2, 1, 1)


def test_a_retry_needs_no_job_that_is_gone(world: ApiWorld) -> None:
    model = get("Steps.good.ModelArtifacts.S3ModelArtifacts")
    arn = run(world, definition(train("good"), train("bad", hyperparameters={"m": model})))
    good = end(world, "good")
    job = str(until(lambda: next((one for one in jobs(world) if "-bad-" in one), None)))
    host = world.host(job)
    until(lambda: world.job(job).launched)
    host.end(1)
    until(lambda: status(world, arn) == "Failed")
    for name in (good, job):
        world.sagemaker.delete_training_job(TrainingJobName=name)
    world.sagemaker.retry_pipeline_execution(PipelineExecutionArn=arn, ClientRequestToken="r" * 32)
    end(world, "bad")
    until(lambda: status(world, arn) == "Succeeded")


# --- a deletion -------------------------------------------------------------------------------------------------------


def test_a_deletion_waits_for_the_executions_and_takes_them_along(world: ApiWorld) -> None:
    """botocore's model: "you must stop all running instances", "all instances of the pipeline are deleted"."""
    arn = run(world, definition(train("one")))
    with pytest.raises(ClientError) as caught:
        world.sagemaker.delete_pipeline(PipelineName="Pipe", ClientRequestToken="d" * 32)
    assert caught.value.response["Error"]["Code"] == "ConflictException"
    job = end(world, "one")
    until(lambda: status(world, arn) == "Succeeded")
    world.sagemaker.delete_pipeline(PipelineName="Pipe", ClientRequestToken="d" * 32)
    for ask in ("describe_pipeline_execution", "list_pipeline_execution_steps", "retry_pipeline_execution"):
        more = {"ClientRequestToken": "r" * 32} if "retry" in ask else {}
        with pytest.raises(ClientError) as caught:
            getattr(world.sagemaker, ask)(PipelineExecutionArn=arn, **more)
        assert caught.value.response["Error"]["Code"] == "ResourceNotFound"
    assert jobs(world) == {job}
    # A new pipeline of the same name begins anew.
    again = run(world, definition(fail("end", "x")))
    assert again != arn


# --- export, import, check --------------------------------------------------------------------------------------------


def test_a_copy_has_pipelines_and_executions_and_goes_on(world: ApiWorld, tmp_path: Path, bridge: MotoBridge) -> None:
    arn = run(world, definition(train("one"), train("two", DependsOn=["one"])))
    end(world, "one")
    job = str(until(lambda: next((one for one in jobs(world) if "-two-" in one), None)))
    until(lambda: world.job(job).launched)
    world.close()
    export_data(world.settings.data, tmp_path / "saved.tar")
    (tmp_path / "copy").mkdir()
    import_data(tmp_path / "saved.tar", tmp_path / "copy" / "data")
    with ApiWorld(tmp_path / "copy", bridge) as copy:
        copy.objects.put("b", "k", b"1")
        # The job that ran has lost its hosts. A retry takes the execution up.
        until(lambda: status(copy, arn) == "Failed")
        assert steps(copy, arn) == {"one": "Succeeded", "two": "Failed"}
        copy.sagemaker.retry_pipeline_execution(PipelineExecutionArn=arn, ClientRequestToken="r" * 32)
        end(copy, "two")
        until(lambda: status(copy, arn) == "Succeeded")
        assert copy.sagemaker.describe_pipeline(PipelineName="Pipe")["PipelineName"] == "Pipe"


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("UPDATE orchestrations SET record = json_set(record, '$.status', 'Odd')", "execution of a pipeline"),
        ("UPDATE orchestration_children SET record = json_set(record, '$.state', 'odd')", "execution of a pipeline"),
        ("UPDATE pipelines SET record = '{'", ":pipeline/pipe cannot be read"),
        ("UPDATE pipelines SET record = json_remove(record, '$.role')", ":pipeline/pipe cannot be read"),
        ("DELETE FROM pipeline_versions", ":pipeline/pipe cannot be read"),
    ],
)
def test_a_check_finds_a_record_that_cannot_be_read(world: ApiWorld, tmp_path: Path, damage: str, says: str) -> None:
    arn = run(world, definition(fail("end", "x")))
    until(lambda: status(world, arn) == "Failed")
    world.close()
    data = world.settings.data
    assert check_data(data, ACCOUNT, REGION).sound
    with closing(sqlite3.connect(data / "sagelet.db")) as db, db:
        db.execute(damage)
    export_data(data, tmp_path / "saved.tar")
    with pytest.raises(ArchiveDamaged, match="cannot be read"):
        import_data(tmp_path / "saved.tar", tmp_path / "copy")
    assert any(says in found.what for found in check_data(data, ACCOUNT, REGION).findings)
    assert check_data(data, ACCOUNT, REGION, repair=True).sound
    assert check_data(data, ACCOUNT, REGION).sound
    store = Store(data / "sagelet.db")
    assert len(store.pipelines.every(ACCOUNT, REGION)) == ("orchestration" in damage)
    store.close()
