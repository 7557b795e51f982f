"""Which calls of torch's functions compiled jobs on CPUs compute in another form. Without torch."""

from typing import Any

import pytest

from sagelet_runtime.lowerings import choice, pooling, recurrent

CPU = {"PJRT_DEVICE": "CPU_PLUGIN"}


def test_only_on_cpus_and_not_if_the_job_refuses() -> None:
    assert choice.is_chosen(CPU)
    assert choice.is_chosen({"PJRT_DEVICE": "CPU", choice.VARIABLE: "1"})
    assert not choice.is_chosen({**CPU, choice.VARIABLE: "0"})
    assert not choice.is_chosen({"PJRT_DEVICE": "CUDA"})
    assert not choice.is_chosen({})


@pytest.mark.parametrize(
    ("shape", "settings", "window"),
    [
        ((2, 3, 8, 6), {"kernel_size": 2}, (2, 2)),
        ((3, 8, 6), {"kernel_size": (2, 3)}, (2, 3)),
        ((3, 8, 6), {"kernel_size": [2]}, (2, 2)),
        ((2, 3, 9, 7), {"kernel_size": 2, "stride": (2, 2)}, (2, 2)),
        ((2, 3, 8, 6), {"kernel_size": 2, "stride": []}, (2, 2)),
        ((2, 3, 8, 6), {"kernel_size": 4, "padding": (0,), "dilation": [1, 1]}, (4, 4)),
    ],
)
def test_windows_that_lie_side_by_side(
    shape: tuple[int, ...], settings: dict[str, Any], window: tuple[int, int]
) -> None:
    assert pooling.window_of(shape, **{"stride": None, "padding": 0, "dilation": 1, **settings}) == window


@pytest.mark.parametrize(
    ("shape", "settings"),
    [
        ((2, 3, 8, 6), {"kernel_size": 3, "stride": 2}),
        ((2, 3, 8, 6), {"kernel_size": 2, "stride": 3}),
        ((2, 3, 8, 6), {"kernel_size": 2, "padding": 1}),
        ((2, 3, 8, 6), {"kernel_size": 2, "dilation": 2}),
        ((2, 3, 8, 6), {"kernel_size": 1}),
        ((2, 3, 10, 10), {"kernel_size": 5}),
        ((0, 3, 8, 6), {"kernel_size": 2}),
        # torch has an error for each of these.
        ((8, 6), {"kernel_size": 2}),
        ((2, 3, 1, 6), {"kernel_size": 2}),
        ((2, 3, 8, 6), {"kernel_size": 0}),
        ((2, 3, 8, 6), {"kernel_size": (2, 2, 2)}),
        ((2, 3, 8, 6), {"kernel_size": 2.0}),
        ((2, 3, 8, 6), {"kernel_size": None}),
    ],
)
def test_other_windows_are_torchs(shape: tuple[int, ...], settings: dict[str, Any]) -> None:
    assert pooling.window_of(shape, **{"stride": None, "padding": 0, "dilation": 1, **settings}) is None


LSTM = (None, (None, None), [None] * 4, True, 1, 0.0, True, False, False)
PACKED = (None, None, (None, None), [None] * 4, True, 1, 0.0, True, False)


@pytest.mark.parametrize(
    ("arguments", "gates"),
    [
        (PACKED, 4),
        ((None, None, None, *PACKED[3:]), 3),
        (LSTM[:8], 4),
        # Without biases; two directions; dropout between layers; projections; a GRU's one state.
        ((*LSTM[:2], [None] * 2, False, *LSTM[4:]), 4),
        ((*LSTM[:2], [None] * 8, *LSTM[3:7], True, False), 4),
        ((*LSTM[:2], [None] * 8, True, 2, 0.1, True, False, False), 4),
        ((*LSTM[:2], [None] * 5, *LSTM[3:]), 4),
        ((None, (None,), *LSTM[2:]), 4),
    ],
)
def test_other_sequences_are_torchs(arguments: tuple[Any, ...], gates: int) -> None:
    assert not recurrent.is_covered(arguments, gates=gates)
