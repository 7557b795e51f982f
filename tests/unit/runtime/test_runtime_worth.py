"""When it pays to trace a model once, by clocks that the tests set."""

from types import ModuleType, SimpleNamespace

import pytest

from sagelet_runtime.dynamo import tiers, xla
from sagelet_runtime.dynamo.worth import (
    COMPILED,
    IMPORT_SECONDS,
    LEAST,
    SAVED,
    TRACED_STEPS,
    Clocks,
    Judgement,
    Worth,
)
from sagelet_runtime.hugging_face import length


def after(steps: int, *, step: float, device: float = 0.0, waiting: float = 0.0, compiling: float = 0.0) -> Worth:
    """Steps of equal length, after a first one that compiled."""
    worth = Worth()
    worth.step(Clocks(0.0, -1.0, 0.0, 0.0))
    for at in range(steps + 1):
        worth.step(Clocks(100 + at * step, compiling, at * device, at * waiting))
    return worth


def judged(worth: Worth, left: int | None = None) -> Judgement:
    judgement = worth.judge(left)
    assert judgement is not None
    return judgement


def test_a_few_steps_say_nothing() -> None:
    assert after(LEAST - 1, step=1.0).judge() is None
    assert after(LEAST, step=1.0).judge() is not None


def test_the_steps_so_far_must_have_cost_what_it_costs() -> None:
    cost = IMPORT_SECONDS + TRACED_STEPS * 0.5 + COMPILED * 4.0
    enough = round(cost / (SAVED * 0.5))
    for steps, pays in ((enough - 1, False), (enough + 1, True)):
        found = judged(after(steps, step=0.5, compiling=4.0))
        assert (found.cost, found.steps) == (pytest.approx(cost), steps)
        assert found.pays is pays


def test_a_known_end_counts_in_place_of_the_past() -> None:
    worth = after(LEAST, step=0.5)
    enough = round((IMPORT_SECONDS + TRACED_STEPS * 0.5) / (SAVED * 0.5))
    assert judged(worth, enough + 1).pays
    assert not judged(worth, enough - 1).pays
    assert not judged(after(10_000, step=0.5), 3).pays


def test_a_device_that_is_busy_gains_nothing() -> None:
    assert judged(after(10_000, step=0.5, device=0.29)).pays
    assert not judged(after(10_000, step=0.5, device=0.31)).pays


def test_waiting_for_a_batch_is_no_work_of_the_host() -> None:
    waits = judged(after(10_000, step=0.5, waiting=0.4))
    assert waits.host == pytest.approx(0.1)
    assert not waits.pays


def test_one_long_step_is_no_reason() -> None:
    worth = after(LEAST, step=0.001)
    worth.step(Clocks(1_000.0, 0.0, 0.0, 0.0))
    assert judged(worth).host == pytest.approx(0.001)


def test_a_step_that_compiles_is_left_out() -> None:
    worth = after(LEAST, step=1.0)
    worth.step(Clocks(500.0, 30.0, 0.0, 0.0))
    assert worth.count == LEAST


def test_a_trainer_says_how_many_calls_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    class CallbackHandler:
        def on_train_begin(self, *_: object) -> str:
            return "begun"

    monkeypatch.setattr(xla, "of_process", tiers.Tiers(lambda function: function))
    assert xla.of_process.left() is None
    module = ModuleType("transformers.trainer_callback")
    module.CallbackHandler = CallbackHandler  # type: ignore[attr-defined]
    length.install(module)
    state = SimpleNamespace(max_steps=100, global_step=0)
    assert CallbackHandler().on_train_begin(SimpleNamespace(gradient_accumulation_steps=4), state, None) == "begun"
    state.global_step = 90
    assert xla.of_process.left() == 40
    state.global_step = 101
    assert xla.of_process.left() == 0


def test_a_model_goes_up_where_it_pays_or_at_the_call_that_the_job_names() -> None:
    asked = tiers.Tiers(lambda function: function, after=5)
    assert [asked.may_go_up(count) for count in (4, 5)] == [False, True]
    by_clocks = tiers.Tiers(lambda function: function)
    assert not by_clocks.may_go_up(1_000)
    by_clocks.worth = after(LEAST, step=0.5)
    by_clocks.left = lambda: 1_000
    assert [by_clocks.may_go_up(count) for count in (tiers.EQUAL - 1, tiers.EQUAL)] == [False, True]
    by_clocks.left = lambda: 10
    assert not by_clocks.may_go_up(tiers.EQUAL)


@pytest.mark.parametrize(("value", "count"), [("", None), (" 2 ", 2), ("500", 500)])
def test_the_calls_that_a_job_asks_for(value: str, count: int | None) -> None:
    assert tiers.after_of({tiers.AFTER: value}) == count


@pytest.mark.parametrize("value", ["1", "0", "-3", "2.5", "soon", "\u0663", "9" * 10])
def test_other_words_are_refused(value: str) -> None:
    with pytest.raises(tiers.UnknownCount, match=tiers.AFTER):
        tiers.after_of({tiers.AFTER: value})
