"""Plans how tensors are reduced in host memory: in which type, by which operation, in which buckets."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

BUCKET_BYTES = 32 << 20
REDUCE_TYPES = ("sum", "mul", "and", "or", "min", "max")


@dataclass(frozen=True)
class Plan:
    """The plan for the tensors of one type."""

    #: The type in which the tensors travel.
    wire: Any
    #: A `torch.distributed.ReduceOp`.
    operation: Any


def plan(reduce_type: str, dtype: Any, scale: float) -> Plan:
    """Makes the plan for `xm.all_reduce`'s reduce_type. Raises TypeError for what gloo or XLA cannot reduce.

    bfloat16 and float16 are summed in float32. Otherwise a sum over many workers would lose its low bits.
    """
    import torch
    from torch.distributed import ReduceOp

    if reduce_type not in REDUCE_TYPES:
        raise ValueError(f"reduce type {reduce_type!r} is not one of {', '.join(REDUCE_TYPES)}")
    if not dtype.is_floating_point and scale != 1.0:
        raise TypeError(f"scale={scale} needs tensors of a floating-point type, not {dtype}; scale the result instead")
    logical = reduce_type in ("and", "or")
    if dtype == torch.bool:
        return Plan(torch.uint8, ReduceOp.MAX if reduce_type in ("sum", "or", "max") else ReduceOp.MIN)
    if dtype.is_floating_point and logical:
        raise TypeError(f"reduce type {reduce_type!r} is for integers and bool, not {dtype}")
    operations = {
        "sum": ReduceOp.SUM,
        "mul": ReduceOp.PRODUCT,
        "and": ReduceOp.BAND,
        "or": ReduceOp.BOR,
        "min": ReduceOp.MIN,
        "max": ReduceOp.MAX,
    }
    return Plan(wire_type(dtype), operations[reduce_type])


def wire_type(dtype: Any) -> Any:
    """Returns the type in which gloo sums tensors of `dtype`. Raises TypeError if gloo has none."""
    import torch

    if dtype in (torch.float32, torch.float64, torch.int32, torch.int64, torch.int8, torch.uint8):
        return dtype
    if dtype in (torch.bfloat16, torch.float16):
        return torch.float32
    if dtype == torch.int16:
        return torch.int32
    raise TypeError(f"tensors of {dtype} cannot be reduced between workers on CPUs; convert them first")


def buckets(sizes: Sequence[int], limit: int = BUCKET_BYTES) -> list[list[int]]:
    """Groups the indices of tensors of `sizes` bytes, in order, into runs of at most `limit` bytes or of one tensor."""
    found: list[list[int]] = []
    filled = math.inf
    for index, size in enumerate(sizes):
        if filled + size > limit:
            found.append([])
            filled = 0
        found[-1].append(index)
        filled += size
    return found


class Scratch:
    """Flat host buffers that are kept from step to step, because fresh pages cost more than the copy into them."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, int], Any] = {}

    def take(self, dtype: Any, number: int, elements: int) -> Any:
        """Returns a flat tensor of `elements`. Two of the same type and number share memory."""
        import torch

        kept = self._kept.get((dtype, number))
        if kept is None or kept.numel() < elements:
            kept = self._kept[dtype, number] = torch.empty(elements, dtype=dtype)
        return kept[:elements]
