"""The output of Docker's classic builder, turned into events and, when a step fails, into an error.

Events say what a progress display needs, and nothing about how it is drawn.
"""

import enum
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sagelet_engine.base.errors import SageletError


class EventKind(enum.Enum):
    #: A decision that the user should read: which base, which certificates, nothing to do.
    NOTE = "note"
    #: A step begins. `step` and `steps` are set.
    STEP = "step"
    #: A step is done. `seconds` is set unless all of it was there before, `size` if the engine tells it.
    END = "end"
    #: An instruction runs, which no layer of an earlier build stands for.
    RUNS = "runs"
    #: An instruction has made an image, whose id is the text.
    IMAGE = "image"
    #: Bytes of one file are on their way. `done` and `total` are set.
    PROGRESS = "progress"
    #: One line of output of the current step.
    OUTPUT = "output"


@dataclass(frozen=True)
class BuildEvent:
    kind: EventKind
    text: str
    #: The number of the current step, from 1, and the number of steps. None outside of the steps.
    step: int | None = None
    steps: int | None = None
    #: In bytes. Only set for PROGRESS.
    done: int | None = None
    total: int | None = None
    #: Only set for END: how long the step took, and the bytes that it added to the image.
    seconds: float | None = None
    size: int | None = None


Report = Callable[[BuildEvent], None]


def note(text: str) -> BuildEvent:
    return BuildEvent(EventKind.NOTE, text)


class BuildContextMissing(SageletError):
    """There is neither a checkout nor an installed wheel with the build context."""


class BaseImageUnavailable(SageletError):
    """There is no base image to build on: the registry does not answer, and one from Debian packages cannot be made."""


class ImageBuildFailed(SageletError):
    """A step of a build failed. The message holds the step, the last lines of its output and the remedy."""

    def __init__(self, step: str, output: Sequence[str], remedy: str) -> None:
        tail = "".join(f"\n    {line}" for line in output)
        super().__init__(f"The image was not built: {step} failed.{tail}\n{remedy}")
        self.step = step
        self.output = tuple(output)
        self.remedy = remedy


#: `Step 1/20 : FROM` of Docker's, `STEP 1/20: FROM` of Podman's.
_STEP = re.compile(r"(?i)^step (\d{1,9})/(\d{1,9}) ?: (.*)")
_DOWNLOADING = re.compile(r"^\s*Downloading (\S+?)(?:\.metadata)?(?: \(.*\))?$")
#: pip --progress-bar raw
_PROGRESS = re.compile(r"^Progress (\d{1,18}) of (\d{1,18})$")
#: The classic builder prints what a step writes to stderr in red.
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
#: ` ---> 0123456789ab` of Docker's, `--> 0123456789ab` of Podman's, after an instruction.
_IMAGE = re.compile(r"^ ?-{2,3}> ([0-9a-f]{12,64})$")
_RUNS = " ---> Running in "
_NOISE = re.compile(r"^( ?-{2,3}> |(Removing|Removed) intermediate container )")
_REMEMBERED, _SHOWN = 400, 15

_REMEDIES = (
    (
        r"CERTIFICATE_VERIFY_FAILED|SSLError|certificate verify failed|Certificate verification failed",
        "The network has a certificate authority of its own: name the file of its certificates with --ca-bundle.",
    ),
    (
        r"No space left on device",
        "The disk of the Docker Engine is full; the image takes 3 GB, and 9 GB with CUDA "
        "(`docker system df`, `docker system prune`).",
    ),
    (
        r"Temporary failure resolving|Name or service not known|Could not resolve|Failed to establish a new connection"
        r"|Could not connect|Connection timed out|Network is unreachable",
        "The build's containers reach no network: check the engine's DNS and proxy (~/.docker/config.json), build with "
        "--network host, or name a package index that they reach with --index-url.",
    ),
    (
        r"No matching distribution found",
        "The package index does not have the package, or pip did not trust its answer: name an index with --index-url "
        "and, if the network has a certificate authority of its own, its certificates with --ca-bundle.",
    ),
    (
        r"python3?: (?:command )?not found",
        "The base image has no python3 on its PATH: name another one with --base.",
    ),
)
_DEFAULT_REMEDY = (
    "Remove the cause and run `sagelet image build` again: it continues from the last step that succeeded."
)


class BuildOutput:
    """Reads the messages of one build."""

    def __init__(self) -> None:
        self._tail: deque[str] = deque(maxlen=_REMEMBERED)
        self._step: tuple[int, int] | None = None
        self._instruction = "the build"
        self._file = "package"

    def events(self, messages: Iterable[Mapping[str, Any]]) -> Iterator[BuildEvent]:
        """Yields every message of `api.build(decode=True)` as events. Raises ImageBuildFailed at the first error."""
        pending = ""
        for message in messages:
            if "error" in message:
                raise self._failure(str(message["error"]), pending)
            *lines, pending = (pending + message.get("stream", "")).split("\n")
            for line in lines:
                yield from self._line(_COLOUR.sub("", line.rstrip("\r")))

    def _line(self, line: str) -> Iterator[BuildEvent]:
        if not line.strip():
            return
        if image := _IMAGE.match(line):
            yield self._event(EventKind.IMAGE, image[1])
            return
        if line.startswith(_RUNS):
            yield self._event(EventKind.RUNS, self._instruction)
            return
        if _NOISE.match(line):
            return
        if step := _STEP.match(line):
            self._step = int(step[1]), int(step[2])
            self._instruction = _shortened(step[3])
            self._tail.clear()
            yield self._event(EventKind.STEP, self._instruction)
            return
        if progress := _PROGRESS.match(line):
            yield self._event(EventKind.PROGRESS, self._file, int(progress[1]), int(progress[2]))
            return
        if downloading := _DOWNLOADING.match(line):
            self._file = downloading[1].rsplit("/", 1)[-1]
        self._tail.append(line)
        yield self._event(EventKind.OUTPUT, line)

    def _event(self, kind: EventKind, text: str, done: int | None = None, total: int | None = None) -> BuildEvent:
        step, steps = self._step or (None, None)
        return BuildEvent(kind=kind, text=text, step=step, steps=steps, done=done, total=total)

    def _failure(self, error: str, pending: str) -> ImageBuildFailed:
        rest = _COLOUR.sub("", pending).strip()
        lines = [*self._tail, *filter(None, [rest]), error.rsplit("' ", 1)[-1]]
        return ImageBuildFailed(self._instruction, lines[-_SHOWN:], remedy_for("\n".join(lines)))


def remedy_for(output: str) -> str:
    """Returns what the user can do about a failed step, from what it printed."""
    for pattern, remedy in _REMEDIES:
        if re.search(pattern, output, re.IGNORECASE):
            return remedy
    return _DEFAULT_REMEDY


def _shortened(instruction: str, width: int = 100) -> str:
    text = " ".join(instruction.split())
    return text if len(text) <= width else text[: width - 1] + "…"
