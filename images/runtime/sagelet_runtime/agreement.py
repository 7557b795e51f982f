"""The hosts of a job agree on their device before their workers start.

Each host tries its own GPUs. One that trains natively and one that is compiled would wait for each other for ever. So
every host tells the first one what it found, at the port where their workers meet afterwards, and hears from it what
all found; what follows from that is the same on each.
"""

import json
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sagelet_runtime.device import DeviceChoice
from sagelet_runtime.probe import PATIENCE
from sagelet_runtime.world.layout import JOB_ID

#: From the platform: how many GPUs the job's hosts have together. With none there is nothing that may differ.
JOB_GPUS = "SAGELET_JOB_GPUS"
#: Seconds for all hosts to come up and to try their GPUs.
SECONDS = PATIENCE + 360.0
#: Seconds between two looks for the first host, and for one exchange with it.
_PAUSE, _EXCHANGE = 0.2, 10.0
#: Bytes of what one host, or all, may say.
_LIMIT = 1 << 20


class HostsDisagree(Exception):
    """The hosts cannot train together, or one did not say what it has. Names them, and what each has."""


@dataclass(frozen=True)
class Meeting:
    #: All of them, the first being the one at `address`.
    hosts: tuple[str, ...]
    current: str
    address: str
    port: int
    #: Sets it apart from another job at the same port.
    job: str
    seconds: float = SECONDS


def agreed(choice: DeviceChoice, meeting: Meeting) -> DeviceChoice:
    """The choice of this host, after those of all others. Raises HostsDisagree, then on every host."""
    own = {"job": meeting.job, "host": meeting.current, "kind": choice.kind, "compiled": choice.compiled}
    own["reason"] = choice.reason
    said = _gather(meeting, own) if meeting.current == meeting.hosts[0] else _tell(meeting, own)
    return settled(choice, [said[host] for host in meeting.hosts])


def settled(choice: DeviceChoice, said: Sequence[Mapping[str, object]]) -> DeviceChoice:
    """All compile where all can; where one cannot, all train natively. Raises HostsDisagree for different devices."""
    if len({one["kind"] for one in said}) > 1:
        each = "; ".join(f"{one['host']} {one['kind']} ({one['reason']})" for one in said)
        raise HostsDisagree(
            f"The hosts of this job have different devices and cannot train together: {each}. "
            "Give all of them the same GPUs, or set PJRT_DEVICE=CPU in the job's Environment"
        )
    failed = [one for one in said if not one["compiled"]]
    if not failed or not choice.compiled:
        return choice
    return replace(choice, compiled=False, environment={}, reason=f"on {failed[0]['host']} {failed[0]['reason']}")


def wanted(hosts: Sequence[str], current: str, environ: Mapping[str, str]) -> bool:
    """Whether the hosts, this one among them, may find different devices."""
    return len(hosts) > 1 and current in hosts and environ.get(JOB_GPUS, "0") not in ("", "0")


def meeting_of(hosts: Sequence[str], current: str, address: str, port: str, environ: Mapping[str, str]) -> Meeting:
    return Meeting(tuple(hosts), current, address, int(port), environ.get(JOB_ID, ""))


def _gather(meeting: Meeting, own: dict[str, object]) -> dict[str, dict[str, object]]:
    """The first host's part. Listens no more when it answers: workers take its port for their store's."""
    said, waiting = {meeting.current: own}, []
    deadline = time.monotonic() + meeting.seconds
    with socket.create_server(("", meeting.port)) as server:
        while missing := [host for host in meeting.hosts if host not in said]:
            server.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                connection, _ = server.accept()
            except TimeoutError:
                raise HostsDisagree(_too_late(meeting, missing)) from None
            heard = _heard(connection)
            if heard.get("job") == meeting.job and heard.get("host") in meeting.hosts:
                said[str(heard["host"])] = heard
                waiting.append(connection)
            else:
                connection.close()
    for connection in waiting:
        with connection:
            connection.sendall(json.dumps(said).encode() + b"\n")
    return said


def _tell(meeting: Meeting, own: dict[str, object]) -> dict[str, dict[str, object]]:
    """Another host's part."""
    deadline = time.monotonic() + meeting.seconds
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((meeting.address, meeting.port), timeout=_EXCHANGE) as connection:
                connection.sendall(json.dumps(own).encode() + b"\n")
                found = _line(connection, deadline - time.monotonic())
        except OSError:
            found = b""  # It is not up yet, or its end came early.
        answer = _parsed(found)
        if set(answer) == set(meeting.hosts):
            return answer
        time.sleep(_PAUSE)
    raise HostsDisagree(_too_late(meeting, meeting.hosts[:1]))


def _heard(connection: socket.socket) -> dict[str, Any]:
    """What another host says; empty for whoever else came to this port."""
    try:
        return _parsed(_line(connection, _EXCHANGE))
    except OSError:
        return {}


def _parsed(line: bytes) -> dict[str, Any]:
    """A JSON object; empty for anything else."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _line(connection: socket.socket, seconds: float) -> bytes:
    """What comes up to a line feed, or to the end."""
    connection.settimeout(max(0.01, seconds))
    found = b""
    while not found.endswith(b"\n") and len(found) < _LIMIT:
        chunk = connection.recv(65536)
        if not chunk:
            break
        found += chunk
    return found


def _too_late(meeting: Meeting, missing: Sequence[str]) -> str:
    return (
        f"{', '.join(missing)} did not say within {meeting.seconds:.0f} s which device it has, and {meeting.current} "
        "cannot train without it. See the log of that host"
    )
