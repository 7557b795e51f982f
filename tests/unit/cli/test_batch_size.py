"""`sagelet tune batch-size`: the search as a pure function, and whole searches in simulated time."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from sagelet.testing import FastForward, Job
from sagelet_api.cli import batch_probes, batch_size
from sagelet_api.cli.batch_probes import Probe, Search
from sagelet_api.cli.batch_search import (
    BATCH_NAMES,
    BadSearch,
    Bounds,
    LearningRate,
    Outcome,
    Rule,
    judged,
    largest,
    next_size,
    parameter_of,
)
from sagelet_api.cli.main import main
from support.server import ROLE

# --- the search -------------------------------------------------------------------------------------------------------


def searched(bounds: Bounds, limit: int) -> tuple[list[int], int | None]:
    """Returns the sizes that are tried where sizes up to `limit` fit, and the largest that has fitted."""
    tried: dict[int, bool] = {}
    while (size := next_size(bounds, tried)) is not None:
        assert size not in tried
        tried[size] = size <= limit
        assert len(tried) < 60
    return list(tried), largest(tried)


@pytest.mark.parametrize(
    ("bounds", "limit", "tried", "found"),
    [
        (Bounds.of(1, 4096, 1, 8), 100, [8, 16, 32, 64, 128, 96, 112, 104, 100, 102, 101], 100),
        (Bounds.of(1, 4096, 8, 8), 100, [1, 9, 17, 33, 65, 129, 97, 113, 105], 97),
        (Bounds.of(8, 4096, 8, 8), 100, [8, 16, 32, 64, 128, 96, 112, 104], 96),
        (Bounds.of(1, 64, 1, 48), 100, [48, 64], 64),
        (Bounds.of(1, 64, 1, 32), 3, [32, 16, 8, 4, 2, 3], 3),
        (Bounds.of(4, 64, 1, 32), 3, [32, 16, 8, 4], None),
        (Bounds.of(1, 1, 1, 1), 1, [1], 1),
        (Bounds.of(1, 3, 1, 1), 9, [1, 2, 3], 3),
    ],
)
def test_it_doubles_then_bisects(bounds: Bounds, limit: int, tried: list[int], found: int | None) -> None:
    assert searched(bounds, limit) == (tried, found)


@given(st.integers(1, 300), st.integers(0, 5000), st.integers(1, 64), st.integers(1, 6000), st.integers(0, 6000))
def test_it_finds_the_largest_allowed_size(least: int, more: int, step: int, start: int, limit: int) -> None:
    bounds = Bounds.of(least, least + more, step, start)
    tried, found = searched(bounds, limit)
    allowed = range(least, least + more + 1, step)
    assert set(tried) <= set(allowed)
    assert found == max((size for size in allowed if size <= limit), default=None)


def test_bounds_without_a_size_are_refused() -> None:
    with pytest.raises(BadSearch, match="--min 9 must not be greater than --max 8"):
        Bounds.of(9, 8, 1, 1)


def ended(status: str, reason: str = "", secondary: str = "") -> dict[str, Any]:
    job = {"TrainingJobStatus": status, "SecondaryStatus": secondary or status}
    return {**job, "FailureReason": reason} if reason else job


def memory(peak: int, kind: str = "rss") -> dict[str, Any]:
    return {"peak_bytes": peak, "kind": kind}


@pytest.mark.parametrize(
    ("job", "used", "findings", "outcome"),
    [
        (ended("Completed"), {}, [], Outcome.FITS),
        (ended("Completed"), memory(99), [], Outcome.FITS),
        (ended("Completed"), memory(101), [], Outcome.OUT_OF_MEMORY),
        # A device has a limit of its own.
        (ended("Completed"), memory(101, "device"), [], Outcome.FITS),
        (ended("Stopped", secondary="MaxRuntimeExceeded"), {}, [], Outcome.FITS),
        (ended("Stopped"), {}, [], Outcome.OTHER),
        (ended("Failed", "AlgorithmError: , exit code: 137"), {}, [], Outcome.OUT_OF_MEMORY),
        (ended("Failed", "AlgorithmError: RESOURCE_EXHAUSTED: Out of memory"), {}, [], Outcome.OUT_OF_MEMORY),
        (ended("Failed", "torch.cuda.OutOfMemoryError: CUDA out of memory."), {}, [], Outcome.OUT_OF_MEMORY),
        (ended("Failed", "AlgorithmError: ExecuteUserScriptError: ExitCode 1"), {}, [], Outcome.OTHER),
        (ended("Failed", "AlgorithmError: exit code: 1"), {}, ["out-of-memory"], Outcome.OUT_OF_MEMORY),
        (ended("Failed", "AlgorithmError: exit code: 1"), {}, ["no-backward"], Outcome.OTHER),
        (ended("Failed", "ClientError: no image 1374"), {}, [], Outcome.OTHER),
    ],
)
def test_what_a_probe_shows(job: dict[str, Any], used: dict[str, Any], findings: list[str], outcome: Outcome) -> None:
    assert judged(job, used, findings, 100) is outcome
    assert judged(job, used, findings, None) is (Outcome.FITS if used else outcome)


def test_the_learning_rate_follows_the_batch_by_awss_rules() -> None:
    # The example of AWS's document: 5e-5 for 12 rows, 64 fit with the compiler.
    rate = LearningRate("learning_rate", 5e-5, 12)
    assert rate.at(64, Rule.LINEAR) == pytest.approx(5e-5 / 12 * 64)
    assert rate.at(48, Rule.SQRT) == pytest.approx(1e-4)


def test_the_name_of_the_batch() -> None:
    assert parameter_of({"batch_size": "1", "per_device_train_batch_size": "2"}, BATCH_NAMES) == (
        "per_device_train_batch_size"
    )
    assert parameter_of({"--Batch-Size": "1", "epochs": "2"}, BATCH_NAMES) == "--Batch-Size"
    assert parameter_of({"eval_batch_size": "1"}, BATCH_NAMES) is None


def test_a_gain_needs_both(capsys: pytest.CaptureFixture[str]) -> None:
    search = Search("name", {}, "batch_size", Bounds.of(1, 100, 1, 8), None, Rule.LINEAR, {}, None)
    native = Probe("n", False, 8, Outcome.FITS, 10.0, 2 * batch_size.GIB)
    compiled = Probe("c", True, 20, Outcome.FITS, 1234.56, None)

    def shown(*probes: Probe) -> list[list[str]]:
        batch_size._show(search, probes, as_json=False)
        return [line.split("\t") for line in capsys.readouterr().out.splitlines()]

    assert shown(native, compiled) == [
        ["Batch size", "8", "20", "2.50x"],
        ["Learning rate", "-", "-", ""],
        ["Speed (samples/s)", "10", "1235", "123.46x"],
        ["Memory (GiB)", "2.00", "-", ""],
        ["Training job", "n", "c", ""],
    ]
    silent = replace(compiled, samples_per_second=None)
    assert shown(native, silent)[2] == ["Speed (samples/s)", "10", "-", ""]
    assert shown(compiled)[0] == ["Batch size", "-", "20", ""]


# --- whole searches ---------------------------------------------------------------------------------------------------

Sagelet = Callable[..., Result]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastForward]:
    """Natively 40 rows fit, and 100 with the compiler."""
    with FastForward(tmp_path_factory.mktemp("fast-forward")) as server:
        client = server.session().client("s3")
        client.create_bucket(Bucket="data")

        @server.train
        def train(job: Job) -> None:
            given = job.hyperparameters
            if given.get("broken"):
                raise ValueError("a wrong argument")
            compiled = str(given.get("sagemaker_training_compiler_enabled")).lower() == "true"
            if int(given["batch_size"]) > (100 if compiled else 40):
                raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 bytes.")
            job.clock.advance(60)

        yield server


@pytest.fixture
def sagelet(server: FastForward, monkeypatch: pytest.MonkeyPatch) -> Sagelet:
    monkeypatch.setattr("sagelet_api.cli.batch_probes.EVERY", 0.01)
    return lambda *words: CliRunner().invoke(main, [*words, "--endpoint", server.endpoint])


@pytest.fixture
def job(server: FastForward, request: pytest.FixtureRequest) -> str:
    """A compiled job with checkpoints on spot instances, whose batch has 24 rows."""
    name = f"train-{abs(hash(request.node.name)) % 10**8}"
    server.session().client("sagemaker").create_training_job(
        TrainingJobName=name,
        RoleArn=ROLE,
        AlgorithmSpecification={
            "TrainingImage": "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-trcomp-training:1.13.1-gpu-py39",
            "TrainingInputMode": "File",
        },
        HyperParameters={
            "batch_size": "24",
            "learning_rate": "6e-5",
            "max_steps": "1000",
            "sagemaker_training_compiler_enabled": "true",
        },
        OutputDataConfig={"S3OutputPath": "s3://data/out"},
        ResourceConfig={"InstanceType": "ml.g4dn.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1},
        StoppingCondition={"MaxRuntimeInSeconds": 7200, "MaxWaitTimeInSeconds": 7200},
        EnableManagedSpotTraining=True,
        CheckpointConfig={"S3Uri": "s3://data/checkpoints"},
    )
    server.wait(name, seconds=120)
    return name


def described(server: FastForward, name: str) -> dict[str, Any]:
    found: dict[str, Any] = server.session().client("sagemaker").describe_training_job(TrainingJobName=name)
    return found


def test_the_table_of_a_job(server: FastForward, job: str, sagelet: Sagelet) -> None:
    done = sagelet("tune", "batch-size", job, "--step", "4", "--min", "4", "--name", "table")
    assert done.exit_code == 0, done.stderr
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert rows[:2] == [["Batch size", "40", "100", "2.50x"], ["Learning rate", "0.0001", "0.00025", ""]]
    assert rows[-1][1:3] == ["table-native-40", "table-compiled-100"]
    assert "native 48: out of memory (table-native-48)" in done.stderr
    native, compiled = described(server, "table-native-40"), described(server, "table-compiled-100")
    assert native["HyperParameters"] == {"batch_size": "40", "learning_rate": "0.0001", "max_steps": "5"}
    assert compiled["HyperParameters"] == {
        "batch_size": "100",
        "learning_rate": "0.00025",
        "max_steps": "5",
        "sagemaker_training_compiler_enabled": "true",
    }
    assert "/pytorch-training:1.13.1" in native["AlgorithmSpecification"]["TrainingImage"]
    assert "/pytorch-trcomp-training:1.13.1" in compiled["AlgorithmSpecification"]["TrainingImage"]
    # Probes must not start from the job's checkpoints.
    assert not {"CheckpointConfig", "RetryStrategy"} & native.keys()
    assert not native.get("EnableManagedSpotTraining", False)


def test_as_json_and_again_without_new_probes(server: FastForward, job: str, sagelet: Sagelet) -> None:
    words = ("tune", "batch-size", job, "--only", "native", "--name", "again", "--max", "30", "--json")
    first = json.loads(sagelet(*words).stdout)
    assert (first["parameter"], first["native"]["size"], first["compiled"]) == ("batch_size", 30, None)
    assert [(one["size"], one["outcome"]) for one in first["probes"]] == [(24, "fits"), (30, "fits")]
    # A gain needs both, and nobody has reported a speed.
    assert first["gain"] == {"size": None, "speed": None}
    assert first["native"]["samples_per_second"] is None
    count = len(server.session().client("sagemaker").list_training_jobs(MaxResults=100)["TrainingJobSummaries"])
    assert json.loads(sagelet(*words).stdout) == first
    after = server.session().client("sagemaker").list_training_jobs(MaxResults=100)["TrainingJobSummaries"]
    assert len(after) == count
    other = sagelet(*words, "-p", "seed=1")
    assert other.exit_code == 1
    assert "give another --name" in other.stderr


def test_a_script_and_a_request(server: FastForward, sagelet: Sagelet, tmp_path: Path) -> None:
    script = tmp_path / "my_train.py"
    script.write_text("pass")
    words = ("tune", "batch-size", "--file", str(script), "-p", "batch_size=32", "--only", "native", "--max", "64")
    done = sagelet(*words)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[0] == "Batch size\t40\t-\t"
    assert "The job has no hyperparameter max_steps" in done.stderr
    document = tmp_path / "job.json"
    request = described(server, done.stdout.splitlines()[-1].split("\t")[1])
    members = ("HyperParameters", "AlgorithmSpecification", "RoleArn", "OutputDataConfig", "ResourceConfig")
    made = {name: request[name] for name in members}
    document.write_text(json.dumps({**made, "StoppingCondition": {"MaxRuntimeInSeconds": 60}}))
    assert sagelet("tune", "batch-size", "--file", str(document), "--only", "native", "--steps", "2").exit_code == 0


def test_what_cannot_be_searched_names_a_remedy(job: str, sagelet: Sagelet, tmp_path: Path) -> None:
    for words, text in (
        ((), "Give either JOB or --file"),
        ((job, "--parameter", "batch", "--rule", "cubic"), "'cubic' is not one of"),
        ((job, "--parameter", "learning_rate"), "is '6e-5' and no batch size"),
        ((job, "--rate-parameter", "eta"), "-p eta=VALUE"),
        (
            (job, "--parameter", "batchsize"),
            "The job has no hyperparameter batchsize: give one with -p batchsize=VALUE",
        ),
        ((job, "--min", "9", "--max", "8"), "--min 9 must not be greater than --max 8"),
        ((job, "--name", "x" * 50), "leave room for 47"),
        (("nope",), "has no training job nope"),
        ((job, "-p", "broken=1"), "ended for another reason than memory (Failed)"),
    ):
        done = sagelet("tune", "batch-size", *words)
        assert done.exit_code in (1, 2), words
        assert text in done.stderr
        assert "Traceback" not in done.stderr
    script = tmp_path / "none.py"
    script.write_text("pass")
    assert "name its batch size with --parameter" in sagelet("tune", "batch-size", "--file", str(script)).stderr


def test_if_nothing_fits_it_says_so(job: str, sagelet: Sagelet) -> None:
    done = sagelet("tune", "batch-size", job, "--min", "50", "--only", "native")
    assert done.exit_code == 1
    assert done.stdout.splitlines()[0] == "Batch size\t-\t-\t"
    assert "native: not even a batch of 50 fits" in done.stderr
    assert "`sagelet doctor " in done.stderr


def test_ctrl_c_stops_the_probe_and_the_same_name_goes_on(
    server: FastForward, job: str, sagelet: Sagelet, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[str] = []

    def interrupted(runner: Any, name: str) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(batch_probes.Runner, "_ended", interrupted)
        patched.setattr(batch_probes.Runner, "_stop", lambda _runner, name: stopped.append(name))
        done = sagelet("tune", "batch-size", job, "--only", "native", "--name", "resumed")
    assert (done.exit_code, stopped) == (130, ["resumed-native-24"])
    assert "the same command with --name resumed goes on with it" in done.stderr
    assert sagelet("tune", "batch-size", job, "--only", "native", "--name", "resumed").exit_code == 0
