"""What a job says reaches a terminal as text: no title, no clipboard, no moving cursor, no C1 controls."""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ACCOUNT, REGION, ApiWorld

#: Window title, clipboard, device report, cursor, alternate screen, reset, C1's CSI and OSC, backspaces, a bell.
EVIL = (
    "\x1b]0;owned\x07 \x1b]52;c;cm0gLXJm\x07 \x1b]52;c;eA==\x1b\\ \x1b[6n \x1b[2J\x1b[H \x1b[?1049h \x1bc"
    " \x9b31m \x9d0;owned\x9c \x08\x08\x08 \x07 \x1bPq\x1b\\ \x0e"
)
#: What rich writes itself: colours, and of the line that says what goes on, moves and the cursor.
OURS = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[[0-9]*[AK]|\x1b\[2K|\r")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path_factory.mktemp("world"), MotoBridge()) as running:
        running.create("evil")
        host = running.host("evil")
        host.say(EVIL, f"\x1b[31mred\x1b[0m {EVIL}", "progress 1\rprogress 2")
        failure = next(running.settings.data.glob("jobs/**/opt-ml")) / "output" / "failure"
        failure.parent.mkdir(parents=True, exist_ok=True)
        failure.write_text(EVIL)
        host.end(1)
        running.ended("evil")
        yield running


def on_terminal(world: ApiWorld, *words: str) -> str:
    """What a command writes on a terminal."""
    ours, theirs = pty.openpty()
    options = ["--endpoint", f"http://127.0.0.1:{world.port}", "--account", ACCOUNT, "--region", REGION]
    command = [str(Path(sys.executable).with_name("sagelet")), *words, *options]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200"}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    written = bytearray()
    try:
        while data := os.read(ours, 65536):
            written += data
    except OSError:  # Linux: nobody has the other end any more.
        pass
    os.close(ours)
    process.wait(120)
    return written.decode()


WAYS = (("logs", "evil"), ("describe", "evil"), ("wait", "evil"), ("describe", "evil", "--json"))


@pytest.mark.parametrize("words", WAYS)
def test_a_terminal_obeys_nothing_that_a_job_says(world: ApiWorld, words: tuple[str, ...]) -> None:
    shown = on_terminal(world, *words)
    assert "owned" in shown
    assert re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", OURS.sub("", shown)) == []


def test_a_pipe_gets_what_was_said(world: ApiWorld) -> None:
    command = [str(Path(sys.executable).with_name("sagelet")), "logs", "evil"]
    options = ["--endpoint", f"http://127.0.0.1:{world.port}", "--account", ACCOUNT, "--region", REGION]
    told = subprocess.run([*command, *options], check=True, capture_output=True, timeout=120)
    assert told.stdout.decode().split("\n")[0] == EVIL
