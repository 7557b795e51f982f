"""A debugger attaches to a training process: it waits, stops at a breakpoint, is looked into, and goes on."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.debugger import Debugger
from support.jobs import Jobs
from support.server import GROUP, SageletProcess, until

pytestmark = pytest.mark.xla

SCRIPT = """
import subprocess
import sys
subprocess.run([sys.executable, "-c", "pass"], check=True)
secret = 40
print("before")
secret += 2
print(f"after {secret}")
"""
PORT = re.compile(r"attach a debugger to 127\.0\.0\.1:(\d+)")


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    server = SageletProcess(tmp_path_factory.mktemp("debugger"), "--runtime", "process").start()
    yield Jobs(server)
    server.stop()


def log(jobs: Jobs, name: str) -> list[str]:
    if not jobs.streams(name):
        return []
    where = {"logGroupName": GROUP, "logStreamNamePrefix": f"{name}/"}
    pages = jobs.logs.get_paginator("filter_log_events").paginate(**where)
    return [event["message"] for page in pages for event in page["events"]]


def port_in(lines: list[str]) -> int | None:
    return next((int(found[1]) for line in lines if (found := PORT.search(line))), None)


def test_a_debugger_stops_the_script_and_sees_its_variables(jobs: Jobs) -> None:
    name = jobs.submit(SCRIPT, Environment={"SAGELET_DEBUGPY": "0", "SAGELET_DEBUGPY_WAIT": "true"})
    port = until(lambda: port_in(log(jobs, name)), 300)
    debugger = Debugger(port)
    debugger.ask("initialize", adapterID="test", pathFormat="path")
    # Answered only after configurationDone.
    debugger.send("attach", justMyCode=True)
    debugger.event("initialized")
    # Which copy of the script runs is the toolkit's affair: it is found by the end of its path.
    script = next(Path(jobs.server.data, "jobs").rglob("opt-ml/code/train.py"))
    places = {"/opt/ml/code/train.py", str(script)}
    for place in places:
        debugger.ask("setBreakpoints", source={"path": place}, breakpoints=[{"line": 7}])
    debugger.ask("configurationDone")
    stopped = debugger.event("stopped")
    assert stopped["reason"] == "breakpoint"
    frame = debugger.ask("stackTrace", threadId=stopped["threadId"])["stackFrames"][0]
    assert (Path(frame["source"]["path"]).name, frame["line"]) == ("train.py", 7)
    assert debugger.ask("evaluate", expression="secret", frameId=frame["id"])["result"] == "40"
    debugger.ask("evaluate", expression="secret = 50", frameId=frame["id"], context="repl")
    assert jobs.describe(name)["SecondaryStatus"] == "Training"
    debugger.ask("continue", threadId=stopped["threadId"])
    assert jobs.ended(name)["TrainingJobStatus"] == "Completed"
    debugger.close()
    lines = log(jobs, name)
    assert "after 52" in lines
    # Not the toolkit, nor what the script started.
    assert sum("debugpy listens" in line for line in lines) == 1


def test_what_is_no_port_is_said_and_the_script_runs(jobs: Jobs) -> None:
    name = jobs.submit("print('trained')", Environment={"SAGELET_DEBUGPY": "yes"})
    assert jobs.ended(name)["TrainingJobStatus"] == "Completed"
    lines = log(jobs, name)
    assert "sagelet: SAGELET_DEBUGPY=yes is not a port: give a number from 0 (any that is free) to 65535" in lines
    assert "trained" in lines
