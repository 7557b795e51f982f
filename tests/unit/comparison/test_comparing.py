"""The rules of the comparison, on facts made by hand."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sagelet_engine.base.errors import SageletError
from sagelet_engine.comparison.comparing import MOST_JOBS, CannotCompare, NotComparable, compare
from sagelet_engine.comparison.facts import ChannelFacts, JobFacts
from sagelet_engine.comparison.result import Comparison
from sagelet_engine.comparison.trainer_log import TrainerLog
from sagelet_engine.instances.bill import Bill
from sagelet_engine.model.series import Sample
from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.compiler.worker import Cache
from support.comparison_facts import compiled, facts, native, report, trainer


def words(comparison: Comparison) -> dict[str, str]:
    return {one.kind: one.text for one in comparison.sentences}


def numbers(comparison: Comparison, key: str) -> tuple[Any, ...]:
    return comparison.row(key).values


def test_the_notebooks_percentages_in_its_words() -> None:
    found = compare([native(), compiled()])
    said = words(found)
    # round((16.67 / 10 - 1) * 100), int((100 - 60) * 100 / 100), int((120 - 75) * 100 / 120)
    assert said["throughput"] == "Training throughput ====> 67% Compiler savings <===="
    assert said["runtime"] == "SageMaker Training Compiler is about 40% faster in terms of total training time."
    assert said["billable"] == "SageMaker Training Compiler integrated PyTorch was 37% faster in summary."
    assert said["cost"] == "fast costs $0.0750, $0.0450 less than plain ($0.1200)."
    assert said["loss"] == (
        "The loss curves agree: they differ by 0 while the loss falls by 2. Over 3 points that is (root mean square) "
        "within 0.2, which is the default if only one run of plain is known: 10 % of the fall."
    )
    # What a person wants to know comes first, and the notebook's words come last.
    order = ["speed", "compilation", "break-even", "loss", "cost", "throughput", "runtime", "billable"]
    assert list(said) == order
    assert said["speed"] == "fast trained at 2.00 times the steady speed of plain (1.33 to 3.00), by one run of each."
    assert found.comparable
    assert [(job.name, job.label) for job in found.jobs] == [("plain", "native"), ("fast", "XLA")]


def test_percentages_are_cut_off_as_the_notebook_does() -> None:
    found = compare([native(), compiled(log=trainer(60.1))])
    assert "about 39% faster" in words(found)["runtime"]


def test_a_compiled_job_that_is_slower_is_called_so() -> None:
    slow = facts("slow", compiled=True, seconds=210, log=trainer(160))
    said = words(compare([native(), slow]))
    assert said["throughput"] == "slow has a 38% lower training throughput than plain."
    assert said["runtime"] == "SageMaker Training Compiler is about 60% slower in terms of total training time."
    assert said["billable"] == "SageMaker Training Compiler integrated PyTorch was 75% slower in summary."
    assert said["cost"] == "slow costs $0.2100, $0.0900 more than plain ($0.1200)."


def test_no_difference_is_neither_faster_nor_slower() -> None:
    same = facts("same", compiled=True, seconds=120, log=trainer(100.4))
    said = words(compare([native(), same]))
    assert said["speed"] == (
        "One run of each does not say whether same or plain is faster: same trained at 1.11 times the steady speed of "
        "plain (0.74 to 1.66), and equal jobs may differ by a factor of 1.5 here. "
        "Train both several times in turn: `sagelet compare NATIVE COMPILED --repeat 3`."
    )
    assert not {"throughput", "runtime", "billable"} & said.keys()
    assert said["break-even"] == (
        "Whether that pays is too noisy to say: at best at step 26, 25.7 seconds of training; at worst never."
    )
    assert said["cost"] == "same costs $0.1200, plain $0.1200."


@pytest.mark.parametrize("both_compiled", [True, False])
def test_what_is_no_pair_of_native_and_compiled_is_not_credited_to_the_compiler(both_compiled: bool) -> None:
    one = facts("one", compiled=both_compiled, seconds=120, log=trainer(100))
    two = facts("two", compiled=both_compiled, seconds=75, log=trainer(60))
    said = words(compare([one, two]))
    assert said["throughput"] == "two has a 67% higher training throughput than one."
    assert said["runtime"] == "two is about 40% faster than one in terms of total training time."
    assert said["billable"] == "two was 37% faster than one in summary."
    assert not any("Compiler" in text for text in said.values())


def test_compiling_stands_apart_and_pays_from_a_step_on() -> None:
    found = compare([native(), compiled()])
    assert numbers(found, "compile_seconds") == (None, 10.0)
    # 1,000 samples in 100 s; in 60 - 10 s.
    assert numbers(found, "throughput") == (10.0, 20.0)
    assert numbers(found, "outside") == (20.0, 15.0)
    # A step of 10 rows saves 1 - 0.5 s of the 10 s.
    (even,) = found.break_evens
    assert (even.steps, even.ran, even.long_run_percent) == (20, 100, 50.0)
    said = words(found)
    assert said["compilation"].startswith("fast compiled for 10.0 s of the 60.0 s of training, once")
    assert said["break-even"] == (
        "That paid at step 20, 20 seconds of training; it ran 100 steps, and a long training approaches 50% less time."
    )


@pytest.mark.parametrize(
    ("compiler", "what"),
    [
        ("xla", "reading its programs from the compile cache took"),
        ("inductor", "tracing, and reading its programs from the compile cache, took"),
    ],
)
def test_a_job_that_read_all_programs_from_the_cache_compiled_nothing(compiler: str, what: str) -> None:
    cached = report(True, cache=Cache(enabled=True, hits=3))
    said = words(compare([native(), compiled(report=cached, compiler=compiler)]))
    assert said["compilation"] == f"fast compiled nothing: {what} 10.0 s of the 60.0 s of training."


def test_a_short_job_is_told_when_compiling_would_pay() -> None:
    small = {"samples": 100, "rows": 10}
    plain = facts("plain", compiled=False, seconds=20, log=trainer(10, 100), report=report(False, **small))
    fast = facts("fast", compiled=True, seconds=31, log=trainer(16, 100), report=report(True, **small))
    said = words(compare([plain, fast]))
    assert "60% slower" in said["runtime"]
    assert said["break-even"] == (
        "That pays at step 25, 25 seconds of training; it ran only 10 steps, and a long training approaches 40% less "
        "time."
    )


def test_steps_that_are_no_faster_never_win_the_time_back() -> None:
    slow = facts("slow", compiled=True, seconds=200, log=trainer(170))
    found = compare([native(), slow])
    assert found.break_evens[0].steps is None
    assert words(found)["break-even"].endswith("so that never pays.")


def test_speeds_that_hardly_differ_do_not_say_whether_compiling_pays() -> None:
    """`make demo` said once: by step 6823 of 60, for 0% less time."""
    found = compare([native(), facts("close", compiled=True, seconds=130, log=trainer(109))])
    (even,) = found.break_evens
    assert not even.told
    assert words(found)["break-even"].startswith("Whether that pays is too noisy to say: at best at step ")
    assert words(found)["break-even"].endswith(" of training; at worst never.")
    assert even.earliest_seconds is not None
    assert (even.latest, even.latest_seconds) == (None, None)


def test_a_median_that_contradicts_the_mean_says_nothing_of_compiling() -> None:
    """Another program took the CPU for a part of the compiled job."""
    plain = facts("plain", compiled=False, seconds=120, log=trainer(100), report=report(False, steady_step_seconds=1.0))
    slow = facts("slow", compiled=True, seconds=250, log=trainer(180), report=report(True, steady_step_seconds=0.5))
    assert compare([plain, slow]).break_evens == ()


def test_one_noisy_point_does_not_make_losses_dissimilar() -> None:
    noisy = compiled(log=trainer(60, losses=(4.0, 3.3, 2.0)))
    said = words(compare([native(), noisy]))["loss"]
    assert said.startswith("The loss curves agree: they differ by 0.173 while the loss falls by 2.")


def test_losses_that_drift_apart_are_not_called_similar() -> None:
    drifted = compiled(log=trainer(60, losses=(4.0, 3.4, 2.6)))
    said = words(compare([native(), drifted]))["loss"]
    assert said.startswith(
        "The loss curves do NOT agree: they differ by 0.416 while the loss falls by 2. "
        "Over 3 points that is (root mean square) more than 0.2,"
    )


def test_the_descent_is_no_tolerance() -> None:
    """The tutorial's last step said "too noisy to say", within 0.901 of a fall of 0.919."""
    falling = (3.912, 3.463, 3.214, 3.079, 2.993)
    near = [loss + by for loss, by in zip(falling, (0.0145, -0.0145, 0.0145, 0.0145, -0.0145), strict=True)]
    found = compare([native(log=trainer(100, losses=falling)), compiled(log=trainer(60, losses=near))])
    said = words(found)["loss"]
    assert said.startswith("The loss curves agree: they differ by 0.0145 while the loss falls by 0.919.")
    (losses,) = found.losses
    assert losses.tolerance < 0.15
    far = [loss + 0.4 * number / 4 for number, loss in enumerate(falling)]
    found = compare([native(log=trainer(100, losses=falling)), compiled(log=trainer(60, losses=far))])
    assert found.losses[0].verdict == "not similar"


