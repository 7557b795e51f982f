"""How commands call AWS's API on a server: as any client does, but without the user's own configuration."""

import os
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sagelet_api.cli.control_client import ServerRefused, unreachable
from sagelet_api.protocol.aws_errors import MISSING_HEADER
from sagelet_api.protocol.members import Output
from sagelet_api.redirect.environment import SECRET
from sagelet_api.servers.server import Server
from sagelet_engine.base.keys import FILE as KEY_FILE

if TYPE_CHECKING:
    from botocore.client import BaseClient

T = TypeVar("T")
#: Tries of a throttled call (`sagelet throttle`), and seconds between them.
_TRIES, _PAUSE = 5, 0.5
#: AWS's code for a value that breaks a rule of the service's model.
INVALID = "ValidationException"
#: AWS's codes for a signature by a key that the service does not have, in S3 and in the others.
_FOREIGN_KEYS = {
    "SignatureDoesNotMatch", "InvalidAccessKeyId", "InvalidSignatureException", "UnrecognizedClientException",
    "InvalidClientTokenId",
}  # fmt: skip


class Aws:
    """Calls by service and operation: `aws.call("sagemaker", "describe_training_job", TrainingJobName=...)`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._clients: dict[str, BaseClient] = {}

    def call(self, service: str, operation: str, **parameters: Any) -> Output:
        """Returns the answer without its metadata. Raises ServerRefused with AWS's code, NoServer."""
        answer: Output = self._tried(lambda: getattr(self._client(service), operation)(**parameters))
        answer.pop("ResponseMetadata", None)
        return answer

    def upload(self, bucket: str, key: str, file: Path, seen: Callable[[int], None]) -> None:
        """Puts a file into S3, a large one in parts. `seen` is called, by any thread, with the count of bytes that went
        out since its last call. Raises OSError for the file, ServerRefused, NoServer.
        """
        from s3transfer.manager import TransferManager
        from s3transfer.subscribers import BaseSubscriber

        class Seen(BaseSubscriber):  # type: ignore[misc]
            def on_progress(self, bytes_transferred: int, **_: Any) -> None:
                seen(bytes_transferred)

        def put() -> None:
            with TransferManager(self._client("s3")) as manager:
                manager.upload(str(file), bucket, key, subscribers=[Seen()]).result()

        self._tried(put)

    def _tried(self, action: Callable[[], T]) -> T:
        """Does it again if the server throttles it. Raises ServerRefused, NoServer."""
        from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError, SSLError

        for left in reversed(range(_TRIES)):
            try:
                return action()
            except ClientError as error:
                code, message = error.response["Error"]["Code"], error.response["Error"]["Message"]
                if code != "ThrottlingException" or not left:
                    missing = MISSING_HEADER in error.response["ResponseMetadata"].get("HTTPHeaders", ())
                    raise ServerRefused(f"{code}: {message}{_remedy(code)}", code, missing=missing) from error
                time.sleep(_PAUSE)
            except ParamValidationError as error:
                # botocore asks no server about an empty name.
                raise ServerRefused(" ".join(str(error).split()), INVALID) from error
            except BotoCoreError as error:
                raise unreachable(self._server, error, untrusted=isinstance(error, SSLError)) from error
        raise AssertionError("the last try returns or raises")

    def pages(self, service: str, operation: str, **parameters: Any) -> Iterator[Output]:
        """Yields the answers of an operation whose token is called NextToken, or nextToken."""
        while True:
            answer = self.call(service, operation, **parameters)
            yield answer
            token = next((name for name in ("NextToken", "nextToken") if answer.get(name)), None)
            if token is None:
                return
            parameters[token] = answer[token]

    def _client(self, service: str) -> "BaseClient":
        if service not in self._clients:
            self._clients[service] = self._make(service)
        return self._clients[service]

    def _make(self, service: str) -> Any:
        from botocore.config import Config

        keys, authority = self._server.keys, self._server.authority
        return _session().create_client(
            service,
            region_name=self._server.region,
            endpoint_url=self._server.endpoint,
            # sagelet takes the account from the access key.
            aws_access_key_id=self._server.account,
            aws_secret_access_key=SECRET if keys is None else keys.secret,
            verify=None if authority is None else str(authority),
            config=Config(
                # The server is on this machine, whatever proxy the environment names for the internet.
                proxies={},
                connect_timeout=5,
                retries={"total_max_attempts": 1},
                # As on HTTPS: checksums guard a body. The library that would sign it prints a page at Ctrl-C.
                s3={"payload_signing_enabled": False},
            ),
        )


def _remedy(code: str) -> str:
    """Returns what to do if the server does not know the key pair, after AWS's message; else nothing."""
    if code not in _FOREIGN_KEYS:
        return ""
    return (
        f" The server takes the key pair of its own data directory: name that directory with --data. For a server "
        f"elsewhere, a directory with a copy of its file `{KEY_FILE}` is enough."
    )


@cache
def _session() -> Any:
    """Returns the session, which holds the service models. Those take longest to load."""
    from botocore.session import Session

    # A missing profile or a garbled file must not stop a command.
    session = Session(session_vars={"profile": (None, None, None, None)})
    for name in ("config_file", "credentials_file"):
        session.set_config_variable(name, os.devnull)
    return session
