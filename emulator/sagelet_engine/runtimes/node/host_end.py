"""Reads `exit.json`, which says how a host ended. The host may have written it itself, so nothing in it is trusted."""

from pathlib import Path
from typing import Any

from sagelet_engine.base import nofollow
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model.runtime import Observation
from sagelet_engine.runtimes.node import host_files

#: Limits: bytes of the file, and characters of a text in it.
MOST, MOST_TEXT = 1024**2, 4096
_MOST_MS = 2**53
_FLAGS = ("out_of_memory", "refused", "interrupted", "time_over")


def ended(run_dir: Path) -> tuple[Observation, str] | None:
    """Returns how a host ended and which requests it had got before, or None if it has not ended.

    An `exit.json` that cannot be understood counts as an end.
    """
    try:
        written = nofollow.read_json(run_dir, host_files.EXIT, MOST)
        return None if written is None else parsed(written)
    except ValueError as error:
        return Observation(running=False, error=damaged(error), refused=True), ""


def damaged(error: ValueError) -> str:
    return f"{host_files.EXIT}, by which the host says how it ended, is not sagelet's: {error}"


def parsed(written: Any) -> tuple[Observation, str]:
    """Reads the content of `exit.json`. Raises ValueError if it is not as the shim writes it."""
    if not isinstance(written, dict):
        raise ValueError("it is not a JSON object")
    error, heard = written.get("error"), written.get(host_files.HEARD, "")
    if not (error is None or isinstance(error, str)) or not isinstance(heard, str):
        raise ValueError("error or heard is not a text")
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


def _number(written: JsonObject, name: str, most: int) -> int | None:
    if name not in written:
        raise ValueError(f"{name} is missing")
    value = written[name]
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{name} is not a number from 0 to {most}")
    return value
