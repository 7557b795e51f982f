"""Long lists: how long all pages of one list take, asked of a server that is a process of its own."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from bench import load, servers
from bench.tables import Bar, Figure, Table, percentiles_ms
from support.server import SageletProcess

HEADS = ("entries", "lists", "p50 ms", "p99 ms", "CPU ms", "promised")


def table(
    title: str,
    server: SageletProcess,
    operation: str,
    ask: Callable[..., dict[str, Any]],
    body: dict[str, Any],
    *,
    of: str,
    planned: int,
    rounds: int,
    lists: int,
    most_ms: float,
) -> Table:
    """Measures a list. `ask` is boto3's method of the operation, `of` the member of its answer that has the entries,
    `most_ms` the promise.
    """
    bodies, entries, token = [], 0, None
    while not bodies or token:
        bodies.append({**body, "NextToken": token} if token else body)
        answer = ask(**bodies[-1])
        entries, token = entries + len(answer[of]), answer.get("NextToken")
    pages = [load.signed(server.endpoint, operation, one) for one in bodies]
    _round(server, pages * 10, len(pages), of)  # once for what is loaded at its first use
    found = [_round(server, pages * lists, len(pages), of) for _ in range(rounds)]
    whole = [one for seconds, _ in found for one in seconds]
    cpu = 1000 * statistics.median(cpu / lists for _, cpu in found)
    p99 = [percentiles_ms(seconds, 99)[0] for seconds, _ in found]
    promised = Bar("p99 ms", Figure(statistics.median(p99), min(cpu, *p99), max(p99)), most_ms, at_most=True)
    return Table(
        title,
        HEADS,
        [(entries, len(whole), percentiles_ms(whole, 50)[0], Figure.of(p99), cpu, promised)],
        f"{operation} in {len(pages)} pages of {body['MaxResults']}: milliseconds for all, one client. The 99th "
        f"percentile is the median of {rounds} rounds. CPU is what the server took for a list; on a machine with other "
        "work the promise lies between that and the percentile.",
        {"entries listed": (entries, planned)},
    )


def _round(server: SageletProcess, requests: Sequence[bytes], pages: int, of: str) -> tuple[list[float], float]:
    """Returns the seconds of each list, and the CPU seconds that the server took for all."""
    with servers.watched(server.process) as cost:
        outcome = load.send(server.endpoint, requests, 1, of.encode())
    if outcome.wrong or outcome.connection_errors:
        raise RuntimeError(f"sagelet answered with {outcome.excerpt}")
    seconds = outcome.seconds
    return [sum(seconds[first : first + pages]) for first in range(0, len(seconds), pages)], cost.cpu
