"""A real `sagelet up` in a process of its own, for tests that call it as clients do."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.request import urlopen

import boto3
import psutil
from click.testing import CliRunner

from sagelet_api.cli.main import main
from sagelet_engine.base.keys import ca_file, read_key_pair
from support.ports import HeldPort

GROUP = "/aws/sagemaker/TrainingJobs"
ACCOUNT = "123456789012"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/SageMakerRole"
NATIVE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:1.13.1-gpu-py39"
COMPILED = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-trcomp-training:1.13.1-gpu-py39"
ENDED = ("Completed", "Failed", "Stopped")
#: Variables of every server that a test starts.
ENVIRONMENT: dict[str, str] = {"SAGELET_OFFLINE": "1"}
AnyServer = TypeVar("AnyServer", bound="ServerProcess")


def until(condition: Callable[[], Any], seconds: float = 120, every: float = 0.05, slowest: float = 0.2) -> Any:
    """Polls a condition until it is true, with a deadline, and returns its value.

    `slowest`: the interval grows to so many seconds, with a twentieth of the time that has passed, because the calls
    take CPU time from what the test waits for. It may be longer for a condition that stays true.
    """
    begin = time.monotonic()
    while not (value := condition()):
        passed = time.monotonic() - begin
        if passed > seconds:
            raise AssertionError(f"not within {seconds} s: {condition}")
        threading.Event().wait(max(every, min(slowest, passed / 20)))
    return value


def printed(*words: str) -> str:
    """Returns what `sagelet WORDS` prints. It runs in this process: to start Python takes longer than most commands."""
    done = CliRunner().invoke(main, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


class ServerProcess:
    """A server in a process of its own, which prints its endpoint: `with ServerProcess(...)`."""

    def __init__(self, *command: str, ready: str = r"ready: (https?://\S+)") -> None:
        """`ready`: the line that ends the start, with the endpoint as its group."""
        self.command = list(command)
        self._endpoint = re.compile(ready)
        self._process: subprocess.Popen[str] | None = None
        self.output: list[str] = []
        #: More variables of the server's environment, from its next start on.
        self.environment = dict(ENVIRONMENT)

    def __enter__(self: AnyServer) -> AnyServer:
        return self.start()

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def start(self: AnyServer) -> AnyServer:
        self.begin()
        assert self._ready(), f"{self.command[0]} did not start: {self.output}"
        return self

    def begin(self) -> bool:
        """Starts the server. False if it ended before it was ready."""
        self.output = []
        self._process = subprocess.Popen(
            self.command, env={**os.environ, **self.environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True,
        )  # fmt: skip
        reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        reader.start()
        until(lambda: self._ready() or self.ended is not None, every=0.005)
        if not self._ready():
            reader.join()
            return False
        return True

    @property
    def ended(self) -> int | None:
        """Returns the exit status of an ended server, -9 after `kill -9`, or None while it runs."""
        assert self._process is not None
        return self._process.poll()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def process(self) -> psutil.Process:
        return psutil.Process(self.pid)

    @property
    def endpoint(self) -> str:
        match = self._ready()
        assert match is not None
        return match[1]

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> str:
        """Sends SIGTERM and waits. Returns what the server has printed."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(timeout=120)
        return "".join(self.output)

    def client(self, service: str, **options: Any) -> Any:
        defaults = {
            "endpoint_url": self.endpoint,
            "region_name": "us-east-1",
            "aws_access_key_id": ACCOUNT,
            "aws_secret_access_key": "any",
        }
        return boto3.client(service, **{**defaults, **options})

    def _ready(self) -> "re.Match[str] | None":
        return next((match for line in self.output if (match := self._endpoint.search(line))), None)

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.output.append(line)


class SageletProcess(ServerProcess):
    """`sagelet up` with options. `restart` keeps its data directory and port."""

    def __init__(self, data: Path, *options: str) -> None:
        super().__init__()
        self.data = data
        self._options = options
        # Clients and jobs know the address, so a server that is started again has the same one.
        self._port = HeldPort()
        #: The `sagelet` of the Python environment that it runs in.
        self.program = Path(sys.executable).with_name("sagelet")

    def begin(self) -> bool:
        """Starts the server. False if it ended before it was ready."""
        self.command = [
            str(self.program),
            "up",
            "--data",
            str(self.data),
            "--port",
            str(self._port.number),
            *self._options,
        ]
        return super().begin()

    def health(self) -> dict[str, Any]:
        """`GET /_sagelet/health`."""
        try:
            with urlopen(f"{self.endpoint}/_sagelet/health", timeout=60) as answer:
                found: dict[str, Any] = json.load(answer)
        except HTTPError as error:
            body = error.read()
            said = f"{error.reason}: {body.decode(errors='replace')}"
            raise HTTPError(error.url, error.code, said, error.headers, BytesIO(body)) from error
        return found

    def stop(self) -> str:
        """Sends SIGTERM and waits. Returns what the server printed at the end."""
        if self.ended is None:
            super().stop()
            until(lambda: any("stopped" in line for line in self.output))
        return "".join(self.output)

    def interrupt(self, name: str) -> None:
        """`sagelet interrupt NAME`."""
        command = [str(Path(sys.executable).with_name("sagelet")), "interrupt", name, "--endpoint", self.endpoint]
        subprocess.run([*command, "--account", ACCOUNT, "--region", "us-east-1"], check=True, timeout=120)

    def report(self, name: str) -> dict[str, Any]:
        """`sagelet report NAME --json`."""
        return self._asked("report", name)

    def doctor(self, name: str) -> dict[str, Any]:
        """`sagelet doctor NAME --json`."""
        return self._asked("doctor", name)

    def processing_doctor(self, name: str) -> dict[str, Any]:
        """`sagelet processing doctor NAME --json`."""
        return self._asked("processing", "doctor", name)

    def _asked(self, *words: str) -> dict[str, Any]:
        options = ("--endpoint", self.endpoint, "--account", ACCOUNT, "--region", "us-east-1")
        answer: dict[str, Any] = json.loads(printed(*words, "--json", *options))
        return answer

    def client(self, service: str, **options: Any) -> Any:
        keys = read_key_pair(self.data)
        assert keys is not None
        verify = str(ca_file(self.data)) if self.endpoint.startswith("https") else None
        return super().client(service, **{"verify": verify, "aws_secret_access_key": keys.secret, **options})


@contextmanager
def servers_by_runtime(directory: Callable[[str], Path], *options: str) -> Iterator[Callable[[str], SageletProcess]]:
    """Yields a function that returns a runtime's server. It starts each on first use, with its own data directory."""
    started: dict[str, SageletProcess] = {}

    def server_of(runtime: str) -> SageletProcess:
        if runtime not in started:
            data = directory(f"data-{runtime}")
            started[runtime] = SageletProcess(data, "--runtime", runtime, *options).start()
        return started[runtime]

    yield server_of
    for process in started.values():
        process.stop()
