"""The reported time of a step beside a synchronised clock in the script itself, which waits for the device twice.

Both clocks are in one process and see the same steps, so their ratio does not depend on the load of the machine.
"""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from sagelet_api.web import steps
from sagelet_engine.telemetry.compiler.reading import workers_of
from sagelet_engine.telemetry.compiler.worker import WorkerReport
from support.training_host import KNOWN_PROCESSOR, TrainingHost

pytestmark = [pytest.mark.xla, pytest.mark.cpu_plugin, pytest.mark.programs("g++")]

#: The tolerance, and the most runs: other programs may begin between warming up, which only the report sees, and
#: measuring.
TOLERANCE, MOST_RUNS = 0.1, 6
COMPILED = {"sagemaker_training_compiler_enabled": "true"}
COMPILERS = {
    "native": ({}, {}),
    "plugin": (COMPILED, {}),
    "builtin": (COMPILED, {"SAGELET_XLA_CLIENT": "builtin"}),
    "traced once": (COMPILED, {"SAGELET_XLA_TRACING": "dynamo"}),
    "inductor": (COMPILED, {"SAGELET_COMPILER": "inductor", **KNOWN_PROCESSOR}),
}
#: Steps that are not measured, because they compile, and those that are.
WARM, STEPS = 3, 60

HEAD = f"""
    import json
    import os
    import sys
    import time

    import torch

    WARM, STEPS, EVERY = {WARM}, {STEPS}, int(os.environ["READ_EVERY"])
    torch.manual_seed(0)
    torch.set_num_threads(1)

    def wait():
        native = getattr(sys.modules.get("torch_xla"), "_XLAC", None)
        if native is not None and native._xla_runtime_is_initialized():
            native._xla_wait_device_ops([])

    class Clock:
        began = 0.0

        def start(self):
            wait()
            self.began = time.perf_counter()

        def stop(self, steps):
            wait()
            seconds = time.perf_counter() - self.began
            print("truth=" + json.dumps({{"seconds": seconds, "steps": steps}}), flush=True)

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 128 * (WARM + STEPS)

        def __getitem__(self, index):
            row = torch.full((384,), float(index % 7))
            return {{"x": row, "labels": row}}

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(*[torch.nn.Linear(384, 384) for _ in range(6)])

        def forward(self, x, labels):
            return {{"loss": torch.nn.functional.mse_loss(self.layers(x), labels)}}

    clock = Clock()
"""

PLAIN = """
    if os.environ.get("SAGELET_PJRT_FRONT") or os.environ.get("PJRT_DEVICE"):
        import torch_xla
        device, sync = torch_xla.device(), torch_xla.sync
    else:
        device, sync = "cpu", lambda: None
    model = Model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for number, batch in enumerate(torch.utils.data.DataLoader(Rows(), batch_size=128)):
        if number == WARM:
            clock.start()
        optimizer.zero_grad()
        loss = model(batch["x"].to(device), batch["labels"].to(device))["loss"]
        loss.backward()
        optimizer.step()
        sync()
        if EVERY and number % EVERY == EVERY - 1:
            loss.item()
    clock.stop(STEPS)
"""

ACCELERATE = """
    from accelerate import Accelerator
    accelerator = Accelerator()
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loader = torch.utils.data.DataLoader(Rows(), batch_size=128)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for number, batch in enumerate(loader):
        if number == WARM:
            clock.start()
        optimizer.zero_grad()
        loss = model(**batch)["loss"]
        accelerator.backward(loss)
        optimizer.step()
        if EVERY and number % EVERY == EVERY - 1:
            loss.item()
    clock.stop(STEPS)
"""

TRAINER = """
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Measure(TrainerCallback):
        def on_step_begin(self, arguments, state, control, **_):
            if state.global_step == WARM:
                clock.start()

        def on_step_end(self, arguments, state, control, **_):
            if state.global_step == WARM + STEPS:
                clock.stop(STEPS)

    arguments = TrainingArguments(
        output_dir=os.environ["SM_OUTPUT_DATA_DIR"], per_device_train_batch_size=128, max_steps=WARM + STEPS,
        logging_steps=EVERY or 10_000, save_strategy="no", report_to=[], disable_tqdm=True, optim="adamw_torch",
    )
    trainer = Trainer(model=Model(), args=arguments, train_dataset=Rows(), callbacks=[Measure()])
    trainer.train()
"""

SPAWNED = """
    import torch_xla.core.xla_model as xm
    import torch_xla.distributed.xla_multiprocessing as xmp

    def train(index):
        torch.set_num_threads(1)
        device = xm.xla_device()
        model = Model().to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        for number, batch in enumerate(torch.utils.data.DataLoader(Rows(), batch_size=128)):
            if number == WARM:
                clock.start()
            optimizer.zero_grad()
            loss = model(batch["x"].to(device), batch["labels"].to(device))["loss"]
            loss.backward()
            xm.optimizer_step(optimizer, barrier=True)
            if EVERY and number % EVERY == EVERY - 1:
                loss.item()
        if xm.is_master_ordinal():
            clock.stop(STEPS)

    if __name__ == "__main__":
        xmp.spawn(train)
"""

