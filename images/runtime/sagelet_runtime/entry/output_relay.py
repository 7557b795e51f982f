"""Passes on the user script's output line by line, in place of `sagemaker_training.process.watch`.

The stock `watch` reads blocks and prints each piece between line feeds. With PYTHONUNBUFFERED=1 one `print` becomes
several lines. Without it nothing is seen before the end. Leading blanks are lost either way.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterable
from contextlib import suppress
from typing import IO, Any, Union

from sagelet_runtime.base import signals
from sagelet_runtime.base.failure import ErrorCollector, without_error
from sagelet_runtime.base.hub_misses import HubMisses
from sagelet_runtime.base.lines import LineSplitter
from sagelet_runtime.base.pairs import paired
from sagelet_runtime.base.processes import session
from sagelet_runtime.base.say import say
from sagelet_runtime.entry.plugin_noise import is_noise
from sagelet_runtime.requirements import held_packages as requirements
from sagelet_runtime.requirements.pip_errors import PipErrors
from sagelet_runtime.workers import cause

_CHUNK = 256 * 1024
#: Seconds between looks at the script while its output stays open.
_LOOK = 0.2
#: Looks at the output of an ended script, at most: a daemon that prints without end must not delay the job.
_LAST_LOOKS = 50


#: Watches a stream for the reason of its process's failure.
Collector = Union[ErrorCollector, PipErrors]


class Relay:
    """One stream of the script on its way to `out`."""

    def __init__(self, stream: asyncio.StreamReader, collector: Collector, out: IO[str]) -> None:
        self._stream = stream
        self._collector = collector
        self._out = out
        #: Bytes read so far.
        self.read = 0

    async def run(self) -> None:
        """Copies whole lines but noise, flushed as they come, until the stream ends or this is cancelled.

        Bytes that are not UTF-8 become U+FFFD. The writer blocks when `out` does, so nothing piles up in memory.
        """
        splitter = LineSplitter()
        try:
            while chunk := await self._stream.read(_CHUNK):
                self.read += len(chunk)
                _pass_on(splitter.feed(chunk), self._collector, self._out)
        finally:
            _pass_on(splitter.close(), self._collector, self._out)


def _pass_on(lines: list[bytes], collector: Collector, out: IO[str]) -> None:
    if not lines:
        return
    texts = [text for line in lines if not is_noise(text := line.decode("utf-8", "replace"))]
    if not texts:
        return
    out.write("\n".join(texts) + "\n")
    out.flush()
    for text in texts:
        collector.feed(text)


async def run_async(
    cmd: list[str],
    processes_per_host: int,
    env: dict[str, str],
    cwd: str,
    stderr: int | None,
    error_classes: Iterable[Any] | None = None,
    **kwargs: Any,
) -> tuple[int, list[str], Process]:
    """Same contract as `sagemaker_training.process.run_async`: return code, texts of stdout and stderr, process."""
    del processes_per_host
    signals.exit_if_stopped()
    # The script gets a session of its own: processes that it detached are in another one.
    process = await asyncio.create_subprocess_exec(
        *cmd, env=env, cwd=cwd, stdout=PIPE, stderr=stderr, start_new_session=True, **kwargs
    )
    streams = [stream for stream in (process.stdout, process.stderr) if stream is not None]
    misses = HubMisses()
    collectors = _collectors(cmd, error_classes, len(streams), misses)
    relays = [Relay(s, c, sys.stdout) for s, c in paired(streams, collectors)]
    code = await _run(process, relays)
    worker = cause.explain(env, code, [line for collector in collectors for line in collector.lines], misses)
    return code, [worker] if worker is not None else error_texts(collectors, code), process


async def _run(process: Process, relays: list[Relay]) -> int:
    """Passes the output on until every process has closed it, or only processes outside the script's session are left.

    The stock toolkit waits until the output is closed. There a daemon that a script leaves behind with its stdout keeps
    the job in Training until it is stopped. Processes that merely run in the background are waited for, as on AWS.
    """
    relaying = asyncio.gather(*(relay.run() for relay in relays))
    while not (await asyncio.wait([relaying], timeout=_LOOK))[0]:
        if process.returncode is not None and not session(process.pid):
            say("the script has ended; processes that it detached hold its output, and end with the job")
            await _read_the_rest(relaying, relays)
            # Not `wait`: in some versions of Python it waits for the pipes, too.
            return process.returncode
    relaying.result()
    return await process.wait()


async def _read_the_rest(relaying: asyncio.Future[list[None]], relays: list[Relay]) -> None:
    """Reads the output that the ended script left in the pipes, then stops."""
    for _ in range(_LAST_LOOKS):
        before = [relay.read for relay in relays]
        if (await asyncio.wait([relaying], timeout=_LOOK))[0] or before == [relay.read for relay in relays]:
            break
    relaying.cancel()
    with suppress(asyncio.CancelledError):
        await relaying


def error_texts(collectors: list[Collector], code: int) -> list[str]:
    """Returns the text of each stream. If a stream holds a traceback, streams without one are noise and left out.

    If no stream has one, the exit code of the process says which text stands in for it, if any.
    """
    if any(collector.has_traceback for collector in collectors):
        collectors = [collector for collector in collectors if collector.has_traceback]
    texts = [collector.text() for collector in dict.fromkeys(collectors)]
    stderr = collectors[-1] if len(collectors) > 1 else None
    if any(texts) or not isinstance(stderr, ErrorCollector):
        return texts
    return [without_error(code, stderr.last_text, stderr.fatal)]


def _collectors(cmd: list[str], error_classes: Iterable[Any] | None, count: int, misses: HubMisses) -> list[Collector]:
    """Makes one collector for each stream. pip prints on one stream what failed and on the other why, so it has one."""
    if requirements.is_pip(cmd):
        return [PipErrors()] * count
    names = _error_names(error_classes)
    return [ErrorCollector(names, misses=misses) for _ in range(count)]


def _error_names(error_classes: Iterable[Any] | None) -> list[str]:
    from sagemaker_training import _MPI_ERRORS_, _PYTHON_ERRORS_

    return [*_PYTHON_ERRORS_, *_MPI_ERRORS_, *(str(name) for name in error_classes or ())]


def install() -> None:
    """Replaces the toolkit's `run_async`."""
    from sagemaker_training import process

    process.run_async = run_async
