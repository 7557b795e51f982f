"""The hosts of a job agree on their device before their workers start.

Each host tries its own GPUs. A host that trains natively and one that is compiled would wait for each other for ever.
So every host reports to the first host what it found, at the port where their workers meet afterwards. The first host
answers with the reports of all. Each host draws the same conclusion from them.
"""

import json
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sagelet_runtime.base.wire import JsonObject
from sagelet_runtime.collectives.layout import JOB_ID
from sagelet_runtime.gpu.device import DeviceChoice
from sagelet_runtime.gpu.probe import TIMEOUT_S

#: The number of GPUs of all hosts of the job, set by the engine. With 0, hosts cannot differ.
JOB_GPUS = "SAGELET_JOB_GPUS"
#: Seconds in which all hosts must come up and try their GPUs.
SECONDS = TIMEOUT_S + 360.0
#: Seconds between two attempts to reach the first host, and seconds for one exchange with it.
_PAUSE, _EXCHANGE = 0.2, 10.0
#: Bytes of one message, at most.
_LIMIT = 1 << 20


class HostsDisagree(Exception):
    """The hosts have different devices, or one did not report. Names the hosts, and the device of each."""


@dataclass(frozen=True)
class Meeting:
    #: All hosts of the job. The first one listens at `address`.
    hosts: tuple[str, ...]
    current: str
    address: str
    port: int
    #: The job's id, which tells it from another job at the same port.
    job: str
    seconds: float = SECONDS


def agreed(choice: DeviceChoice, meeting: Meeting) -> DeviceChoice:
    """Returns the choice of this host in view of all others. Raises HostsDisagree on every host if devices differ."""
    own = {"job": meeting.job, "host": meeting.current, "kind": choice.kind, "compiled": choice.compiled}
    own["reason"] = choice.reason
    said = _gather(meeting, own) if meeting.current == meeting.hosts[0] else _tell(meeting, own)
    return _common_choice(choice, [said[host] for host in meeting.hosts])


def _common_choice(choice: DeviceChoice, said: Sequence[Mapping[str, object]]) -> DeviceChoice:
    """Returns `choice`, or a native one if any host cannot compile. Raises HostsDisagree for different devices."""
    # The name is before the `_`: CPUs of different clients train together.
    if len({str(one["kind"]).partition("_")[0] for one in said}) > 1:
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
    """True if the hosts may find different devices and this host is one of them."""
    return len(hosts) > 1 and current in hosts and environ.get(JOB_GPUS, "0") not in ("", "0")


def meeting_of(hosts: Sequence[str], current: str, address: str, port: str, environ: Mapping[str, str]) -> Meeting:
    return Meeting(tuple(hosts), current, address, int(port), environ.get(JOB_ID, ""))


def _gather(meeting: Meeting, own: dict[str, object]) -> dict[str, dict[str, object]]:
    """Collects the reports on the first host, stops listening, and answers. Workers use the port for their store."""
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
    """Reports to the first host, from any other host, and returns the reports of all."""
    deadline = time.monotonic() + meeting.seconds
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((meeting.address, meeting.port), timeout=_EXCHANGE) as connection:
                connection.sendall(json.dumps(own).encode() + b"\n")
                found = _line(connection, deadline - time.monotonic())
        except OSError:
            found = b""  # The first host is not up yet, or it closed the connection early.
        answer = _parsed(found)
        if set(answer) == set(meeting.hosts):
            return answer
        time.sleep(_PAUSE)
    raise HostsDisagree(_too_late(meeting, meeting.hosts[:1]))


def _heard(connection: socket.socket) -> JsonObject:
    """Reads the report of another host. Empty if another program connected to this port."""
    try:
        return _parsed(_line(connection, _EXCHANGE))
    except OSError:
        return {}


def _parsed(line: bytes) -> JsonObject:
    """Parses a JSON object. Empty for anything else."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _line(connection: socket.socket, seconds: float) -> bytes:
    """Reads up to a line feed or the end, and not much more than _LIMIT bytes."""
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
