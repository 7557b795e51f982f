"""A job writes characters that turn text around: on the page and on a terminal they stand by their names."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

from sagelet_api.bidirectional import CONTROLS, visible
from support.jobs import Jobs
from support.server import SageletProcess

#: Reads "harmless" backwards, and all others of their kind.
EVIL = "\u202essemlrah\u202c" + CONTROLS
JOB = "/_sagelet/ui/jobs/turned"


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    """With one that failed, and said all it could."""
    process = SageletProcess(tmp_path_factory.mktemp("directions") / "data", "--runtime", "process").start()
    jobs = Jobs(process)
    script = f"""
        print({EVIL!r}, "loss=1")
        raise ValueError({EVIL!r})
    """
    metrics = [{"Name": f"loss {EVIL}", "Regex": "loss=([0-9.]+)"}]
    hyperparameters = {"note": EVIL, EVIL: "1"}
    jobs.submit(script, name="turned", metrics=metrics, hyperparameters=hyperparameters)
    assert EVIL[:9] in jobs.ended("turned")["FailureReason"]
    jobs.s3.put_object(Bucket="tests", Key=f"in/{EVIL}.html", Body=b"")
    yield jobs
    process.stop()


def shown(jobs: Jobs, path: str, accept: str = "text/html") -> str:
    with urlopen(Request(f"{jobs.server.endpoint}{path}", headers={"Accept": accept}), timeout=120) as answer:
        text = answer.read().decode()
        if answer.headers.get_content_type() == "application/json":
            return json.dumps(json.loads(text), ensure_ascii=False)
        return unescape(text)


@pytest.mark.parametrize(
    "path",
    [
        JOB,
        f"{JOB}?part=head",
        f"{JOB}?part=facts",
        f"{JOB}/log",
        f"{JOB}/log/lines?stream=STREAM",
        f"{JOB}/log/find?stream=STREAM&q=loss",
        f"{JOB}/curves",
        "/_sagelet/ui/objects?uri=s3://tests/in/",
        f"/?q={quote(EVIL)}",
    ],
)
def test_a_page_shows_them_by_name(jobs: Jobs, path: str) -> None:
    (stream,) = jobs.streams("turned")
    text = shown(jobs, path.replace("STREAM", quote(stream["logStreamName"])))
    assert not set(text) & set(CONTROLS)
    assert visible(EVIL) in text


@pytest.mark.parametrize("path", [f"{JOB}/request", f"{JOB}/clone"])
def test_what_is_to_be_copied_means_the_same(jobs: Jobs, path: str) -> None:
    text = shown(jobs, path)
    assert not set(text) & set(CONTROLS)
    begin = text.index('{\n  "TrainingJobName"') if '{\n  "TrainingJobName"' in text else text.index("{\n")
    found, _ = json.JSONDecoder().raw_decode(text[begin:])
    assert found["HyperParameters"]["note"] == EVIL


def test_the_other_pages_have_none(jobs: Jobs) -> None:
    for path in ("/", f"{JOB}/report", f"/_sagelet/ui/compare?job=turned&job={quote(EVIL)}"):
        try:
            text = shown(jobs, path)
        except OSError as error:
            text = error.read().decode()  # type: ignore[attr-defined]
        assert not set(text) & set(CONTROLS)


@pytest.mark.parametrize("command", [["logs"], ["describe"]])
def test_a_terminal_shows_them_by_name(jobs: Jobs, command: list[str]) -> None:
    text = on_a_terminal(*command, "turned", "--endpoint", jobs.server.endpoint)
    assert not set(text) & set(CONTROLS)
    assert "[U+202E]ssemlrah" in text.replace("\r\n", "")


def test_a_pipe_gets_the_log_as_it_is(jobs: Jobs) -> None:
    command = [str(Path(sys.executable).with_name("sagelet")), "logs", "turned", "--endpoint", jobs.server.endpoint]
    assert EVIL in subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=120).stdout.decode()


def on_a_terminal(*arguments: str) -> str:
    """What `sagelet ARGUMENTS` writes to a terminal."""
    ours, theirs = pty.openpty()
    command = [str(Path(sys.executable).with_name("sagelet")), *arguments]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "COLUMNS": "500"}):
        os.close(theirs)
        written = b""
        try:
            while data := os.read(ours, 65536):
                written += data
        except OSError:
            pass  # The other side is closed.
    os.close(ours)
    return written.decode()
