"""The steps of a job's workers over time: waiting for input, compiling, waiting for the device, and the rest."""

from collections.abc import Sequence
from dataclasses import dataclass

from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.compiler.text import duration
from sagelet_engine.telemetry.compiler.worker import Span, WorkerReport

#: Workers that are drawn. More of them would show nothing new, because all take the same steps.
MOST_LANES = 8
WAIT, COMPILE, HELD, EXECUTE, REST = "wait", "compile", "held", "execute", "rest"
TITLES = {
    WAIT: "Waiting for input",
    COMPILE: "Compiling",
    HELD: "Waiting for the device",
    EXECUTE: "Executing",
    REST: "Python and the rest",
}


@dataclass(frozen=True)
class Piece:
    """A part of a bar. `left` and `width`: percent of the time of all workers."""

    kind: str
    left: float
    width: float
    #: `steps 0 to 7, 3.2 s`.
    words: str


@dataclass(frozen=True)
class Lane:
    worker: WorkerReport
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class StepsView:
    #: Seconds from the start of the first step to the end of the last one.
    seconds: float
    #: Seconds from the start of the first worker's Python to its first step.
    before: float
    lanes: tuple[Lane, ...]
    left_out: int
    #: Kind, title and seconds of the first worker's time.
    totals: tuple[tuple[str, str, float], ...]
    #: What the first worker's spans took: span, and the seconds of each kind.
    rows: tuple[tuple[Span, dict[str, float]], ...]
    #: What the first worker's device did beside the script, in words. Empty if nobody knows.
    device: str


def steps_view(report: CompilerReport) -> StepsView | None:
    """Returns the view, or None if no worker has reported a step."""
    workers = [worker for worker in report.workers if worker.timeline]
    if not workers:
        return None
    first = min(_begin(worker) for worker in workers)
    offsets = [worker.started_ms / 1000 - first for worker in workers]
    whole = max(offset + _end(worker) for worker, offset in zip(workers, offsets, strict=True)) or 1.0
    lanes = [Lane(one, tuple(_pieces(one, offset, whole))) for one, offset in zip(workers, offsets, strict=True)]
    rows = tuple((span, parts(span, workers[0])) for span in workers[0].timeline)
    return StepsView(
        whole,
        workers[0].timeline[0].start_seconds,
        tuple(lanes[:MOST_LANES]),
        max(0, len(lanes) - MOST_LANES),
        _totals(rows),
        rows,
        _device(workers[0]),
    )


def parts(span: Span, worker: WorkerReport) -> dict[str, float]:
    """Returns the script's seconds of a span by kind. Their sum is the span's, and no part is larger than it.

    XLA's programs run on the device beside the script, which waits for some of them. Inductor's run within the script's
    calls. A native worker does not report when it executes, so all but waiting is `rest`.
    """
    amounts = {WAIT: span.wait_seconds}
    if worker.compiled:
        within = (EXECUTE, span.execute_seconds) if worker.compiler == "inductor" else (HELD, span.device_wait_seconds)
        amounts |= {COMPILE: span.compile_seconds, within[0]: within[1]}
    left, seconds = span.seconds, {}
    for kind, amount in amounts.items():
        seconds[kind] = min(amount, left)
        left -= seconds[kind]
    return {**seconds, REST: left}


def _device(worker: WorkerReport) -> str:
    busy = sum(span.execute_seconds for span in worker.timeline)
    if not worker.device.busy_seconds or not busy:
        return ""
    seconds = sum(span.seconds for span in worker.timeline)
    return f"Beside the script, the device was busy for {duration(min(busy, seconds))} of this time."


def _begin(worker: WorkerReport) -> float:
    """Returns when a worker's timeline begins, in seconds since the epoch."""
    return worker.started_ms / 1000 + worker.timeline[0].start_seconds


def _end(worker: WorkerReport) -> float:
    last = worker.timeline[-1]
    return last.start_seconds + last.seconds


def _pieces(worker: WorkerReport, offset: float, whole: float) -> list[Piece]:
    made = []
    for span in worker.timeline:
        at = offset + span.start_seconds
        for kind, seconds in parts(span, worker).items():
            made.append(_piece(kind, at, seconds, whole, f"{TITLES[kind]}, {numbers(span)}"))
            at += seconds
    return [piece for piece in made if piece.width > 0]


def _piece(kind: str, at: float, seconds: float, whole: float, words: str) -> Piece:
    return Piece(kind, round(at / whole * 100, 3), round(seconds / whole * 100, 3), f"{words}: {seconds:.3g} s")


def numbers(span: Span) -> str:
    last = span.step + span.steps - 1
    return f"step {span.step}" if span.steps == 1 else f"steps {span.step} to {last}"


def _totals(rows: Sequence[tuple[Span, dict[str, float]]]) -> tuple[tuple[str, str, float], ...]:
    return tuple((kind, TITLES[kind], sum(found[kind] for _, found in rows)) for kind in rows[0][1])
