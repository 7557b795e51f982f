"""Prints a line when the process opens its first XLA device: `device: xla:0`, as in the logs of AWS's jobs."""

from typing import Any


def install(torch_xla: Any) -> None:
    native = torch_xla._XLAC
    original = native._xla_get_default_device

    def first_use() -> str:
        name: str = original()
        native._xla_get_default_device = original
        kind = ", ".join(torch_xla._XLAC._xla_get_devices())
        print(f"device: {name} (PJRT {kind}, torch_xla {torch_xla.__version__})", flush=True)
        return name

    native._xla_get_default_device = first_use