@pytest.mark.parametrize("power", [0.27, 0.6])
@pytest.mark.parametrize("points", [5, 20, 300])
def test_noise_is_what_a_smooth_fall_does_not_explain(power: float, points: int) -> None:
    smooth = [2 + 3 * (number + 1) ** -power for number in range(points)]
    (found,) = compare([native(log=trainer(100, losses=smooth)), compiled(log=trainer(60, losses=smooth))]).losses
    assert found.tolerance <= 0.13 * found.fall
    chance = random.Random(points)
    fall = smooth[0] - smooth[-1]
    noisy = [loss + chance.gauss(0, fall / 15) for loss in smooth]
    (found,) = compare([native(log=trainer(100, losses=noisy)), compiled(log=trainer(60, losses=smooth))]).losses
    assert found.tolerance > fall / 15
    assert found.verdict in ("similar", "too noisy to say")


def test_the_jobs_own_epochs_are_the_length_of_a_run_that_was_cut_off() -> None:
    """A Trainer with max_steps prints the share of its epochs that it has trained."""
    cut = {"hyperparameters": {"sagemaker_program": "train.py", "num_train_epochs": "30"}}
    found = compare([native(**cut), compiled(**cut)])
    # Three epochs were 1,000 rows in 100 steps. 30 epochs are 9,000 rows more, at 10 and at 20 a second.
    plain, fast = found.lengths
    assert (plain.steps, plain.why, fast.told) == (1000, "epochs", True)
    assert (plain.billable_seconds, fast.billable_seconds) == (120 + 900, 75 + 450)
    assert words(found)["length"] == (
        "1,000 steps, the epochs that its hyperparameters name, would cost $0.5250 with fast, $0.4950 less than with "
        "plain ($1.0200)."
    )
    assert compare([native(), compiled()]).lengths == ()


