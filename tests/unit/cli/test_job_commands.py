"""Commands for jobs, as a person and as a program uses them."""

import json
import re
import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sagelet.connection import server_named
from sagelet_api.cli.aws_client import _session
from sagelet_api.cli.demo_run import stop_running
from sagelet_api.cli.main import main
from sagelet_api.cli.training_jobs import TRAINING, in_words
from sagelet_engine.model.job import SecondaryStatus
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.world import until

Sagelet = Callable[..., Result]
COMPILED = {"HyperParameters": {"sagemaker_training_compiler_enabled": "true"}}


@pytest.fixture
def three(world: ApiWorld) -> ApiWorld:
    """Jobs: `done` (compiled), `broken` and `running`."""
    for name, exit_code, changes in (("done", 0, COMPILED), ("broken", 1, {}), ("running", None, {})):
        world.create(name, **changes)
        if exit_code is not None:
            world.host(name).say(f"{name} says one", f"{name} says two")
            world.host(name).end(exit_code)
            world.ended(name)
        world.clock.turn(60)
    until(lambda: world.job("running").secondary is SecondaryStatus.TRAINING)
    return world


def rows(result: Result) -> list[list[str]]:
    assert result.exit_code == 0, result.output
    return [line.split("\t") for line in result.stdout.splitlines()]


def names(result: Result) -> list[str]:
    return [row[0] for row in rows(result)]


def test_jobs_in_a_pipe_are_lines_with_tabs(three: ApiWorld, sagelet: Sagelet) -> None:
    running, broken, done = rows(sagelet("jobs"))
    assert running[:3] == ["running", "InProgress", "2023-11-14T22:15:20.000Z"]
    assert broken[1] == "Failed"
    assert [done[0], *done[3:]] == ["done", "0", "yes", "1 x ml.m5.large"]


def test_the_list_says_what_a_job_asks_for_and_not_that_it_was_compiled(sagelet: Sagelet) -> None:
    """A script without torch_xla trains natively, whatever its job asks for."""
    titles = [column.title for column in TRAINING.columns]
    assert "COMPILER" in titles
    assert "COMPILED" not in titles
    assert "whether it asks for the compiler" in " ".join(sagelet("jobs", "--help").stdout.split())


def test_filters_of_jobs(three: ApiWorld, sagelet: Sagelet) -> None:
    assert names(sagelet("jobs", "--status", "Failed", "--status", "inprogress")) == ["running", "broken"]
    assert names(sagelet("jobs", "--name-contains", "on")) == ["done"]
    assert names(sagelet("jobs", "--compiled")) == ["done"]
    assert names(sagelet("jobs", "--native", "--limit", "1")) == ["running"]
    assert names(sagelet("jobs", "--since", "2023-11-14T22:14:00Z")) == ["running", "broken"]
    nothing = sagelet("jobs", "--since", "1h")
    assert (nothing.stdout, nothing.exit_code) == ("", 0)
    assert nothing.stderr.startswith("no matching training job of account 123456789012 in us-east-1")
    for wrong in ("yesterday", "999999d"):
        assert sagelet("jobs", "--since", wrong).exit_code == 2


def test_an_empty_region_names_those_that_have_jobs(world: ApiWorld, sagelet: Sagelet, tmp_path: Path) -> None:
    nothing = sagelet("jobs")
    assert (nothing.stdout, nothing.exit_code) == ("", 0)
    assert nothing.stderr.splitlines()[-1].startswith("no other account or region has any; `sagelet submit FILE`")
    world.waiting_job("here")
    server = ("jobs", "--endpoint", f"http://127.0.0.1:{world.port}", "--data", str(tmp_path / "nowhere"))

    def remark(*words: str) -> str:
        return CliRunner().invoke(main, [*server, *words]).stderr.splitlines()[-1]

    assert remark("--region", "eu-west-1") == "elsewhere it has 1 in us-east-1: --region and --account name them"
    assert f"1 in us-east-1 of account {ACCOUNT}:" in remark("--region", "eu-west-1", "--account", "000000000002")
    assert "elsewhere" not in remark("--region", "eu-west-1", "--since", "1h")


def test_more_jobs_than_a_page_has(world: ApiWorld, sagelet: Sagelet) -> None:
    for number in range(103):
        world.waiting_job(f"job-{number:03d}")
    assert len(names(sagelet("jobs", "--all"))) == 103
    limited = sagelet("jobs")
    assert len(names(limited)) == 50
    assert "the newest 50; --limit or --all shows more" in limited.stderr