LOOPS = {"plain": PLAIN, "accelerate": ACCELERATE, "trainer": TRAINER, "spawned": SPAWNED}


def measured(host: TrainingHost, compiler: str, loop: str, every: int) -> tuple[float, WorkerReport]:
    """Returns the seconds of a step by the script's own clock, and the report of the worker with that clock."""
    hyperparameters, variables = COMPILERS[compiler]
    workers = 2 if loop == "spawned" else 1
    host.environment |= {**variables, "READ_EVERY": str(every), "GPU_NUM_DEVICES": str(workers)}
    host.script(HEAD + LOOPS[loop])
    ended = host.run(hyperparameters)
    assert ended.code == 0, ended.log
    truth = json.loads(re.findall(r"truth=(.*)", ended.log)[-1])
    report, *others = sorted(workers_of(host.base, "algo-1"), key=lambda one: one.rank)
    assert len(others) == workers - 1
    for other in others:
        check_parts(other)
    return truth["seconds"] / truth["steps"], report


def agrees(tmp_path: Path, compiler: str, loop: str, every: int) -> WorkerReport:
    """Runs the script until the clocks agree, and returns that run's report.

    If they never do, the report is wrong, unless the worker waited for a processor so long that this explains the
    difference. Then the test says that the machine is too noisy: it has not passed.
    """
    seen: list[tuple[float, float]] = []
    for number in range(MOST_RUNS):
        truth, report = measured(TrainingHost(tmp_path / str(number)), compiler, loop, every)
        ratio, crowding = report.steady_step_seconds / truth, 1 + report.cpu_wait_seconds / report.cpu_seconds
        if abs(ratio - 1) <= TOLERANCE:
            return report
        seen.append((ratio, crowding))
    said = f"reported over true, and how many times as long the processors took: {seen}"
    if all(1 / crowding <= ratio <= crowding for ratio, crowding in seen):
        pytest.xfail(f"the machine is too noisy to say: {said}")
    pytest.fail(said)


@pytest.mark.parametrize("every", [1, 10, 0])
@pytest.mark.parametrize("compiler", ["plugin", "builtin", "traced once"])
def test_a_plain_loop(tmp_path: Path, compiler: str, every: int) -> None:
    report = agrees(tmp_path, compiler, "plain", every)
    assert report.step_seconds.clock == ("waits" if compiler == "builtin" else "device")
    assert report.samples_per_second == pytest.approx(128 / report.steady_step_seconds, rel=0.05)
    check_parts(report)


@pytest.mark.parametrize("loop", ["accelerate", "trainer"])
@pytest.mark.parametrize("compiler", ["plugin", "builtin", "traced once"])
def test_loops_of_libraries(tmp_path: Path, compiler: str, loop: str) -> None:
    check_parts(agrees(tmp_path, compiler, loop, 10))


@pytest.mark.parametrize("compiler", ["plugin", "builtin", "inductor"])
def test_two_workers(tmp_path: Path, compiler: str) -> None:
    check_parts(agrees(tmp_path, compiler, "spawned", 10))


@pytest.mark.parametrize("compiler", ["native", "inductor"])
def test_what_computes_within_its_calls(tmp_path: Path, compiler: str) -> None:
    report = agrees(tmp_path, compiler, "plain", 0)
    assert report.step_seconds.clock == "script"
    check_parts(report)


def check_parts(report: WorkerReport) -> None:
    """What the script did one after the other is no longer than it took; the device was busy beside it."""
    seconds = sum(span.seconds for span in report.timeline)
    # The spans follow each other, so their sum is the wall time of the training. Both are rounded to 0.1 ms.
    for before, after in pairwise(report.timeline):
        assert before.step + before.steps == after.step
        assert before.start_seconds + before.seconds == pytest.approx(after.start_seconds, abs=0.002)
    for span in report.timeline:
        shown = steps.parts(span, report)
        assert sum(shown.values()) == pytest.approx(span.seconds)
        assert all(0 <= part <= span.seconds for part in shown.values()), shown
        parts = (span.wait_seconds, span.compile_seconds, span.device_wait_seconds)
        assert sum(parts) <= span.seconds * 1.001 + 0.001, span
    waited = sum(one.seconds for one in report.waits)
    assert waited == pytest.approx(report.device_wait_seconds, abs=0.001)
    if report.device.busy_seconds:
        assert report.device.lost == 0
        assert report.device.busy_seconds + report.device.idle_seconds >= seconds * 0.5
        # The programs of a device run one after the other.
        assert sum(one.seconds for one in report.device.programs) <= report.device.busy_seconds + 0.001
        assert sum(one.count for one in report.device.programs) == report.executions
