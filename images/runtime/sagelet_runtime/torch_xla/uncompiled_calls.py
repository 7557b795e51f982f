"""xm's collectives on plain tensors, through torch.distributed: NCCL on GPUs, gloo elsewhere.

For a compiled job that trains natively. Signatures and results are those of torch_xla 2.9's `xla_model`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Optional

from sagelet_runtime.base.pairs import paired
from sagelet_runtime.collectives.layout import own_group

Groups = Optional[Sequence[Sequence[int]]]

_OPERATIONS = {"sum": "SUM", "mul": "PRODUCT", "min": "MIN", "max": "MAX", "and": "BAND", "or": "BOR"}
#: torch.distributed's group of this worker, by the `groups` of a call.
_made: dict[tuple[tuple[int, ...], ...], Any] = {}


def rank() -> int:
    return int(os.environ.get("RANK", "0"))


def world_size() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def all_reduce(
    reduce_type: str, inputs: Any, scale: float = 1.0, groups: Groups = None, pin_layout: bool = True
) -> Any:
    """Returns the reduced copy of a tensor. Reduces the tensors of a list in place and returns the list."""
    import torch

    del pin_layout
    operation = _operation(reduce_type)
    group = _members(groups)
    with torch.no_grad():
        reduced = [inputs.clone()] if isinstance(inputs, torch.Tensor) else list(inputs)
        for tensor in reduced:
            if world_size() > 1:
                _ready().all_reduce(tensor, getattr(torch.distributed.ReduceOp, operation), group=group)
            if scale != 1.0:
                tensor.mul_(scale)
    return reduced[0] if isinstance(inputs, torch.Tensor) else inputs


def all_gather(
    value: Any,
    dim: int = 0,
    groups: Groups = None,
    output: Any = None,
    pin_layout: bool = True,
    channel_id: int | None = None,
    use_global_device_ids: bool | None = None,
) -> Any:
    """Returns all workers' tensors joined along `dim`. For a list, does so for each of its tensors."""
    import torch

    del pin_layout, channel_id, use_global_device_ids
    group = _members(groups)

    def gathered(tensor: Any) -> Any:
        if world_size() == 1:
            return tensor.clone()
        parts = [torch.empty_like(tensor) for _ in range(_ready().get_world_size(group))]
        _ready().all_gather(parts, tensor.contiguous(), group=group)
        return torch.cat(parts, dim)

    return _delivered(value, gathered, output)


def reduce_scatter(
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
    """Returns this worker's shard, along `scatter_dim`, of the reduced tensor. For a list, does so for each tensor."""
    del pin_layout, channel_id, use_global_device_ids
    group = _members(groups)
    size = 1 if world_size() == 1 else _ready().get_world_size(group)
    place = 0 if world_size() == 1 else _ready().get_rank(group)
    if shard_count != size:
        raise ValueError(f"shard_count={shard_count} must be the number of workers in the group, {size}")

    def scattered(tensor: Any) -> Any:
        if tensor.shape[scatter_dim] % size:
            raise ValueError(f"dimension {scatter_dim} of shape {list(tensor.shape)} cannot be split into {size} parts")
        whole = all_reduce(reduce_type, tensor, scale, groups)
        return whole.chunk(size, scatter_dim)[place].contiguous()

    return _delivered(input, scattered, output)


def collective_broadcast(
    tensors: Sequence[Any], root_ordinal: int = 0, groups: Groups = None, pin_layout: bool = True
) -> None:
    """Writes the tensors of `root_ordinal` into those of every worker of its group."""
    import torch

    del pin_layout
    group = _members(groups)
    if groups and root_ordinal not in own_group(groups, rank(), world_size()):
        raise ValueError(f"root_ordinal={root_ordinal} is not in this worker's group")
    with torch.no_grad():
        for tensor in tensors if world_size() > 1 else ():
            _ready().broadcast(tensor, root_ordinal, group=group)


def rendezvous(tag: str, payload: bytes = b"", replicas: Sequence[int] = ()) -> list[bytes]:
    """Returns every worker's payload, by ordinal."""
    del tag
    if replicas and len(replicas) != world_size():
        raise ValueError("Only global rendezvous is supported")
    return gathered_objects(payload)


def gathered_objects(own: Any) -> list[Any]:
    """Returns every worker's object, by ordinal."""
    if world_size() == 1:
        return [own]
    found: list[Any] = [None] * world_size()
    _ready().all_gather_object(found, own)
    return found


def _operation(reduce_type: str) -> str:
    if reduce_type not in _OPERATIONS:
        raise ValueError(f"reduce type {reduce_type!r} is not one of {', '.join(_OPERATIONS)}")
    return _OPERATIONS[reduce_type]


def _members(groups: Groups) -> Any:
    """Returns torch.distributed's group of this worker in `groups`, or None for all workers. Raises ValueError.

    torch.distributed needs every worker to make every group. All workers call this with the same `groups`.
    """
    if not groups:
        return None
    own_group(groups, rank(), world_size())
    if world_size() == 1:
        return None
    key = tuple(tuple(group) for group in groups)
    if key not in _made:
        _made[key] = _ready().new_subgroups_by_enumeration([list(group) for group in key])[0]
    return _made[key]


def _ready() -> Any:
    """Returns torch.distributed with its default group. The script may have made the group already."""
    import torch

    distributed = torch.distributed
    if not distributed.is_initialized():
        distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    return distributed


def _delivered(given: Any, made: Callable[[Any], Any], output: Any) -> Any:
    """Returns one tensor or a list, as the caller gave them. Writes into `output` if it is given."""
    import torch

    with torch.no_grad():
        single = isinstance(given, torch.Tensor)
        results = [made(tensor) for tensor in ([given] if single else given)]
        if output is None:
            return results[0] if single else results
        for into, result in paired([output] if single else output, results):
            into.copy_(result)
        return output
