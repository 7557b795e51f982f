"""The jobs that wait for their hosts, in the order they came, and by what would let them have a warm pool's."""

from collections import OrderedDict, defaultdict
from collections.abc import Iterable


class WaitingJobs:
    """Ids of jobs. Each operation takes the same time however many wait. Not thread-safe."""

    def __init__(self) -> None:
        self._keys: OrderedDict[str, str | None] = OrderedDict()
        self._by_key: defaultdict[str, OrderedDict[str, None]] = defaultdict(OrderedDict)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._keys

    def __bool__(self) -> bool:
        return bool(self._keys)

    def add(self, job_id: str, key: str | None) -> None:
        """`key`: see `warm_pools.match_key`."""
        self._keys[job_id] = key
        if key is not None:
            self._by_key[key][job_id] = None

    def remove(self, job_id: str) -> None:
        key = self._keys.pop(job_id)
        if key is not None:
            del self._by_key[key][job_id]
            if not self._by_key[key]:
                del self._by_key[key]

    def head(self) -> str:
        return next(iter(self._keys))

    def first_with(self, keys: Iterable[str]) -> str | None:
        """The first job of a key that somebody waits with."""
        return next((next(iter(self._by_key[key])) for key in keys if key in self._by_key), None)
