"""What commands print without tables: text that no terminal obeys, JSON for programs, numbers and times.

It does without rich, which takes longer to load than `sagelet up` needs for its command line.
"""

import errno
import json
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any, TextIO

import click

from sagelet_api.bidirectional import NAMED
from sagelet_engine.base.errors import SageletError

#: Characters that a terminal obeys (C0 except tabs and line ends, DEL, C1), shown as U+2400 to U+2421, or as U+FFFD,
#: characters that reverse the direction of text, and what Python makes of bytes that are not UTF-8.
_OBEYED: dict[int, int | str] = {
    **NAMED,
    **{code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"},
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
    **dict.fromkeys(range(0xD800, 0xE000), 0xFFFD),
}
_LINE_ENDS = {ord("\t"): 0x2409, ord("\n"): 0x240A}


def printable(text: str) -> str:
    """Returns the text without what a terminal obeys."""
    return text.translate(_OBEYED)


def one_line(name: str) -> str:
    """Returns a name that a job chose, as one line: no terminal obeys it, and it cannot pass for two names."""
    return printable(name).translate(_LINE_ENDS)


def say(text: str, *, err: bool = False) -> None:
    """Prints like click.echo, for text that contains what a job or a server said."""
    is_terminal = (sys.stderr if err else sys.stdout).isatty()
    click.echo(printable(text) if is_terminal else text, err=err)


class NoRoomForOutput(SageletError):
    """The output goes to a file, and its disk is full."""


@contextmanager
def until_reader_ends() -> Iterator[None]:
    """Ends its block without an error when nobody reads the output any more, as after `| head`."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        closed = [stream for stream in (sys.stdout, sys.stderr) if _has_no_reader(stream)]
        if not closed:
            raise
        for stream in closed:
            _drop(stream)
    except OSError as error:
        # An open stream's: an error of a file that is to be opened has its name.
        if error.filename is not None or error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _drop(sys.stdout)
        raise NoRoomForOutput(f"The output cannot be written: {error.strerror}") from error


def _has_no_reader(stream: TextIO) -> bool:
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # The stream has no file descriptor, as in a test.
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def _drop(stream: TextIO) -> None:
    """Sends the stream's further output to nowhere, including what Python flushes at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def echo_json(value: Any) -> None:
    text = json.dumps(value, indent=2, default=_jsonable, ensure_ascii=False)
    # A surrogate is a byte of a file's name that is not UTF-8. JSON has it as `\udce9`.
    say(text.encode("utf-8", "backslashreplace").decode("utf-8"))


def size(count: float) -> str:
    """Returns `1.2 GB`."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count:.0f} B"


def iso(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _jsonable(value: object) -> str:
    if isinstance(value, datetime):
        return iso(value)
    raise TypeError(f"{type(value).__name__} is not JSON")
