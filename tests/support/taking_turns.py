"""Jobs that take turns, so that two of them never run at the same time and a load of the machine affects all."""

import socket
import subprocess
from collections.abc import Callable, Mapping
from typing import TextIO

from support.training_host import TrainingHost

#: Starts a job, which asks for its turns at `host:port`.
Start = Callable[[str], tuple[TrainingHost, "subprocess.Popen[str]"]]
#: Seconds until a job's first turn, and until a job has ended after its last.
CONNECTING, ENDING = 600, 1800


def in_turns(starts: Mapping[str, Start]) -> dict[str, TrainingHost]:
    """Runs the jobs to their ends. A job reads a line before each of its turns, and writes one after it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(CONNECTING)
        turns = f"127.0.0.1:{listening.getsockname()[1]}"
        hosts, players = {}, []
        for name, start in starts.items():
            hosts[name] = start(turns)
            # Each stands still until its first turn, so the next one starts on an idle machine.
            players.append(listening.accept()[0].makefile("rw"))
        while players:
            # The other way round each time, so that no job is always the first of a round.
            players = [player for player in players if _take_turn(player)][::-1]
    for host, process in hosts.values():
        code = process.wait(timeout=ENDING)
        assert code == 0, host.log
    return {name: host for name, (host, _) in hosts.items()}


def _take_turn(player: TextIO) -> bool:
    """Returns False when the job has ended."""
    try:
        player.write("go\n")
        player.flush()
        return bool(player.readline())
    except OSError:
        return False