def test_a_length_whose_bill_one_run_does_not_tell() -> None:
    found = compare([native(), facts("close", compiled=True, seconds=130, log=trainer(109))], steps=50)
    assert words(found)["length"].endswith("; one run of each does not say which is less.")
    bare = compare([native(), facts("bare", compiled=True, seconds=90, report=CompilerReport())], steps=50)
    assert "length" not in words(bare)
    assert bare.remarks[0].startswith("No bill of 50 steps for bare:")


def test_inductor_has_the_same_sentences_and_the_same_proof() -> None:
    xla, inductor = (words(compare([native(), compiled(compiler=name)])) for name in ("xla", "inductor"))
    for kind in ("speed", "compilation", "break-even", "loss", "cost"):
        assert xla[kind] == inductor[kind]


def test_a_loss_that_hardly_falls_does_not_hide_that_nothing_was_learnt() -> None:
    """5 % of a mean loss of 10 would be half of what the loss falls by."""
    ten = [10 - number / 10 for number in range(10)]
    flat = compiled(log=trainer(60, losses=[10 - number / 100 for number in range(10)]))
    found = compare([native(log=trainer(100, losses=ten)), flat])
    assert (found.losses[0].verdict, found.losses[0].basis) == ("not similar", "default")


def test_the_spread_of_known_native_runs_is_the_tolerance() -> None:
    runs = [native(name=f"run-{by}", log=trainer(100, losses=(4.0, 3.0 + by, 2.0))) for by in (-0.02, 0.02)]
    near = compiled(log=trainer(60, losses=(4.0, 3.03, 2.0)))
    far = compiled(log=trainer(60, losses=(4.0, 3.3, 2.0)))
    (found,) = compare([native(), near], runs).losses
    assert (found.verdict, found.basis, found.runs) == ("similar", "runs", 3)
    assert compare([native(), far], runs).losses[0].verdict == "not similar"
    assert compare([native(), far]).losses[0].verdict == "similar"
    assert "which is what the spread of 3 runs of plain allows" in words(compare([native(), near], runs))["loss"]


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "Failed"}, {"code": "other"}, {"hyperparameters": {"seed": "2"}}, {"compiled": True},
        {"image": "other"}, {"channels": (ChannelFacts("train", "s3://other"),)}, {"log": trainer(100, losses=(4.0,))},
    ],
)  # fmt: skip
def test_a_job_that_is_another_training_or_printed_less_is_no_known_run(changes: dict[str, Any]) -> None:
    other = native(**{"name": "other", "log": trainer(100, losses=(9.0, 8.0, 7.0)), **changes})
    (found,) = compare([native(), compiled()], [other]).losses
    assert (found.runs, found.basis, found.points) == (1, "default", 3)


