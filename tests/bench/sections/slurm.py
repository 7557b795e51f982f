"""Long queues of jobs in front of a Slurm cluster of virtual nodes.

sagelet, slurmctld and a slurmd for each node are real, all on this one machine. A job is `sleep` in a shell. The table
shows how sagelet's own cost grows with the queue. It cannot show how fast Slurm starts jobs on real nodes.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.tables import Row, Scale, Table
from support.server import until
from support.slurm_cluster import SlurmCluster
from support.slurm_load import SHORT, Figures, Queue, wait_until_held

HEADS = (
    ("jobs queued", "sagelet's CPU, % of a core", "its Slurm commands' CPU, %", "calls of the controller a second",
     "of them `squeue`", "Slurm commands at once, most", "threads", "memory, MiB", "jobs that ended",
     "status late, s: median (most)"),
)  # fmt: skip


class Plan(NamedTuple):
    nodes: int
    #: Nodes that jobs of the server hold.
    own: int
    #: Nodes that the queue drains through.
    rotating: int
    queued: tuple[int, ...]
    #: Seconds of each window.
    seconds: int


PLANS = {Scale.FULL: Plan(200, 20, 4, (100, 500, 2000), 60), Scale.SHORT: Plan(6, 1, 2, (5,), 10)}


def run(scale: Scale, directory: Path) -> list[Table]:
    plan = PLANS[scale]
    extra = "SlurmdTimeout=1800\nMaxJobCount=20000"
    with ExitStack() as stack:
        cluster = SlurmCluster(directory / "cluster", nodes=plan.nodes, extra=extra).start()
        stack.callback(cluster.stop)
        queue = Queue(cluster, directory, plan.rotating, plan.own)
        stack.callback(queue.close)
        wait_until_held(queue, plan.own)
        rows = [_row(one) for one in _windows(queue, plan)]
    conditions = (
        f"Slurm's own daemons and {plan.nodes} slurmd are on the same cores. {plan.own} nodes are held by jobs of "
        f"sagelet's, {plan.nodes - plan.rotating - plan.own} by somebody else's; {plan.rotating} take jobs of 2 s "
        f"from the queue. Each row is a window of {plan.seconds} s; commands are counted from outside of sagelet."
    )
    counts = {"windows": (len(rows), len(plan.queued))}
    return [Table("Queues of several lengths", HEADS[0], rows, conditions, counts)]


def _windows(queue: Queue, plan: Plan) -> Iterator[Figures]:
    """Yields a window for each length of the queue. Jobs that have left the queue are replaced first."""
    submitted = 0
    for queued in plan.queued:
        more = queued - submitted + len(queue.ended())
        queue.submit(more, SHORT)
        submitted += more
        _wait_until_submitted(queue)
        yield queue.watch(queued, plan.seconds)


def _wait_until_submitted(queue: Queue) -> None:
    """Waits until `sbatch` has not run for 5 s: all jobs are then in Slurm's queue."""
    last = -1

    def quiet() -> bool:
        nonlocal last
        before, last = last, queue.commands.since()[0]["sbatch"]
        return before == last

    until(quiet, seconds=1800, every=5.0)


def _row(figures: Figures) -> Row:
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
