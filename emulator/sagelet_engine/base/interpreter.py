"""How Python runs in sagelet's own processes: when it looks for garbage, and when threads take turns.

The command `sagelet` and the server of a test call this. sagelet within another program leaves that program's Python
alone.
"""

import atexit
import gc
import sys

#: New objects after which Python looks for cycles. A burst of log lines makes many objects without cycles. With
#: Python's own 700, such looks took a third of the time of a line.
GARBAGE_THRESHOLD = 20_000
#: Seconds after which a thread that computes lets another compute. With Python's own 0.005, a request waited that long
#: for the scheduler's or the outbox's thread each time it came back from the disk.
SWITCH_S = 0.0005


def set_for_command() -> None:
    """Call it first. Otherwise Python ends a command with a long search for garbage in all that was imported."""
    gc.set_threshold(GARBAGE_THRESHOLD)
    atexit.register(gc.freeze)


def set_for_server() -> None:
    """Call it before the server is imported: the import makes many objects without cycles, too."""
    gc.set_threshold(GARBAGE_THRESHOLD)
    sys.setswitchinterval(SWITCH_S)
