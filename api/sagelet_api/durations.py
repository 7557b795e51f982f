"""Writes durations, for pages and for commands alike."""

import itertools
import math

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
#: Fractions of a second are shown below this, unless the duration is known in whole seconds.
_SHORT = 10


def lasted(seconds: float | None) -> str:
    """Returns `0.4 s`, `38 s`, `4 min 10 s`, `3 h 2 min` or `5 d 1 h`; `-` for None.

    What is smaller than the last unit is cut off, never rounded up: AWS counts whole seconds, too.
    """
    if seconds is None:
        return "-"
    if isinstance(seconds, float) and seconds < _SHORT:
        # The addend keeps 0.3 from becoming 0.2, because 0.3 * 10 may be a little less than 3.
        return f"{math.floor(seconds * 10 + 1e-9) / 10:.1f} s"
    whole = int(seconds)
    for (unit, name), (smaller, small_name) in itertools.pairwise(_UNITS):
        if whole >= unit:
            rest = whole % unit // smaller
            return f"{whole // unit} {name}" + (f" {rest} {small_name}" if rest else "")
    return f"{whole} s"
