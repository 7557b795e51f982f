"""Models that are traced once (SAGELET_XLA_TRACING=once) train as those that are traced at each step."""

import json
import re
import textwrap
from pathlib import Path

import pytest

from sagelet_engine.telemetry.compiler.reading import workers_of
from support import same_model
from support.same_model import TOLERANCES
from support.training_host import Ended, TrainingHost
from support.xla_workers import TINY, UNOPTIMIZED

pytestmark = pytest.mark.xla

ASKED = {"sagemaker_training_compiler_enabled": "true"}
LAZY, ONCE = {"SAGELET_XLA_TRACING": "lazy"}, {"SAGELET_XLA_TRACING": "once"}
TIERED = {"SAGELET_XLA_TRACING": "tiered", "SAGELET_XLA_TIERED_AFTER": "2"}
#: Models with what is hard to trace. Each trains some steps and prints its losses.
MODELS = """
    import copy, json, torch, torch_xla
    import torch_xla.core.xla_model as xm
    from torch import nn
    from torch.nn.functional import mse_loss
    from torch_xla.debug import metrics

    device = xm.xla_device()
    WIDTH = 8

    class Base(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)

    class Plain(Base):
        def forward(self, x):
            return self.last(torch.tanh(self.first(x)))

    class ReadsAValue(Base):
        def forward(self, x):
            x = torch.tanh(self.first(x))
            if x.sum().item() > 1e9:
                raise ValueError("never")
            return self.last(x)

    class OnTheCpu(Base):
        def forward(self, x):
            return self.last(self.first(x) * torch.special.bessel_j0(x))

    class Normalised(Base):
        def __init__(self):
            super().__init__()
            # No bias before it: its gradient is rounding and nothing else, which Adam makes whole steps of.
            self.first, self.norm = nn.Linear(WIDTH, WIDTH, bias=False), nn.BatchNorm1d(WIDTH)

        def forward(self, x):
            return self.last(self.norm(self.first(x)))

    class Tied(Base):
        def __init__(self):
            super().__init__()
            self.second = nn.Linear(WIDTH, WIDTH)
            self.second.weight = self.first.weight

        def forward(self, x):
            return self.last(self.second(torch.tanh(self.first(x))))

    class Teacher(Base):
        \"\"\"A clone, which does not learn.\"\"\"

        def __init__(self):
            super().__init__()
            self.other = None

        def forward(self, x):
            return self.last(self.first(x)) - self.other(x)

    def train(name, model, shapes=(4,) * 6, autocast=False, clones=False):
        torch.manual_seed(1)
        model = model.to(device)
        if name == "teacher":
            model.other = copy.deepcopy(model.first)
            model.other.requires_grad_(False)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        losses, before = [], metrics.counter_value("xla::addmm") or 0
        for step, rows in enumerate(shapes):
            x = torch.randn(rows, WIDTH).to(device)
            y = torch.randn(rows, 1).to(device)
            optimizer.zero_grad()
            with torch.autocast("xla", dtype=torch.bfloat16, enabled=autocast):
                loss = mse_loss(model(x).float(), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            xm.optimizer_step(optimizer, barrier=True)
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            losses.append(mse_loss(model(x), y).item())
        traced = (metrics.counter_value("xla::addmm") or 0) - before
        print(f"found={json.dumps([name, losses, traced])}", flush=True)

    torch.manual_seed(0)
    train("plain", Plain(), (4,) * 12)
    train("shapes", Plain(), (4, 3, 4, 2, 4, 3))
    train("autocast", Plain(), autocast=True)
    train("reads a value", ReadsAValue())
    train("on the CPU", OnTheCpu())
    train("normalised", Normalised())
    train("tied", Tied())
    train("teacher", Teacher())
    """
#: A model with two inputs that are one tensor at first.
CLONES = """
    import json, torch
    import torch_xla.core.xla_model as xm

    class Difference(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(4, 1)

        def forward(self, one, other):
            return (self.first(one) - 2 * self.first(other)).square().mean()

    device = xm.xla_device()
    torch.manual_seed(0)
    model = Difference().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for step in range(6):
        one = torch.randn(3, 4).to(device)
        xm.mark_step()
        other = one.clone()
        if step > 1:
            other[0] = 0
        optimizer.zero_grad()
        loss = model(one, other)
        loss.backward()
        xm.optimizer_step(optimizer, barrier=True)
        losses.append(loss.item())
    print(f"found={json.dumps(['clones', losses, 0])}")
    """
DROPOUT = """
    import json, torch
    import torch_xla.core.xla_model as xm

    device = xm.xla_device()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Dropout(0.3), torch.nn.Linear(64, 1)).to(device)
    x, losses = torch.ones(8, 64).to(device), []
    for step in range(8):
        # Draws before the model, and a model that is called twice in a step.
        noise = torch.nn.functional.dropout(x, 0.1) if step % 3 == 0 else x
        loss = model(noise).square().mean() + model(x).square().mean()
        loss.backward()
        if step == 5:
            xm.set_rng_state(11)
        xm.mark_step()
        losses.append(loss.item())
    print(f"found={json.dumps(['dropout', losses, 0])}")
    """
WORKERS = """
    import json, torch
    import torch_xla.core.xla_model as xm
    import torch_xla.distributed.xla_multiprocessing as xmp

    def train(index):
        torch.manual_seed(0)
        device = xm.xla_device()
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for step in range(6):
            x = torch.randn(4, 8)[xm.get_ordinal()::xm.xrt_world_size()].to(device)
            optimizer.zero_grad()
            loss = (model(x) - 1).square().mean()
            loss.backward()
            xm.optimizer_step(optimizer, barrier=True)
            losses.append(xm.mesh_reduce("loss", loss.item(), sum))
        if xm.is_master_ordinal():
            print(f"found={json.dumps(['workers', losses, 0])}")

    if __name__ == "__main__":
        xmp.spawn(train)
    """


