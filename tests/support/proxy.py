"""A proxy that lets nothing through and remembers its requests."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class RecordingProxy:
    """Used as `with RecordingProxy() as proxy`. Programs with `proxy.environment` send it all outside traffic."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        seen = self.seen

        class Handler(BaseHTTPRequestHandler):
            def handle_one_request(self) -> None:
                line = self.rfile.readline(65537)
                if line:
                    seen.append(line.decode("latin-1").strip())
                    self.wfile.write(b"HTTP/1.1 502 Nothing leaves this machine\r\nContent-Length: 0\r\n\r\n")
                self.close_connection = True

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> "RecordingProxy":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def environment(self) -> dict[str, str]:
        url = f"http://127.0.0.1:{self._server.server_port}"
        names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
        return {spelled: url for name in names for spelled in (name, name.lower())}
