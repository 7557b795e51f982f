"""torch_xla.runtime: what `uncompiled` does not put here itself. Each worker is a process with one device."""

from __future__ import annotations

import os
from typing import Any

import torch

from sagelet_runtime.torch_xla import uncompiled_calls as calls

from .core.missing import missing

__getattr__ = missing("torch_xla.runtime")


def set_device_type(pjrt_device: str) -> None:
    """Does nothing: the job's host decides the device."""


def is_bf16_supported() -> bool:
    return bool(torch.cuda.is_bf16_supported()) if torch.cuda.is_available() else True


def local_process_count() -> int:
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def local_device_count() -> int:
    return local_process_count()


def addressable_device_count() -> int:
    return 1


def addressable_runtime_device_count() -> int:
    return 1


def global_device_count() -> int:
    return calls.world_size()


def global_runtime_device_count() -> int:
    return calls.world_size()


def process_count() -> int:
    return calls.world_size()


def process_index() -> int:
    return calls.rank()


def host_index() -> int:
    return int(os.environ.get("GROUP_RANK", "0"))


def runtime_device_attributes(device: str) -> dict[str, object]:  # noqa: ARG001 - part of the name's contract
    return {}


def global_runtime_device_attributes() -> list[dict[str, object]]:
    return [{"name": f"worker:{rank}"} for rank in range(calls.world_size())]


def use_spmd(auto: bool | None = False) -> Any:
    raise NotImplementedError(f"use_spmd(auto={auto}) needs XLA, and this job has no torch_xla")


def is_spmd() -> bool:
    return False


def get_master_ip() -> str:
    return os.environ.get("MASTER_ADDR", "127.0.0.1")


def initialize_cache(path: str, readonly: bool = False) -> None:
    """Does nothing: Inductor's programs are in sagelet's compile cache."""


def get_num_cached_compilation_graph() -> int:
    return 0