def test_jobs_as_json_are_what_search_answers(three: ApiWorld, sagelet: Sagelet) -> None:
    running, *_ = json.loads(sagelet("jobs", "--json").stdout)
    assert running["TrainingJobName"] == "running"
    assert running["CreationTime"] == "2023-11-14T22:15:20.000Z"
    assert running["ResourceConfig"]["InstanceType"] == "ml.m5.large"
    assert sagelet("jobs", "--json", "--watch").exit_code == 2


def test_describe_tells_what_a_person_asks(three: ApiWorld, sagelet: Sagelet) -> None:
    text = sagelet("describe", "broken").stdout
    assert "Status\tFailed\n" in text
    assert "AlgorithmError" in text
    assert "Compiled\tnot asked for\n" in text
    assert [line.split("\t")[0] for line in text.split("MESSAGE\n")[1].splitlines()] == [
        "Starting", "Downloading", "Training", "Uploading", "Failed",
    ]  # fmt: skip
    found = json.loads(sagelet("describe", "done", "--json").stdout)
    assert found["TrainingJobStatus"] == "Completed"
    assert found["Sagelet"]["Compilation"]["asked"] is True
    assert found["Sagelet"]["Activity"] is None


def test_a_job_that_is_not_there_is_an_error_with_a_remedy(world: ApiWorld, sagelet: Sagelet) -> None:
    one = ("describe", "logs", "wait", "stop", "interrupt", "delete", "fault", "doctor", "report")
    for command in (*((name,) for name in one), ("compare", "nope")):
        result = sagelet(*command, "nope")
        assert result.exit_code == 1, command
        assert f"Error: Account {ACCOUNT} has no training job nope in us-east-1" in result.stderr
        assert "`sagelet jobs` lists them" in result.stderr


def test_no_server_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    for command in (["jobs"], ["describe", "job"], ["status"], ["run", "true"]):
        where = ["--endpoint", "http://127.0.0.1:1", "--data", str(tmp_path)]
        result = CliRunner().invoke(main, [command[0], *where, *command[1:]])
        assert result.exit_code == 1, command
        assert "No sagelet server answers at http://127.0.0.1:1: Connection refused. Start" in result.stderr
        assert "`sagelet up`" in result.stderr


def test_logs_of_a_job(three: ApiWorld, sagelet: Sagelet) -> None:
    assert sagelet("logs", "done").stdout.splitlines()[:2] == ["done says one", "done says two"]
    assert sagelet("logs", "broken", "--tail", "1").stdout.startswith("sagelet doctor: instead: ")
    assert sagelet("logs", "broken", "--tail", "4").stdout.startswith("broken says two\n")
    assert sagelet("logs", "broken", "-t").stdout.startswith("2023-11-14T22:14:20.000Z broken says one\n")
    as_json = [json.loads(line) for line in sagelet("logs", "broken", "--json").stdout.splitlines()]
    assert as_json[0] == {"timestamp": 1_700_000_060_000, "host": "algo-1", "message": "broken says one"}
    silent = sagelet("logs", "running")
    assert (silent.stdout, silent.exit_code) == ("", 0)
    assert silent.stderr == "running (Training) has printed nothing\n"


def test_logs_of_several_hosts_come_in_the_order_of_time(world: ApiWorld, sagelet: Sagelet) -> None:
    resources = {"InstanceType": "ml.m5.large", "InstanceCount": 2, "VolumeSizeInGB": 1}
    world.create("pair", ResourceConfig=resources)
    first, second = world.all_hosts("pair")
    first.say("a", "c")
    world.clock.turn(1)
    second.say("b")
    first.save_model()
    for host in (first, second):
        host.end(0)
    world.ended("pair")
    assert sagelet("logs", "pair").stdout.splitlines() == ["algo-1: a", "algo-2: b", "algo-1: c"]
    assert sagelet("logs", "pair", "--host", "2").stdout == "b\n"
    wrong = sagelet("logs", "pair", "--host", "3")
    assert wrong.exit_code == 2
    assert "pair has 2 hosts" in wrong.stderr


def test_logs_follow_until_the_end(three: ApiWorld, sagelet: Sagelet) -> None:
    three.host("running").say("first")
    three.host("running").save_model()

    def go_on() -> None:
        three.host("running").say("second")
        three.host("running").end(0)

    ending = threading.Timer(0.2, go_on)
    ending.start()
    result = sagelet("logs", "-f", "running")
    ending.join()
    assert result.stdout == "first\nsecond\n"
    assert result.stderr == "running: Completed\n"


