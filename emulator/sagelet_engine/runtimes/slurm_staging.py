"""Bytes of a cluster whose nodes share no file system with the server: through the endpoint's S3 (`courier`).

A node makes the files that it works with at the same place as on the server, so script and keepers are the same as with
a shared file system, but for a carrier around each.
"""

import contextlib
import logging
import re
import shlex
import threading
from pathlib import Path

from sagelet_engine import nofollow
from sagelet_engine.errors import ClientFault, RuntimeUnavailable
from sagelet_engine.jobs.session import session_key
from sagelet_engine.runtimes import host_carrier, host_files
from sagelet_engine.runtimes import slurm_files as files
from sagelet_engine.runtimes.cluster import Ground, Order
from sagelet_engine.runtimes.courier import Courier, Route
from sagelet_engine.runtimes.parcels import ALLOCATION
from sagelet_engine.runtimes.port import LaunchPlan

log = logging.getLogger(__name__)

CARRIER = Path(host_carrier.__file__)
#: Seconds between looks at what nodes have sent.
LOOK_S = 1.0


class Staging:
    """`data` is the data directory, at the same place on every node."""

    def __init__(self, data: Path, courier: Courier, ground: Ground, python: str) -> None:
        self._data = data.absolute()
        self._courier = courier
        self._ground = ground
        self._carrier = [python, "-I", "-S", str(CARRIER)]
        self._closing = threading.Event()
        #: How much of what a script has said has been passed on.
        self._passed: dict[str, int] = {}

    # --- at submission ----------------------------------------------------------------------------------------

    def prologue(self, order: Order, directory: Path) -> str:
        """Of the allocation's script: makes its directory, and mirrors it as long as the script runs."""
        base = self._name(directory)
        self._courier.open(Route(order.account, order.region, order.job_id, ALLOCATION, base, files.LOG))
        ground = self._ground
        # The credentials are the job's, whichever attempt this is.
        key = session_key(ground.keys, re.sub(r"-\d+$", "", order.job_id))
        ticket = self._courier.ticket(order.job_id, base, ground.url(), key, ground.authority())
        carrier = shlex.join([*self._carrier, ALLOCATION, "sleep", "2147483647"])
        quoted = shlex.quote(str(directory))
        return "\n".join(
            (
                f"umask 077; mkdir -p {quoted} || exit 70",
                f"exec >>{quoted}/{files.LOG} 2>&1",
                f"export {host_carrier.TICKET}={ticket}",
                f"{carrier} &",
                "carrier=$!",
                "trap 'kill $carrier; wait $carrier' EXIT",
                "",
            )
        )

    @property
    def around(self) -> list[str]:
        """What runs the keeper on each node."""
        return [*self._carrier, "host"]

    # --- at launch --------------------------------------------------------------------------------------------

    def check(self, plan: LaunchPlan) -> None:
        """Raises ClientFault for what needs more than files."""
        for host in plan.hosts:
            if host.mounts or host.cache is not None:
                raise ClientFault(
                    "File systems and warm pools need nodes that share the data directory (--slurm-files shared)"
                )
            if any(path.is_fifo() for path in (host.opt_ml / "input" / "data").glob("*")):
                raise ClientFault("Pipe mode needs nodes that share the data directory; use File or FastFile mode")

    def nodes_are_known(self, job_id: str, directory: Path) -> None:
        """Raises RuntimeUnavailable until the script has said on which nodes it is.

        Raises ClientFault when nothing is taken from it any more.
        """
        failed = self._courier.route(job_id, ALLOCATION).failed
        if failed:
            raise ClientFault(failed)
        if not (directory / files.NODES).exists() or not (directory / files.ADDRESSES).exists():
            raise RuntimeUnavailable("the nodes of the allocation have not reached the endpoint yet")

    def bring(self, plan: LaunchPlan, directory: Path) -> None:
        """Sends every host its files, then the script the word to go. What was sent before is not sent again."""
        (directory / files.CONTROLS).write_text(f"{directory}/{files.ENDING}\n")
        route = self._courier.route(plan.job_id, ALLOCATION)
        common = [self._name(directory / one) for one in (files.GO, files.CONTROLS, files.NODES, files.ADDRESSES)]
        for host in plan.hosts:
            base = self._name(host.opt_ml.parent)
            end = f"{host.run_dir.name}/{host_files.EXIT}"
            output = f"{host.run_dir.name}/{host_files.OUTPUT}"
            self._courier.open(
                Route(route.account, route.region, plan.job_id, host.name, base, output, end, host.opt_ml.name)
            )
            if self._courier.route(plan.job_id, host.name).sent == 0:
                names = [self._name(host.opt_ml), self._name(host.run_dir), *common]
                self._courier.send(plan.job_id, host.name, names)
        if route.sent == 0:
            self._courier.send(plan.job_id, ALLOCATION, common[:2])

    # --- while it runs ----------------------------------------------------------------------------------------

    def tell(self, job_id: str, run_dir: Path) -> None:
        """A host's control file has grown."""
        # A host that was sent nothing yet is told with the rest.
        with contextlib.suppress(KeyError):
            if self._courier.route(job_id, run_dir.parent.name).sent > 0:
                self._courier.send(job_id, run_dir.parent.name, [self._name(run_dir / files.CONTROL)])

    def look(self) -> None:
        """Takes in what nodes have sent; what a script was told by Slurm goes on to the hosts of all nodes."""
        if self._courier.collect() == 0:
            return
        for route in self._courier.routes():
            said = self._data / route.base / files.ENDING
            if route.host != ALLOCATION or not said.exists():
                continue
            size = said.stat().st_size
            if size > self._passed.get(route.launch_id, 0):
                self._passed[route.launch_id] = size
                self._pass_on(route)

    def _pass_on(self, route: Route) -> None:
        go = host_files.read_json(self._data / route.base / files.GO)
        for run_dir in [] if go is None else map(Path, go["run_dirs"]):
            with nofollow.update(run_dir, files.CONTROL, append=True) as control:
                control.write(files.SLURM_ENDS.encode())
            self.tell(route.launch_id, run_dir)

    def close(self, job_id: str) -> None:
        self._courier.close(job_id)
        self._passed.pop(job_id, None)

    def start(self) -> None:
        """One thread, however many hosts there are."""
        threading.Thread(target=self._run, name="courier", daemon=True).start()

    def stop(self) -> None:
        self._closing.set()

    def _run(self) -> None:
        while not self._closing.wait(LOOK_S):
            try:
                self.look()
            except Exception:
                # What could not be taken in is there at the next look.
                log.exception("what nodes have sent could not be taken in; trying again")

    def _name(self, path: Path) -> str:
        return str(path.absolute().relative_to(self._data))
