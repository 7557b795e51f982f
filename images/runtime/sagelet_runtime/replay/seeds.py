"""The seeds of replayed programs that draw random numbers. They are those of a step that is traced in full.

torch_xla has one seed a device. Each draw of a step takes the next number of a linear congruential generator from it.
The end of a step makes the next step's seed of this step's, however often it drew. A program that is traced once begins
with the seed as an argument, and draws as its trace did.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

#: The generator of `XLAGraphExecutor::DeviceContextArena::GetRngSeed` in torch_xla, modulo 2**64.
_FACTOR, _ADDEND, _MODULUS = 214013, 2531011, 2**64
#: Draws of one program, at most.
MOST_DRAWS = 100_000

Advance = tuple[int, int]


def advance_between(before: int, after: int) -> Advance:
    """Returns by what a trace moved the seed: `after == factor * before + addend`. Raises ValueError if by no draws."""
    factor, addend, seed = 1, 0, before
    for _ in range(MOST_DRAWS):
        if seed == after:
            return factor, addend
        seed = (_FACTOR * seed + _ADDEND) % _MODULUS
        factor, addend = _FACTOR * factor % _MODULUS, (_FACTOR * addend + _ADDEND) % _MODULUS
    raise ValueError(f"no draws lead from seed {before} to {after}")


class Seeds:
    """The seeds of this process's devices. Keeps torch_xla's as lazy tracing would have left them."""

    def __init__(self, native: Any) -> None:
        self._native = native
        self._set: Callable[[int, str], None] = native._xla_set_rng_seed
        #: Each device's seed at the start of its step, and the devices whose seed is another since.
        self._begun: dict[str, int] = {}
        self._moved: set[str] = set()
        native._xla_set_rng_seed = self._noting(native._xla_set_rng_seed)
        native._xla_step_marker = self._ending(native._xla_step_marker)

    def current(self, device: str) -> int:
        """Returns the seed from which the device's next draw takes its number."""
        if device not in self._begun:
            now = self._native._xla_get_rng_seed(device)
            # torch_xla goes back to the seed before this step's draws when it is asked for that.
            self._native._get_base_seed_as_tensor(device)
            self._begun[device] = int(self._native._xla_get_rng_seed(device))
            self.move(device, now)
        return int(self._native._xla_get_rng_seed(device))

    def base(self, device: str) -> Any:
        """Returns the seed that the device was set to last as a tensor, as programs take it."""
        return self._native._get_base_seed_as_tensor(device)

    def move(self, device: str, seed: int) -> None:
        """Lets the device's later draws of this step begin with another seed. The next step's seed stays as it is."""
        self._set(seed, device)
        self._moved.add(device)

    def _noting(self, original: Callable[[int, str], None]) -> Callable[[int, str], None]:
        @functools.wraps(original)
        def set_seed(seed: int, device: str) -> None:
            """A script's own seed holds for the step, and the next one's is made of it."""
            original(seed, device)
            if device:
                self._begun[device] = int(seed) % _MODULUS
                self._moved.discard(device)
            else:
                self._begun.clear()
                self._moved.clear()

        return set_seed

    def _ending(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def step_marker(device: str = "", *args: Any, **kwargs: Any) -> Any:
            if device in self._moved:
                self._set(self._begun[device], device)
                self._moved.discard(device)
            ended = original(device, *args, **kwargs)
            # It is read anew when a program draws.
            self._begun.pop(device, None)
            return ended

        return step_marker


@functools.cache
def of_process() -> Seeds:
    import torch_xla

    return Seeds(torch_xla._XLAC)


class Drawing:
    """Around a trace, notes by what it moves the device's seed, and moves it back. `again` draws as the trace did."""

    def __init__(self, device: str) -> None:
        """`device`: empty if the trace may not draw."""
        self._device = device
        self._before = 0
        self._advance = (1, 0)

    def __enter__(self) -> None:
        if self._device:
            self._before = of_process().current(self._device)
            of_process().move(self._device, self._before)

    def __exit__(self, *_error: object) -> None:
        if self._device:
            self._advance = advance_between(self._before, of_process().current(self._device))
            of_process().move(self._device, self._before)

    def again(self) -> Any:
        """Returns the seed for the program as a tensor, and moves the device's by the program's draws."""
        process = of_process()
        seed = process.current(self._device)
        process.move(self._device, seed)
        tensor = process.base(self._device)
        factor, addend = self._advance
        process.move(self._device, (factor * seed + addend) % _MODULUS)
        return tensor
