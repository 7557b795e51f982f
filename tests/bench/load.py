"""Clients that cost less than the servers they ask: bytes that were made before, sent by one loop.

Each client has one connection and one request at a time, and keeps the connection as long as the server does.
"""

import asyncio
import json
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from bench.many_jobs import REGION
from support.server import ACCOUNT

#: Seconds until all must be answered.
PATIENCE = 600
#: Bytes of a wrong answer that are kept.
EXCERPT = 300


@dataclass
class Outcome:
    #: Of every answered request.
    seconds: list[float] = field(default_factory=list)
    #: From the first request to the last answer.
    elapsed: float = 0.0
    #: Connections that were refused, reset or cut off.
    connection_errors: int = 0
    #: Answers that are not what was asked for, and what the first said.
    wrong: int = 0
    excerpt: str = ""

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.seconds) / self.elapsed

    def check(self, head: bytes, body: bytes, holds: bytes) -> None:
        if head[9:12] != b"200" or holds not in body:
            self.wrong += 1
            self.excerpt = self.excerpt or body[:EXCERPT].decode(errors="replace")


def signed(endpoint: str, operation: str, body: dict[str, Any]) -> bytes:
    """A call of SageMaker's API, as it goes over the wire."""
    data = json.dumps(body).encode()
    headers = {"X-Amz-Target": f"SageMaker.{operation}", "Content-Type": "application/x-amz-json-1.1"}
    request = AWSRequest("POST", endpoint, data=data, headers=headers)
    SigV4Auth(Credentials(ACCOUNT, "any"), "sagemaker", REGION).add_auth(request)
    fields = {"Host": urlsplit(endpoint).netloc, **dict(request.headers.items()), "Content-Length": str(len(data))}
    lines = (f"{name}: {value}" for name, value in fields.items())
    return "\r\n".join(["POST / HTTP/1.1", *lines, "", ""]).encode() + data


def send(endpoint: str, requests: Sequence[bytes], clients: int, holds: bytes) -> Outcome:
    """Sends every request once, `clients` at a time. A right answer has status 200 and `holds` in it."""
    outcome, waiting = Outcome(), deque(requests)

    async def all_clients() -> None:
        every = [_client(endpoint, waiting, outcome, holds) for _ in range(min(clients, len(requests)))]
        await asyncio.wait_for(asyncio.gather(*every), PATIENCE)

    began = time.perf_counter()
    asyncio.run(all_clients())
    outcome.elapsed = time.perf_counter() - began
    return outcome


async def _client(endpoint: str, waiting: deque[bytes], outcome: Outcome, holds: bytes) -> None:
    """Asks until nothing is left to ask. Where a server ends each connection, connecting is a part of every call."""
    address = urlsplit(endpoint)
    writer: asyncio.StreamWriter | None = None
    while waiting:
        wanted, began = waiting.popleft(), time.perf_counter()
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection(address.hostname, address.port)
            writer.write(wanted)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            _, _, length = head.partition(b"\r\ncontent-length:")
            body = await reader.readexactly(int(length.split(b"\r\n", 1)[0]))
        except (OSError, asyncio.IncompleteReadError):
            outcome.connection_errors += 1
            ended = True
        else:
            outcome.seconds.append(time.perf_counter() - began)
            outcome.check(head, body, holds)
            ended = b"\r\nconnection: close" in head or head.startswith(b"http/1.0")
        if writer is not None and (ended or not waiting):
            writer.close()
            writer = None
