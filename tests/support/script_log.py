"""Extracts a script's own lines from its job's log, and compares two such logs."""

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

#: The toolkit's last line before the script's first.
_INVOKED = "Invoking script with the following command:"
#: Lines of AWS's toolkit, of sagelet, of the compiler and of gloo. Gloo stands in for NCCL in a native job without a
#: GPU: torch's own C++ prints a line in each worker that joins. A compiled job suppresses it.
#: The Trainer wraps its native workers' model in DistributedDataParallel, whose C++ warns of the Trainer's own setting.
#: On XLA it does not wrap.
_NOT_THE_SCRIPTS = re.compile(
    r" sagemaker-training-toolkit (?:INFO|ERROR)|^sagelet: |^device: xla:\d+ \(PJRT| root - INFO - Joining rendezvous "
    r"|^INFO:root:Joining rendezvous |INFO - root - +Joining rendezvous "
    r"|^\[Gloo\] Rank \d+ is connected to \d+ peer ranks\."
    r"|^\[rank\d+\]:\[W[^\]]* reducer\.cpp:\d+\] Warning: find_unused_parameters=True "
)
#: Progress bars are redrawn by the clock.
_PROGRESS = re.compile(r"(?:[\w ]+: *)?\d+%\|[^|]*\| *\d+/\d+ \[[^\]]*\]|\x1b\[A|\r")
#: Parts that differ between two runs of one job: times, rates, places, the device and the backend of its collectives.
_OWN = tuple(
    (re.compile(pattern), to)
    for pattern, to in (
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+|\d\d/\d\d/\d{4} \d\d:\d\d:\d\d", "TIME"),
        (r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} +\d+ \d\d:\d\d:\d\d \d{4}|\d+:\d\d[AP]M \w+ on \w+ \d+, \d+", "TIME"),
        (r"((?:_runtime|_per_second)'?(?::| +=) *)'?[\d.:]+", r"\1NUMBER"),
        (r"((?:Rate=|rate: ))[\d.e+-]+", r"\1NUMBER"),
        (r"\[took [\d.]+ s\]", "[took NUMBER s]"),
        (r"(\w+\.py):\d+", r"\1"),
        (r"\b(?:xla|cpu)(?::\d+)?\b", "DEVICE"),
        (r"DistributedType\.\w+|Distributed environment: .*|Backend: \w+", "WORLD"),
        (r"accelerate\.data_loader\.(?:DataLoaderShard|MpDeviceLoaderWrapper)", "LOADER"),
    )
)
#: Python shows a warning once for each state of its filters, which libraries change as they go.
_WARNING = re.compile(r"\b[A-Z]\w*Warning: |^warnings\.warn\(")
#: torch may or may not break the line of a tensor before it.
_DEVICE_OF_TENSOR = re.compile(r",\s+device='xla:\d+'\)")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])")


def script_lines(log: str, base: Path) -> list[str]:
    """Returns the script's lines, with paths as in a container. `base`: the directory in place of /opt/ml."""
    after = _DEVICE_OF_TENSOR.sub(")", log.partition(_INVOKED)[2]).lstrip("\n").split("\n")[1:]
    # Columns are padded to the longest number.
    plain = (" ".join(_PROGRESS.sub("", line).split()) for line in after if not _NOT_THE_SCRIPTS.search(line))
    return [_without_own(line.replace(str(base), "/opt/ml")) for line in plain if line]


def _without_own(line: str) -> str:
    for pattern, to in _OWN:
        line = pattern.sub(to, line)
    return line


@dataclass(frozen=True)
class Number:
    value: float
    #: The value of one unit of its last printed digit, or 0 for a whole number.
    rounding: float

    def agrees(self, other: "Number", tolerance: float) -> bool:
        allowed = tolerance * max(abs(self.value), abs(other.value)) + 1.01 * max(self.rounding, other.rounding)
        return abs(self.value - other.value) <= allowed


def _number(text: str) -> Number:
    mantissa, _, exponent = text.partition("e")
    digits = len(mantissa.partition(".")[2])
    return Number(float(text), 10.0 ** (int(exponent or 0) - digits) if digits else 0.0)


def _by_text(lines: list[str]) -> dict[str, list[list[Number]]]:
    found: dict[str, list[list[Number]]] = defaultdict(list)
    for line in lines:
        found[_NUMBER.sub("N", line)].append([_number(number) for number in _NUMBER.findall(line)])
    return found


def differences(one: list[str], other: list[str], tolerance: float) -> list[str]:
    """Describes what is in one log and not in the other. Empty if they say the same.

    stdout and stderr, and the workers of a job, have no order between them. So lines of one text are compared in the
    order of their numbers.
    """
    texts, others = _by_text(one), _by_text(other)
    found = []
    for text in sorted({*texts, *others}):
        first, second = texts.get(text, []), others.get(text, [])
        if _WARNING.search(text):
            first, second = first[:1], second[:1]
        if len(first) != len(second):
            found.append(f"{len(first)} and {len(second)} times: {text}")
            continue
        pairs = zip(_in_order(first), _in_order(second), strict=True)
        for mine, theirs in pairs:
            if not all(a.agrees(b, tolerance) for a, b in zip(mine, theirs, strict=True)):
                found.append(f"{[a.value for a in mine]} and {[b.value for b in theirs]}: {text}")
    return found


def _in_order(rows: list[list[Number]]) -> list[list[Number]]:
    """Sorts by the script's whole numbers (steps, epochs), then by order of arrival."""
    return sorted(rows, key=lambda row: [number.value for number in row if number.rounding == 0])


def numbers_of(lines: list[str], pattern: str) -> list[list[Number]]:
    """Returns the groups of each line that matches `pattern`, as numbers, in the order of the lines."""
    found = (re.search(pattern, line) for line in lines)
    return [[_number(group) for group in match.groups()] for match in found if match]
