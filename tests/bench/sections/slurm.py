"""Long queues of jobs in front of a Slurm cluster of virtual nodes.

Real are sagelet, slurmctld and a slurmd for each node, all on this one machine; a job is `sleep` in a shell. It shows
how sagelet's own cost grows with the queue. How fast Slurm starts jobs on real nodes it cannot show.
"""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.tables import Cell, Scale, Table
from support.server import until
from support.slurm_cluster import SlurmCluster
from support.slurm_load import SHORT, Figures, Queue, settled

HEADS = (
    ("jobs queued", "sagelet's CPU, % of a core", "its Slurm commands' CPU, %", "calls of the controller a second",
     "of them `squeue`", "Slurm commands at once, most", "threads", "memory, MiB", "jobs that ended",
     "status late, s: median (most)"),
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    nodes: int
    #: Nodes that jobs of the server hold, and nodes that the queue drains through.
    own: int
    rotating: int
    queued: tuple[int, ...]
    #: Of each window.
    seconds: int


PLANS = {Scale.FULL: Plan(200, 20, 4, (100, 500, 2000), 60), Scale.SHORT: Plan(6, 1, 2, (5,), 10)}


def run(scale: Scale) -> list[Table]:
    plan = PLANS[scale]
    with tempfile.TemporaryDirectory(prefix="bench-slurm-") as name, ExitStack() as stack:
        directory, extra = Path(name), "SlurmdTimeout=1800\nMaxJobCount=20000"
        cluster = SlurmCluster(directory / "cluster", nodes=plan.nodes, extra=extra).start()
        stack.callback(cluster.stop)
        queue = Queue(cluster, directory, plan.rotating, plan.own)
        stack.callback(queue.close)
        settled(queue, plan.own)
        rows = [_row(one) for one in _windows(queue, plan)]
    return [
        Table(
            "Queues of several lengths",
            HEADS[0],
            rows,
            f"Slurm's own daemons and {plan.nodes} slurmd are on the same cores. {plan.own} nodes are held by jobs of "
            f"sagelet's, {plan.nodes - plan.rotating - plan.own} by somebody else's; {plan.rotating} take jobs of 2 s "
            f"from the queue. Each row is a window of {plan.seconds} s; commands are counted from outside of sagelet.",
            {"windows": len(rows), "windows planned": len(plan.queued)},
        )
    ]


def _windows(queue: Queue, plan: Plan) -> Iterator[Figures]:
    """Each with a longer queue than the one before; what has left it is filled up."""
    submitted = 0
    for queued in plan.queued:
        more = queued - submitted + len(queue.ended())
        queue.submit(more, SHORT)
        submitted += more
        # Until all are in Slurm's queue; then the window shows waiting and rotating alone.
        _settle(queue)
        yield queue.watch(queued, plan.seconds)


def _settle(queue: Queue) -> None:
    """Until no more is submitted for a while."""
    last = [-1]

    def quiet() -> bool:
        calls = queue.commands.since()[0]["sbatch"]
        still, last[0] = calls == last[0], calls
        return still

    until(quiet, seconds=1800, every=5.0)


def _row(figures: Figures) -> tuple[Cell, ...]:
    seconds = figures.seconds
    return (
        figures.queued,
        100 * figures.server_cpu / seconds,
        100 * figures.commands_cpu / seconds,
        sum(figures.calls.values()) / seconds,
        figures.calls.get("squeue", 0) / seconds,
        figures.most_at_once,
        figures.threads,
        round(figures.memory_mib),
        figures.ended,
        f"{median(figures.lags):.1f} ({max(figures.lags):.1f})" if figures.lags else "none ended",
    )
