"""Imports what scripts import, then forks for each script that a `caller.py` names, and tells it how the script ended.

Standard library only before the fork, but for the modules of `PRELOADED`.
"""

import array
import contextlib
import fcntl
import gc
import importlib
import json
import os
import runpy
import select
import signal
import site
import socket
import sys
import threading
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any, NoReturn

from support.forked_python.caller import split
from support.forked_python.modules import Restorer

#: Neither torch_xla nor transformers: sagelet's hooks change them while they are imported.
PRELOADED = {
    "native": ("numpy.random", "torch", "yaml", "requests", "jinja2", "PIL.Image", "regex", "tokenizers"),
    #: What torch_xla imports of torch beside that. It is not for native scripts: Dynamo's import changes torch.
    "compiled": ("sympy", "torch._dynamo.aot_compile"),
}
_MOST_FDS = 64


class Forks:
    """The scripts that run, by their callers' connections."""

    def __init__(self, place: str, owner: int) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(place)
        self._listener.listen(128)
        #: Readable when the tests have ended.
        self._owner = os.pidfd_open(owner)
        self._running: dict[int, tuple[int, socket.socket]] = {}
        self._poll = select.poll()
        for fd in (self._listener.fileno(), self._owner):
            self._poll.register(fd, select.POLLIN)

    def next(self) -> tuple[dict[str, Any], list[int]]:
        """Serves until it has forked. Returns the request and its files, in the fork only."""
        while True:
            for fd, _ in self._poll.poll():
                if fd == self._owner:
                    self._end()
                elif fd == self._listener.fileno():
                    connection, _ = self._listener.accept()
                    if (request := self._fork(connection)) is not None:
                        return request
                else:
                    self._look_at(fd)

    def _fork(self, connection: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
        request, fds = _request(connection)
        if request is None:
            connection.close()
            return None
        pid = os.fork()
        if pid == 0:
            self._close()
            connection.close()
            return request, fds
        for fd in fds:
            os.close(fd)
        ended = os.pidfd_open(pid)
        for fd in (ended, connection.fileno()):
            self._running[fd] = (pid, connection)
            self._poll.register(fd, select.POLLIN)
        _send(connection, pid)
        return None

    def _look_at(self, fd: int) -> None:
        """A script has ended, or its caller has."""
        if fd not in self._running:
            return
        pid, connection = self._running[fd]
        if fd == connection.fileno():
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        for other in [other for other, (of, _) in self._running.items() if of == pid]:
            self._poll.unregister(other)
            del self._running[other]
            if other != connection.fileno():
                os.close(other)
        _send(connection, status)
        connection.close()

    def _end(self) -> NoReturn:
        for pid, _ in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os._exit(0)

    def _close(self) -> None:
        self._listener.close()
        os.close(self._owner)
        for fd, (_, connection) in self._running.items():
            if fd != connection.fileno():
                os.close(fd)
        for _, connection in self._running.values():
            connection.close()


def _request(connection: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    fds = array.array("i")
    head, rights, _, _ = connection.recvmsg(8, socket.CMSG_LEN(_MOST_FDS * fds.itemsize))
    for level, kind, data in rights:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    body = b""
    wanted = int.from_bytes(head, "big")
    while len(body) < wanted:
        more = connection.recv(min(wanted - len(body), 1 << 16))
        if not more:
            break
        body += more
    return (json.loads(body) if head and len(body) == wanted else None), list(fds)


def _send(connection: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # The caller has ended.
        connection.sendall(number.to_bytes(8, "big"))


def become(request: dict[str, Any], fds: list[int], restorer: Restorer, paths: list[str]) -> list[str]:
    """Makes this fork the process that the caller would have been. Returns the script's words."""
    if request["session"]:
        os.setsid()
    elif request["group"]:
        os.setpgid(0, 0)
    _take(fds, request["fds"])
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    words: list[str] = request["words"]
    _, rest = split(words)
    first = os.getcwd() if rest[0] == "-m" else os.path.dirname(os.path.realpath(rest[0]))
    variable = os.environ.get("PYTHONPATH")
    named = [os.path.abspath(path) for path in variable.split(os.pathsep)] if variable else []
    sys.path[:] = [first, *dict.fromkeys([*named, *paths])]
    sys.path_importer_cache.clear()
    importlib.invalidate_caches()
    if restorer.shadowed():
        os.execv(sys.executable, [sys.executable, *words])
    restorer.hide()
    _hide_this_program()
    sys.orig_argv = [sys.executable, *words]
    sys.argv = ["-m", *rest[2:]] if rest[0] == "-m" else rest
    for name in ("numpy.random", "torch.default_generator"):
        restorer.hidden(name).seed()
    # The script's directory comes when `site` is done.
    del sys.path[0]
    site.execsitecustomize()  # As Python does.
    sys.path.insert(0, first)
    return rest


def _take(fds: list[int], numbers: list[int]) -> None:
    """Gives the files of the caller the numbers that they have there."""
    above = max((*numbers, 2)) + 1
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, above) for fd in fds]
    for fd in fds:
        os.close(fd)
    for fd, number in zip(high, numbers, strict=True):
        os.dup2(fd, number, inheritable=True)
        os.close(fd)
    for number in {0, 1, 2} - set(numbers):
        os.close(number)


def _hide_this_program() -> None:
    ours = [name for name in sys.modules if name.partition(".")[0] in ("support", "sitecustomize", "usercustomize")]
    for name in ours:
        del sys.modules[name]
    main = ModuleType("__main__")
    main.__dict__.update(__builtins__=__builtins__, __annotations__={})
    for name in ("__main__", "__mp_main__"):
        if name in sys.modules:
            sys.modules[name] = main


def work_of(rest: list[str]) -> Callable[[], object]:
    """Returns what runs the script as Python does."""
    if rest[0] == "-m":
        return lambda: runpy._run_module_as_main(rest[1])  # type: ignore[attr-defined]  # As Python does.
    main, path = sys.modules["__main__"].__dict__, os.path.abspath(rest[0])
    main.update(__file__=path, __cached__=None, __loader__=SourceFileLoader("__main__", path), __spec__=None)
    with open(path, "rb") as file:
        source = file.read()
    return lambda: exec(compile(source, path, "exec", dont_inherit=True), main)


def run(work: Callable[[], object]) -> None:
    """Runs the script. What it does not catch is said without the frames of this program."""
    try:
        work()
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        shown = error.__traceback__
        while shown is not None and shown.tb_frame.f_code.co_filename == __file__:
            shown = shown.tb_next
        error.__traceback__ = shown
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, shown
        sys.excepthook(type(error), error, shown)
        sys.exit(1)


def main() -> None:
    place, kind, owner = sys.argv[1:]
    paths = sys.path[1:]
    forks = Forks(place, int(owner))
    os.write(1, b"!")
    os.dup2(2, 1)
    restorer = Restorer()
    environment = dict(os.environ)
    for root in PRELOADED["native"] + (PRELOADED["compiled"] if kind == "compiled" else ()):
        restorer.imported(root)
    assert dict(os.environ) == environment, "an import changes the environment"
    assert threading.active_count() == 1, "an import starts threads"
    gc.collect()
    gc.freeze()
    rest = become(*forks.next(), restorer, paths)
    run(work_of(rest))


if __name__ == "__main__":
    main()
