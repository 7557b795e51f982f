"""What the hub does not have comes from the real one: a stand-in of it, as strict as it is."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sagelet_api.cli.up_options import HubUrl
from sagelet_api.http.server import Server
from sagelet_api.hub import upstream as module
from sagelet_api.hub.readers import Reader
from sagelet_api.hub.service import Hub
from sagelet_api.hub.turns import Turns
from sagelet_api.hub.upstream import NotAsked, Upstream
from sagelet_api.protocol.calls import parse_call
from sagelet_engine.hub.store import HubStore
from support.hub import Answer, add_files, ask, write_files
from support.real_hub import PRIVATE, TOKEN, RealHub

CONFIG = '{"model_type": "gpt2"}'
BIG = bytes(range(256)) * 64
READER = "~a-job.seal"


class Somebody:
    """Readers with and without a network."""

    isolated = False

    def find(self, part: str, _environ: Any) -> Reader:
        return Reader("job one", self.isolated, part)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHub]:
    root = tmp_path_factory.mktemp("real")
    files = {"config.json": CONFIG, "model.safetensors": BIG}
    for name in ("gpt2", PRIVATE):
        add_files(root / "data", write_files(root / "files", files), name)
    with RealHub(root / "data") as running:
        yield running


Make = Callable[..., str]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Serves a hub with one repository of its own, `org/here`. Returns its endpoint."""
    running: list[Server] = []

    def made(url: str | None, readers: Somebody | None = None) -> str:
        add_files(tmp_path / "data", write_files(tmp_path / "files", {"config.json": "here"}), "org/here")
        hub = Hub(
            HubStore(tmp_path / "data"), readers or Somebody(), NotAsked("The reason") if url is None else Upstream(url)
        )
        server = Server(lambda environ, start: hub(parse_call(environ), environ, start), "127.0.0.1", 0)
        server.start()
        running.append(server)
        return f"{server.endpoint}/_sagelet/hub"

    yield made
    for server in running:
        server.stop()


