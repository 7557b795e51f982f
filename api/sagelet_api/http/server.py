"""The HTTP server: cheroot on loopback, and on the address at which containers reach the machine."""

import errno
import logging
import socket
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from cheroot import wsgi

from sagelet_api.http.connection import WAITING, Connection
from sagelet_api.http.connection_manager import MORE, STARVED, BoundedConnectionManager
from sagelet_api.http.request_log import log_answer
from sagelet_api.http.tls import Certificate, TlsAdapter, TlsConnection
from sagelet_api.http.workers import Workers
from sagelet_api.protocol.calls import FROM_CONTAINERS, HEADERS, Environ, WsgiApp
from sagelet_api.protocol.file_body import FileBody
from sagelet_api.protocol.header_rules import check_head
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.machine.ports import listener

_log = logging.getLogger(__name__)

#: Requests that are worked on at once on each address. More of them wait in line.
THREADS = 32
#: If requests wait longer than any machine takes, clients hold the workers. More workers are made for a while.
MOST_THREADS = 256
#: From this share of a core on, requests are taken to wait for the processor.
BUSY = 0.7
#: Connections that the kernel holds before they are accepted.
BACKLOG = 2048
#: Seconds that a client may be silent within a request. Until the request's head is complete, they count from its first
#: byte.
TIMEOUT = 30
MAX_HEADER_BYTES = 256 * 1024


class AddressInUse(SettingsError):
    """Another process listens on the address."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(
            f"{host}:{port} is in use by {listener(port)}. Stop it, or choose another port with --port (SAGELET_PORT)."
        )


class Server:
    """Serves one WSGI app on `host` and on `extra_hosts`, which containers use, on one port. Port 0 is a free one.

    The port is open when `start` returns. Usable as a context manager.
    """

    def __init__(
        self,
        app: WsgiApp,
        host: str,
        port: int,
        extra_hosts: Sequence[str] = (),
        certificate: Certificate | None = None,
    ) -> None:
        self._app = app
        self._extra_hosts = tuple(extra_hosts)
        self._certificate = certificate
        self._servers: list[_HttpServer] = []
        self._threads: list[threading.Thread] = []
        self.host = host
        #: The open port, once the server is started.
        self.port = port

    @property
    def endpoint(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self._certificate is None else 'https'}://{host}:{self.port}"

    def start(self) -> None:
        """Starts the server. Raises AddressInUse, or SettingsError for an address that is not this machine's."""
        try:
            self._listen(self.host, for_containers=False)
            for host in self._extra_hosts:
                self._listen(host, for_containers=True)
        except SettingsError:
            self.stop()
            raise

    def stop(self) -> None:
        """Closes the port, waits for requests in work, at most 2 s and LAST_S, and returns. May be called twice."""
        for server in self._servers:
            server.stop()
        for thread in self._threads:
            thread.join()
        self._servers, self._threads = [], []

    def __enter__(self) -> "Server":
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def _listen(self, host: str, *, for_containers: bool) -> None:
        server = _HttpServer(
            (host, self.port),
            self._app,
            numthreads=THREADS,
            max=MOST_THREADS,
            request_queue_size=BACKLOG,
            timeout=TIMEOUT,
            shutdown_timeout=2,
            server_name="sagelet",
        )
        server.gateway = _Gateway
        server.ConnectionClass = Connection if self._certificate is None else TlsConnection
        if self._certificate is not None:
            server.ssl_adapter = TlsAdapter(self._certificate)
        server.for_containers = for_containers
        server.addresses = 1 + len(self._extra_hosts)
        try:
            server.prepare()
        except OSError as error:
            if f"Errno {errno.EADDRINUSE}]" in str(error):
                raise AddressInUse(host, self.port) from error
            raise SettingsError(f"Cannot listen on {host}:{self.port} (--host, --port): {error}") from error
        self.port = server.bind_addr[1]
        thread = threading.Thread(target=server.serve, name=f"sagelet-http-{host}", daemon=True)
        thread.start()
        self._servers.append(server)
        self._threads.append(thread)


