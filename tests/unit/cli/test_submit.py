"""`sagelet submit`: a job from a request in a file, or from a script."""

import io
import json
import os
import signal
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from rich.console import Console

from sagelet_api.cli import progress
from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.control_client import ServerRefused
from sagelet_api.cli.documents import BadDocument, read_document, request_from
from sagelet_api.cli.submission import COMPILED_IMAGE, NATIVE_IMAGE, new_name
from sagelet_api.servers.server import Server
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.world import key

Sagelet = Callable[..., Result]
BUCKET = f"sagemaker-{REGION}-{ACCOUNT}"
YAML = """
TrainingJobName: from-yaml
AlgorithmSpecification:
  TrainingImage: 763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:1.13.1-gpu-py39
  TrainingInputMode: File
RoleArn: arn:aws:iam::123456789012:role/SageMakerRole
OutputDataConfig: {S3OutputPath: s3://bucket/out}
ResourceConfig: {InstanceType: ml.p3.2xlarge, InstanceCount: 1, VolumeSizeInGB: "10"}
StoppingCondition: {MaxRuntimeInSeconds: 600}
EnableManagedSpotTraining: false
HyperParameters:
  rate: 1e-3
  momentum: 0.90
  flag: true
  account: 012345678901
  empty: ""
Tags:
"""


def written(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.write_text(text)
    return path


def request_of(world: ApiWorld, name: str) -> dict[str, Any]:
    return dict(world.engine.jobs.get(key(name)).request)


def test_a_document_keeps_every_digit(world: ApiWorld, sagelet: Sagelet, tmp_path: Path) -> None:
    done = sagelet("submit", str(written(tmp_path, "job.yaml", YAML)))
    assert (done.exit_code, done.stdout) == (0, "from-yaml\n"), done.output
    request = request_of(world, "from-yaml")
    assert request["HyperParameters"] == {
        "rate": "1e-3", "momentum": "0.90", "flag": "true", "account": "012345678901", "empty": "",
    }  # fmt: skip
    assert request["ResourceConfig"]["VolumeSizeInGB"] == 10
    assert request["EnableManagedSpotTraining"] is False
    assert "Tags" not in request


def test_json_is_the_same_and_options_come_over_it(world: ApiWorld, sagelet: Sagelet, tmp_path: Path) -> None:
    document = read_document(written(tmp_path, "job.yaml", YAML))
    document["HyperParameters"] = {"rate": 0.10, "kept": True}
    del document["Tags"], document["TrainingJobName"]
    path = written(tmp_path, "job.json", json.dumps(document).replace("0.1", "0.10"))
    done = sagelet("submit", str(path), "--name", "named", "-p", "rate=2e-5", "-p", "text=a=b", "--json")
    assert json.loads(done.stdout)["TrainingJobArn"].endswith(":training-job/named")
    assert request_of(world, "named")["HyperParameters"] == {"rate": "2e-5", "kept": "true", "text": "a=b"}
    generated = sagelet("submit", str(path)).stdout.strip()
    assert generated.startswith("job-20")
    assert request_of(world, generated)["HyperParameters"]["rate"] == "0.10"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            ("HyperParameters:", "HyperParamters:"),
            "HyperParamters: no member of CreateTrainingJobRequest; did you",
        ),
        (("VolumeSizeInGB", "VolumeSizeGB"), "ResourceConfig.VolumeSizeGB: no member of ResourceConfig; did you mean"),
        (
            ("InstanceCount: 1", "InstanceCount: one"),
            "InstanceCount: must be a whole number, and is 'one'",
        ),
        (("Training: false", "Training: no"), "EnableManagedSpotTraining: must be true or false, and is 'no'"),
        (("Tags:\n", "Tags: x\n"), "Tags: must be a list, and is 'x'"),
        (("empty: ''", "empty: [1]"), "HyperParameters.empty: must be one value, and is a list"),
        (("RoleArn: arn", "#"), "at 'roleArn' failed to satisfy constraint: Member must not be null"),
        (("TrainingInputMode: File", "TrainingInputMode: Fiel"), "at 'algorithmSpecification.trainingInputMode'"),
        (("from-yaml", "from_yaml"), "Value 'from_yaml' at 'trainingJobName'"),
        (("  rate: 1e-3", "  rate: 1e-3\n  rate: 2"), "job.yaml cannot be read: rate is there twice"),
        (("HyperParameters:", "HyperParameters: {"), "job.yaml cannot be read: while parsing"),
        (("TrainingJobName: from-yaml", "? [a]\n: b"), "is not the name of a member"),
        (
            ("HyperParameters:\n", "HyperParameters: &it\n  it: *it\n"),
            "job.yaml cannot be read: found unconstr",
        ),
    ],
)
def test_a_wrong_member_is_named_and_nothing_is_sent(
    world: ApiWorld, sagelet: Sagelet, tmp_path: Path, change: tuple[str, str], told: str
) -> None:
    text = YAML.replace('""', "''")
    assert change[0] in text
    done = sagelet("submit", str(written(tmp_path, "job.yaml", text.replace(*change))))
    assert done.exit_code == 1
    assert told in done.stderr
    assert done.stdout == ""
    assert world.sagemaker.list_training_jobs()["TrainingJobSummaries"] == []


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(BadDocument) as told:
        request_from({"TrainingJobName": "-"}, "job.json")
    assert str(told.value).startswith("job.json is not a valid CreateTrainingJob request:\n  ")
    assert len(str(told.value).splitlines()) == 4