def error_of(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.headers.get("x-error-code", "")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_small_file_by_its_old_name(make: Make, real: RealHub, method: str) -> None:
    """The redirect within the real Hub is followed: clients of 2021 would not."""
    answer = ask(make(real.endpoint), "gpt2/resolve/main/config.json", method)
    assert answer.status == 200
    assert (len(answer.headers["x-repo-commit"]), answer.headers["content-length"]) == (40, str(len(CONFIG)))
    assert answer.headers["etag"]
    assert answer.body == (CONFIG.encode() if method == "GET" else b"")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_large_file_is_a_redirect_to_its_storage_with_all_that_clients_read(
    make: Make, real: RealHub, method: str
) -> None:
    answer = ask(make(real.endpoint), "gpt2/resolve/main/model.safetensors", method)
    assert (answer.status, answer.body) == (302, b"")
    assert answer.headers["location"].endswith("/openai-community/gpt2/resolve/main/model.safetensors?signature=s")
    assert (answer.headers["x-linked-size"], len(answer.headers["x-repo-commit"])) == (str(len(BIG)), 40)
    assert answer.headers["x-linked-etag"]
    assert not [name for name in answer.headers if "xet" in name]


def test_what_is_here_is_not_asked_for(make: Make, real: RealHub) -> None:
    endpoint, before = make(real.endpoint), len(real.seen)
    assert ask(endpoint, "org/here/resolve/main/config.json").body == b"here"
    assert error_of(ask(endpoint, "org/here/resolve/main/none")) == (404, "EntryNotFound")
    assert [one["id"] for one in ask(endpoint, "api/models").json] == ["org/here"]
    assert error_of(ask(endpoint, "api/whoami-v2"))[0] == 404
    assert ask(endpoint, "api/models/org/none", "PUT").status == 405
    assert len(real.seen) == before


def test_a_miss_of_both_is_the_real_ones(make: Make, real: RealHub) -> None:
    answer = ask(make(real.endpoint), "api/models/org/none")
    assert error_of(answer) == (401, "RepoNotFound")
    assert answer.headers["x-error-message"] == "Repository not found"
    assert real.seen[-1][:2] == ("GET", "/api/models/org/none")


def test_a_token_goes_to_that_host_alone_and_a_signature_nowhere(make: Make, real: RealHub) -> None:
    endpoint, path = make(real.endpoint), f"{PRIVATE}/resolve/main/config.json"
    before = len(real.stored)
    assert ask(endpoint, path).status == 401
    assert ask(endpoint, path, headers={"Authorization": f"Bearer {TOKEN}"}).body == CONFIG.encode()
    assert real.seen[-1][2] == f"Bearer {TOKEN}"
    signature = "AWS4-HMAC-SHA256 Credential=AKIA/20261128/us-east-1/s3/aws4_request, Signature=0"
    assert ask(endpoint, path, headers={"Authorization": signature, "Cookie": "c=1"}).status == 401
    assert real.seen[-1][2] == ""
    large = ask(endpoint, f"{PRIVATE}/resolve/main/model.safetensors", headers={"Authorization": f"Bearer {TOKEN}"})
    assert large.status == 302
    assert len(real.stored) == before


def test_a_range_and_a_list_of_paths_go_on(make: Make, real: RealHub) -> None:
    endpoint = make(real.endpoint)
    part = ask(endpoint, "gpt2/resolve/main/config.json", headers={"Range": "bytes=2-6"})
    assert (part.status, part.body) == (206, CONFIG.encode()[2:7])
    body = b'{"paths": ["config.json"]}'
    found = ask(
        endpoint, "api/models/openai-community/gpt2/paths-info/main", "POST", body, {"Content-Type": "application/json"}
    )
    assert [one["path"] for one in found.json] == ["config.json"]


def test_the_next_page_is_asked_for_here(make: Make, real: RealHub) -> None:
    endpoint = make(real.endpoint)
    link = ask(endpoint, f"{READER}/api/models/openai-community/gpt2/tree/main?page").headers["link"]
    assert link == f'<{endpoint}/{READER}/api/models/openai-community/gpt2/tree/main?cursor=2>; rel="next"'


def test_nobody_is_asked_for_a_job_without_a_network(make: Make, real: RealHub) -> None:
    readers, before = Somebody(), len(real.seen)
    readers.isolated = True
    assert error_of(ask(make(real.endpoint, readers), "api/models/gpt2")) == (404, "RepoNotFound")
    answer = ask(make(None), "api/models/gpt2")
    assert error_of(answer) == (404, "RepoNotFound")
    assert answer.headers["x-error-message"].endswith("'https://huggingface.co'}. The reason")
    assert len(real.seen) == before


def test_without_a_network_the_miss_says_what_to_add_and_why(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host is not asked again for a while: a script asks for a dozen files."""
    asked: list[str] = []
    original = Upstream._followed
    monkeypatch.setattr(Upstream, "_followed", lambda self, one: asked.append(one.path) or original(self, one))
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    endpoint = make(f"http://127.0.0.1:{port}")
    for path in ("api/models/gpt2", "gpt2/resolve/main/config.json"):
        answer = ask(endpoint, path)
        assert error_of(answer) == (404, "RepoNotFound")
        message = answer.headers["x-error-message"]
        assert message.startswith("sagelet's hub has no model gpt2: add it with `sagelet hub add DIR --as gpt2`")
        assert message.endswith(f"http://127.0.0.1:{port} cannot be reached: Connection refused")
    assert asked == ["/api/models/gpt2"]


class Moody:
    """A host that answers `good`, is silent for `slow` and after one byte of `drop`, and breaks off for all else."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._silent: list[socket.socket] = []
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> "Moody":
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(120)
        for one in self._silent:
            one.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            asked = connection.recv(65536)
            if b"slow" in asked:
                self._silent.append(connection)
                continue
            if b"drop" in asked:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\na")
                self._silent.append(connection)
                continue
            if b"good" in asked:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
            connection.close()


@pytest.mark.parametrize(("bad", "said"), [("slow", "did not answer within 1 s; try again"), ("cut", "broke off")])
def test_an_answer_that_is_late_or_cut_is_of_one_file(
    make: Make, monkeypatch: pytest.MonkeyPatch, bad: str, said: str
) -> None:
    """Clients remember a miss, so this is a server's fault. The host is asked for the next file."""
    monkeypatch.setattr(module, "READ_S", 1.0)
    with Moody() as host:
        endpoint = make(host.endpoint)
        answer = ask(endpoint, f"api/models/org/{bad}")
        assert error_of(answer) == (504, "")
        assert said in answer.headers["x-error-message"]
        assert ask(endpoint, "api/models/org/good").body == b"{}"


def test_what_has_come_of_a_slow_answer_goes_on_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for more before it writes does not notice that the client has gone, and keeps its turn."""
    monkeypatch.setattr(module, "READ_S", 1.0)
    with Moody() as host:
        upstream = Upstream(host.endpoint)
        for _ in range(module.OF_A_CLIENT + 1):
            answer = upstream.ask(module.Question("GET", "/drop", "", {}, None, "http://here", "client"))
            pieces = iter(answer.body)
            assert next(pieces) == b"a"
            answer.body.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("begun", "more", "proxied"),
    [
        (b"", b"H", False),
        (b"HTTP/1.1 200 OK\r\n", b"A", False),
        (b"HTTP/1.1 200 OK\r\n", b"A: b\r\n", False),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1", False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"a", False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"A: b\r\n", False),
        (b"", b"H", True),
    ],
    ids=["status", "header", "headers", "continue", "size", "extension", "trailer", "proxy"],
)
def test_an_answer_that_trickles_is_late(
    monkeypatch: pytest.MonkeyPatch, begun: bytes, more: bytes, proxied: bool
) -> None:
    """Each byte comes in time for a read of the socket, and the headers never end. The turn is another's again."""
    monkeypatch.setattr(module, "READ_S", 0.2)
    with Trickling(begun, more) as host:
        if proxied:
            monkeypatch.setattr(module, "getproxies", lambda: {"http": host.endpoint})
        upstream = Upstream("http://hub.example" if proxied else host.endpoint)
        for _ in range(module.OF_A_CLIENT + 1):
            with pytest.raises((module.NoAnswer, OSError)):
                _ = [*upstream.ask(question_of("client")).body]
        assert upstream._turns._held.total() == 0


class Trickling:
    """A host that begins its answers, and adds some bytes again and again for as long as it is asked."""

    def __init__(self, begun: bytes, more: bytes) -> None:
        self._begun, self._more = begun, more
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> "Trickling":
        self._threads[0].start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(120)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._trickle, args=(connection,), daemon=True))
            self._threads[-1].start()

    def _trickle(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.recv(65536)
            connection.sendall(self._begun)
            while not self._ended.wait(0.02):
                connection.sendall(self._more)


class Answers:
    """A host that gives one answer to everything."""

    def __init__(self, status: str, headers: list[tuple[str, str]]) -> None:
        self.asked: list[str] = []
        self._status, self._headers = status, headers
        self.server = Server(self._answer, "127.0.0.1", 0)

    def _answer(self, environ: dict[str, Any], start: Any) -> list[bytes]:
        self.asked.append(environ["REQUEST_URI"])
        start(self._status, [*self._headers, ("Content-Length", "0")])
        return []


@pytest.mark.parametrize("target", ["{other}/x", "//{other_host}/x", "{here}@{other_host}/x", "file:///etc/passwd"])
def test_a_redirect_to_another_host_is_never_followed(make: Make, target: str) -> None:
    other = Answers("200 OK", [])
    with other.server:
        here = Answers("307 Temporary Redirect", [])
        with here.server:
            where = {"other": other.server.endpoint, "other_host": other.server.endpoint.removeprefix("http://"),
                     "here": here.server.endpoint}  # fmt: skip
            here._headers = [("Location", target.format(**where))]
            assert ask(make(here.server.endpoint), "api/models/gpt2").status == 307
            assert (len(here.asked), other.asked) == (1, [])


def test_circles_of_redirects_end(make: Make) -> None:
    here = Answers("307 Temporary Redirect", [("Location", "/api/models/gpt2")])
    with here.server:
        assert ask(make(here.server.endpoint), "api/models/gpt2").status == 502
        assert len(here.asked) == module.MOST_REDIRECTS + 1


@pytest.mark.parametrize("path", ["/etc", "http://127.0.0.1:1/x", "@evil/x", "..%2f..%2fadmin"])
def test_a_path_chooses_no_host(make: Make, path: str) -> None:
    here = Answers("200 OK", [])
    with here.server:
        ask(make(f"{here.server.endpoint}/mirror"), f"api/models/{path}")
        assert all(one.startswith("/mirror/api/models/") for one in here.asked)


@pytest.mark.parametrize(
    "path",
    [
        "org/none/tree/main/../../../../../../admin",
        "org/none/tree/main/%2e%2e/%2E./.%2e/../../../../admin",
        "org/none/tree/main/./x",
        "org/none/tree/main/..%2f..%2f..%2f..%2f..%2f..%2fadmin",
        "org/none/tree/main/..%5c..%5cadmin",
    ],
)
def test_a_path_does_not_climb(make: Make, path: str) -> None:
    """Clients of HTTP and servers take `..` away, and would leave the mirror's path and the paths of the hub."""
    here = Answers("200 OK", [])
    with here.server:
        assert error_of(ask(make(f"{here.server.endpoint}/mirror"), f"api/models/{path}")) == (404, "RepoNotFound")
        assert here.asked == []


@pytest.mark.parametrize(
    ("status", "headers", "shown"),
    [
        ("520 Web Server Returned an Unknown Error", [], 520),
        ("299 Odd", [], 299),
        ("307 Temporary Redirect", [("Location", "http://[")], 502),
        ("307 Temporary Redirect", [("Location", "http://[::1")], 502),
        ("200 OK", [("Location", "http://[")], 200),
    ],
)
def test_an_odd_answer_costs_no_turn(
    make: Make, monkeypatch: pytest.MonkeyPatch, status: str, headers: list[tuple[str, str]], shown: int
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 1)
    monkeypatch.setattr(module, "READ_S", 2.0)
    here = Answers(status, headers)
    with here.server:
        endpoint = make(here.server.endpoint)
        assert [ask(endpoint, "api/models/gpt2").status for _ in range(3)] == [shown] * 3


def test_requests_at_once_are_bounded(make: Make, real: RealHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """One job that reads slowly has its share, and the others have theirs."""
    upstream = Upstream(real.endpoint)
    # Its connections have READ_S, too, which only the wait for a turn is to have shorter.
    upstream._manager()
    monkeypatch.setattr(module, "READ_S", 0.01)
    answers = [upstream.ask(question_of("slow")) for _ in range(module.OF_A_CLIENT)]
    with pytest.raises(module.HubError, match="Too many requests"):
        upstream.ask(question_of("slow"))
    assert b"".join(upstream.ask(question_of("other")).body)
    assert b"".join(answers.pop().body)
    answers.append(upstream.ask(question_of("slow")))
    # One after the other, each takes its first turn: only where none is left, nobody gets one.
    for number in range(module.AT_ONCE - len(answers)):
        answers.append(upstream.ask(question_of(f"job-{number}")))
    with pytest.raises(module.HubError, match="Too many requests"):
        upstream.ask(question_of("another"))
    for answer in answers:
        answer.body.close()  # type: ignore[attr-defined]
    assert b"".join(upstream.ask(question_of("another")).body)


def test_clients_that_take_all_they_may_leave_turns_to_others() -> None:
    turns = Turns(module.AT_ONCE, module.OF_A_CLIENT, 0)
    for _ in range(module.OF_A_CLIENT):
        for number in range(module.AT_ONCE // module.OF_A_CLIENT):
            turns.take(f"greedy-{number}", 0)
    assert [turns.take("another", 0) for _ in range(3)] == [True] * 3
    assert [turns.take(f"job-{number}", 0) for number in range(4)] == [True] * 4
    assert turns._held.total() <= module.AT_ONCE


def question_of(client: str) -> module.Question:
    return module.Question("GET", "/api/models/openai-community/gpt2", "", {}, None, "http://here", client)


def test_requests_that_wait_are_bounded_and_get_their_turn() -> None:
    turns = Turns(2, 1, 1)
    assert turns.take("a", 0)
    taken: list[bool] = []
    waits = threading.Thread(target=lambda: taken.append(turns.take("a", 120)))
    waits.start()
    deadline = time.monotonic() + 120
    while not turns._waiting:
        assert time.monotonic() < deadline
    # This one is not put to wait.
    assert not turns.take("a", 120)
    assert turns.take("b", 0)
    turns.give_back("a")
    waits.join(120)
    assert taken == [True]
    for client in "ab":
        turns.give_back(client)
    assert (dict(turns._held), dict(turns._waiting)) == ({}, {})


@pytest.mark.parametrize("url", ["huggingface.co", "ftp://h", "https://", "https://u:p@h", "https://h?x", "http://h:x"])
def test_what_is_no_url_of_a_hub(url: str) -> None:
    with pytest.raises(Exception, match="is not the URL of a Hub"):
        HubUrl().convert(url, None, None)
    assert HubUrl().convert("https://mirror:8443/hf/", None, None) == "https://mirror:8443/hf"
