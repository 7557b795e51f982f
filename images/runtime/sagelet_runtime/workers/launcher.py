"""Starts the workers of one host and ends them together: what mpirun and AWS's xla_spawn do.

When one worker fails, the others are ended, with SIGTERM first. The launcher exits with the failed worker's exit code.
A stop request goes to every worker once, and then each ends in its own time. When the launcher is killed, the kernel
kills the workers.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from sagelet_runtime.base import signals
from sagelet_runtime.base.lines import LineSplitter
from sagelet_runtime.base.say import say
from sagelet_runtime.base.world import World
from sagelet_runtime.gpu import device
from sagelet_runtime.workers import parent, worker_failures

#: Seconds between SIGTERM and SIGKILL for workers whose peer has failed.
GRACE = 5.0
#: Seconds between looks at the workers while nobody prints.
LOOK = 0.1
#: Seconds without output after which the pipes of ended workers are abandoned: a daemon of theirs holds them.
QUIET = 1.0
#: Seconds after the last worker's end for which the output of a daemon that prints without end is passed on.
LATE = 10.0
_CHUNK = 256 * 1024

#: Maps a local rank, and `stdout` or `stderr`, to the prefix of each line.
Tag = Callable[[int, str], bytes]


def no_tag(_local_rank: int, _stream: str) -> bytes:
    return b""


def mpi_tag(world: World) -> Tag:
    """Returns the prefixes with which AWS's toolkit prints the lines of mpirun's workers."""

    def tag(local_rank: int, stream: str) -> bytes:
        return f"[1,mpirank:{world.first_rank + local_rank},{world.current}]<{stream}>:".encode()

    return tag


@dataclass
class _Stream:
    tag: bytes
    out: BinaryIO
    splitter: LineSplitter = field(default_factory=LineSplitter)


class Launcher:
    """The workers of one host, all with the same command."""

    def __init__(self, world: World, command: list[str], environ: Mapping[str, str], tag: Tag = no_tag) -> None:
        self._world = world
        self._command = command
        self._environ = {**environ, **(device.shared_threads(environ, world.size) if world.size > 1 else {})}
        self._tag = tag
        self._notes = Path(environ[worker_failures.DIRECTORY]) if worker_failures.DIRECTORY in environ else None
        self._selector = selectors.DefaultSelector()
        self._workers: list[subprocess.Popen[bytes]] = []
        #: Exit codes, by local rank, of workers that failed before the launcher ended any.
        self._failed: dict[int, int] = {}
        self._kill_at: float | None = None

    def run(self, extra: Callable[[int], dict[str, str]] = lambda _: {}) -> int:
        """Runs the workers to their end. Returns the exit code.

        `extra` returns the variables of a local rank beyond those of `World.environment`.
        """
        signals.install()
        try:
            for local_rank in range(self._world.local_size):
                self._start(local_rank, self._world.environment(local_rank) | extra(local_rank))
            while any(worker.poll() is None for worker in self._workers):
                self._pass_on(LOOK)
                self._attend()
            self._attend()
            give_up = time.monotonic() + LATE
            while time.monotonic() < give_up and self._pass_on(QUIET):
                pass
        finally:
            self._kill()
        return self._verdict()

    def _start(self, local_rank: int, variables: dict[str, str]) -> None:
        signals.exit_if_stopped()
        worker = subprocess.Popen(
            self._command,
            env={**self._environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=parent.die_with(os.getpid()),
        )
        self._workers.append(worker)
        for name, pipe, out in (("stdout", worker.stdout, sys.stdout), ("stderr", worker.stderr, sys.stderr)):
            assert pipe is not None
            self._selector.register(pipe, selectors.EVENT_READ, _Stream(self._tag(local_rank, name), out.buffer))

    def _pass_on(self, timeout: float) -> bool:
        """Passes on the whole lines that have come in. False if no pipe was ready."""
        ready = self._selector.select(timeout) if self._selector.get_map() else []
        if not self._selector.get_map():
            time.sleep(0 if all(worker.poll() is not None for worker in self._workers) else timeout)
        for key, _ in ready:
            stream: _Stream = key.data
            chunk = os.read(key.fd, _CHUNK)
            _write(stream, stream.splitter.feed(chunk) if chunk else stream.splitter.close())
            if not chunk:
                self._selector.unregister(key.fileobj)
        return bool(ready)

    def _attend(self) -> None:
        """Ends the others when one worker has failed. After a stop request each worker ends in its own time."""
        if self._kill_at is None:
            if signals.stop_requested():
                return
            self._failed = {
                local_rank: code
                for local_rank, worker in enumerate(self._workers)
                if (code := worker.poll()) not in (None, 0)
            }
            if self._failed:
                self._note_failure()
                self._kill_at = time.monotonic() + GRACE
                self._signal(signal.SIGTERM)
        elif time.monotonic() > self._kill_at:
            self._kill()

    def _note_failure(self) -> None:
        local_rank, code = next(iter(self._failed.items()))
        rank = self._world.first_rank + local_rank
        how = f"with exit code {code}" if code > 0 else f"by signal {-code}"
        say(f"{self._world.name_of(rank)} ended {how}; the other workers of {self._world.current} are ended")
        for local_rank, code in self._failed.items():
            failure = worker_failures.killed_by(self._world.first_rank + local_rank, code)
            if failure is not None and self._notes is not None:
                worker_failures.note(worker_failures.last_attempt(self._notes), failure)

    def _signal(self, number: int) -> None:
        for worker in self._workers:
            with contextlib.suppress(ProcessLookupError):
                worker.send_signal(number)

    def _kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _verdict(self) -> int:
        """Returns the exit code of the first worker that failed. It is 128 + N for a signal N, as in a shell."""
        codes = self._failed or {
            local_rank: worker.returncode for local_rank, worker in enumerate(self._workers) if worker.returncode
        }
        if not codes:
            return 0
        code = next(iter(codes.values()))
        if self._failed and self._notes is not None:
            first = self._world.first_rank
            failure = worker_failures.first(
                self._notes, {first + local_rank: code for local_rank, code in codes.items()}
            )
            if failure is not None:
                worker_failures.publish(self._notes, failure)
                code = codes.get(failure.rank - first, code)
        return code if code > 0 else 128 - code


def _write(stream: _Stream, lines: list[bytes]) -> None:
    if lines:
        stream.out.write(b"".join(stream.tag + line + b"\n" for line in lines))
        stream.out.flush()