def test_wrong_names_and_wrong_values_are_told_together() -> None:
    request = {"TrainingJobName": "a", "StoppingCondition": {"MaxRuntimeInSecond": "7"}, "RoleArn": "arn"}
    with pytest.raises(BadDocument) as told:
        request_from(request, "job.json")
    assert "StoppingCondition.MaxRuntimeInSecond: no member of StoppingCondition; did you mean" in str(told.value)
    assert "Value 'arn' at 'roleArn' failed to satisfy constraint" in str(told.value)


def test_a_value_of_a_wrong_type_is_told_once() -> None:
    with pytest.raises(BadDocument) as told:
        request_from({"TrainingJobName": "a", "StoppingCondition": {"MaxRuntimeInSeconds": "soon"}}, "job.json")
    assert str(told.value).splitlines()[1:] == [
        "  StoppingCondition.MaxRuntimeInSeconds: must be a whole number, and is 'soon'"
    ]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("ml.p3.2xlage", "enum value set; did you mean ml.p3.2xlarge? `sagelet instances` lists them"),
        ("nothing alike", "enum value set; `sagelet instances` lists them"),
    ],
)
def test_a_wrong_instance_type_gets_the_nearest_one_in_place_of_all(kind: str, said: str) -> None:
    with pytest.raises(BadDocument) as told:
        request_from({"ResourceConfig": {"InstanceType": kind}}, "job.json")
    line = next(line for line in str(told.value).splitlines() if "instanceType" in line)
    assert line == (
        f"  Value '{kind}' at 'resourceConfig.instanceType' failed to satisfy constraint: Member must satisfy {said}"
    )


def test_a_short_enum_is_listed() -> None:
    with pytest.raises(BadDocument) as told:
        request_from({"AlgorithmSpecification": {"TrainingInputMode": "Fil"}}, "job.json")
    assert "enum value set: [Pipe, File, FastFile]; did you mean File?" in str(told.value)


@pytest.mark.parametrize("source", ["missing.csv", "empty"])
def test_nothing_is_sent_where_an_input_is_missing(
    world: ApiWorld, sagelet: Sagelet, tmp_path: Path, source: str
) -> None:
    (tmp_path / "empty").mkdir()
    place = tmp_path / source
    done = sagelet("submit", str(written(tmp_path, "train.py", "")), "--input", f"train={place}")
    assert (done.exit_code, f"Error: --input train={place}: {place}" in done.stderr) == (1, True), done.stderr
    assert world.client("s3").list_buckets()["Buckets"] == []


def test_a_tag_of_yaml_makes_no_object(tmp_path: Path) -> None:
    path = written(tmp_path, "job.yaml", "a: !!python/object/apply:os.system ['touch /tmp/owned']\n")
    assert read_document(path) == {"a": ["touch /tmp/owned"]}


@pytest.mark.parametrize(("name", "text"), [("a.json", "[1]"), ("a.yaml", "text"), ("a.json", "{"), ("a.json", "{}x")])
def test_what_is_no_mapping_is_refused(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(BadDocument):
        read_document(written(tmp_path, name, text))


def members(world: ApiWorld, uri: str) -> dict[str, str]:
    bucket, _, name = uri.removeprefix("s3://").partition("/")
    content = world.client("s3").get_object(Bucket=bucket, Key=name)["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(content)) as opened:
        assert {(one.uid, one.uname) for one in opened.getmembers()} == {(0, "")}
        return {one.name: (opened.extractfile(one) or io.BytesIO()).read().decode() for one in opened if one.isfile()}


def test_anchors_that_stand_for_billions_of_values_are_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10))]
    with pytest.raises(BadDocument, match="more than 100000 values"):
        read_document(written(tmp_path, "job.yaml", "\n".join([*lines, "InputDataConfig: *a9"])))