class _Gateway(wsgi.Gateway_10):
    """Keeps headers' names as they were sent (WSGI's variables cannot tell `_` from `-`), and sends files as files.

    Every answer's head goes through `start_response`. Nothing else writes heads, so no answer can be read as two.
    """

    def start_response(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        """Raises IllegalHeader."""
        check_head(status, headers)
        return super().start_response(status, headers, exc_info)

    def respond(self) -> None:
        began = time.monotonic()
        try:
            self._send()
        finally:
            # Otherwise cheroot answers in its own words (`StrictRequest.simple_response`).
            if self.req.sent_headers:
                log_answer(self.env, self.req.status, self.req.outheaders, time.monotonic() - began)

    def _send(self) -> None:
        """Sends the answer. cheroot's own method copies each chunk three times on its way to the socket."""
        response = self.req.server.wsgi_app(self.env, self.start_response)
        try:
            if isinstance(response, FileBody):
                self.req.ensure_headers_sent()
                if not self.req.chunked_write:
                    response.send(self.req.conn.socket)
                    return
            for chunk in filter(None, response):
                with self.req.conn.wfile.together():
                    self.write(chunk)
            self.req.ensure_headers_sent()
        finally:
            if hasattr(response, "close"):
                response.close()

    def get_environ(self) -> Any:
        """Returns WSGI's variables (PEP 3333), and the headers with the names that they were sent with."""
        req = self.req
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in req.inheaders.items()}
        environ: Environ = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()}
        for name in ("CONTENT_TYPE", "CONTENT_LENGTH"):
            if (value := environ.pop(f"HTTP_{name}", None)) is not None:
                environ[name] = value
        environ.update(
            {
                HEADERS: headers,
                FROM_CONTAINERS: req.server.for_containers,
                "REQUEST_METHOD": req.method.decode("latin-1"),
                "REQUEST_URI": req.uri.decode("latin-1"),
                "SCRIPT_NAME": "",
                "PATH_INFO": req.path.decode("latin-1"),
                "QUERY_STRING": req.qs.decode("latin-1"),
                "REMOTE_ADDR": req.conn.remote_addr or "",
                "SERVER_NAME": req.server.server_name,
                "SERVER_PORT": str(req.server.bind_addr[1]),
                "SERVER_PROTOCOL": req.request_protocol.decode("latin-1"),
                "wsgi.version": self.version,
                "wsgi.url_scheme": req.scheme.decode("latin-1"),
                "wsgi.input": req.rfile,
                "wsgi.input_terminated": req.chunked_read,
                "wsgi.errors": sys.stderr,
                "wsgi.multithread": True,
                "wsgi.multiprocess": False,
                "wsgi.run_once": False,
            }
        )
        return environ


class _HttpServer(wsgi.Server):
    """cheroot with the limits and the log of sagelet. Objects are large, so there is no limit on a body here; the
    handlers have limits.
    """

    nodelay = True
    #: Requests on this address come from the hosts of jobs.
    for_containers = False
    #: The number of such servers in the process.
    addresses = 1
    max_request_header_size = MAX_HEADER_BYTES
    #: Seconds between looks for idle connections. `stop` may wait as long.
    expiration_interval = 0.2
    #: cheroot's default of 10 is for workers that wait for connections. Here one thread waits for all of them.
    keep_alive_conn_limit: int | None = None  # type: ignore[assignment]  # cheroot's documentation allows it
    _connections: Any
    #: The time of `relieve`'s last look, and the processor time of the process by then, both in seconds.
    _looked = (0.0, 0.0)

    def prepare(self) -> None:
        self.requests = Workers(self, min=THREADS, max=MOST_THREADS)
        super().prepare()
        self._connections._selector.close()
        self._connections = BoundedConnectionManager(self, self.addresses)

    def process_conn(self, conn: Any) -> None:
        conn.queued = time.monotonic()
        super().process_conn(conn)

    def relieve(self) -> None:
        """Makes more workers while requests wait too long for clients or disks, and fewer afterwards.

        If requests wait for the processor, more workers would get less done. They are still made if most of the present
        workers wait.
        """
        pool = self.requests
        busy = self._is_busy() and len(WAITING) <= len(pool._threads) // 2
        with pool._queue.mutex:
            first = next((conn for conn in pool._queue.queue if hasattr(conn, "queued")), None)
        if first is None:
            if len(pool._threads) > pool.min and pool.idle > len(pool._threads) // 2:
                pool.shrink(MORE)
        elif not busy and time.monotonic() - first.queued > STARVED:
            for _ in range(min(MORE, pool.max - len(pool._threads))):
                pool._threads.append(pool._spawn_worker())

    def _is_busy(self) -> bool:
        """True if the process computed for most of the time since the last look."""
        before, self._looked = self._looked, (time.monotonic(), time.process_time())
        elapsed, computed = (now - then for now, then in zip(self._looked, before, strict=True))
        return computed > BUSY * elapsed

    @classmethod
    def prepare_socket(cls, *arguments: Any, **options: Any) -> socket.socket:
        """Opens the socket with SO_REUSEADDR. cheroot leaves it out for port 0, and then a restart on the same port
        fails for a minute.
        """
        opened: socket.socket = super().prepare_socket(*arguments, **options)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return opened

    def error_log(self, msg: str = "", level: int = 20, traceback: bool = False) -> None:
        _log.log(level, msg, exc_info=traceback)
