"""A client of the Debug Adapter Protocol (microsoft.github.io/debug-adapter-protocol), as far as tests need it."""

import json
import socket
from typing import Any


class Debugger:
    """One connection to debugpy."""

    def __init__(self, port: int, timeout: float = 120) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout)
        self._stream = self._socket.makefile("rb")
        self._sent = 0
        self._read: list[dict[str, Any]] = []

    def send(self, command: str, **arguments: Any) -> int:
        """Sends a request. Returns its number."""
        self._sent += 1
        message = {"seq": self._sent, "type": "request", "command": command, "arguments": arguments}
        body = json.dumps(message).encode()
        self._socket.sendall(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        return self._sent

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Sends a request. Returns the body of the answer."""
        number = self.send(command, **arguments)
        answer = self._until(lambda one: one["type"] == "response" and one["request_seq"] == number)
        assert answer["success"], answer
        body: dict[str, Any] = answer.get("body", {})
        return body

    def event(self, name: str) -> dict[str, Any]:
        """Waits for the next event of this name. Returns its body."""
        body: dict[str, Any] = self._until(lambda one: one["type"] == "event" and one["event"] == name).get("body", {})
        return body

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def _until(self, fits: Any) -> dict[str, Any]:
        for message in self._read:
            if fits(message):
                self._read.remove(message)
                return message
        while not fits(message := self._next()):
            self._read.append(message)
        return message

    def _next(self) -> dict[str, Any]:
        length = 0
        while line := self._stream.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        assert length, "debugpy closed the connection"
        message: dict[str, Any] = json.loads(self._stream.read(length))
        return message
