"""`make bench-slurm`: queues of 100, 500 and 2,000 jobs in front of 200 virtual nodes. Prints a table; `--write` puts
it into docs/how-to/slurm.md.

Real are sagelet, slurmctld and a slurmd for each node, all on this one machine; a job is `sleep` in a shell. What it
shows is how sagelet's own cost grows with the queue. How fast Slurm starts jobs on real nodes it cannot show.
"""

import argparse
import os
import platform
import statistics
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(Path(__file__).parent)]

import page  # noqa: E402

from support.slurm_cluster import SlurmCluster  # noqa: E402
from support.slurm_load import SHORT, Figures, Queue, settled  # noqa: E402

PAGE = ROOT / "docs" / "how-to" / "slurm.md"
HEAD = (
    "jobs queued",
    "sagelet's CPU, % of a core",
    "its Slurm commands' CPU, %",
    "calls of the controller a second",
    "of them `squeue`",
    "Slurm commands at once, most",
    "threads",
    "memory, MiB",
    "jobs that ended",
    "status late, s: median (most)",
)


def row(figures: Figures) -> tuple[str, ...]:
    calls = sum(figures.calls.values())
    lags = f"{statistics.median(figures.lags):.1f} ({figures.lags[-1]:.1f})" if figures.lags else "none ended"
    return (
        f"{figures.queued:,}",
        f"{100 * figures.server_cpu / figures.seconds:.1f}",
        f"{100 * figures.commands_cpu / figures.seconds:.1f}",
        f"{calls / figures.seconds:.2f}",
        f"{figures.calls.get('squeue', 0) / figures.seconds:.2f}",
        str(figures.most_at_once),
        str(figures.threads),
        f"{figures.memory_mib:.0f}",
        str(figures.ended),
        lags,
    )


def measure(directory: Path, options: argparse.Namespace) -> list[tuple[str, ...]]:
    cluster = SlurmCluster(
        directory / "cluster", nodes=options.nodes, extra="SlurmdTimeout=1800\nMaxJobCount=20000"
    ).start()
    try:
        queue = Queue(cluster, directory, options.rotating, options.own)
        try:
            settled(queue, options.own)
            return [row(one) for one in windows(queue, options)]
        finally:
            queue.close()
    finally:
        cluster.stop()


def windows(queue: Queue, options: argparse.Namespace) -> list[Figures]:
    """Each with a longer queue than the one before; what has left it is filled up."""
    found: list[Figures] = []
    submitted = 0
    for queued in options.queued:
        waiting = submitted - len(queue.ended())
        queue.submit(queued - waiting, SHORT)
        submitted += queued - waiting
        # Until all are in Slurm's queue; then the window shows waiting and rotating alone.
        settle(queue)
        found.append(queue.watch(queued, options.seconds))
        print(row(found[-1]), file=sys.stderr)
    return found


def settle(queue: Queue) -> None:
    """Until no more is submitted for a while."""
    from support.server import until

    last = [-1]

    def quiet() -> bool:
        calls = queue.commands.since()[0]["sbatch"]
        still, last[0] = calls == last[0], calls
        return still

    until(quiet, seconds=1800, every=5.0)


def conditions(options: argparse.Namespace) -> str:
    return (
        f"{datetime.now(timezone.utc):%Y-%m-%d}, {len(os.sched_getaffinity(0))} cores, Python "
        f"{platform.python_version()}, Slurm's own daemons and {options.nodes} slurmd on the same cores, load of the "
        f"machine {os.getloadavg()[0]:.1f}. {options.own} nodes are held by jobs of sagelet's, "
        f"{options.nodes - options.rotating - options.own} by somebody else's; {options.rotating} take jobs of 2 s "
        f"from the queue. Each row is a window of {options.seconds} s; commands are counted from outside "
        "of sagelet."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--own", type=int, default=20, help="nodes that jobs of sagelet's hold")
    parser.add_argument("--rotating", type=int, default=4, help="nodes that the queue drains through")
    parser.add_argument("--queued", type=int, nargs="*", default=[100, 500, 2000])
    parser.add_argument("--seconds", type=int, default=60, help="of each window")
    parser.add_argument("--write", action="store_true", help="put the table into docs/how-to/slurm.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sagelet-slurm-") as directory:
        table = page.table(HEAD, measure(Path(directory), options))
    text = f"{conditions(options)}\n\n{table}"
    print(text)
    if options.write:
        page.write(PAGE, text)


if __name__ == "__main__":
    main()
