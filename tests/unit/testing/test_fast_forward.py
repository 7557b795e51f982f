"""Jobs whose containers are functions of the test: they pass through all that jobs pass through, in no time."""

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagelet.testing import FastForward, Job, Terminated, faults
from sagelet.testing.fast_forward import NotInTime
from sagelet.testing.faults import FaultRefused
from sagelet_api.services.iam import execution_role
from sagelet_engine.base.errors import FaultError, SettingsError
from support.server import ROLE
from support.tuning import definition, tuning_request
from support.world import until

HOUR = 3600
SPOT = {
    "EnableManagedSpotTraining": True,
    "StoppingCondition": {"MaxRuntimeInSeconds": 2 * HOUR, "MaxWaitTimeInSeconds": 4 * HOUR},
    "CheckpointConfig": {"S3Uri": "s3://data/checkpoints/"},
}


class Lab:
    """A fast-forward server, and jobs with names of their own."""

    def __init__(self, server: FastForward) -> None:
        self.server = server
        session = server.session()
        self.sagemaker, self.s3, self.cloudwatch = (session.client(name) for name in ("sagemaker", "s3", "cloudwatch"))
        self.s3.create_bucket(Bucket="data")
        self.s3.put_object(Bucket="data", Key="train/a.csv", Body=b"1,2\n")

    def submit(self, name: str, **changes: Any) -> str:
        self.sagemaker.create_training_job(
            **{
                "TrainingJobName": name,
                "RoleArn": ROLE,
                "AlgorithmSpecification": {
                    "TrainingImage": "registry.example/any:1",
                    "TrainingInputMode": "File",
                    "MetricDefinitions": [{"Name": "loss", "Regex": "loss=([0-9.]+);"}],
                },
                "HyperParameters": {"epochs": "2", "name": "gpt2", "layers": "[1, 2]"},
                "InputDataConfig": [
                    {
                        "ChannelName": "train",
                        "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://data/train/"}},
                    }
                ],
                "OutputDataConfig": {"S3OutputPath": "s3://data/out"},
                "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
                "StoppingCondition": {"MaxRuntimeInSeconds": 2 * HOUR},
                **changes,
            }
        )
        return name

    def run(self, name: str, **changes: Any) -> dict[str, Any]:
        return self.server.wait(self.submit(name, **changes), seconds=120)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with FastForward(tmp_path_factory.mktemp("fast-forward")) as server:
        yield Lab(server)


def spent(answer: dict[str, Any]) -> list[tuple[str, float]]:
    """The statuses that a job went through, and the seconds in each."""
    return [
        (one["Status"], (one["EndTime"] - one["StartTime"]).total_seconds())
        for one in answer["SecondaryStatusTransitions"]
    ]


