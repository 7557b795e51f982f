"""A host's last word, `exit.json`: read as what it is, something that the host may have written itself."""

from pathlib import Path
from typing import Any

from sagelet_engine import nofollow
from sagelet_engine.runtimes import host_files
from sagelet_engine.runtimes import slurm_files as files
from sagelet_engine.runtimes.port import Observation

#: Bytes of it, and characters of what it says.
MOST, MOST_TEXT = 1024**2, 4096
_MOST_MS = 2**53
_FLAGS = ("out_of_memory", "refused", "interrupted", "time_over")


def ended(run_dir: Path) -> tuple[Observation, str] | None:
    """How a host ended and what it had heard before; None: it has not. One that cannot be understood is an end, too."""
    try:
        written = nofollow.read_json(run_dir, host_files.EXIT, MOST)
        return None if written is None else parsed(written)
    except ValueError as error:
        return Observation(running=False, error=damaged(error), refused=True), ""


def damaged(error: ValueError) -> str:
    return f"{host_files.EXIT}, by which the host says how it ended, is not sagelet's: {error}"


def parsed(written: Any) -> tuple[Observation, str]:
    """Raises ValueError."""
    if not isinstance(written, dict):
        raise ValueError("it is no JSON object")
    error, heard = written.get("error"), written.get(files.HEARD, "")
    if not (error is None or isinstance(error, str)) or not isinstance(heard, str):
        raise ValueError("error or heard is no text")
    if any(not isinstance(written.get(name, False), bool) for name in _FLAGS):
        raise ValueError(f"one of {', '.join(_FLAGS)} is neither true nor false")
    observation = Observation(
        running=False,
        exit_code=_number(written, "exit_code", 255),
        error=None if error is None else error[:MOST_TEXT],
        finished_ms=_number(written, "finished_ms", _MOST_MS),
        **{name: written.get(name, False) for name in _FLAGS},
    )
    return observation, heard[:MOST_TEXT]


def _number(written: dict[str, Any], name: str, most: int) -> int | None:
    if name not in written:
        raise ValueError(f"{name} is missing")
    value = written[name]
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{name} is no number from 0 to {most}")
    return value
