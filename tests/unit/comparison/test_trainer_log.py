"""What a Trainer prints, as the notebook reads it."""

import pytest

from sagelet_engine.comparison.trainer_log import TrainerLog, parse


def test_losses_evaluations_and_the_last_summary() -> None:
    log = parse(
        [
            "device: xla:0",
            "{'loss': 3.84, 'grad_norm': 1.5, 'learning_rate': 1e-05, 'epoch': 0.5}",
            "[1,mpirank:0,algo-1]<stdout>:{'loss': 2.5, 'epoch': 1.0}",
            "{'eval_loss': 2.75, 'eval_runtime': 1.5, 'epoch': 1.0}",
            "{'train_runtime': 9.0, 'train_samples_per_second': 1.0}",
            "{'train_runtime': 95.36, 'train_samples_per_second': 10.067, 'train_loss': 2.79, 'epoch': 1.0}  ",
        ]
    )
    assert [(entry["loss"], entry["epoch"]) for entry in log.train] == [(3.84, 0.5), (2.5, 1.0)]
    assert log.evaluations == ({"eval_loss": 2.75, "eval_runtime": 1.5, "epoch": 1.0},)
    expected = {"train_runtime": 95.36, "train_samples_per_second": 10.067, "train_loss": 2.79, "epoch": 1.0}
    assert log.summary == expected


def test_numbers_that_are_none_are_left_out() -> None:
    log = parse(["{'loss': nan, 'epoch': 1.0}", "{'loss': 2.0, 'grad_norm': inf, 'epoch': 2.0}"])
    assert log.train == ({"loss": 2.0, "epoch": 2.0},)


def test_transformers_5_prints_numbers_as_strings() -> None:
    assert parse(["{'loss': '3.8', 'epoch': '0.5'}"]).train == ({"loss": 3.8, "epoch": 0.5},)


@pytest.mark.parametrize(
    "line",
    [
        "loss: 3.5",
        "{'loss': __import__('os').system('true')}",
        "{'loss': [1, 2}",
        "}'loss' {",
        "{'loss'}",
        "{'loss': True}",
        "{'loss': " + "(" * 3000 + "}",
        "{'loss': 1" + "0" * 5000 + "}",
        "{'loss': 1e999}",
    ],
)
def test_what_is_no_dictionary_of_numbers_is_passed_over(line: str) -> None:
    assert parse([line]) == TrainerLog()
