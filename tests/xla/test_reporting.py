"""What a script does that costs it time, and what it may do to whoever counts."""

import os
import signal
from itertools import pairwise

import pytest

from sagelet_engine.telemetry.compiler.reading import workers_of
from sagelet_engine.telemetry.compiler.worker import CallSite, WorkerReport
from support.training_host import TrainingHost, poll

pytestmark = pytest.mark.xla

COMPILED = {"sagemaker_training_compiler_enabled": "true"}


def report_of(host: TrainingHost) -> WorkerReport:
    (report,) = workers_of(host.base, "algo-1")
    return report


def counts(places: tuple[CallSite, ...]) -> dict[tuple[str, str], int]:
    """By call and function of the script."""
    return {(place.call, place.function): place.count for place in places}


PITFALLS = """
    import logging
    import os
    import torch
    import torch_xla

    calls = []
    original = torch.Tensor.item

    def own_item(self):
        calls.append(self)
        return original(self)

    torch.Tensor.item = own_item

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 60

        def __getitem__(self, index):
            return {"input_ids": torch.full((8,), float(index)), "labels": torch.tensor(index % 4)}

    device = torch_xla.device()
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def print_it(loss):
        return repr(loss), f"{loss:.2f}", bool(loss > 0), float(loss), loss.cpu(), loss.tolist(), loss.to("cpu")

    def log_it(loss):
        logging.warning("loss %s", loss)

    def on_the_cpu(loss):
        torch.special.bessel_j0(loss)

    def save_it():
        torch.save({"inner": [model.state_dict()]}, os.path.join(os.environ["SM_MODEL_DIR"], "raw.pt"))

    def ask_for_a_gpu():
        try:
            model.cuda()
        except (RuntimeError, AssertionError):
            pass

    loader = torch.utils.data.DataLoader(Rows(), batch_size=16, num_workers=1)
    for epoch in range(2):
        for batch in loader:
            inputs, labels = batch["input_ids"].to(device), batch["labels"].to(device)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            torch_xla.sync()
            loss.item()
        with torch.no_grad():
            for batch in loader:
                model(batch["input_ids"].to(device)).sum().cpu()
    compiled = torch.compile(lambda x: x.sin() + (x.sum().item() if bool(x.sum() > 100) else 1.0), backend="openxla")
    compiled(torch.ones(3, device=device)).cpu()
    print_it(loss)
    log_it(loss)
    on_the_cpu(loss)
    save_it()
    ask_for_a_gpu()
    print("calls", len(calls), flush=True)
    os._exit(0)
    """


@pytest.fixture(scope="module")
def pitfalls(tmp_path_factory: pytest.TempPathFactory) -> TrainingHost:
    host = TrainingHost(tmp_path_factory.mktemp("pitfalls"))
    host.script(PITFALLS)
    ended = host.run(COMPILED)
    assert ended.code == 0, ended.log
    return host


def test_values_that_the_script_reads_by_place(pitfalls: TrainingHost) -> None:
    found = counts(report_of(pitfalls).evaluations)
    assert found["item", "own_item"] == 8
    for call in ("__repr__", "__format__", "__bool__", "__float__", "cpu", "tolist", "to"):
        assert found[call, "print_it"] == 1
    (logged,) = [place for place in report_of(pitfalls).evaluations if place.function == "log_it"]
    assert (logged.call, logged.via.partition(":")[0]) == ("__repr__", "logging/__init__.py")
    (read,) = [place for place in report_of(pitfalls).evaluations if place.function == "own_item"]
    text = (pitfalls.base / "code" / "train.py").read_text().splitlines()
    assert (read.file, text[read.line - 1].strip(), read.via) == ("train.py", "return original(self)", "")


def test_a_script_that_patches_what_we_do_gets_its_calls(pitfalls: TrainingHost) -> None:
    """Also from a library that formats a tensor; data loader workers and os._exit leave the report whole."""
    made = int(pitfalls.log.split("\ncalls ")[1].split()[0])
    assert made >= 8 + 1
    assert report_of(pitfalls).finished
    assert report_of(pitfalls).steps == 8