def test_the_noise_of_one_curve_is_the_tolerance_where_it_is_more_than_the_default() -> None:
    jagged = [4 - number / 20 + (0.1 if number % 2 else -0.1) for number in range(20)]
    other = [4 - number / 20 + (-0.1 if number % 2 else 0.1) for number in range(20)]
    (found,) = compare([native(log=trainer(100, losses=jagged)), compiled(log=trainer(60, losses=other))]).losses
    assert found.basis == "noise"
    assert found.verdict == "too noisy to say"


def test_curves_that_agree_by_the_default_are_not_said_to_agree_by_a_wide_noise() -> None:
    """The losses of two jobs of the tutorial: their own noise is half of what the loss falls by."""
    first, second = (1.012, 0.3852, 0.0888, 0.1242, 0.1266), (1.0097, 0.3863, 0.0922, 0.1484, 0.0785)
    found = compare([native(log=trainer(100, losses=first)), compiled(log=trainer(60, losses=second))])
    assert (found.losses[0].verdict, found.losses[0].basis) == ("similar", "default")
    assert "within 0.0923, which is the default" in words(found)["loss"]


@pytest.mark.parametrize(("losses", "said"), [((), False), ((4.0,), True)])
def test_no_loss_or_one(losses: tuple[float, ...], said: bool) -> None:
    found = compare([native(), compiled(log=trainer(60, losses=losses))])
    assert len(found.jobs[1].losses) == len(losses)
    assert ("loss" in words(found)) is said
    assert [one.points for one in found.losses] == ([1] if said else [])
    assert numbers(found, "last_loss") == (2.0, losses[-1] if losses else None)


def test_losses_and_throughput_of_metric_definitions_where_no_trainer_prints() -> None:
    metrics = {
        "train_loss": (Sample(1000, 4.0), Sample(2000, 3.0)),
        "epoch": (Sample(1000, 1.0), Sample(2000, 2.0)),
        "steady_samples_per_second": (Sample(3000, 99.0),),
        "eval_samples_per_second": (Sample(3000, 98.0),),
        "throughput": (Sample(3000, 12.5),),
        "summary_train_runtime": (Sample(3000, 80.0),),
    }
    plain = facts("plain", compiled=False, seconds=120, metrics=metrics, report=CompilerReport())
    found = compare([plain, compiled()])
    assert [(point.epoch, point.loss) for point in found.jobs[0].losses] == [(1.0, 4.0), (2.0, 3.0)]
    # What scripts print is shown as theirs: nobody knows what it counts.
    assert numbers(found, "script_throughput")[0] == 12.5
    assert numbers(found, "throughput")[0] is None
    assert numbers(found, "runtime")[0] == 80.0
    assert found.row("script_throughput").sources == ("metric definition throughput", "Trainer's log")


def test_a_script_without_trainer_and_metrics_is_measured_by_its_compile_report() -> None:
    times = {"started_ms": 1_000, "time_to_first_step_seconds": 6.0, "first_step_seconds": 1.0, "last_step_ms": 56_000}
    plain = facts("plain", compiled=False, seconds=60, report=report(False, **times))
    found = compare([plain, compiled()])
    # From 5 s after the start (the first step began) to 55 s after it.
    assert numbers(found, "runtime")[0] == 50.0
    assert numbers(found, "throughput")[0] == 20.0
    assert found.row("throughput").sources[0] == "compile report"


