"""Seeds of replayed programs against torch_xla's arithmetic, without torch_xla."""

from typing import Any

import pytest

from sagelet_runtime.replay.seeds import MOST_DRAWS, Seeds, advance_between

DEVICE = "xla:0"


def drawn(seed: int) -> int:
    return (214013 * seed + 2531011) % 2**64


class Native:
    """torch_xla's seeds: that of the step, and that of the next draw."""

    def __init__(self) -> None:
        self.base = self.running = 5

    def _xla_get_rng_seed(self, _device: str) -> int:
        return self.running

    def _get_base_seed_as_tensor(self, _device: str) -> int:
        self.running = self.base
        return self.base

    def _xla_set_rng_seed(self, seed: int, _device: str) -> None:
        self.base = self.running = seed

    def _xla_step_marker(self, _device: str = "", *_rest: Any) -> None:
        self.base = self.running = (1012031 + 7012063 * self.base) % 2**64

    def draw(self) -> None:
        self.running = drawn(self.running)


def test_an_advance_is_that_of_as_many_draws() -> None:
    seed = 2**63 + 7
    for count in range(5):
        after = seed
        for _ in range(count):
            after = drawn(after)
        factor, addend = advance_between(seed, after)
        assert (factor * seed + addend) % 2**64 == after
    assert advance_between(7, drawn(7)) == (214013, 2531011)


def test_a_seed_that_no_draws_lead_to_is_refused() -> None:
    with pytest.raises(ValueError, match="no draws lead from seed 0 to"):
        advance_between(0, 1)
    assert MOST_DRAWS >= 10_000


def test_the_next_step_begins_as_if_the_program_had_been_traced() -> None:
    traced, native = Native(), Native()
    seeds = Seeds(native)
    for one in (traced, native):
        one.draw()
    for _ in range(3):
        traced.draw()
    seeds.move(DEVICE, drawn(drawn(drawn(seeds.current(DEVICE)))))
    assert native.running == traced.running
    traced._xla_step_marker(DEVICE)
    native._xla_step_marker(DEVICE)
    assert (native.base, native.running) == (traced.base, traced.running)


def test_the_next_step_goes_by_a_seed_that_the_script_sets() -> None:
    traced, native = Native(), Native()
    seeds = Seeds(native)
    seeds.move(DEVICE, drawn(seeds.current(DEVICE)))
    for one in (traced, native):
        one._xla_set_rng_seed(11, DEVICE)
        one._xla_step_marker(DEVICE)
    assert native.base == traced.base