def test_a_job_passes_through_all_states_and_bills_what_its_function_says(lab: Lab, tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    @lab.server.train(job="whole-*")
    def train(job: Job) -> None:
        seen.update(vars(job.clock), **job.hyperparameters)
        seen["input"] = (job.channels["train"] / "a.csv").read_text()
        seen["job"] = (job.name, job.current_host, job.hosts, job.attempt, job.checkpoint_dir)
        seen["times"] = job.clock.now()
        for loss in (0.5, 0.25):
            job.clock.advance(HOUR / 2)
            job.print(f"loss={loss};", "done")
        seen["times"] = (job.clock.now() - seen["times"]).total_seconds()
        (job.model_dir / "weights").write_text("model")
        (job.output_data_dir / "report").write_text("output")

    answer = lab.run("whole-job")
    assert spent(answer) == [
        ("Starting", 0), ("Downloading", 0), ("Training", HOUR), ("Uploading", 0), ("Completed", 0)
    ]  # fmt: skip
    assert answer["TrainingTimeInSeconds"] == answer["BillableTimeInSeconds"] == HOUR
    assert [(one["MetricName"], one["Value"]) for one in answer["FinalMetricDataList"]] == [("loss", 0.25)]
    assert (seen["epochs"], seen["name"], seen["layers"]) == (2, "gpt2", [1, 2])
    assert seen["input"] == "1,2\n"
    assert seen["job"] == ("whole-job", "algo-1", ("algo-1",), 1, None)
    assert seen["times"] == HOUR
    assert lab.server.log("whole-job") == ["loss=0.5; done", "loss=0.25; done"]
    lab.s3.download_file("data", "out/whole-job/output/model.tar.gz", str(tmp_path / "model.tar.gz"))
    with tarfile.open(tmp_path / "model.tar.gz") as archive:
        assert archive.extractfile("weights").read() == b"model"  # type: ignore[union-attr]
    points = lab.cloudwatch.list_metrics(Namespace="/aws/sagemaker/TrainingJobs", MetricName="loss")["Metrics"]
    assert [{"Name": "TrainingJobName", "Value": "whole-job"}] in [one["Dimensions"] for one in points]


def test_an_exception_becomes_the_failure_reason(lab: Lab) -> None:
    @lab.server.train(job="raises")
    def train(job: Job) -> None:
        job.clock.advance(10)
        raise ValueError("no good data")

    answer = lab.run("raises")
    assert answer["TrainingJobStatus"] == "Failed"
    assert answer["FailureReason"] == "AlgorithmError: ValueError: no good data, exit code: 1"
    assert answer["BillableTimeInSeconds"] == 10
    log = lab.server.log("raises")
    assert log[0] == "Traceback (most recent call last):"
    assert __file__ in log[1]
    assert log[-1] == "ValueError: no good data"


def test_exit_codes(lab: Lab) -> None:
    def returns(job: Job) -> int:
        return 7

    def exits(job: Job) -> None:
        raise SystemExit(3)

    for name, function, code in (("returns", returns, 7), ("exits", exits, 3)):
        lab.server.train(function, job=name)
        assert lab.run(name)["FailureReason"].endswith(f"exit code: {code}")


def test_the_last_function_that_matches_trains(lab: Lab) -> None:
    lab.server.train(lambda job: job.print("by name"), job="matched-*")
    lab.server.train(lambda job: job.print("by image"), job="matched-*", image="*/any:2")
    lab.run("matched-1")
    changed = {"TrainingImage": "registry.example/any:2", "TrainingInputMode": "File"}
    lab.run("matched-2", AlgorithmSpecification=changed)
    assert [*lab.server.log("matched-1"), *lab.server.log("matched-2")] == ["by name", "by image"]


def test_a_job_without_a_function_fails_and_says_so(tmp_path: Path) -> None:
    with FastForward(tmp_path) as server:
        reason = Lab(server).run("nobody")["FailureReason"]
    assert reason.startswith("ClientError: No function trains nobody (registry.example/any:1)")


def test_max_runtime_ends_a_job_on_time(lab: Lab) -> None:
    said: list[str] = []

    @lab.server.train(job="too-long")
    def train(job: Job) -> None:
        try:
            job.hang()
        except Terminated:
            job.clock.advance(30)
            said.append("saved")
            job.clock.advance(1000)
            said.append("never")

    answer = lab.run("too-long", StoppingCondition={"MaxRuntimeInSeconds": 1000})
    assert (answer["TrainingJobStatus"], answer["SecondaryStatus"]) == ("Stopped", "MaxRuntimeExceeded")
    assert said == ["saved"]
    # Training until the limit, then the 120 s between SIGTERM and SIGKILL.
    assert dict(spent(answer))["Training"] == 1000
    assert dict(spent(answer))["Stopping"] == 120


def test_a_test_acts_at_a_moment_of_its_choice(lab: Lab) -> None:
    lab.server.train(lambda job: job.hang(), job="stopped")
    with lab.server.clock.held():
        lab.server.wait(lab.submit("stopped"), "Training", seconds=120)
        before = lab.server.clock.now()
        lab.server.clock.advance(90)
        assert (lab.server.clock.now() - before).total_seconds() == 90
        lab.sagemaker.stop_training_job(TrainingJobName="stopped")
        answer = lab.server.wait("stopped", seconds=120)
    assert answer["TrainingJobStatus"] == "Stopped"
    assert answer["BillableTimeInSeconds"] == 90
    with pytest.raises(NotInTime, match="stopped is Stopped / Stopped and not Completed"):
        lab.server.wait("stopped", "Completed")


def test_hosts_and_jobs_train_at_the_same_time(lab: Lab) -> None:
    @lab.server.train(job="together-*")
    def train(job: Job) -> None:
        job.print(f"{job.current_host} of {len(job.hosts)}")
        began = job.clock.now()
        job.clock.advance(HOUR if job.current_host == "algo-1" else 60)
        job.print(f"{job.current_host} after {(job.clock.now() - began).total_seconds():.0f}")

    resources = {"InstanceType": "ml.m5.large", "InstanceCount": 2, "VolumeSizeInGB": 1}
    with lab.server.clock.held():
        names = [lab.submit(f"together-{number}", ResourceConfig=resources) for number in (1, 2)]
        for name in names:
            lab.server.wait(name, "Training", seconds=120)
        lab.server.clock.advance(HOUR)
    for name in names:
        answer = lab.server.wait(name, seconds=120)
        assert answer["BillableTimeInSeconds"] == HOUR
        assert sorted(lab.server.log(name)) == [
            "algo-1 after 3600", "algo-1 of 2", "algo-2 after 60", "algo-2 of 2",
        ]  # fmt: skip


def test_a_host_that_fails_ends_the_others(lab: Lab) -> None:
    @lab.server.train(job="one-fails")
    def train(job: Job) -> None:
        if job.current_host == "algo-2":
            job.clock.advance(60)
            raise RuntimeError("out of luck")
        job.hang()

    resources = {"InstanceType": "ml.m5.large", "InstanceCount": 2, "VolumeSizeInGB": 1}
    answer = lab.run("one-fails", ResourceConfig=resources)
    assert answer["FailureReason"] == "AlgorithmError: RuntimeError: out of luck, exit code: 1"
    assert answer["BillableTimeInSeconds"] == 60


def test_spot_interruptions_and_checkpoints(lab: Lab) -> None:
    @lab.server.train(job="spot")
    def train(job: Job) -> None:
        assert job.checkpoint_dir is not None
        done = job.checkpoint_dir / "minutes"
        start = int(done.read_text()) if done.exists() else 0
        job.print(f"attempt {job.attempt} goes on after {start} minutes")
        for minute in range(start, 60):
            job.clock.advance(60)
            done.write_text(str(minute + 1))

    tags = faults.tags(interrupt_after=[600, 1200])
    answer = lab.run("spot", Tags=tags, **SPOT)
    assert answer["TrainingJobStatus"] == "Completed"
    assert [status for status, _ in spent(answer)].count("Interrupted") == 2
    assert lab.server.log("spot") == [
        "attempt 1 goes on after 0 minutes",
        "attempt 2 goes on after 10 minutes",
        "attempt 3 goes on after 30 minutes",
    ]
    assert answer["TrainingTimeInSeconds"] == HOUR
    assert answer["BillableTimeInSeconds"] < HOUR
    stored = lab.s3.get_object(Bucket="data", Key="checkpoints/minutes")["Body"].read()
    assert stored == b"60"


def test_an_interruption_at_a_moment_of_the_tests_choice(lab: Lab) -> None:
    attempts: list[int] = []

    @lab.server.train(job="taken")
    def train(job: Job) -> None:
        attempts.append(job.attempt)
        job.clock.advance(100)

    with lab.server.clock.held():
        lab.server.wait(lab.submit("taken", **SPOT), "Training", seconds=120)
        lab.server.clock.advance(40)
        lab.server.faults().interrupt("taken")
    answer = lab.server.wait("taken", seconds=120)
    assert attempts == [1, 2]
    assert [seconds for status, seconds in spent(answer) if status == "Training"] == [40, 100]
    with pytest.raises(FaultRefused):
        lab.server.faults().interrupt("taken")


def test_slow_starts_internal_errors_and_retries(lab: Lab) -> None:
    lab.server.train(lambda job: job.clock.advance(100), job="unlucky")
    tags = faults.tags(faults.insufficient_capacity(300), faults.internal_server_error(times=1, after=45))
    answer = lab.run("unlucky", Tags=tags, RetryStrategy={"MaximumRetryAttempts": 1})
    assert spent(answer) == [
        ("Starting", 300), ("Downloading", 0), ("Training", 45), ("Restarting", 0),
        ("Starting", 300), ("Downloading", 0), ("Training", 100), ("Uploading", 0), ("Completed", 0),
    ]  # fmt: skip


def test_errors_of_the_platform(lab: Lab) -> None:
    lab.server.train(lambda job: None, job="platform-*")
    assert lab.run("platform-1", Tags=faults.tags(faults.capacity_error()))["FailureReason"].startswith("CapacityError")
    answer = lab.run("platform-2", Tags=faults.tags(faults.internal_server_error()))
    assert answer["FailureReason"].startswith("InternalServerError")


def test_throttling(lab: Lab) -> None:
    injector = lab.server.faults()
    injector.throttle("ListTrainingJobs", calls=100)
    with pytest.raises(ClientError, match="ThrottlingException"):
        lab.sagemaker.list_training_jobs()
    injector.clear_throttling()
    assert "TrainingJobSummaries" in lab.sagemaker.list_training_jobs()
    with pytest.raises(FaultRefused, match="no operation"):
        injector.throttle("NoSuchOperation")


def test_faults_for_a_job_that_is_there(lab: Lab) -> None:
    lab.server.train(lambda job: job.hang(), job="later")
    with lab.server.clock.held():
        lab.server.wait(lab.submit("later"), "Training", seconds=120)
        lab.server.faults().inject("later", faults.internal_server_error(after=10))
        lab.server.faults().clear("later")
        lab.server.faults().inject("later", faults.internal_server_error(after=20))
    answer = lab.server.wait("later", seconds=120)
    assert answer["FailureReason"].startswith("InternalServerError")
    assert dict(spent(answer))["Training"] == 20
    with pytest.raises(FaultRefused):
        lab.server.faults().inject("no-such-job", faults.slow_start(1))


def test_nothing_of_moto_is_left_of_an_earlier_server(tmp_path: Path) -> None:
    for number in (1, 2):
        with FastForward(tmp_path / str(number)) as server:
            iam = server.session().client("iam")
            assert iam.list_users()["Users"] == []
            iam.create_user(UserName="somebody")
            assert len(iam.list_roles()["Roles"]) == len(execution_role.ROLES)


def test_wrong_values_are_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--max-jobs 0"):
        FastForward(tmp_path, max_jobs=0).start()
    with pytest.raises(FaultError, match="sagelet:fault"):
        faults.tags(faults.throttled_describe(0))


@pytest.mark.parametrize("strategy", ["Random", "Hyperband"])
def test_a_worse_trial_is_stopped_at_the_moment_of_its_value(tmp_path: Path, strategy: str) -> None:
    """Time does not go on before the tuning job has seen what its training jobs printed."""
    epochs: dict[int, int] = {}
    with FastForward(tmp_path) as server:
        sagemaker = server.session().client("sagemaker")

        @server.train
        def train(job: Job) -> None:
            number = int(job.name.rsplit("-", 2)[1])
            for epoch in range(1, 10):
                job.clock.advance(HOUR)
                epochs[number] = epoch
                job.print(f"loss={number}.0")

        early = {"TrainingJobEarlyStoppingType": "Auto"}
        if strategy == "Hyperband":
            early = {"StrategyConfig": {"HyperbandStrategyConfig": {"MinResource": 2, "MaxResource": 9}}}
        limits = {"MaxNumberOfTrainingJobs": 4, "MaxParallelTrainingJobs": 1}
        job = definition(
            StoppingCondition={"MaxRuntimeInSeconds": 24 * HOUR}, OutputDataConfig={"S3OutputPath": "s3://models/out"}
        )
        body = tuning_request("tune", job=job, Strategy=strategy, ResourceLimits=limits, **early)
        server.session().client("s3").create_bucket(Bucket="models")
        sagemaker.create_hyper_parameter_tuning_job(**body)
        until(
            lambda: (
                sagemaker.describe_hyper_parameter_tuning_job(HyperParameterTuningJobName="tune")[
                    "HyperParameterTuningJobStatus"
                ]
                == "Completed"
            )
        )
        shown = sagemaker.list_training_jobs_for_hyper_parameter_tuning_job(HyperParameterTuningJobName="tune")
    # The objective is worse with every trial. Of Hyperband's trials only the first and the third are in one bracket.
    expected = {1: 9, 2: 1, 3: 1, 4: 1} if strategy == "Random" else {1: 9, 2: 9, 3: 2, 4: 9}
    stopped = [one["TrainingJobStatus"] for one in shown["TrainingJobSummaries"]]
    assert (epochs, stopped) == (expected, ["Completed" if expected[n] == 9 else "Stopped" for n in range(1, 5)])
