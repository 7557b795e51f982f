"""xm's collectives between the workers. Signatures and meanings are those of torch_xla 2.9's `xla_model`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional

from sagelet_runtime.base.pairs import paired
from sagelet_runtime.collectives import counters, transfer
from sagelet_runtime.collectives.group import HostGroup
from sagelet_runtime.collectives.joined import World

Groups = Optional[Sequence[Sequence[int]]]


def describe(call: str, tensors: Sequence[Any], *details: object) -> str:
    """Describes a collective, for messages. All workers of a group must have the same description."""
    parts = [str(detail) for detail in details]
    parts += [f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}" for tensor in tensors]
    return f"{call}({', '.join(parts)})"


def on_host(
    group: HostGroup, what: str, tensors: Sequence[Any], exchange: Callable[[list[Any]], list[Any]]
) -> list[Any]:
    """Calls `exchange` on copies of `tensors` in host memory. Returns its results on the tensors' device.

    The graph is cut once, before the collective.
    """
    import torch

    with torch.no_grad():
        device = transfer.device_of(tensors)
        check = group.agree(what)
        if device.type == "xla":
            transfer.apply_views(tensors)
            transfer.sync(device)
        copies = transfer.to_host(tensors)
        with counters.recording(sum(copy.numel() * copy.element_size() for copy in copies)):
            check()
            return transfer.to_device(exchange(copies), device)


class Calls:
    """One method for each function of `xm` that needs the other workers."""

    def __init__(self, world: World) -> None:
        self._world = world

    def all_reduce(
        self, reduce_type: str, inputs: Any, scale: float = 1.0, groups: Groups = None, pin_layout: bool = True
    ) -> Any:
        """Returns the reduced copy of a tensor. Reduces the tensors of a list in place and returns the list."""
        del pin_layout
        group = self._world.member_group(groups)
        tensors = [inputs] if _is_tensor(inputs) else list(inputs)
        if not tensors:
            return inputs
        reduced = reduce(group, reduce_type, tensors, scale)
        if _is_tensor(inputs):
            return reduced[0]
        write(tensors, reduced)
        return inputs

    def all_gather(
        self,
        value: Any,
        dim: int = 0,
        groups: Groups = None,
        output: Any = None,
        pin_layout: bool = True,
        channel_id: int | None = None,
        use_global_device_ids: bool | None = None,
    ) -> Any:
        """Returns all workers' tensors joined along `dim`. For a list, does so for each of its tensors."""
        del pin_layout, channel_id, use_global_device_ids
        group = self._world.member_group(_equal(groups))
        values = [value] if _is_tensor(value) else list(value)
        what = describe("all_gather", values, dim)

        def exchange(copies: list[Any]) -> list[Any]:
            import torch

            return [torch.cat(group.all_gather(what, copy), dim=dim) for copy in copies]

        return _deliver(value, on_host(group, what, values, exchange) if values else [], output)

    def reduce_scatter(
        self,
        reduce_type: str,
        input: Any,
        scale: float,
        scatter_dim: int,
        shard_count: int,
        groups: Groups = None,
        output: Any = None,
        pin_layout: bool = True,
        channel_id: int | None = None,
        use_global_device_ids: bool | None = None,
    ) -> Any:
        """Returns this worker's shard, along `scatter_dim`, of the reduced tensor. For a list, one shard of each."""
        del pin_layout, channel_id, use_global_device_ids
        group = self._world.member_group(_equal(groups))
        _check_count("shard_count", shard_count, group)
        values = [input] if _is_tensor(input) else list(input)
        for value in values:
            _check_divisible(value, scatter_dim, shard_count)
        what = describe(f"reduce_scatter {reduce_type}", values, scale, scatter_dim)

        def exchange(copies: list[Any]) -> list[Any]:
            reduced = group.all_reduce(what, reduce_type, copies, scale)
            return [whole.chunk(shard_count, scatter_dim)[group.rank].contiguous() for whole in reduced]

        return _deliver(input, on_host(group, what, values, exchange) if values else [], output)

    def all_to_all(
        self,
        value: Any,
        split_dimension: int,
        concat_dimension: int,
        split_count: int,
        groups: Groups = None,
        pin_layout: bool = True,
    ) -> Any:
        """Sends part i of `value` along `split_dimension` to worker i. Joins what comes along `concat_dimension`."""
        del pin_layout
        group = self._world.member_group(_equal(groups))
        _check_count("split_count", split_count, group)
        _check_divisible(value, split_dimension, split_count)
        what = describe("all_to_all", [value], split_dimension, concat_dimension)

        def exchange(copies: list[Any]) -> list[Any]:
            import torch

            came = group.exchange(what, copies[0].chunk(split_count, split_dimension))
            return [torch.cat(came, dim=concat_dimension)]

        return on_host(group, what, [value], exchange)[0]

    def collective_permute(self, value: Any, pairs: Sequence[Sequence[int]]) -> Any:
        """Returns what the source of this worker's pair sent, or zeros if no pair has this worker as its target."""
        group = self._world.group()
        sources = [source for source, target in pairs if target == group.rank]
        if len(sources) > 1 or len({source for source, _ in pairs}) != len(pairs):
            raise ValueError(f"pairs={[list(pair) for pair in pairs]}: each ordinal may send once and receive once")
        what = describe("collective_permute", [value], [list(pair) for pair in pairs])

        def exchange(copies: list[Any]) -> list[Any]:
            import torch

            seen = group.all_gather(what, copies[0])
            return [seen[sources[0]] if sources else torch.zeros_like(copies[0])]

        return on_host(group, what, [value], exchange)[0]

    def collective_broadcast(
        self, tensors: Sequence[Any], root_ordinal: int = 0, groups: Groups = None, pin_layout: bool = True
    ) -> None:
        """Writes the tensors of `root_ordinal` into those of every worker of its group."""
        del pin_layout
        group = self._world.member_group(groups)
        if root_ordinal not in group.ranks:
            raise ValueError(f"root_ordinal={root_ordinal} is not in this worker's group {group.ranks}")
        tensors = list(tensors)
        if tensors:
            broadcast(group, tensors, group.ranks.index(root_ordinal))

    def xla_rendezvous(
        self, payload: bytes = b"", ordinals: Sequence[int] | None = None, tag: str | None = None
    ) -> list[bytes]:
        """Returns every worker's payload, by ordinal. All workers must be at the same `tag`."""
        import torch_xla

        if ordinals and len(ordinals) != self._world.layout.size:
            raise ValueError("Only global rendezvous is supported")
        if not isinstance(payload, bytes):
            raise TypeError(f"`payload` must be bytes, not {type(payload)}")
        torch_xla.sync()
        group = self._world.group()
        what = f"rendezvous({tag})"
        check = group.agree(what)
        with counters.recording(len(payload)):
            check()
            return group.all_gather_bytes(what, payload)

    def rendezvous(self, tag: str, payload: bytes = b"", replicas: Sequence[int] = ()) -> list[bytes]:
        return self.xla_rendezvous(payload, list(replicas) or None, tag)


