"""A native script that asks for a GPU on a host whose CPUs stand in for one."""

import re
from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity
from sagelet_engine.doctor.rules import device_mixing
from sagelet_engine.doctor.rules.failures import failed_at, last_error, last_match, quoted

_PATTERNS = (
    *device_mixing.CUDA,
    r"\bCUDA device but torch\.cuda\.is_available\(\) is False",
    r"\bno CUDA-capable device is detected\b",
    r"\bis only supported with GPUs, no GPUs found\b",
    r"\bNo such file or directory: 'nvidia-smi'",
    r"\bnvidia-smi: (command )?not found\b",
)
_LOAD = "CUDA device but torch.cuda.is_available()"
_COUNTS = re.compile(r"\bSM_NUM_GPUS\b|\bdevice_count\(\)|\bnum_gpus\b|\bn_gpus?\b", re.IGNORECASE)


def check(case: Case) -> Iterator[Seen]:
    line = last_match(case, _PATTERNS) or _division(case)
    if line is None or (_on_xla(case) and last_match(case, device_mixing.CUDA) is not None):
        return
    place = failed_at(case)
    instead = "Load it onto what is there: torch.load(..., map_location='cpu')." if _LOAD in line else None
    text = f"The script needs a GPU, and this host has none: {quoted(line)}{case.sources.quoted(place)}"
    yield Seen(Severity.ERROR, text, place, instead=instead)


def _on_xla(case: Case) -> bool:
    """True for a job whose wrong devices are device_mixing's."""
    return case.setup.compiled and not case.by_inductor


def _division(case: Case) -> str | None:
    """Returns a division by the number of GPUs."""
    error = last_error(case)
    by_zero = error is not None and error.startswith("ZeroDivisionError")
    return error if by_zero and _COUNTS.search(case.sources.quoted(failed_at(case))) else None


RULE = Rule(
    name="no-gpu",
    why="A GPU instance type gets real GPUs where the machine has them. Otherwise a CPU worker stands in for each, "
    "and there is no CUDA device. SM_NUM_GPUS is then 0. In jobs with a distribution or the compiler it is the "
    "instance type's number, because that is the number of workers.",
    instead="Use torch.device('cuda' if torch.cuda.is_available() else 'cpu'), not SM_NUM_GPUS, to choose the device. "
    "Do not divide by SM_NUM_GPUS. `--gpus require` refuses such a job at its start instead (`sagelet docs gpu`).",
    section=Section.ENABLE,
    check=check,
    last_resort=True,
)
