"""What Inductor could not compile: it runs natively, and the log and the report say so."""

from __future__ import annotations

from sagelet_runtime.base.say import say_once

#: Faults kept for the report, at most.
MOST = 16
#: Characters of a fault that are kept.
SHOWN = 300
_noted: dict[str, int] = {}


def note(what: str, error: Exception) -> None:
    """Counts a fault and says it once. The script goes on."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{what}: {type(error).__name__}: {lines[0] if lines else ''}"[:SHOWN]
    if text not in _noted:
        say_once(f"Inductor cannot compile a part of the model, which runs natively: {text}")
    if text in _noted or len(_noted) < MOST:
        _noted[text] = _noted.get(text, 0) + 1


def noted() -> dict[str, int]:
    """Returns how often each fault happened."""
    return dict(_noted)
