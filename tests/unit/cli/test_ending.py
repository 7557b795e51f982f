"""How a foreground server waits for its end."""

import subprocess
import sys

import pytest

#: Interrupts the wait at ever other places: ten thousand signals, one every 100 microseconds.
SIGNALLED = """
import signal
from sagelet_api.ending import EndRequests

end, asked = EndRequests(), 0
signal.signal(signal.SIGALRM, signal.getsignal(signal.SIGTERM))
signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
while asked < 10_000:
    asked += end.wait(1e-4) is not None
signal.setitimer(signal.ITIMER_REAL, 0)
print("waited")
"""

FIRST = """
import os, signal
from sagelet_api.ending import EndRequests

end = EndRequests()
print(end.wait(0))
{asks}
print(repr(end.wait()))
"""


def printed(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.mark.parametrize(
    ("asks", "reason"),
    [
        ("end.ask('jobs')", "'jobs'"),
        ("os.kill(os.getpid(), signal.SIGTERM)", "''"),
        ("os.kill(os.getpid(), signal.SIGINT)", "''"),
        ("end.ask('jobs'); os.kill(os.getpid(), signal.SIGTERM)", "'jobs'"),
    ],
)
def test_the_first_request_is_told(asks: str, reason: str) -> None:
    assert printed(FIRST.format(asks=asks)) == f"None\n{reason}\n"


def test_a_signal_may_come_at_any_point_of_the_wait() -> None:
    assert printed(SIGNALLED) == "waited\n"