def test_batches_that_were_trained_on(pitfalls: TrainingHost) -> None:
    report = report_of(pitfalls)
    assert {one.shape: one.count for one in report.batch_shapes} == {(16, 8): 6, (12, 8): 2}
    assert report.samples == 120
    assert report.input_wait_seconds > 0
    assert 0 in report.compiling_steps
    assert 3 in report.compiling_steps  # The last batch of the first epoch.
    assert report.compiling_step_count < 8


def test_the_steps_over_time_are_all_steps_and_what_their_time_went_to(pitfalls: TrainingHost) -> None:
    report = report_of(pitfalls)
    spans = report.timeline
    assert sum(span.steps for span in spans) == report.steps
    assert [span.step for span in spans[1:]] == [span.step + span.steps for span in spans[:-1]]
    assert spans[0].compile_seconds > 0
    compiling = sum(span.compile_seconds for span in spans)
    # What compiles after the last step is of no step.
    assert 0 < compiling <= report.compile_seconds + 0.001
    assert 0 < sum(span.execute_seconds for span in spans) <= report.execute_seconds + 0.001
    assert 0 < sum(span.wait_seconds for span in spans) <= report.input_wait_seconds + 0.001
    for before, after in pairwise(spans):
        assert after.start_seconds == pytest.approx(before.start_seconds + before.seconds, abs=0.1)


def test_the_rest_of_what_costs(pitfalls: TrainingHost) -> None:
    report = report_of(pitfalls)
    assert report.fallbacks == {"aten::special_bessel_j0": 1}
    assert counts(report.saves) == {("torch.save", "save_it"): 1}
    assert ("cuda", "ask_for_a_gpu") in counts(report.devices.cuda_requests)
    # After each epoch values are read that no step has computed: 4 batches' each.
    assert report.graph.breaks >= 8
    assert report.devices.xla_params == 2


RUNNING = """
    import pathlib, time
    import torch, torch_xla
    device = torch_xla.device()
    model = torch.nn.Linear(4, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        optimizer.zero_grad()
        model(torch.ones(2, 4, device=device)).sum().backward()
        optimizer.step()
        torch_xla.sync()
        time.sleep(0.01)
    """


def test_a_worker_that_is_killed_leaves_what_it_had(host: TrainingHost) -> None:
    host.script(RUNNING)
    process = host.start(COMPILED)

    def seen() -> int:
        workers = workers_of(host.base, "algo-1")
        return workers[0].steps if workers else 0

    poll(lambda: seen() > 1, "a report while the script runs", 120)
    before = seen()
    poll(lambda: seen() > before, "a newer report")
    os.kill(report_of(host).pid, signal.SIGKILL)
    assert process.wait(timeout=60) == 1
    report = report_of(host)
    assert report.steps > before
    assert not report.finished


@pytest.mark.parametrize("client", ["plugin", "builtin"])
def test_an_error_of_the_compiler_is_called_so(host: TrainingHost, client: str) -> None:
    host.environment["SAGELET_XLA_CLIENT"] = client
    host.script(
        """
        import torch, torch_xla
        x = torch.rand(10**6, 1).to(torch_xla.device())
        print((x @ x.T).sort()[0].sum().item())
        """
    )
    ended = host.run(COMPILED)
    assert ended.code == 1
    assert ended.failure is not None
    assert "Out of memory allocating" in ended.failure
    assert 'ExtraInfo "SMTrainingCompiler Error: Error occurred in SMTrainingCompiler."' in ended.failure


NATIVE = """
    import sys
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.25)
    for inputs, labels in DataLoader(TensorDataset(torch.randn(20, 4), torch.zeros(20).long()), batch_size=5):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    print("device", next(model.parameters()).device, "torch_xla" in sys.modules)
    """


def test_without_the_compiler_the_job_trains_natively_and_reports_so(host: TrainingHost) -> None:
    host.script(NATIVE)
    ended = host.run({"sagemaker_training_compiler_enabled": "false"})
    assert ended.code == 0, ended.log
    assert "device cpu False" in ended.log
    assert "Training Compiler" not in ended.log
    report = report_of(host)
    assert (report.compiled, report.finished, report.platform) == (False, True, "")
    assert (report.steps, report.samples, report.compiles) == (4, 20, 0)
    assert report.steady_step_seconds > 0
    assert report.optimizers[0].name == "Adam"
    assert report.memory.peak_bytes > 0
