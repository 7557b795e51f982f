"""A server on this machine to which nothing should connect."""

import socket
import threading


class Canary:
    """Listens on this machine and notes every connection."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.place = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.visits = 0
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        while True:
            try:
                visitor, _ = self._listener.accept()
            except OSError:
                return
            self.visits += 1
            visitor.close()

    def close(self) -> None:
        self._listener.close()
