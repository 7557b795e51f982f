"""Decides whether Inductor compiles a job that asks for the compiler. Pure, apart from looking for programs."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from importlib import util

#: The compiler that the user chose in the job's Environment.
VARIABLE = "SAGELET_COMPILER"
XLA, INDUCTOR, AUTO = "xla", "inductor", "auto"


class UnknownCompiler(Exception):
    """SAGELET_COMPILER has another value than those that sagelet knows."""

    def __init__(self, value: str) -> None:
        super().__init__(
            f"SAGELET_COMPILER is {value!r} in the job's Environment; use {INDUCTOR!r}, {XLA!r} or {AUTO!r}"
        )


def chosen(environ: Mapping[str, str]) -> str | None:
    """Returns the compiler that the user chose, or None for sagelet's choice. Raises UnknownCompiler."""
    value = environ.get(VARIABLE, "").strip().lower()
    if value not in ("", XLA, INDUCTOR, AUTO):
        raise UnknownCompiler(environ[VARIABLE])
    return value or None


def problem(environ: Mapping[str, str], *, on_gpus: bool = False) -> str | None:
    """Returns why Inductor cannot work on this host, or None. It writes C++, and for GPUs Triton's language."""
    if on_gpus and util.find_spec("triton") is None:
        return "Inductor needs Triton for GPUs, which is not installed; install triton"
    names = (environ["CXX"],) if environ.get("CXX") else ("g++", "clang++")
    if any(shutil.which(name, path=environ.get("PATH")) for name in names):
        return None
    return f"Inductor needs a C++ compiler, and this host has no {' or '.join(names)}; install g++ (or set CXX)"