def run(base: Path, script: str, *, code: int = 0, **variables: str) -> Ended:
    # One of both ways has Python itself.
    host = TrainingHost(base, {**TINY, **variables}, forked=variables != ONCE)
    host.script(script)
    ended = host.run(ASKED)
    assert ended.code == code, ended.log
    return ended


def found(log: str) -> dict[str, tuple[list[float], int]]:
    """Losses, and how often `addmm` was traced, by model."""
    lines = [json.loads(line) for line in re.findall(r"found=(\[.*\])", log)]
    return {name: (losses, traced) for name, losses, traced in lines}


def both(base: Path, script: str, **variables: str) -> tuple[Ended, Ended]:
    return run(base / "lazy", script, **LAZY, **variables), run(base / "once", script, **ONCE, **variables)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trained")


@pytest.fixture(scope="module")
def trained(place: Path) -> tuple[Ended, Ended]:
    """All that one worker trains, traced at each step and once: half of such a job is importing torch_xla."""
    return both(place, "\n".join(textwrap.dedent(one) for one in (MODELS, CLONES, DROPOUT)))


def test_models_that_are_hard_to_trace(trained: tuple[Ended, Ended]) -> None:
    lazily, once = trained
    before, after = found(lazily.log), found(once.log)
    assert len(before.keys() - {"clones", "dropout"}) == 8
    assert before.keys() == after.keys()
    for name in before.keys() - {"clones", "dropout"}:
        losses, _ = before[name]
        assert after[name][0] == pytest.approx(losses, rel=2e-2 if name == "autocast" else 1e-4), name
    # Two layers in twelve steps and an evaluation, against one graph for each of these two.
    assert before["plain"][1] >= 2 * 12
    assert after["plain"][1] <= 8
    assert "Dynamo traces models once, in place of at each step" in once.log
    assert "Dynamo" not in lazily.log
    assert re.search(r"which is traced at each step: a graph: .*bessel", once.log)


def test_the_report_says_what_is_not_traced_once(trained: tuple[Ended, Ended], place: Path) -> None:
    lazily, once = (workers_of(place / kind, "algo-1")[0].graph for kind in ("lazy", "once"))
    assert (lazily.traced_once, lazily.untraced) == (False, {})
    assert once.traced_once
    assert any(re.fullmatch("a graph: .*bessel.*", one) for one in once.untraced), trained[1].log


@pytest.fixture(scope="module")
def by_two(place: Path) -> dict[str, Ended]:
    """The same training by two workers, traced in each way."""
    ways = {"lazy": LAZY, "once": ONCE, "tiered": TIERED}
    return {
        way: run(place / f"two-{way}", WORKERS, GPU_NUM_DEVICES="2", **variables) for way, variables in ways.items()
    }


def test_two_workers_train_and_report_the_same(by_two: dict[str, Ended], place: Path) -> None:
    losses = {way: found(ended.log)["workers"][0] for way, ended in by_two.items()}
    assert losses["once"] == pytest.approx(losses["lazy"], rel=1e-5)
    assert losses["tiered"] == pytest.approx(losses["lazy"], rel=1e-5)
    reports = {way: workers_of(place / f"two-{way}", "algo-1") for way in by_two}
    assert [len(workers) for workers in reports.values()] == [2, 2, 2]
    for before, once, tiered in zip(*reports.values(), strict=True):
        for after in (once, tiered):
            assert (after.steps, after.optimizer_steps, after.markers) == (
                before.steps, before.optimizer_steps, before.markers,
            )  # fmt: skip
            assert after.compiles >= before.compiles
            assert after.fallbacks == {}
        tier = tiered.graph.tier
        assert (tier.went_up_at, tier.calls, tier.breaks, tier.stayed) == (3, 4, {}, {})


def test_a_clone_is_not_taken_for_its_model(trained: tuple[Ended, Ended]) -> None:
    before, after = (found(ended.log)["clones"][0] for ended in trained)
    assert after == pytest.approx(before, rel=1e-5)


def test_dropout_draws_anew_at_each_step_and_the_same_as_if_traced(trained: tuple[Ended, Ended]) -> None:
    before, after = (found(ended.log)["dropout"][0] for ended in trained)
    assert len(after) == len(set(after)) == 8
    assert after == pytest.approx(before, rel=1e-5)


def test_the_same_models(tmp_path: Path) -> None:
    names = ["gpt2", "bert", "conv"]
    kinds: dict[str, dict[str, str] | None] = {"native": None, "once": UNOPTIMIZED | ONCE}
    trained = {}
    for kind, variables in kinds.items():
        under_way = same_model.start(
            tmp_path / kind, compiled=variables is not None, threads=1, forked=True, environment=variables or {},
            models=",".join(names), steps=7, small=1,
        )  # fmt: skip
        trained[kind] = same_model.ended(*under_way, names)
    for name in names:
        native, once = trained["native"][name], trained["once"][name]
        assert (native.device, once.device) == ("cpu", "xla")
        assert same_model.difference(native, once).within(TOLERANCES[name]), name


def test_another_word_is_refused(tmp_path: Path) -> None:
    ended = run(tmp_path, "print('not run')", code=1, SAGELET_XLA_TRACING="twice")
    assert (
        "SAGELET_XLA_TRACING is 'twice' in the job's Environment; use 'auto', 'tiered', 'once' or 'lazy'" in ended.log
    )
    assert "not run" not in ended.log
