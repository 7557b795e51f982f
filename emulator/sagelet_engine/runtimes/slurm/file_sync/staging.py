"""Prepares allocations whose nodes share no file system with the server. Bytes go through the endpoint's S3.

A node has the files that it works with at the same path as the server. So script and shims are the same as with a
shared file system, but each runs under a file-sync agent.
"""

import contextlib
import logging
import re
import shlex
import threading
from pathlib import Path

from sagelet_engine.base import json_files, nofollow
from sagelet_engine.base.errors import ClientFault, RuntimeUnavailable, is_known
from sagelet_engine.model.batch_keys import ALLOCATION
from sagelet_engine.model.cluster import AllocationRequest, ClusterContext
from sagelet_engine.model.runtime import LaunchPlan
from sagelet_engine.model.session import session_key
from sagelet_engine.runtimes.node import host_files
from sagelet_engine.runtimes.slurm import files
from sagelet_engine.runtimes.slurm.file_sync import agent
from sagelet_engine.runtimes.slurm.file_sync.server import FileSyncServer, Route

log = logging.getLogger(__name__)

AGENT = Path(agent.__file__)
#: Seconds between looks at what nodes have sent.
LOOK_S = 1.0


class Staging:
    """Prepares the allocations of one server. `data` is the data directory, at the same path on every node."""

    def __init__(self, data: Path, file_sync: FileSyncServer, context: ClusterContext, python: str) -> None:
        self._data = data.absolute()
        self._file_sync = file_sync
        self._context = context
        self._agent = [python, "-I", "-S", str(AGENT)]
        self._closing = threading.Event()
        #: How many bytes of each script's messages have been passed on.
        self._passed: dict[str, int] = {}

    # --- at submission ----------------------------------------------------------------------------------------

    def prologue(self, order: AllocationRequest, directory: Path) -> str:
        """Returns the lines of the allocation's script that make its directory and mirror it while the script runs."""
        base = self._name(directory)
        self._file_sync.open(
            Route(
                account=order.account,
                region=order.region,
                launch_id=order.job_id,
                host=ALLOCATION,
                base=base,
                output=files.LOG,
            )
        )
        context = self._context
        # Credentials belong to the job, so the attempt's number is removed.
        key = session_key(context.keys, re.sub(r"-\d+$", "", order.job_id))
        ticket = self._file_sync.ticket(order.job_id, base, context.url(), key, context.authority())
        command = shlex.join([*self._agent, ALLOCATION, "sleep", "2147483647"])
        quoted = shlex.quote(str(directory))
        return "\n".join(
            (
                f"umask 077; mkdir -p {quoted} || exit 70",
                f"exec >>{quoted}/{files.LOG} 2>&1",
                f"export {agent.TICKET}={ticket}",
                f"{command} &",
                "agent=$!",
                "trap 'kill $agent; wait $agent' EXIT",
                "",
            )
        )

    @property
    def around(self) -> list[str]:
        """Returns the command that runs the shim on each node."""
        return [*self._agent, "host"]

    # --- at launch --------------------------------------------------------------------------------------------

    def check(self, plan: LaunchPlan) -> None:
        """Raises ClientFault if the job needs file systems, warm pools or pipes, since only plain files are synced."""
        for host in plan.hosts:
            if host.mounts or host.cache is not None:
                raise ClientFault(
                    "File systems and warm pools need nodes that share the data directory (--slurm-files shared)"
                )
            if any(path.is_fifo() for path in (host.opt_ml / "input" / "data").glob("*")):
                raise ClientFault("Pipe mode needs nodes that share the data directory; use File or FastFile mode")

    def nodes_are_known(self, job_id: str, directory: Path) -> None:
        """Raises RuntimeUnavailable until the script has said on which nodes it is.

        Raises ClientFault if batches of the script are not accepted any more.
        """
        failed = self._file_sync.route(job_id, ALLOCATION).failed
        if failed:
            raise ClientFault(failed)
        if not (directory / files.NODES).exists() or not (directory / files.ADDRESSES).exists():
            raise RuntimeUnavailable("the nodes of the allocation have not reached the endpoint yet")

    def bring(self, plan: LaunchPlan, directory: Path) -> None:
        """Sends every host its files, then `go.json` to the script. Does not send anything twice."""
        (directory / files.CONTROLS).write_text(f"{directory}/{files.ENDING}\n")
        route = self._file_sync.route(plan.job_id, ALLOCATION)
        common = [self._name(directory / one) for one in (files.GO, files.CONTROLS, files.NODES, files.ADDRESSES)]
        for host in plan.hosts:
            base = self._name(host.opt_ml.parent)
            end = f"{host.run_dir.name}/{host_files.EXIT}"
            output = f"{host.run_dir.name}/{host_files.OUTPUT}"
            self._file_sync.open(
                Route(
                    account=route.account,
                    region=route.region,
                    launch_id=plan.job_id,
                    host=host.name,
                    base=base,
                    output=output,
                    end=end,
                    opt_ml=host.opt_ml.name,
                )
            )
            if self._file_sync.route(plan.job_id, host.name).sent == 0:
                names = [self._name(host.opt_ml), self._name(host.run_dir), *common]
                self._file_sync.send(plan.job_id, host.name, names)
        if route.sent == 0:
            self._file_sync.send(plan.job_id, ALLOCATION, common[:2])

    # --- while it runs ----------------------------------------------------------------------------------------

    def tell(self, job_id: str, run_dir: Path) -> None:
        """Sends a host's control file after it has grown."""
        # A host to which nothing was sent yet gets the control file together with its other files.
        with contextlib.suppress(KeyError):
            if self._file_sync.route(job_id, run_dir.parent.name).sent > 0:
                self._file_sync.send(job_id, run_dir.parent.name, [self._name(run_dir / files.CONTROL)])

    def look(self) -> None:
        """Takes in what nodes have sent. Slurm's signals to a script are passed on to the hosts of all nodes."""
        if self._file_sync.collect() == 0:
            return
        for route in self._file_sync.routes():
            said = self._data / route.base / files.ENDING
            if route.host != ALLOCATION or not said.exists():
                continue
            size = said.stat().st_size
            if size > self._passed.get(route.launch_id, 0):
                self._passed[route.launch_id] = size
                self._pass_on(route)

    def _pass_on(self, route: Route) -> None:
        go = json_files.read_json(self._data / route.base / files.GO)
        for run_dir in [] if go is None else map(Path, go["run_dirs"]):
            with nofollow.update(run_dir, files.CONTROL, append=True) as control:
                control.write(files.SLURM_ENDS.encode())
            self.tell(route.launch_id, run_dir)

    def close(self, job_id: str) -> None:
        self._file_sync.close(job_id)
        self._passed.pop(job_id, None)

    def start(self) -> None:
        """Starts the thread, one for all hosts."""
        threading.Thread(target=self._run, name="file-sync", daemon=True).start()

    def stop(self) -> None:
        self._closing.set()

    def _run(self) -> None:
        while not self._closing.wait(LOOK_S):
            try:
                self.look()
            except Exception as error:
                # The batches are still there at the next look.
                text = "what nodes have sent could not be taken in; trying again: %s"
                log.error(text, error, exc_info=not is_known(error))

    def _name(self, path: Path) -> str:
        return str(path.absolute().relative_to(self._data))


def remote_files(data: Path, state_dir: Path, context: ClusterContext, python: str) -> Staging:
    """See `MakeRemoteFiles`. `data`: the data directory."""
    return Staging(
        data, FileSyncServer(data.absolute(), state_dir.absolute() / ".courier", context.objects), context, python
    )
