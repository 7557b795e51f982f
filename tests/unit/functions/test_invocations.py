"""Functions as processes: what they return, how they end, and what a crash leaves."""

import io
import json
import os
import signal
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.base.clock import SystemClock
from sagelet_engine.base.errors import RuntimeUnavailable
from sagelet_engine.functions.invocations import Invocations
from sagelet_engine.model.functions import Function, FunctionNotFound, LogRefused, Outcome, invocation_id
from sagelet_engine.model.principal import Principal, owner
from sagelet_engine.runtimes.node import host_files
from sagelet_engine.runtimes.process.runtime import ProcessRuntime, StandIn
from support.world import until

ID = invocation_id("execution", "1")
MODULE = """
import json, os, sys, time, pathlib

def echo(event, context):
    print("hello")
    left = context.get_remaining_time_in_millis()
    return {
        "event": event,
        "who": os.environ["WHO"],
        "name": context.function_name,
        "left": 0 < left <= 30000,
        "here": os.getcwd() == os.environ["LAMBDA_TASK_ROOT"],
        "data": pathlib.Path("data/d.txt").read_text(),
        "key": os.environ["AWS_ACCESS_KEY_ID"],
        "gone": os.environ.get("SECRET"),
    }

def raises(event, context):
    raise KeyError("k")

def leaves(event, context):
    sys.exit(3)

def hangs(event, context):
    time.sleep(600)

def returns_a_set(event, context):
    return {1}

def waits(event, context):
    print("begun", flush=True)
    pathlib.Path(event["began"]).open("a").write("x")
    while not pathlib.Path(event["go"]).exists():
        time.sleep(0.01)
    return "done"

def answers_for_itself(event, context):
    answer = pathlib.Path(__file__).parent.parent / "output" / "answer.json"
    answer.symlink_to(event["secret"])
    os._exit(0)
"""


class Given:
    """Functions in memory."""

    def __init__(self) -> None:
        self.timeout = 30
        self.logs: list[str] = []
        self.refuses = 0

    def get(self, _principal: Principal, _region: str, arn: str) -> Function:
        if arn.endswith("nobody"):
            raise FunctionNotFound(f"Function not found: {arn}")
        code = io.BytesIO()
        with zipfile.ZipFile(code, "w") as archive:
            archive.writestr("f.py", MODULE)
            archive.writestr("data/d.txt", "the data")
        return Function(
            arn, "f", "$LATEST", "python3.11", arn, self.timeout, 128, "role", {"WHO": "me"}, code.getvalue()
        )

    def credentials(
        self, _account: str, role: str, _name: str, _seconds: int, _jobs: Sequence[str]
    ) -> Mapping[str, str]:
        return {"AWS_ACCESS_KEY_ID": f"key of {role}", "AWS_SECRET_ACCESS_KEY": "s"}

    def keep_log(self, _account: str, _region: str, group: str, _stream: str, lines: list[tuple[int, str]]) -> None:
        """As strict as CloudWatch Logs: a batch must not go back in time."""
        times = [time_ms for time_ms, _ in lines]
        if times != sorted(times):
            raise LogRefused("Log events in a single PutLogEvents request must be in chronological order.")
        if self.refuses:
            self.refuses -= 1
            raise LogRefused("no")
        self.logs += [f"{group}: {text}" for _, text in lines]


@pytest.fixture
def given() -> Given:
    return Given()


@pytest.fixture
def make(tmp_path: Path, given: Given) -> Iterator[Callable[[], Invocations]]:
    """Makes what a server has. A second one is what the next server has."""
    runtime = ProcessRuntime(tmp_path / "runtime", StandIn((sys.executable, "-c", "")), SystemClock())

    def made() -> Invocations:
        return Invocations(tmp_path, runtime, given, lambda host: f"http://{host}:1", lambda: None, SystemClock())

    yield made
    for left in runtime.jobs():
        runtime.reap(left)


def run(invocations: Invocations, handler: str, event: Any = None) -> Outcome:
    invocations.begin(ID, owner("1"), "r", f"f.{handler}", json.dumps(event))
    return ended(invocations)


def ended(invocations: Invocations) -> Outcome:
    found: Outcome = until(lambda: invocations.look(ID))
    return found


def test_a_function_returns_json(
    make: Callable[[], Invocations], given: Given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "the server's")
    invocations = make()
    outcome = run(invocations, "echo", {"a": [1]})
    assert json.loads(outcome.payload or "") == {
        "event": {"a": [1]},
        "who": "me",
        "name": "f",
        "left": True,
        "here": True,
        "data": "the data",
        "key": "key of role",
        "gone": None,
    }
    assert "/aws/lambda/f: hello" in given.logs
    invocations.forget(ID)
    assert [*(tmp_path / "functions").iterdir()] == []


@pytest.mark.parametrize(
    ("handler", "error", "message"),
    [
        ("raises", "KeyError", "'k'"),
        ("leaves", "Runtime.ExitError", "exit status 3"),
        ("returns_a_set", "Runtime.MarshalError", "not JSON serializable"),
        ("nothing", "Runtime.HandlerNotFound", "Handler 'nothing' missing on module 'f'"),
    ],
)
def test_a_function_fails(make: Callable[[], Invocations], handler: str, error: str, message: str) -> None:
    outcome = run(make(), handler)
    assert (outcome.payload, outcome.error, outcome.fault) == (None, error, False)
    assert message in outcome.message


