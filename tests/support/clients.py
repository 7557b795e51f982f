"""Programs in the virtual environments of the SageMaker SDKs and the AWS CLI."""

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Protocol

from support.server import ACCOUNT

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / ".venv-sdk"
ENVIRONMENT_V3 = ROOT / ".venv-sdk3"
ENVIRONMENT_S3 = ROOT / ".venv-s3"
ENVIRONMENT_HUB = ROOT / ".venv-hub"
#: The SDKs tell AWS about each call by HTTPS, which reaches nobody here. A config file that opts out would do it, too,
#: but SDK v2 validates its config file at each look-up: an estimator takes two seconds of CPU more.
NO_TELEMETRY = {"HTTPS_PROXY": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}


class Endpoint(Protocol):
    """A server, in a process of its own or in the test's."""

    @property
    def endpoint(self) -> str: ...


class WithData(Endpoint, Protocol):
    """A server whose data directory is known."""

    @property
    def data(self) -> Path: ...


class Clients:
    """Runs client programs against a server, in a directory of their own."""

    def __init__(self, server: Endpoint, directory: Path, environment: Path = ENVIRONMENT) -> None:
        """`environment`: the virtual environment of the programs."""
        self.directory = directory
        self._bin = environment / "bin"
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "SAGE"))},
            "AWS_ENDPOINT_URL": server.endpoint,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": ACCOUNT,
            "AWS_SECRET_ACCESS_KEY": "any",
            "AWS_PAGER": "",
            **NO_TELEMETRY,
        }

    def python(self, script: Path, *arguments: str) -> dict[str, Any]:
        """Runs a script that prints a line `ANSWER {json}`."""
        return answer_of(self._run([str(self._bin / "python"), str(script), *arguments]))

    def aws(self, *arguments: str) -> Any:
        """Runs the AWS CLI and returns its JSON."""
        output = self._run([str(self._bin / "aws"), *arguments])
        return json.loads(output) if output.strip() else None

    def run(self, program: str, *arguments: str) -> str:
        """Runs a program of the environment and returns what it prints."""
        return self._run([str(self._bin / program), *arguments])

    def listing(self, archive: str) -> list[str]:
        """Names in a tar file of the directory."""
        with tarfile.open(self.directory / archive) as opened:
            return opened.getnames()

    def member(self, archive: str, name: str) -> io.BytesIO:
        """The bytes of one file in a tar file of the directory."""
        with tarfile.open(self.directory / archive) as opened:
            file = opened.extractfile(name)
            assert file is not None
            return io.BytesIO(file.read())

    def _run(self, command: list[str]) -> str:
        return run_client(command, self.directory, self._environment)


class RunClients:
    """Runs client programs as people do: `sagelet run -- COMMAND`, without any variables of AWS or the SDK."""

    def __init__(self, server: WithData, directory: Path, environment: Path, others: Mapping[str, str],
                 *options: str) -> None:  # fmt: skip
        """`environment`: a virtual environment. `others`: variables to add. `options`: those of `sagelet run`."""
        self.directory = directory
        self._bin = environment / "bin"
        self._run = [
            str(Path(sys.executable).with_name("sagelet")),
            "run",
            "--endpoint",
            server.endpoint,
            *options,
            "--",
        ]
        cleared = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "SAGE"))}
        self._environment = {**cleared, "AWS_CONFIG_FILE": os.devnull, "SAGELET_DATA": str(server.data), **others}

    def also(self, **others: str) -> None:
        """Adds variables to the user's environment."""
        self._environment.update(others)

    def run(self, program: str, *arguments: str, seconds: float = 600) -> str:
        """Runs a program of the virtual environment and returns what it printed to stdout."""
        return run_client(
            [*self._run, str(self._bin / program), *arguments], self.directory, self._environment, seconds
        )

    def start(self, command: list[str], output: IO[bytes]) -> "subprocess.Popen[bytes]":
        """Starts any program. Its output goes to `output`."""
        return subprocess.Popen(
            [*self._run, *command], cwd=self.directory, env=self._environment, stdout=output, stderr=subprocess.STDOUT
        )


def answer_of(output: str) -> dict[str, Any]:
    """Returns the JSON of the line `ANSWER {json}`."""
    line = next(line for line in output.splitlines() if line.startswith("ANSWER "))
    answer: dict[str, Any] = json.loads(line.removeprefix("ANSWER "))
    return answer


def run_client(command: list[str], directory: Path, environment: Mapping[str, str], seconds: float = 600) -> str:
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout
