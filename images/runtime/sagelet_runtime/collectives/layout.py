"""Reads this worker's rank and world from the variables that launchers set (torchrun's names)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

#: Seconds that workers wait for the others to reach their first collective.
JOIN_TIMEOUT = "SAGELET_WORLD_JOIN_TIMEOUT"
#: Seconds that a worker waits inside one collective. Meanwhile other workers may preprocess data or compile.
COLLECTIVE_TIMEOUT = "SAGELET_COLLECTIVE_TIMEOUT"
_DEFAULT_TIMEOUT = 1800
#: An id that is unique for each launch of a job. The engine sets it.
JOB_ID = "SAGELET_JOB_ID"


class LayoutError(ValueError):
    """The launcher's variables do not describe a worker. Names the variable."""


@dataclass(frozen=True)
class Layout:
    rank: int
    size: int
    local_rank: int
    #: The number of workers on this host.
    local_size: int
    #: Index of this host.
    host: int
    #: The address at which rank 0 serves the store.
    address: str
    port: int
    join_timeout: timedelta
    collective_timeout: timedelta
    #: The job's id, empty outside of a job. It tells this job from another one at the same port at another time.
    job: str
    #: The attempt of a launcher that starts failed workers again and keeps its store.
    attempt: str

    @property
    def hosts(self) -> int:
        return -(-self.size // self.local_size)


def read_layout(environ: Mapping[str, str]) -> Layout | None:
    """Returns the worker's layout, or None for a worker that is alone. Raises LayoutError."""
    size = _number(environ, "WORLD_SIZE", 1)
    if size < 1:
        raise LayoutError(f"WORLD_SIZE={size} is not a number of workers")
    if size == 1:
        return None
    rank = _below(environ, "RANK", size)
    local_size = _number(environ, "LOCAL_WORLD_SIZE", size)
    if not 1 <= local_size <= size:
        raise LayoutError(f"LOCAL_WORLD_SIZE={local_size} does not fit WORLD_SIZE={size}")
    return Layout(
        rank=rank,
        size=size,
        local_rank=_below(environ, "LOCAL_RANK", local_size, rank % local_size),
        local_size=local_size,
        host=_number(environ, "GROUP_RANK", rank // local_size),
        address=_required(environ, "MASTER_ADDR"),
        port=_number(environ, "MASTER_PORT"),
        join_timeout=_seconds(environ, JOIN_TIMEOUT),
        collective_timeout=_seconds(environ, COLLECTIVE_TIMEOUT),
        job=environ.get(JOB_ID, ""),
        attempt=environ.get("TORCHELASTIC_RESTART_COUNT", "0"),
    )


def own_group(groups: Sequence[Sequence[int]], rank: int, size: int) -> tuple[int, ...]:
    """Returns the group of `rank` in `groups`, which has the form of `xm`'s collectives.

    Raises ValueError unless every ordinal is in exactly one group, as XLA's replica groups require.
    """
    if sorted(one for group in groups for one in group) != list(range(size)):
        raise ValueError(
            f"groups={[list(group) for group in groups]} must hold each of the {size} ordinals exactly "
            "once; put those that have nothing to exchange into groups of their own, or use "
            "torch.distributed.new_group, whose collectives only its members call"
        )
    return tuple(next(group for group in groups if rank in group))


def _required(environ: Mapping[str, str], name: str) -> str:
    try:
        return environ[name]
    except KeyError:
        raise LayoutError(f"{name} is not set, and WORLD_SIZE={environ.get('WORLD_SIZE')} workers need it") from None


def _number(environ: Mapping[str, str], name: str, default: int | None = None) -> int:
    if default is not None and not environ.get(name):
        return default
    text = _required(environ, name)
    try:
        return int(text)
    except ValueError:
        raise LayoutError(f"{name}={text} is not a whole number") from None


def _below(environ: Mapping[str, str], name: str, limit: int, default: int | None = None) -> int:
    found = _number(environ, name, default)
    if not 0 <= found < limit:
        raise LayoutError(f"{name}={found} is not between 0 and {limit - 1}")
    return found


def _seconds(environ: Mapping[str, str], name: str) -> timedelta:
    seconds = _number(environ, name, _DEFAULT_TIMEOUT)
    if seconds < 1:
        raise LayoutError(f"{name}={seconds} is not a number of seconds above 0")
    return timedelta(seconds=seconds)