def test_a_script_alone(world: ApiWorld, sagelet: Sagelet, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("")
    name = sagelet("submit", str(written(tmp_path, "my_train.py", "print(1)")), "-p", "epochs=3").stdout.strip()
    assert name.startswith("my-train-20")
    request = request_of(world, name)
    assert request["AlgorithmSpecification"]["TrainingImage"] == NATIVE_IMAGE
    assert request["HyperParameters"]["epochs"] == "3"
    assert json.loads(request["HyperParameters"]["sagemaker_program"]) == "my_train.py"
    assert members(world, json.loads(request["HyperParameters"]["sagemaker_submit_directory"])) == {
        "my_train.py": "print(1)"
    }
    assert request["OutputDataConfig"]["S3OutputPath"] == f"s3://{BUCKET}/"


def test_a_source_directory_an_input_and_the_compiler(world: ApiWorld, sagelet: Sagelet, tmp_path: Path) -> None:
    source, data = tmp_path / "src", tmp_path / "inputs"
    for path in (source / "pkg", source / ".git", source / "__pycache__", data / "deep"):
        path.mkdir(parents=True)
    (source / "pkg" / "train.py").write_text("1")
    (source / "requirements.txt").write_text("einops")
    (source / ".git" / "config").write_text("secret")
    (source / "__pycache__" / "x.pyc").write_text("")
    os.mkfifo(source / "pipe")
    # The jobs of this world have other objects than its S3.
    for bucket, prefix in ((BUCKET, "whole/input/train"), (BUCKET, "whole/input/one"), ("elsewhere", "x")):
        world.objects.put(bucket, f"{prefix}/data", b"1")
    (data / "deep" / "a.txt").write_text("a")
    (data / "b.txt").write_text("b")
    done = sagelet(
        "submit", str(source / "pkg" / "train.py"), "--source-dir", str(source), "--compile", "--name", "whole",
        "--instance-type", "ml.p3.2xlarge", "--instance-count", "2", "--env", "MODE=fast", "--max-runtime", "60",
        "--input", f"train={data}", "--input", f"one={data / 'b.txt'}", "--input", "far=s3://elsewhere/x",
        "--output", "s3://elsewhere/out",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    request = request_of(world, "whole")
    parameters = request["HyperParameters"]
    assert json.loads(parameters["sagemaker_program"]) == "pkg/train.py"
    assert members(world, json.loads(parameters["sagemaker_submit_directory"])).keys() == {
        "./pkg/train.py", "./requirements.txt",
    }  # fmt: skip
    assert request["AlgorithmSpecification"]["TrainingImage"] == COMPILED_IMAGE
    assert parameters["sagemaker_training_compiler_enabled"] == "true"
    assert request["Environment"] == {"MODE": "fast"}
    uris = [one["DataSource"]["S3DataSource"]["S3Uri"] for one in request["InputDataConfig"]]
    assert uris == [f"s3://{BUCKET}/whole/input/train", f"s3://{BUCKET}/whole/input/one", "s3://elsewhere/x"]
    listed = world.client("s3").list_objects_v2(Bucket=BUCKET, Prefix="whole/input/")["Contents"]
    assert [one["Key"].partition("input/")[2] for one in listed] == ["one/b.txt", "train/b.txt", "train/deep/a.txt"]


def test_a_large_file_goes_in_parts_and_its_size_is_said_first(
    world: ApiWorld, sagelet: Sagelet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "SAID_FIRST", 20_000_000)
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(20_000_000)
    # The jobs of this world have other objects than its S3.
    world.objects.put(BUCKET, "big/input/train/data", b"1")
    done = sagelet("submit", str(written(tmp_path, "train.py", "")), "--name", "big", "--input", f"train={large}")
    assert done.exit_code == 0, done.output
    assert "uploading 1 file, 20.0 MB" in done.stderr
    head = world.client("s3").head_object(Bucket=BUCKET, Key="big/input/train/large")
    assert (head["ContentLength"], head["ETag"].strip('"').partition("-")[2]) == (20_000_000, "3")


def test_what_a_directory_has_that_is_not_uploaded_is_named(world: ApiWorld, sagelet: Sagelet, tmp_path: Path) -> None:
    data, far = tmp_path / "mine", tmp_path / "far"
    for path in (data, far):
        path.mkdir()
    (data / "a.txt").write_text("a")
    (data / "linked").symlink_to(far)
    (data / "nothing").symlink_to("nowhere")
    os.mkfifo(data / "pipe")
    world.objects.put(BUCKET, "left/input/train/data", b"1")
    script = str(written(tmp_path, "train.py", ""))
    done = sagelet("submit", script, "--name", "left", "--input", f"train={data}")
    assert done.exit_code == 0, done.output
    assert f"--input train={data}: not uploaded: linked, nothing, pipe (pipes, and links to" in done.stderr
    for index in range(9):
        (data / f"z{index}").symlink_to("nowhere")
    done = sagelet("submit", script, "--name", "left-2", "--input", f"train={data}")
    assert "not uploaded: linked, nothing, pipe, z0, z1 and 7 more (" in done.stderr
    done = sagelet("submit", script, "--input", f"train={data / 'pipe'}")
    assert (done.exit_code, f"{data / 'pipe'} is neither a file nor a directory" in done.stderr) == (1, True)


def test_a_name_that_no_key_can_hold_is_refused(sagelet: Sagelet, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    Path(os.fsdecode(os.fsencode(tmp_path / "mine") + b"/\xff.bin")).touch()
    done = sagelet("submit", str(written(tmp_path, "train.py", "")), "--input", f"train={tmp_path / 'mine'}")
    assert (done.exit_code, "\\xff.bin': the name is not UTF-8" in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize("refused", [False, True])
def test_a_file_that_is_written_while_it_is_uploaded_is_named(
    sagelet: Sagelet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    data = tmp_path / "mine"
    data.write_text("a")

    def upload(_aws: Aws, _bucket: str, _key: str, file: Path, _seen: object) -> None:
        file.write_text("another")
        if refused:
            raise ServerRefused("IncompleteBody: The request body did not arrive whole", "IncompleteBody")

    monkeypatch.setattr(Aws, "upload", upload)
    done = sagelet("submit", str(written(tmp_path, "train.py", "")), "--input", f"train={data}")
    assert (done.exit_code, f"Error: {data} was changed while it was uploaded" in done.stderr) == (1, True), done.stderr


def test_ctrl_c_ends_an_upload_without_a_word(
    world: ApiWorld, tmp_path: Path, capfd: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(60_000_000)
    world.client("s3").create_bucket(Bucket="mine")
    seen: list[int] = []

    def interrupt(count: int) -> None:
        seen.append(count)
        if len(seen) == 1:
            os.kill(os.getpid(), signal.SIGINT)

    # A process in the background of a shell ignores it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    aws = Aws(Server(world.endpoint, tmp_path, ACCOUNT, REGION))
    # The library that signs a body says so if it cannot read on, but only if it reads just then.
    signed: set[bytes] = set()
    aws._client("s3").meta.events.register(
        "before-send.s3.UploadPart", lambda request, **_: signed.add(request.headers["X-Amz-Content-SHA256"])
    )
    with pytest.raises(KeyboardInterrupt):
        aws.upload("mine", "large", large, interrupt)
    assert capfd.readouterr().err == ""
    assert signed == {b"UNSIGNED-PAYLOAD"}
    assert "Uploads" not in world.client("s3").list_multipart_uploads(Bucket="mine")


def test_a_dumb_terminal_is_told_of_a_large_upload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    out = io.StringIO()
    with progress.UploadProgress(2, progress.SAID_FIRST, Console(file=out, width=120, force_terminal=True)) as shown:
        shown.seen(1)
    assert out.getvalue() == "uploading 2 files, 100.0 MB\n"


def test_an_upload_on_a_terminal_shows_its_bytes() -> None:
    out = io.StringIO()
    with progress.UploadProgress(2, 2_000_000, Console(file=out, width=120, force_terminal=True)) as shown:
        shown.seen(1_500_000)
    assert "uploading 2 files, 2.0 MB" in out.getvalue()
    assert "1.5/2.0 MB" in out.getvalue()


def test_a_script_is_relative_to_the_source_directory_as_an_entry_point_is(
    world: ApiWorld, sagelet: Sagelet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK: entry_point "must point to a file located at the root of source_dir"."""
    source = tmp_path / "src"
    (source / "pkg").mkdir(parents=True)
    for path, text in {"src/train.py": "inner", "train.py": "outer", "src/pkg/other.py": ""}.items():
        (tmp_path / path).write_text(text)
    monkeypatch.chdir(tmp_path)
    for number, (script, program) in enumerate(
        {"train.py": "train.py", "pkg/other.py": "pkg/other.py", "src/train.py": "train.py"}.items()
    ):
        done = sagelet("submit", script, "--source-dir", "src", "--name", f"one-{number}")
        assert done.exit_code == 0, done.output
        assert json.loads(request_of(world, f"one-{number}")["HyperParameters"]["sagemaker_program"]) == program
    missing = sagelet("submit", "none.py", "--source-dir", "src")
    assert missing.exit_code == 2
    assert "'none.py' does not exist, and neither does 'src/none.py'" in " ".join(missing.stderr.split())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["-p", "novalue"], "-p novalue: must be of the form NAME=VALUE"),
        (["--input", "train.csv"], "--input train.csv: must be of the form CHANNEL=SOURCE"),
        (["-p", "a=1", "-p", "a=2"], "a is there twice"),
    ],
)
def test_values_of_another_form_are_wrong_usage(
    world: ApiWorld, sagelet: Sagelet, tmp_path: Path, options: list[str], told: str
) -> None:
    done = sagelet("submit", str(written(tmp_path, "train.py", "")), *options)
    assert done.exit_code == 2
    assert told in done.stderr
    assert world.sagemaker.list_training_jobs()["TrainingJobSummaries"] == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--instance-type", "ml.nothing"], "The options make no valid CreateTrainingJob request:"),
        (["--instance-type", "ml.p3.2xlarg"], "did you mean ml.p3.2xlarge?"),
        (["--name", "no_underscore"], "at 'trainingJobName'"),
        (["--input", "train=/nowhere"], "/nowhere: no such file or directory"),
        (["--source-dir", "/etc"], "is not in --source-dir /etc"),
    ],
)
def test_wrong_options_are_named(
    world: ApiWorld, sagelet: Sagelet, tmp_path: Path, options: list[str], told: str
) -> None:
    done = sagelet("submit", str(written(tmp_path, "train.py", "")), *options)
    assert done.exit_code == 1
    assert told in done.stderr
    assert world.sagemaker.list_training_jobs()["TrainingJobSummaries"] == []


def test_options_of_scripts_and_other_files_are_refused(sagelet: Sagelet, tmp_path: Path) -> None:
    done = sagelet("submit", str(written(tmp_path, "job.yaml", YAML)), "--native")
    assert (done.exit_code, "--compile/--native goes with a script" in done.stderr) == (2, True)
    done = sagelet("submit", str(written(tmp_path, "job.txt", YAML)))
    assert (done.exit_code, "must be a request" in done.stderr) == (2, True)


@pytest.mark.parametrize(("how", "stdout"), [("--wait", "told\n"), ("--follow", "it trains\n")])
def test_it_waits_and_follows(
    world: ApiWorld, sagelet: Sagelet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, stdout: str
) -> None:
    def look(_seconds: float) -> None:
        host = world.host("told")
        host.say("it trains")
        host.end(1)
        world.ended("told")

    (tmp_path / "input").mkdir()
    monkeypatch.setattr("sagelet_api.cli.wait.time.sleep", look)
    monkeypatch.setattr("sagelet_api.cli.logs.time.sleep", look)
    done = sagelet("submit", str(written(tmp_path, "train.py", "")), "--name", "told", how)
    assert done.exit_code == 3, done.output
    assert stdout in done.stdout
    assert done.stdout.count("told\n") == (how == "--wait")
    assert "told: Failed; " in done.stderr


def test_new_names_are_names() -> None:
    for stem in ("train", "__", "x" * 100, "ünï code"):
        name = new_name(stem)
        assert len(name) <= 63
        request_from_name = json.dumps(name)
        assert name.replace("-", "").isalnum(), request_from_name
        assert name.isascii()
        assert not name.startswith("-")


def test_a_directory_is_told_to_be_source_dir(sagelet: Sagelet, tmp_path: Path) -> None:
    place = tmp_path / "my code"
    place.mkdir()
    empty = sagelet("submit", str(place))
    assert empty.exit_code == 2
    assert f"sagelet submit '{place}/train.py' --source-dir '{place}'" in empty.stderr
    (place / "go.py").touch()
    assert f"sagelet submit '{place}/go.py' --source-dir '{place}'" in sagelet("submit", str(place)).stderr
