"""Models that are traced once from a later call on (SAGELET_XLA_TRACING=tiered) train as if each call were traced."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.images.context import find_root
from sagelet_engine.telemetry.compiler.reading import workers_of
from support.flat import numbers
from support.training_host import TrainingHost
from support.xla_workers import TINY

pytestmark = pytest.mark.xla

PROGRAM = Path(__file__).parent / "programs" / "tiers.py"
SHAPE, CHECK = "Base: another shape, or other arguments", "Base: one of Dynamo's checks failed: "
DIFFERS = "its results differ if it is traced once: "
#: Of eight calls: those that ran a program, why others did not, and why the model stayed as it was. Texts' beginnings.
EXPECTED: dict[str, tuple[int, dict[str, int], str]] = {
    "plain": (6, {}, ""),
    "random": (6, {}, ""),
    "evaluated": (6, {}, ""),
    "copied": (6, {}, ""),
    "a last batch": (4, {SHAPE: 2}, ""),
    "hooked later": (4, {f"{CHECK}not model._modules['first']._forward_hooks": 2}, ""),
    "unfrozen later": (
        4,
        {f"{CHECK}tensor 'model._modules['first']._parameters['weight']' requires_grad mismatch": 2},
        "",
    ),
    "counts elsewhere": (0, {}, "CountsElsewhere: each call changes G["),
    "draws": (0, {}, "Draws: Unsupported: "),
    "shrinks": (0, {}, "Shrinks: it changes its arguments or parameters in place"),
    "retained": (14, {}, ""),
    "in pairs": (21, {}, ""),
    "penalised": (0, {}, "Base: the script differentiates gradients (create_graph)"),
    "penalised later": (5, {}, "Base: the script differentiates gradients (create_graph)"),
    "counts": (0, {}, "Counts: each call changes its attribute note"),
    "reads": (0, {}, "Reads: Unsupported: "),
    "changes its input": (0, {}, "Changes: it changes its arguments or parameters in place"),
    "not finite": (0, {}, "Endless: its results are not finite"),
    "wrong": (0, {}, f"Base: {DIFFERS}output 0 is "),
    "without a gradient": (0, {}, f"Base: {DIFFERS}first.weight has no gradient"),
    "failing": (0, {}, "Base: RuntimeError: no such compiler"),
}

#: Dropout, accumulation, clipping, a schedule, evaluation between steps, an early stop, and resuming in the middle.
TRAINER = """
    import json, os, torch
    from transformers import EarlyStoppingCallback, GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    class Tokens(torch.utils.data.Dataset):
        def __init__(self):
            self.rows = torch.randint(0, 50, (64, 8), generator=torch.Generator().manual_seed(5))
        def __len__(self):
            return len(self.rows)
        def __getitem__(self, index):
            return {"input_ids": self.rows[index], "labels": self.rows[index]}

    def train(steps, callbacks, **how):
        torch.manual_seed(0)
        size = {"n_layer": 1, "n_embd": 16, "n_head": 2, "n_positions": 8, "vocab_size": 50}
        model = GPT2LMHeadModel(GPT2Config(**size, resid_pdrop=0.2, embd_pdrop=0.2, attn_pdrop=0.2))
        arguments = TrainingArguments(
            output_dir=os.environ["SM_OUTPUT_DATA_DIR"], per_device_train_batch_size=4, max_steps=steps,
            logging_steps=1, gradient_accumulation_steps=2, learning_rate=1e-2, warmup_steps=2, eval_strategy="steps",
            eval_steps=2, save_strategy="steps", save_steps=2, load_best_model_at_end=bool(callbacks), report_to=[],
            disable_tqdm=True, save_only_model=False,
        )
        data = Tokens()
        trainer = Trainer(model=model, args=arguments, train_dataset=data, eval_dataset=data, callbacks=callbacks)
        trainer.train(**how)
        logged = [entry.get("loss", entry.get("eval_loss", 0.0)) for entry in trainer.state.log_history]
        weights = [one.detach().cpu().double().sum().item() for one in trainer.model.parameters()]
        return [trainer.state.global_step, logged[:-1], weights]

    stopped = train(10, [EarlyStoppingCallback(early_stopping_patience=2, early_stopping_threshold=10.0)])
    resumed = train(8, [], resume_from_checkpoint=os.path.join(os.environ["SM_OUTPUT_DATA_DIR"], "checkpoint-4"))
    print("seen=" + json.dumps([stopped, resumed]))
    """


@pytest.fixture(scope="module")
def printed() -> Any:
    environ = {**os.environ, "PJRT_DEVICE": "CPU", "PYTHONPATH": str(find_root() / "runtime")}
    done = subprocess.run([sys.executable, PROGRAM], env=environ, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_nothing_is_imported_before_a_model_goes_up(printed: Any) -> None:
    assert printed[0] == []


@pytest.mark.parametrize("name", EXPECTED)
def test_a_model_goes_up_and_the_script_sees_the_same_numbers(printed: Any, name: str) -> None:
    """Losses, weights, the means of batch norm, and the next numbers of all generators."""
    before, after, report, is_freed = printed[1][name]
    calls, breaks, stayed = EXPECTED[name]
    assert is_freed
    assert list(numbers(after)) == pytest.approx(list(numbers(before)), rel=1e-5, abs=1e-6, nan_ok=True)
    # The third call of pairs is the second of one.
    third = 4 if name == "in pairs" else 3
    assert (report["calls"], report["went_up_at"]) == (calls, third if calls else 0)
    assert sorted(report["breaks"].values()) == sorted(breaks.values())
    assert all(any(text.startswith(one) for one in breaks) for text in report["breaks"])
    assert len(report["stayed"]) == bool(stayed)
    assert all(text.startswith(stayed) for text in report["stayed"])
    difference = next(iter(report["stayed"])).replace(DIFFERS, "") if DIFFERS in stayed else ""
    assert report["difference"] == difference


def test_a_torch_that_lacks_what_is_needed_trains_as_before(printed: Any) -> None:
    before, after, report, _ = printed[2]
    assert after == before
    assert (report["calls"], report["went_up_at"]) == (0, 0)
    assert report["stayed"] == {"this torch lacks torch.no_such_function, torch.no_such_module.other": 1}


def test_all_cases_are_here(printed: Any) -> None:
    assert printed[1].keys() == EXPECTED.keys()


def test_a_trainer_with_all_that_trainers_do(tmp_path: Path) -> None:
    seen = {}
    for tracing in ("auto", "tiered"):
        settings = {**TINY, "SAGELET_XLA_TRACING": tracing, "SAGELET_XLA_TIERED_AFTER": "2"}
        host = TrainingHost(tmp_path / tracing, settings, forked=True)
        host.script(TRAINER)
        ended = host.run({"sagemaker_training_compiler_enabled": "true"})
        assert ended.code == 0, ended.log
        seen[tracing] = json.loads(re.findall(r"seen=(\[.*\])", ended.log)[-1])
    assert [steps for steps, *_ in seen["auto"]] == [6, 8]
    assert list(numbers(seen["tiered"])) == pytest.approx(list(numbers(seen["auto"])), rel=1e-4, abs=1e-4)
    tier = workers_of(tmp_path / "tiered", "algo-1")[0].graph.tier
    # Twelve calls, and eight after resuming. Each model goes up at its third.
    assert (tier.went_up_at, tier.calls, tier.breaks, tier.stayed) == (3, 16, {}, {})
