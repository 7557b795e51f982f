"""Recorded transcripts: what a client sees of one job, from CreateTrainingJob to its end.

A *path* is a function that plays a client (`Story`) on a *stage* (a running server). What the client does and sees
becomes a transcript, which is compared with `tests/data/transcripts/PATH.json`. `SAGELET_RECORD=1 pytest
tests/transcripts` writes the files anew; read the difference line by line against the rules in the file's head.
"""

import difflib
import json
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any, Protocol

RECORDED = File(__file__).parents[1] / "data" / "transcripts"
RECORDING = bool(os.environ.get("SAGELET_RECORD"))
assert not RECORDING or os.environ.get("SAGELET_TEST_REQUIRE") != "all", "CI replays transcripts, it records none"
#: Members with a time. They differ between two runs on a real clock.
TIMES = frozenset(
    {"CreationTime", "LastModifiedTime", "TrainingStartTime", "TrainingEndTime", "TrainingTimeInSeconds",
     "BillableTimeInSeconds", "StartTime", "EndTime", "Timestamp"}
)  # fmt: skip

Transcript = dict[str, Any]


class Step:
    """A status in which a server is held until `release` is set."""

    def __init__(self) -> None:
        self.release = threading.Event()
        #: Seconds that pass before the server goes on.
        self.dwell = 0.0


class Stage(Protocol):
    """A running server, and what happens around it that a client does not see."""

    #: A TrainingImage in which the server can run `sh`.
    image: str
    #: True if tests turn the clock, so that every time in a transcript is exact and every status is held.
    tells_time: bool

    def client(self, service: str) -> Any: ...

    def watch(self, job_name: str) -> None:
        """Makes every status of this job visible."""
        ...

    def seen(self, job_name: str) -> None:
        """Notes that the client has looked at the job."""
        ...

    def next_step(self) -> Step:
        """Waits for the next status of the watched job. Only on a stage whose clock tests turn."""
        ...

    def interrupt(self, job_name: str) -> None: ...

    def now(self) -> float:
        """Returns the seconds since the epoch."""
        ...

    def turn(self, seconds: float) -> None:
        """Lets time pass."""
        ...

    def touch(self, word: str) -> None:
        """Makes /opt/ml/WORD, for which the script waits."""
        ...

    def lose_host(self) -> None: ...


@dataclass(frozen=True)
class Path:
    """One course that a job can take."""

    name: str
    play: Callable[[Any], None]
    #: Where the texts and the order come from.
    rules: tuple[str, ...]
    #: The server's settings besides the defaults of the lab.
    settings: dict[str, Any]

    @property
    def about(self) -> str:
        return " ".join((self.play.__doc__ or "").split())


PATHS: dict[str, Path] = {}


def path(name: str, *rules: str, **settings: Any) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Registers a function as a path. Its docstring becomes the head of the file."""

    def register(play: Callable[[Any], None]) -> Callable[[Any], None]:
        assert name not in PATHS, name
        PATHS[name] = Path(name, play, rules, settings)
        return play

    return register


def compare(path: Path, transcript: Transcript) -> None:
    """Fails if the transcript differs from the recorded one. Writes it when recording."""
    compare_file(RECORDED / f"{path.name}.json", {"about": path.about, "rules": list(path.rules), **transcript})


def compare_file(file: File, seen: Transcript) -> None:
    """Does what `compare` does, with the whole content of a file."""
    if RECORDING:
        file.write_text(f"{rendered(seen)}\n", encoding="utf-8")
        return
    assert file.exists(), f"{file.name} is not recorded: run the test with SAGELET_RECORD=1"
    _same(json.loads(file.read_text(encoding="utf-8")), seen)


def compare_timeless(path: Path, transcript: Transcript) -> None:
    """Compares as `compare` does, without times and without statuses that may pass too quickly. For a real clock."""
    recorded = json.loads((RECORDED / f"{path.name}.json").read_text(encoding="utf-8"))
    _same(timeless({name: recorded[name] for name in transcript}), timeless(transcript))


def _same(recorded: Transcript, seen: Transcript) -> None:
    before, after = (rendered(one).splitlines() for one in (recorded, seen))
    difference = "\n".join(difflib.unified_diff(before, after, "recorded", "seen", lineterm=""))
    assert not difference, difference


def timeless(value: Any) -> Any:
    """Replaces the times in a transcript. It still shows that a time is there."""
    if isinstance(value, dict):
        return {name: "some time" if name in TIMES else timeless(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [timeless(inner) for inner in value if not (isinstance(inner, dict) and "sees" in inner)]
    return value


def rendered(value: Any, indent: int = 0, before: int = 0, width: int = 118) -> str:
    """Returns readable JSON: a value that fits is on one line, after the `before` characters of its name."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + indent + before <= width or not isinstance(value, (dict, list)) or not value:
        return line
    inner = " " * (indent + 1)
    if isinstance(value, list):
        return "[\n" + ",\n".join(inner + rendered(item, indent + 1) for item in value) + f"\n{' ' * indent}]"
    names = {name: f"{json.dumps(name)}: " for name in value}
    members = (f"{inner}{names[name]}{rendered(item, indent + 1, len(names[name]))}" for name, item in value.items())
    return "{\n" + ",\n".join(members) + f"\n{' ' * indent}}}"