def test_a_function_has_its_time(make: Callable[[], Invocations], given: Given) -> None:
    given.timeout = 1
    assert run(make(), "hangs") == Outcome(timed_out=True)
    assert any("Task timed out after 1.00 seconds" in line for line in given.logs)


def test_a_link_in_place_of_the_answer_is_not_followed(make: Callable[[], Invocations], tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(json.dumps({"payload": "the secret"}))
    outcome = run(make(), "answers_for_itself", {"secret": str(secret)})
    assert (outcome.payload, outcome.error) == (None, "Runtime.ExitError")


def test_the_next_server_finds_a_function_that_runs(make: Callable[[], Invocations], tmp_path: Path) -> None:
    event = {"began": str(tmp_path / "began"), "go": str(tmp_path / "go")}
    make().begin(ID, owner("1"), "r", "f.waits", json.dumps(event))
    until(lambda: (tmp_path / "began").exists())
    later = make()
    later.sweep({"execution"})
    # The call is repeated, and the function is gone from where it was kept.
    later.begin(ID, owner("1"), "r", "nobody", json.dumps(event))
    assert later.look(ID) is None
    (tmp_path / "go").touch()
    assert ended(later).payload == '"done"'
    assert (tmp_path / "began").read_text() == "x"


def test_a_function_that_was_lost_runs_again(make: Callable[[], Invocations], given: Given, tmp_path: Path) -> None:
    invocations, event = make(), {"began": str(tmp_path / "began"), "go": str(tmp_path / "go")}
    invocations.begin(ID, owner("1"), "r", "f.waits", json.dumps(event))
    for runs in (1, 2, 3):
        until(lambda runs=runs: invocations.look(ID) or _text(tmp_path / "began") == "x" * runs)
        os.kill(_pid(tmp_path), signal.SIGKILL)
    outcome = ended(invocations)
    assert (outcome.payload, outcome.fault) == (None, True)
    again = [line for line in given.logs if line.startswith("/aws/lambda/f: sagelet: the function runs again: ")]
    assert len(again) == 2


def test_a_refused_log_says_so_in_its_own_place(make: Callable[[], Invocations], given: Given) -> None:
    given.refuses = 1
    invoked = make().invoke(owner("1"), "r", "f.echo", '"event"', "request")
    assert given.logs == ["/aws/lambda/f: sagelet: 4 lines of this log were refused: LogRefused: no"]
    tail = invoked.log.decode().splitlines()
    assert tail[1] == "hello"
    assert tail[-1] == "sagelet: 4 lines of this log were refused: LogRefused: no"


def test_a_log_that_is_refused_altogether_is_in_the_answer(make: Callable[[], Invocations], given: Given) -> None:
    given.refuses = 2
    invoked = make().invoke(owner("1"), "r", "f.echo", '"event"', "request")
    assert invoked.outcome.payload
    assert given.logs == []
    assert invoked.log.decode().splitlines()[-1].startswith("sagelet: 4 lines of this log were refused")


def test_an_invocation_that_nobody_waits_for_says_why_it_did_not_run(
    make: Callable[[], Invocations], given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeUnavailable("the engine sleeps")

    monkeypatch.setattr(ProcessRuntime, "launch", fail)
    arn = "arn:aws:lambda:us-east-1:123456789012:function:f:3"
    make().invoke_unattended(owner("1"), "r", arn, "1", "request")
    assert given.logs == ["/aws/lambda/f: sagelet: the invocation request did not take place: the engine sleeps"]
    make().invoke_unattended(owner("1"), "r", "nobody", "1", "request")
    assert given.logs[1].endswith("did not take place: Function not found: nobody")


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _pid(tmp_path: Path) -> int:
    return int(json.loads((tmp_path / "functions" / ID / "run" / host_files.STARTED).read_text())["pid"])


def test_a_server_that_starts_removes_what_nobody_waits_for(make: Callable[[], Invocations], tmp_path: Path) -> None:
    event = {"began": str(tmp_path / "began"), "go": str(tmp_path / "go")}
    make().begin(ID, owner("1"), "r", "f.waits", json.dumps(event))
    until(lambda: (tmp_path / "began").exists())
    half = tmp_path / "functions" / f".{ID}"
    half.mkdir()
    later = make()
    later.sweep(())
    assert not later.has(ID)
    assert [*(tmp_path / "functions").iterdir()] == []


def test_a_missing_function_leaves_nothing(make: Callable[[], Invocations], tmp_path: Path) -> None:
    with pytest.raises(FunctionNotFound):
        make().begin(ID, owner("1"), "r", "nobody", "{}")
    assert not (tmp_path / "functions").exists()


def test_a_function_that_cannot_be_removed_has_its_result_and_is_waited_for_no_longer(
    make: Callable[[], Invocations], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a request waits for is left alone, so it would stay for good."""

    def fail(_runtime: ProcessRuntime, job_id: str) -> None:
        asked.append(job_id)
        raise RuntimeUnavailable("it does not end")

    asked: list[str] = []
    invocations = make()
    with monkeypatch.context() as changed:
        changed.setattr(ProcessRuntime, "reap", fail)
        outcome = invocations.invoke(owner("1"), "r", "f.echo", '"event"', "request").outcome
    assert json.loads(outcome.payload or "")["event"] == "event"
    assert [invocations.is_waited_for(one) for one in asked] == [False]
    invocations.sweep(())
    assert not invocations.has(asked[0])