def test_wait_tells_by_its_exit_code(three: ApiWorld, sagelet: Sagelet) -> None:
    assert sagelet("wait", "done").exit_code == 0
    failed = sagelet("wait", "done", "broken")
    assert failed.exit_code == 3
    assert failed.stdout.startswith("done: Completed; trained 0 s, billable 0 s; it left no model\nbroken: Failed; ")
    late = sagelet("wait", "running", "--timeout", "0.05")
    assert (late.exit_code, late.stdout) == (5, "running: still InProgress (Training)\n")
    assert late.stderr == "running: Training\n"
    (told,) = json.loads(sagelet("wait", "done", "--json").stdout)
    assert told["TrainingJobStatus"] == "Completed"


def test_commands_name_only_a_model_that_is_there(three: ApiWorld, sagelet: Sagelet) -> None:
    def said(name: str) -> str:
        return sagelet("wait", name).stdout.rstrip().split("; ")[2]

    def shown(name: str) -> list[str]:
        lines = sagelet("describe", name).stdout.splitlines()
        return [line.partition("\t")[2] for line in lines if line.startswith("Model\t")]

    none = "none: nothing was saved in SM_MODEL_DIR, or it was deleted"
    assert (said("done"), shown("done"), shown("broken")) == ("it left no model", [none], [])
    s3 = three.client("s3")
    s3.create_bucket(Bucket="out")
    # Its name only begins with the model's.
    s3.put_object(Bucket="out", Key="models/done/output/model.tar.gz.sha256", Body=b"1")
    assert (said("done"), shown("done")) == ("it left no model", [none])
    for name in ("done", "broken"):
        s3.put_object(Bucket="out", Key=f"models/{name}/output/model.tar.gz", Body=b"1")
        uri = f"s3://out/models/{name}/output/model.tar.gz"
        assert (said(name), shown(name)) == (uri, [uri])
    three.create("files", OutputDataConfig={"S3OutputPath": "s3://out/models", "CompressionType": "NONE"})
    three.host("files").end(0)
    three.ended("files")
    assert said("files") == "it left no model"
    s3.put_object(Bucket="out", Key="models/files/output/model/model.pt", Body=b"1")
    assert said("files") == "s3://out/models/files/output/model/"


def test_a_bucket_of_another_account_changes_no_exit_code(three: ApiWorld, sagelet: Sagelet) -> None:
    three.client("s3", account="000000000002").create_bucket(Bucket="out")
    waited = sagelet("wait", "done")
    assert waited.exit_code == 0
    assert waited.stdout.endswith("; whether s3://out/models/done/output/model.tar.gz is there: AccessDenied\n")
    assert sagelet("describe", "done").exit_code == 0


def test_stop_then_wait_then_delete(three: ApiWorld, sagelet: Sagelet) -> None:
    refused = sagelet("delete", "done", "running", "--yes")
    assert refused.exit_code == 1
    assert "running is InProgress: stop it first (`sagelet stop running`); nothing was deleted" in refused.stderr
    assert sagelet("stop", "running").stdout == "running: Stopping\n"
    three.host("running").end(0)
    stopped = sagelet("wait", "running")
    assert stopped.exit_code == 4
    assert json.loads(sagelet("stop", "running", "--json").stdout) == [
        {"TrainingJobName": "running", "TrainingJobStatus": "Stopped"}
    ]
    assert sagelet("delete", "running").exit_code == 1, "nobody said yes"
    assert sagelet("delete", "running", "done", "--yes").stdout == "running: deleted\ndone: deleted\n"
    assert names(sagelet("jobs")) == ["broken"]