def test_the_trainer_knows_of_batches_that_the_report_of_a_native_job_misses() -> None:
    """Accelerate loads a batch ahead, so the last one of an epoch is not seen; of short epochs that is a lot."""
    found = compare([native(report=report(False, samples=700)), compiled()])
    assert found.differences == ()
    assert numbers(found, "samples") == (1000.0, 1000.0)
    assert numbers(found, "throughput")[0] == 10.0


def test_what_is_not_known_is_left_out_of_the_words() -> None:
    bare = facts("bare", compiled=True, seconds=90, report=CompilerReport())
    found = compare([native(), bare])
    assert set(words(found)) == {"speed", "cost"}
    assert numbers(found, "throughput") == (10.0, None)
    assert found.row("throughput").changes == (0.0, None)


def test_a_price_that_is_not_known_is_no_cost() -> None:
    bills = {"bill": Bill(90, (("ml.p2.xlarge", 1),), None, native().bill.as_of)}
    found = compare([native(**bills), compiled(**bills)])
    assert "cost" not in words(found)
    assert all(row.key != "usd" for row in found.rows)
    assert any("ml.p2.xlarge is not known" in remark for remark in found.remarks)


def test_several_jobs_are_measured_by_the_first() -> None:
    found = compare([native(), compiled(), facts("other", compiled=True, seconds=60, log=trainer(50))])
    assert [job.label for job in found.jobs] == ["native", "XLA", "XLA 2"]
    assert numbers(found, "runtime") == (100.0, 60.0, 50.0)
    assert found.row("runtime").changes == pytest.approx((0.0, -40.0, -50.0))
    assert [one.text for one in found.sentences if one.kind == "billable"] == [
        "SageMaker Training Compiler integrated PyTorch was 37% faster in summary.",
        "SageMaker Training Compiler integrated PyTorch was 50% faster in summary.",
    ]


CHANNEL = ChannelFacts("train", "s3://data/a", "f1", 500)
OTHER = ChannelFacts("train", "s3://data/b", "f2", 500)


@pytest.mark.parametrize(
    ("what", "text", "changes"),
    [
        ("status", "fast did not complete: it is Failed", {"status": "Failed"}),
        ("status", "fast still runs", {"status": "InProgress", "training_seconds": None, "billable_seconds": None}),
        ("instances", "1 x ml.g5.xlarge, not on 1 x ml.p3.2xlarge", {
            "bill": Bill(90, (("ml.g5.xlarge", 1),), 0.1, native().bill.as_of)
        }),
        ("data", "only plain has the channel train", {"channels": ()}),
        ("data", "s3://data/b, not s3://data/a", {"channels": (OTHER,)}),
        ("data", "s3://data/b, not s3://data/a", {"channels": (replace(OTHER, fingerprint=""),)}),
        ("data", "dataset_name is wikitext, and not set", {"hyperparameters": {"dataset_name": "wikitext"}}),
    ],
)  # fmt: skip
def test_what_makes_a_comparison_meaningless_refuses_it(what: str, text: str, changes: dict[str, Any]) -> None:
    if "hyperparameters" in changes:
        changes = {"hyperparameters": {**native().hyperparameters, **changes["hyperparameters"]}}
    jobs = [native(channels=(CHANNEL,)), replace(compiled(), **{"channels": (CHANNEL,), **changes})]
    with pytest.raises(NotComparable) as refused:
        compare(jobs)
    assert [one.what for one in refused.value.differences] == [what]
    assert text in str(refused.value)
    found = compare(jobs, anyway=True)
    assert not found.comparable
    assert found.differences[0].blocks
    assert text in found.differences[0].text