def reduce(group: HostGroup, reduce_type: str, tensors: Sequence[Any], scale: float = 1.0) -> list[Any]:
    """Returns reduced copies of `tensors`, on their device."""
    what = describe(f"all_reduce {reduce_type}", tensors, scale)
    return on_host(group, what, tensors, lambda copies: group.all_reduce(what, reduce_type, copies, scale))


def broadcast(group: HostGroup, tensors: Sequence[Any], root: int) -> None:
    """Writes the tensors of `root`, a rank within the group, into `tensors`."""
    what = describe("broadcast", tensors, root)

    def exchange(copies: list[Any]) -> list[Any]:
        group.broadcast(what, copies, root)
        return copies

    write(tensors, on_host(group, what, tensors, exchange))


def write(tensors: Sequence[Any], values: Sequence[Any]) -> None:
    """Writes `values` into tensors that the script holds, whether or not they require gradients."""
    import torch

    with torch.no_grad():
        for tensor, value in paired(tensors, values):
            tensor.copy_(value)


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _deliver(given: Any, results: list[Any], output: Any) -> Any:
    """Returns one tensor or a list, as the caller gave them. Writes into `output` if it is given."""
    if output is None:
        return results[0] if _is_tensor(given) else results
    outputs = [output] if _is_tensor(output) else list(output)
    if len(outputs) != len(results):
        raise ValueError(f"`output` length doesn't match `input` length: {len(outputs)} vs {len(results)}.")
    write(outputs, results)
    return output


def _equal(groups: Groups) -> Groups:
    if groups and len({len(group) for group in groups}) > 1:
        raise ValueError("Replica groups must have the same number of replicas/shards.")
    return groups


def _check_count(name: str, count: int, group: HostGroup) -> None:
    if count != group.size:
        raise ValueError(f"{name}={count} must be the number of workers in the group, {group.size}")


def _check_divisible(tensor: Any, dim: int, parts: int) -> None:
    if tensor.shape[dim] % parts:
        raise ValueError(f"dimension {dim} of shape {list(tensor.shape)} cannot be split into {parts} equal parts")