def test_a_throttled_call_is_tried_again(three: ApiWorld, sagelet: Sagelet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagelet_api.cli.aws_client._PAUSE", 0)
    assert sagelet("throttle", "DescribeTrainingJob", "3").exit_code == 0
    assert sagelet("wait", "done").exit_code == 0
    assert sagelet("throttle", "DescribeTrainingJob", "9").exit_code == 0
    given_up = sagelet("wait", "done")
    assert given_up.exit_code == 1
    assert "ThrottlingException: Rate exceeded" in given_up.stderr


def test_the_status_of_a_server(three: ApiWorld, sagelet: Sagelet, tmp_path: Path) -> None:
    where = ["--endpoint", f"http://127.0.0.1:{three.port}", "--data", str(tmp_path)]
    shown = CliRunner().invoke(main, ["status", *where])
    assert shown.exit_code == 0
    assert "1 Completed, 1 Failed, 1 InProgress" in shown.stdout
    found = json.loads(CliRunner().invoke(main, ["status", "--json", *where]).stdout)
    assert (found["running"], found["pid"], found["server"]["runtime"]) == (True, None, "fake")
    assert found["disk"]["total"] >= found["disk"]["free"] > 0


def test_names_of_jobs_are_completed(three: ApiWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def completed(*words: str) -> list[str]:
        variables = {
            "_SAGELET_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1),
            "SAGELET_ENDPOINT": f"http://127.0.0.1:{three.port}",
        }  # fmt: skip
        result = CliRunner().invoke(main, [], env=variables, prog_name="sagelet")
        return [line.partition(",")[2] for line in result.stdout.splitlines() if line]

    assert completed("sagelet", "describe", "r") == ["running"]
    assert sorted(completed("sagelet", "wait", "done", "")) == ["broken", "done", "running"]
    assert completed("sagelet", "logs", "--endpoint", "http://127.0.0.1:1", "r") == []
    assert "describe" in completed("sagelet", "des")


def test_a_garbled_configuration_of_aws_is_no_obstacle(
    three: ApiWorld, sagelet: Sagelet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _session.cache_clear()
    (tmp_path / "config").write_text("= [[ x")
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "config"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert names(sagelet("jobs", "--status", "Failed")) == ["broken"]


def test_what_a_job_does_in_one_line() -> None:
    since = datetime.now(timezone.utc) - timedelta(seconds=62)
    job = {"TrainingJobName": "job", "SecondaryStatusTransitions": [{"Status": "Training", "StartTime": since}]}
    assert re.fullmatch(
        r"job: Training, 1 min \d+ s: compiling, step 1, 38 s", in_words(job, "compiling, step 1, 38 s")
    )
    waiting = {"Status": "Pending", "StartTime": since, "StatusMessage": "Training job waiting for capacity"}
    job["SecondaryStatusTransitions"] = [waiting]
    assert re.fullmatch(r"job: Pending, 1 min \d+ s: Training job waiting for capacity", in_words(job, ""))


def test_the_demo_ends_with_a_job_that_fails(world: ApiWorld, sagelet: Sagelet) -> None:
    # REST's store is not the one that this world's jobs see.
    world.objects.put("sagelet-demo", "train/stdlib.txt", b"1")

    def fail() -> None:
        (host,) = until(lambda: list(world.runtime.hosts.values()))
        host.end(1)

    ending = threading.Thread(target=fail)
    ending.start()
    result = sagelet("demo")
    ending.join()
    assert result.exit_code == 3, result.output
    assert "two minutes on two CPU cores" in result.stdout.splitlines()[0]
    (name,) = names(sagelet("jobs"))
    assert "compiled: Failed" in result.stdout
    assert f"{name}: Failed" in result.stderr
    assert f"`sagelet logs {name}` shows what it printed" in result.stderr
    body = world.job(name).request
    assert body["HyperParameters"]["sagemaker_program"] == '"train.py"'


def test_jobs_of_a_demo_that_was_killed_are_stopped_before_the_next(three: ApiWorld) -> None:
    """A job that was left behind filled the compile cache after `make demo` had emptied it."""
    server = server_named(f"http://127.0.0.1:{three.port}", account=ACCOUNT, region=REGION)

    def end_when_stopped() -> None:
        until(lambda: three.job("running").secondary is SecondaryStatus.STOPPING)
        three.host("running").end(0)

    ending = threading.Thread(target=end_when_stopped)
    ending.start()
    assert stop_running(server) == ["running"]
    ending.join()
    assert three.job("running").secondary is SecondaryStatus.STOPPED
    assert stop_running(server) == []


@pytest.mark.parametrize("command", [("wait",), ("logs", "-f")])
def test_ctrl_c_says_what_runs_on(
    three: ApiWorld, sagelet: Sagelet, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupted)
    result = sagelet(*command, "running")
    assert result.exit_code == 130
    assert "running runs on: `sagelet logs -f running` follows it, `sagelet stop running` ends it" in result.stderr
    assert "Traceback" not in result.output