@pytest.mark.parametrize(
    ("what", "text", "changes"),
    [
        ("script", "its scripts are not the same files", {"code": "other"}),
        ("script", "its entry point is run.py, not train.py", {
            "hyperparameters": {"sagemaker_program": "distributed_training_launcher.py", "training_script": "run.py"}
        }),
        ("seed", "seed is 7, and not set in the first job", {"hyperparameters": {"seed": "7"}}),
        ("batch", "a step takes 20 rows (1 worker), not 10 (1 worker)", {"report": report(True, rows=20)}),
        ("batch", "a step takes 40 rows (4 workers), not 10 (1 worker)", {"report": report(True, workers=4)}),
        ("work", "it trained on 2000 samples, not 1000", {"log": trainer(60, 2000)}),
        ("learning rate", "lr is 0.1, and not set in the first job", {"hyperparameters": {"lr": "0.1"}}),
        ("hyperparameters", "model is b, and not set", {"hyperparameters": {"model": "b"}}),
        ("compilation", "it asked for the compiler and trained natively: no plugin", {
            "compiled": False, "reason": "no plugin", "report": report(False)
        }),
        ("spot", "fast is managed spot training", {"spot": True}),
        ("attempts", "its seconds include 2 attempts", {"attempt": 2}),
        ("account", "it ran in account 210987654321 in eu-west-1", {"account": "210987654321", "region": "eu-west-1"}),
        ("data", "were written after fast had started", {"channels": (replace(CHANNEL, newest_ms=1500),)}),
    ],
)  # fmt: skip
def test_other_differences_are_said(what: str, text: str, changes: dict[str, Any]) -> None:
    usual = native().hyperparameters
    changes = {"channels": (CHANNEL,), **changes}
    if "hyperparameters" in changes:
        changes["hyperparameters"] = {**usual, **changes["hyperparameters"]}
    found = compare([native(channels=(CHANNEL,)), replace(compiled(), **changes)])
    assert found.comparable
    assert [one.what for one in found.differences] == [what]
    assert text in found.differences[0].text


def test_the_same_data_elsewhere_is_the_same_data() -> None:
    moved = (replace(CHANNEL, source="s3://elsewhere/copy"), ChannelFacts("code", "s3://only/here"))
    assert compare([native(channels=(CHANNEL,)), compiled(channels=moved)]).differences == ()


def test_hyperparameters_tell_of_batch_and_work_where_no_report_does() -> None:
    bare = {"report": CompilerReport(), "log": TrainerLog()}
    plain = facts("plain", compiled=False, seconds=9, hyperparameters={"epochs": "3", "batch_size": "8"}, **bare)
    fast = facts("fast", compiled=True, seconds=9, hyperparameters={"epochs": "1", "batch_size": "16"}, **bare)
    assert [one.text for one in compare([plain, fast]).differences] == [
        "batch_size is 16, not 8",
        "epochs is 1, not 3, so seconds and dollars are for different amounts of work",
    ]


@pytest.mark.parametrize(
    ("jobs", "text"),
    [
        (lambda: [native()], "two jobs or more"),
        (lambda: [native(), native()], "plain is named twice"),
        (lambda: [replace(native(), name=str(number)) for number in range(MOST_JOBS + 1)], "at most 8"),
    ],
)
def test_too_few_too_many_or_one_twice(jobs: Callable[[], list[JobFacts]], text: str) -> None:
    with pytest.raises(CannotCompare, match=text):
        compare(jobs())


def test_jobs_of_one_name_are_told_apart_by_their_accounts() -> None:
    there = replace(compiled(name="plain"), account="999999999999")
    found = compare([native(), there, replace(there, region="eu-west-1", billable_seconds=60)])
    assert words(compare([native(), there]))["cost"] == (
        "plain (999999999999, us-east-1) costs $0.0750, $0.0450 less than plain (123456789012, us-east-1) ($0.1200)."
    )
    billable = {one.label: one.text for one in found.sentences if one.kind == "billable"}
    assert {label: "37%" in text for label, text in billable.items()} == {"XLA": True, "XLA 2": False}


def test_stand_ins_are_told() -> None:
    found = compare([native(stand_in="1 CPU worker stands in"), compiled()])
    assert found.remarks[0] == "plain: 1 CPU worker stands in. Seconds are this machine's, not AWS's"


def test_json_and_back() -> None:
    found = compare([native(), compiled(code="other")])
    assert Comparison.from_json(json.loads(json.dumps(found.to_json()))) == found


@pytest.mark.parametrize(
    "value", [[], {}, {"jobs": 1, "rows": [], "sentences": []}, {"jobs": [{}], "rows": [], "sentences": []}]
)
def test_what_is_no_comparison(value: Any) -> None:
    with pytest.raises(SageletError, match="another version of sagelet"):
        Comparison.from_json(value)


def test_a_long_curve_keeps_its_ends() -> None:
    losses = [10 - number / 1000 for number in range(5001)]
    points = compare([native(), compiled(log=trainer(60, losses=losses))]).jobs[1].losses
    assert len(points) == 1000
    assert (points[0].loss, points[-1].loss) == (10.0, 5.0)
