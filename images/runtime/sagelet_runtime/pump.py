"""Passes what the user script prints on, line by line, in place of `sagemaker_training.process.watch`.

The stock `watch` reads blocks and prints each piece between line feeds: with PYTHONUNBUFFERED=1 one `print` becomes
several lines, without it nothing is seen before the end, and leading blanks are lost either way.
"""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterable
from typing import IO, Any

from sagelet_runtime import signals
from sagelet_runtime.failure import ErrorCollector
from sagelet_runtime.lines import LineSplitter

_CHUNK = 256 * 1024


async def pump(stream: asyncio.StreamReader, collector: ErrorCollector, out: IO[str]) -> None:
    """Copies `stream` to `out` until its end, whole lines at once, flushed as they come.

    Bytes that are no UTF-8 become U+FFFD. The writer blocks when `out` does, so nothing piles up in memory.
    """
    splitter = LineSplitter()
    while chunk := await stream.read(_CHUNK):
        _pass_on(splitter.feed(chunk), collector, out)
    _pass_on(splitter.close(), collector, out)


def _pass_on(lines: list[bytes], collector: ErrorCollector, out: IO[str]) -> None:
    if not lines:
        return
    texts = [line.decode("utf-8", "replace") for line in lines]
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
    process = await asyncio.create_subprocess_exec(*cmd, env=env, cwd=cwd, stdout=PIPE, stderr=stderr, **kwargs)
    names = _error_names(error_classes)
    streams = [stream for stream in (process.stdout, process.stderr) if stream is not None]
    collectors = [ErrorCollector(names) for _ in streams]
    await asyncio.gather(*(pump(s, c, sys.stdout) for s, c in zip(streams, collectors, strict=True)))
    return await process.wait(), error_texts(collectors), process


def error_texts(collectors: list[ErrorCollector]) -> list[str]:
    """The text of each stream; where one of them holds a traceback, what the others say is only noise before it."""
    if any(collector.has_traceback for collector in collectors):
        collectors = [collector for collector in collectors if collector.has_traceback]
    return [collector.text() for collector in collectors]


def _error_names(error_classes: Iterable[Any] | None) -> list[str]:
    from sagemaker_training import _MPI_ERRORS_, _PYTHON_ERRORS_

    return [*_PYTHON_ERRORS_, *_MPI_ERRORS_, *(str(name) for name in error_classes or ())]


def install() -> None:
    """Puts `run_async` in the toolkit's place."""
    from sagemaker_training import process

    process.run_async = run_async
