"""What the comparison of two logs sees, and what it leaves out."""

from pathlib import Path

import pytest

from support.script_log import differences, numbers_of, script_lines

BEFORE = """sagelet: XLA compiles what runs on its device, PJRT_DEVICE=CPU: this host has no GPU
Invoking script with the following command:

/usr/bin/python train.py --lr 1

2026-01-02 03:04:05,678 sagemaker-training-toolkit INFO     Exceptions not imported for SageMaker TF
"""


def lines(*texts: str, base: str = "/tmp/one") -> list[str]:
    return script_lines(BEFORE + "\n".join(texts) + "\n", Path(base))


def test_only_the_script_s_lines_are_left() -> None:
    found = lines(
        "01/02/2026 03:04:05 - INFO - __main__ - saved to /tmp/one/model",
        "sagelet: AdamW(fused=True) has no kernel",
        "device: xla:0 (PJRT CPU:0, torch_xla 2.9.0)",
        "\r 50%|#####     | 1/2 [00:01<00:01,  1.0it/s]loss   0.5",
        "[INFO|trainer.py:4309] 2026-01-02 03:04:05,678 >> on device: xla:0",
        "",
    )
    assert found == [
        "TIME - INFO - __main__ - saved to /opt/ml/model", "loss 0.5", "[INFO|trainer.py] TIME >> on device: DEVICE"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        (["loss 0.5000"], ["loss 0.5001"], 0),
        (["loss 0.5000"], ["loss 0.5002"], 1),
        (["loss 12345.678901"], ["loss 12345.7"], 0),
        (["step 3"], ["step 4"], 1),
        (["step 0 loss 1.5", "step 1 loss 0.5"], ["step 1 loss 0.5", "step 0 loss 1.5"], 0),
        (["step 0 loss 1.5", "step 1 loss 0.5"], ["step 0 loss 0.5", "step 1 loss 1.5"], 2),
        (["hello"], [], 1),
        (["hello"], ["hello", "hello"], 1),
        (["INFO - hello"], ["INFO:root:hello"], 2),
        (["'eval_runtime': 1.5, 'x': 2"], ["'eval_runtime': 0.25, 'x': 2"], 0),
        (["'eval_loss': 1.50"], ["'eval_loss': 1.55"], 1),
        (["on cpu"], ["on xla:0"], 0),
        (["nan 1"], ["0.5 1"], 2),
    ],
)
def test_differences(one: list[str], other: list[str], found: int) -> None:
    assert len(differences(lines(*one), lines(*other), 1e-5)) == found


def test_numbers_of() -> None:
    found = numbers_of(["epoch 1: loss 0.25", "hello", "epoch 2: loss 0.125"], r"epoch (\d+): loss ([\d.]+)")
    assert [[number.value for number in row] for row in found] == [[1, 0.25], [2, 0.125]]
