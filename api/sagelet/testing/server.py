"""A server for a test, with its own port, data directory and processes."""

import json
import os
import secrets
import selectors
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from sagelet.testing.settings import check_names
from sagelet_engine.base.errors import SageletError, SettingsError

if TYPE_CHECKING:
    import boto3

    from sagelet.sessions import QuickWaiters
    from sagelet.testing.faults import Faults

#: Seconds after which a server that prints nothing counts as failed. It takes a third of a second.
START_TIMEOUT_S = 120.0
#: Seconds that a server has to end its jobs' processes.
STOP_TIMEOUT_S = 60.0
ACCOUNT, REGION = "123456789012", "us-east-1"


class ServerFailed(SageletError):
    """The server of a test did not start."""


class Server:
    """A sagelet server in a process of its own, until the test ends it.

    It trains with the process runtime unless `options` say otherwise. `options` are the fields of
    `sagelet_engine.settings.Settings` (max_jobs, gpus, stop_grace_seconds, ...). `directory` gets the server's data and
    its log. Without it there is a temporary directory, which is removed with the server. Usable as a context manager.
    When the server ends, also because the tests were killed, its jobs' processes end. Raises SettingsError for a name
    that is not a setting.
    """

    def __init__(self, directory: Path | str | None = None, **options: Any) -> None:
        check_names(options)
        if "data" in options:
            raise SettingsError("data cannot be set for a server of a test: name its directory")
        self._options = {"port": 0, "runtime": "process", **options}
        self._given = None if directory is None else Path(directory).absolute()
        self._process: subprocess.Popen[str] | None = None
        self._endpoint = ""

    def start(self) -> "Server":
        """Starts the server, and returns when it answers. Raises ServerFailed, which shows the server's output."""
        self.directory = self._given or Path(tempfile.mkdtemp(prefix="sagelet-test-"))
        self.directory.mkdir(parents=True, exist_ok=True)
        settings = {**self._options, "data": self.data}
        command = [sys.executable, "-m", "sagelet.testing.serving"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                env=_environment(), start_new_session=True,
            )  # fmt: skip
        # Loads what sessions need while the server loads its own part.
        import sagelet.connection  # noqa: F401

        try:
            self._endpoint = self._first_word(self._process, json.dumps(settings, default=str))
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Ends the server and the processes of its jobs. May be called twice."""
        process, self._process = self._process, None
        if process is None:
            return
        _pipe(process.stdin).close()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _pipe(process.stdout).close()
        if self._given is None:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> "Server":
        return self.start()

    def __exit__(self, *_error: object) -> None:
        self.stop()

    @property
    def endpoint(self) -> str:
        """`http://127.0.0.1:PORT`."""
        return self._endpoint

    @property
    def data(self) -> Path:
        """The data directory: objects of S3 are files in `s3/BUCKET/KEY`."""
        return self.directory / "data"

    @property
    def log(self) -> Path:
        """The server's own output: warnings and tracebacks."""
        return self.directory / "server.log"

    def session(self, *, account: str = ACCOUNT, region: str = REGION) -> "boto3.Session":
        """Does what `sagelet.connect` does, with waiters that look ten times a second."""
        from sagelet.connection import connect_to

        return connect_to(self.endpoint, account=account, region=region, data=self.data, loader=self._loader)

    def account(self) -> "Account":
        """Returns an account of the server that nobody has used. At its end, what is left in it is removed.

        Its number is random, so it differs from those that earlier servers of the same directory gave out.
        """
        return Account(self, f"9{secrets.randbelow(10**11):011}")

    def faults(self, *, account: str = ACCOUNT, region: str = REGION) -> "Faults":
        """Returns the faults of existing jobs, and of calls."""
        from sagelet.testing.faults import Faults

        return Faults(self.endpoint, self.data, account=account, region=region)

    @cached_property
    def _loader(self) -> "QuickWaiters":
        """Returns what reads botocore's models, once for all sessions: that takes a fifth of a second."""
        from sagelet.sessions import QuickWaiters

        return QuickWaiters()

    def _first_word(self, process: "subprocess.Popen[str]", settings: str) -> str:
        """Returns the endpoint from the server's first line."""
        _pipe(process.stdin).write(f"{settings}\n")
        _pipe(process.stdin).flush()
        with selectors.DefaultSelector() as selector:
            selector.register(_pipe(process.stdout), selectors.EVENT_READ)
            ready = selector.select(START_TIMEOUT_S)
        line = _pipe(process.stdout).readline() if ready else ""
        if not line:
            raise ServerFailed(f"The sagelet server of this test did not start. {self._last_words()}")
        answer: dict[str, str] = json.loads(line)
        if "error" in answer:
            raise ServerFailed(f"The sagelet server of this test did not start: {answer['error']}")
        return answer["endpoint"]

    def _last_words(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]


class Account:
    """An account that nothing has used before. Usable as a context manager; its end is `close`."""

    def __init__(self, server: Server, number: str) -> None:
        self._server = server
        #: 12 digits.
        self.id = number

    def session(self, *, region: str = REGION) -> "boto3.Session":
        """Returns a boto3 session whose clients and resources all go to this account."""
        return self._server.session(account=self.id, region=region)

    def faults(self, *, region: str = REGION) -> "Faults":
        """Returns the faults of the account's jobs, and of its calls."""
        return self._server.faults(account=self.id, region=region)

    def close(self) -> None:
        """Asks what still runs in the account to stop, ends its warm pools, and removes its buckets with their objects.

        Names of buckets are unique among all accounts, as on AWS, so the next test may use them again. Ended jobs stay:
        no other account sees them. May be repeated.
        """
        from sagelet.testing.control import ask

        server = self._server
        proof = server.data / f".proof-{uuid.uuid4().hex}"
        proof.touch(mode=0o600)
        try:
            ask(server.endpoint, server.data, "POST", "empty-account", {"account": self.id, "proof": proof.name})
        finally:
            proof.unlink(missing_ok=True)

    def __enter__(self) -> "Account":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def _environment() -> Mapping[str, str]:
    """Returns the server's environment. Settings are passed, never inherited from a developer with a server of their
    own.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith("SAGELET_")}


def _pipe(stream: "IO[str] | None") -> "IO[str]":
    assert stream is not None, "the process was started with pipes"
    return stream
