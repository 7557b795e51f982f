"""Each rule: a case that it finds, and similar cases that it does not."""

import logging
from dataclasses import replace

import pytest

from sagelet_engine.doctor.case import Progress, Setup
from sagelet_engine.doctor.diagnosis import diagnose
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity
from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.compiler.worker import (
    BatchShape,
    CallSite,
    Collectives,
    Devices,
    Graph,
    Memory,
    Optimizer,
    StepSeconds,
    Tier,
    WorkerReport,
)
from support.doctor_cases import GPU, case, found, native_worker, read, worker

LOOP = """
    for batch in loader:
        loss = model(batch)
        total += loss.item()
        print("loss", loss)
        xm.optimizer_step(optimizer)
    """
TRAINER = """
    arguments = TrainingArguments(
        output_dir="out",
        logging_steps={every},
    )
    Trainer(model=model, args=arguments).train()
    """


def failed(*lines: str, **progress: object) -> Progress:
    return Progress("Failed", exit_code=1, last_lines=lines, **progress)  # type: ignore[arg-type]


def test_a_training_as_it_should_be_has_no_findings() -> None:
    assert found(case(worker(), script=LOOP)) == {}
    assert found(case()) == {}


# --- shapes ---------------------------------------------------------------------------------------------------


def shapes(*lengths: int) -> tuple[BatchShape, ...]:
    return tuple(BatchShape((8, length), 1000 // len(lengths)) for length in lengths)


def test_batches_of_many_lengths() -> None:
    script = """
        def collate(batch):
            return tokenizer(batch, padding="longest", return_tensors="pt")
        """
    many = worker(batch_shapes=shapes(30, 31, 32), compiling_steps=(0, 1, 7, 9, 20), compiling_step_count=5)
    finding = found(case(many, script=script))["dynamic-shapes"]
    assert finding.seen.place is not None
    assert (finding.seen.place.file, finding.seen.place.line, finding.seen.count) == ("train.py", 2, 3)
    assert "3 shapes" in finding.seen.text
    assert 'padding="longest"' in finding.seen.text
    assert finding.seen.cost_seconds == pytest.approx(1.5)


def test_lengths_whose_programs_were_compiled_in_the_first_steps_are_no_finding() -> None:
    assert found(case(worker(batch_shapes=shapes(30, 31, 32)))) == {}


def test_batches_of_many_sizes_are_not_to_be_padded() -> None:
    sizes = tuple(BatchShape((rows, 32), 300) for rows in (8, 7, 6))
    finding = found(case(worker(batch_shapes=sizes, compiling_steps=(0, 8, 9, 10), compiling_step_count=4)))
    assert "drop_last" in finding["dynamic-shapes"].to_json()["instead"]


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ("collator = DataCollatorWithPadding(tokenizer)", 1),
        ("collator = DataCollatorWithPadding(tokenizer, padding='max_length')", None),
        ("layer = Conv2d(3, 8, 3, padding=True)\nbatch = pad_sequence(rows)", 2),
        ("batch = tokenizer(rows, padding=True)", 1),
        ("batch = tokenizer(rows, padding='max_length')", None),
        ("this is no Python", None),
    ],
)
def test_where_batches_get_their_lengths(script: str, line: int | None) -> None:
    many = worker(batch_shapes=shapes(30, 31, 32), compiling_steps=(0, 7, 9, 20), compiling_step_count=4)
    place = found(case(many, script=script))["dynamic-shapes"].seen.place
    assert (place.line if place else None) == line


LAST = {
    "batch_shapes": (BatchShape((16, 32), 990), BatchShape((5, 32), 10)),
    "compiling_steps": (0, 1, 99),
    "compiling_step_count": 3,
}


@pytest.mark.parametrize("drop", ["", ", drop_last=False"])
def test_a_smaller_last_batch(drop: str) -> None:
    finding = found(case(worker(**LAST), script=f"loader = DataLoader(rows, batch_size=16{drop})"))["last-batch"]
    assert finding.seen.severity is Severity.INFO
    assert "step 99" in finding.seen.text
    assert "10 of [5, 32]" in finding.seen.text


@pytest.mark.parametrize(
    "script",
    [
        "loader = DataLoader(rows, batch_size=16, drop_last=True)",
        "train = DataLoader(rows, 16, drop_last=options.drop)",
        "train, test = DataLoader(rows, 16), DataLoader(others, 5)",
        "arguments = TrainingArguments(eval_strategy='steps')",
        "arguments = TrainingArguments(dataloader_drop_last=True)",
        "loader = DataLoader(rows, **options)",
    ],
)
def test_a_smaller_batch_that_may_be_another_ones(script: str) -> None:
    assert found(case(worker(**LAST), script=script)) == {}


# --- evaluations ----------------------------------------------------------------------------------------------


def test_item_in_the_loop() -> None:
    reading = worker(evaluations=(read("item", 3, 1000),))
    finding = found(case(reading, script=LOOP))["explicit-evaluation"].to_json()
    assert (finding["file"], finding["line"], finding["count"], finding["severity"]) == ("train.py", 3, 1000, "warning")
    assert ".item()" in finding["seen"]
    assert "`total += loss.item()`" in finding["seen"]
    assert finding["source"].startswith("https://docs.aws.amazon.com/")


def test_a_value_now_and_then_is_no_finding() -> None:
    assert found(case(worker(evaluations=(read("item", 3, 110), read("__format__", 4, 110))), script=LOOP)) == {}


def test_too_few_steps_to_tell() -> None:
    few = worker(steps=10, optimizer_steps=10, markers=10, evaluations=(read("item", 3, 10),), compile_seconds=0.001)
    assert found(case(few, script=LOOP)) == {}


def test_a_printed_tensor_is_logging() -> None:
    printing = worker(evaluations=(read("__repr__", 4, 1000),))
    assert set(found(case(printing, script=LOOP))) == {"frequent-logging"}


def test_an_evaluation_of_an_unknown_file_is_still_one() -> None:
    elsewhere = CallSite("item", "lost.py", 9, "f", "", 1000, 0.1)
    finding = found(case(worker(evaluations=(elsewhere,)), script=LOOP))["explicit-evaluation"]
    assert "`" not in finding.seen.text


def test_what_the_trainer_reads_by_itself_is_not_the_scripts() -> None:
    within = worker(evaluations=(read("__bool__", 5, 1000, "transformers/trainer.py:2560"),))
    assert found(case(within, script=TRAINER.format(every=100))) == {}


def test_what_a_library_reads_in_the_scripts_loop_is() -> None:
    script = """
        for batch in loader:
            metric.add_batch(predictions)
        """
    within = worker(evaluations=(read("numpy", 2, 1000, "evaluate/module.py:500"),))
    assert "evaluate/module.py:500" in found(case(within, script=script))["explicit-evaluation"].seen.text


@pytest.mark.parametrize(("every", "often"), [(1, True), (5, True), (10, False), (100, False)])
def test_logging_steps_of_the_trainer(every: int, often: bool) -> None:
    reading = worker(evaluations=(read("item", 5, 1000 // every, "transformers/trainer_pt_utils.py:197"),))
    findings = found(case(reading, script=TRAINER.format(every=every)))
    assert set(findings) == ({"frequent-logging"} if often else set())
    if often:
        assert findings["frequent-logging"].to_json()["line"] == 3
        assert found(case(worker(), script=TRAINER.format(every=every))) == {}


def test_logging_steps_as_a_hyperparameter() -> None:
    script = "parser = HfArgumentParser(TrainingArguments)"
    asked = Setup(GPU, {"logging_steps": "1"})
    reading = worker(evaluations=(read("item", 5, 1000, "transformers/trainer_pt_utils.py:197"),))
    assert set(found(case(reading, script=script, setup=asked))) == {"frequent-logging"}
    assert found(case(worker(), script="options.logging_steps", setup=asked)) == {}


def test_saving_in_every_step() -> None:
    saving = worker(saves=(CallSite("torch.save", "train.py", 3, "main", "", 1000, 2.0),))
    assert {"frequent-checkpoints", "torch-save"} == set(found(case(saving, script=LOOP)))
    script = 'arguments = TrainingArguments(save_strategy="{}", save_steps=2)'
    assert set(found(case(worker(), script=script.format("steps")))) == {"frequent-checkpoints"}
    assert found(case(worker(), script=script.format("epoch"))) == {}


# --- the API --------------------------------------------------------------------------------------------------


def test_no_step_ended_its_graph() -> None:
    script = """
        for batch in loader:
            loss.backward()
            optimizer.step()
        """
    unended = worker(steps=0, markers=0, steady_step_seconds=0.0)
    finding = found(case(unended, script=script))["missing-mark-step"]
    assert finding.seen.place is not None
    assert finding.seen.place.line == 3
    assert finding.seen.severity is Severity.ERROR


def test_torch_save_of_xla_tensors() -> None:
    saving = worker(saves=(CallSite("torch.save", "train.py", 3, "main", "", 1, 0.1),))
    assert "once" in found(case(saving, script=LOOP))["torch-save"].seen.text


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: Expected XLA tensor. Got: torch.FloatTensor",
        "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
        "RuntimeError: This host has no GPU: its CPUs stand in for ml.p3.2xlarge, and there is no CUDA device.",
        "AssertionError: Torch not compiled with CUDA enabled",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, xla:0 and cpu!",
    ],
)
def test_a_job_that_failed_of_two_devices(line: str) -> None:
    lines = (
        "Traceback (most recent call last):",
        '  File "/opt/ml/code/train.py", line 2, in <module>',
        "    loss = model(batch)",
        '  File "/usr/lib/python3/site-packages/torch/nn/modules/module.py", line 1773, in _wrapped_call_impl',
        line,
    )
    finding = found(case(script=LOOP, progress=failed(*lines)))["device-mixing"].to_json()
    assert (finding["severity"], finding["file"], finding["line"]) == ("error", "train.py", 2)
    assert "`loss = model(batch)`" in finding["seen"]
    natively = Setup(GPU, compiled=False)
    (rule,) = found(case(script=LOOP, progress=failed(*lines), setup=natively))
    assert rule in ("no-gpu", "script-error")
    assert found(case(worker(), script=LOOP, progress=Progress("Completed", last_lines=lines))) == {}


def test_parameters_left_on_the_cpu() -> None:
    assert set(found(case(worker(devices=Devices(cpu_params=2, xla_params=4))))) == {"device-mixing"}


def test_a_compiled_job_that_compiles_nothing() -> None:
    nowhere = native_worker(devices=Devices(cpu_params=4), markers=0)
    finding = found(case(nowhere, script="device = torch.device('cpu')"))["not-compiled"]
    assert finding.seen.place is not None
    assert found(case(nowhere, setup=Setup(GPU, compiled=False))) == {}


def test_counts_of_an_evaluation_are_not_divided_by_the_steps() -> None:
    """43 operations of a generation in one of 100 steps are none that a step does."""
    few = {"steps": 100, "optimizer_steps": 100, "markers": 100}
    fell = worker(**few, fallbacks={"aten::nonzero": 43}, fallback_repeats={"aten::nonzero": 42})
    assert "cpu-fallback" not in found(case(fell))
    often = worker(**few, fallbacks={"aten::nonzero": 200}, fallback_repeats={"aten::nonzero": 150})
    assert "200 times in 50 of 100 steps" in found(case(often))["cpu-fallback"].seen.text
    evaluation = replace(read("item", 2, 300), repeats=290)
    script = "for batch in loader:\n    loss.item()"
    assert found(case(worker(**few, evaluations=(evaluation,)), script=script)) == {}
    reading = replace(evaluation, repeats=200)
    assert "explicit-evaluation" in found(case(worker(**few, evaluations=(reading,)), script=script))


def test_what_stands_in_the_directory_does_not_say_what_trained() -> None:
    """A helper that imports transformers, or Lightning, once silenced the rule."""
    native = native_worker(
        optimizer_steps=1, devices=Devices(cpu_params=4), not_compiled="the script did not import torch_xla"
    )
    for script in ("import transformers", "import lightning", "import torch"):
        text = found(case(native, script=script))["not-compiled"].seen.text
        assert text.endswith("1 optimizer step ran and no program was compiled: the script did not import torch_xla")
    under_way = Progress("InProgress", silent_seconds=1.0)
    assert "not-compiled" not in found(case(native, progress=under_way)), "it may have tried the model on the CPU"
    later = replace(native, optimizer_steps=5)
    assert "not-compiled" in found(case(later, progress=under_way))


def test_a_job_without_the_package_that_compiles() -> None:
    nothing = CompilerReport("job", not_imported="torch_xla", reason="no process of the job imported torch_xla")
    finding = found(replace(case(), report=nothing))["not-compiled"]
    assert "no process of the job imported torch_xla, so nothing was compiled" in finding.seen.text
    assert found(replace(case(progress=Progress("Stopped")), report=nothing)) == {}
    assert found(case(script="import torch")) == {}, "no process has said what it imported"


def test_a_job_that_its_host_could_not_compile_is_no_fault_of_the_script() -> None:
    report = case(native_worker(devices=Devices(cpu_params=4))).report
    told = replace(report, reason="the plugin does not load")
    assert "not-compiled" not in found(replace(case(), report=told))


def exchanging(exchanges: int, platform: str = "CPU", **collectives: int) -> list[WorkerReport]:
    """Two workers; `exchanges`: of gradients."""
    given = Collectives(**{"count": exchanges, "gradient_exchanges": exchanges, **collectives})
    return [worker(rank=rank, world_size=2, platform=platform, collectives=given) for rank in (0, 1)]


def test_workers_that_exchange_nothing() -> None:
    finding = found(case(*exchanging(0), script="for batch in loader:\n    optimizer.step()"))["gradients-not-reduced"]
    assert finding.seen.severity is Severity.ERROR
    assert finding.seen.place is not None
    assert "exchanged nothing" in finding.seen.text
    assert found(case(*exchanging(1000))) == {}
    assert found(case(*exchanging(0, "CUDA"))) == {}


def test_workers_that_exchange_the_loss_only() -> None:
    exchanged = exchanging(0, count=1000, bytes=4000, gradient_bytes=9488)
    text = found(case(*exchanged))["gradients-not-reduced"].seen.text
    assert "no gradients: 1000 collectives of 4000 bytes in all, where a step's gradients have 9488" in text


# --- batch size, data, length ---------------------------------------------------------------------------------


def test_the_native_batch_size() -> None:
    assert "native job native" in found(case(worker(), native=native_worker()))["batch-size"].seen.text
    larger = worker(batch_shapes=(BatchShape((64, 32), 250),), optimizers=(Optimizer("SGD", (0.4,)),))
    assert found(case(larger, native=native_worker())) == {}


def test_free_memory_of_the_device() -> None:
    room = worker(memory=Memory(4 * 2**30, "device", 16 * 2**30))
    assert "4.0 of the device's 16.0 GiB" in found(case(room))["batch-size"].seen.text
    assert found(case(worker(memory=Memory(4 * 2**30, "rss")))) == {}
    assert found(case(worker(memory=Memory(12 * 2**30, "device", 16 * 2**30)))) == {}


def test_a_larger_batch_at_the_same_learning_rate() -> None:
    larger = worker(batch_shapes=(BatchShape((64, 32), 250),))
    finding = found(case(larger, native=native_worker()))["learning-rate"].to_json()
    assert "64 rows" in finding["seen"]
    assert "learning_rate=0.4" in finding["instead"]
    assert "0.2 " in finding["instead"]


def test_the_batch_of_all_workers_counts() -> None:
    finding = found(case(*exchanging(1000), native=native_worker()))["learning-rate"]
    assert "32 rows where the native job native has 16" in finding.seen.text


def test_steps_that_wait_for_their_data() -> None:
    waiting = worker(steady_input_wait_seconds=0.006)
    finding = found(case(waiting, script="for batch in DataLoader(rows, batch_size=16):\n    step(batch)"))
    assert finding["input-bound"].seen.cost_seconds == pytest.approx(6.0)
    assert finding["input-bound"].seen.place is not None
    assert "(60%)" in finding["input-bound"].seen.text
    assert found(case(worker(steady_input_wait_seconds=0.002))) == {}
    prepared = found(case(waiting, script="loader = DataLoader(rows, num_workers=4)"))
    assert prepared["input-bound"].seen.place is None


def on_an_h200(**figures: object) -> WorkerReport:
    """The figures of a GPT-2 with 8 rows a batch: docs/how-to/gpu.md."""
    measured = {
        "platform": "XLAGPU", "steps": 100, "executions": 222, "steady_step_seconds": 0.129, "execute_seconds": 6.18,
        "tracing_seconds": 6.18, "batch_shapes": (BatchShape((8, 512), 100),),
    }  # fmt: skip
    return worker(**{**measured, **figures})


def test_a_gpu_that_waits_for_python() -> None:
    finding = found(case(on_an_h200()))["tracing-bound"].seen
    assert finding.text == (
        "The device worked for 62 ms of a step of 129 ms (48%); tracing took 62 ms, with 8 rows a batch"
    )
    assert finding.cost_seconds == pytest.approx(6.72)


@pytest.mark.parametrize(
    "figures",
    [
        {"execute_seconds": 9.0},  # it is busy for 70 % of the step
        {"platform": "CPU"},
        {"steps": 19, "execute_seconds": 1.17},
        {"steps": 60, "execute_seconds": 4.2},  # 3.5 s in all
        {"steady_input_wait_seconds": 0.06},  # it waits for data, which has a finding of its own
    ],
)
def test_a_gpu_that_does_not_wait_for_python(figures: dict[str, object]) -> None:
    assert "tracing-bound" not in found(case(on_an_h200(**figures)))


def test_a_model_that_computes_something_else_if_it_is_traced_once() -> None:
    tier = Tier(difference="Net: output 0 is 0.2 apart, of 1.3")
    finding = found(case(worker(graph=Graph(tier=tier))))["tracing-differs"].seen
    assert "computes something else: Net: output 0 is 0.2 apart, of 1.3. It was traced at each step" in finding.text
    assert "tracing-differs" not in found(case(worker(graph=Graph(tier=Tier(went_up_at=9, calls=40)))))


def test_the_slowest_worker_is_the_one_that_waits() -> None:
    workers = exchanging(1000)
    slow = worker(rank=1, world_size=2, collectives=Collectives(gradient_exchanges=9), steady_input_wait_seconds=0.006)
    assert set(found(case(workers[0], slow))) == {"input-bound"}


def short(**figures: object) -> WorkerReport:
    return worker(steps=50, optimizer_steps=50, markers=50, **figures)


def test_a_training_too_short_for_its_compilation() -> None:
    # 1 s of compiling; a step saves 10 ms at the very most: step 100.
    finding = found(case(short()))["short-training"]
    assert "from step 100 on" in finding.seen.text
    assert found(case(worker(steps=100))) == {}


def test_break_even_against_a_native_job() -> None:
    same = {"optimizers": ()}
    even = found(case(short(**same), native=native_worker(steady_step_seconds=0.014)))["short-training"]
    assert "natively 14.0 ms in native): compiling pays from step 250 on" in even.seen.text
    never = found(case(short(**same), native=native_worker(steady_step_seconds=0.008)))["short-training"]
    assert "does not pay at any step" in never.seen.text
    won = found(case(short(**same), native=native_worker(steady_step_seconds=0.05)))
    assert "short-training" not in won


@pytest.mark.parametrize("status", ["Completed", "InProgress", "Stopped", "Failed"])
def test_compiled_steps_that_are_slower_than_native_ones(status: str) -> None:
    native = native_worker(steady_step_seconds=0.079)
    slow = worker(steps=1000, steady_step_seconds=0.1, platform="CPU")
    finding = found(case(slow, native=native, progress=Progress(status)))["slower-than-native"].seen
    assert finding.text == (
        "On this CPU, a step compiled by XLA took 100.0 ms, natively 79.0 ms in native: 0.79 of the speed; one run of "
        "each does not say which is faster"
    )
    assert finding.severity is Severity.INFO
    assert finding.cost_seconds == pytest.approx(21)
    for other, against in (
        (slow, native_worker(steady_step_seconds=0.081)),
        (slow, None),
        (slow, native_worker(steady_step_seconds=0.05, batch_shapes=(BatchShape((4, 8), 1000),))),
        (worker(steps=19, steady_step_seconds=0.1), native),
    ):
        assert "slower-than-native" not in found(case(other, native=against))


def test_a_slower_compiled_job_is_a_warning_where_a_comparison_says_it() -> None:
    def told(step: float) -> Seen:
        quiet = {"cpu_seconds": 9.0, "cpu_wait_seconds": 0.0, "steps": 100}
        slow = worker(**quiet, steady_step_seconds=step, step_seconds=StepSeconds(quarters=(step,) * 4, steps=99))
        native = native_worker(
            **quiet, steady_step_seconds=0.1, step_seconds=StepSeconds(quarters=(0.1,) * 4, steps=99)
        )
        return found(case(slow, native=native))["slower-than-native"].seen

    sure, unsure = told(0.16), told(0.14)
    assert (sure.severity, "one run" in sure.text) == (Severity.WARNING, False)
    assert (unsure.severity, "one run" in unsure.text) == (Severity.INFO, True)


def test_a_job_that_did_not_complete_is_not_too_short() -> None:
    assert found(case(short(), progress=Progress("Stopped"))) == {}
    assert found(case(short(), progress=Progress("InProgress", silent_seconds=1))) == {}


def test_operations_on_the_cpu() -> None:
    script = "for batch in loader:\n    kinds = torch.unique(batch)"
    counts = {"aten::_unique2": 1000, "aten::_local_scalar_dense": 900, "aten::nonzero": 1}
    finding = found(case(worker(fallbacks=counts), script=script))["cpu-fallback"].to_json()
    assert (finding["line"], finding["count"]) == (2, 1000)
    assert "aten::_unique2" in finding["seen"]


# --- the request ----------------------------------------------------------------------------------------------


def of_instances(*instances: tuple[str, int]) -> set[str]:
    return set(found(case(setup=Setup(instances))))


def test_instances() -> None:
    assert of_instances(("ml.m5.large", 1)) == {"unsupported-instance"}
    assert of_instances(("ml.p3.2xlarge", 1)) == set()
    assert of_instances(("ml.p3.2xlarge", 8)) == {"single-gpu-instances", "no-efa"}
    assert of_instances(("ml.p3.8xlarge", 2)) == {"no-efa"}
    assert of_instances(("ml.p4d.24xlarge", 4)) == set()
    assert found(case(setup=Setup((("ml.m5.large", 3),), compiled=False, debug=True, debugger=True))) == {}


def test_debugging_that_was_left_on() -> None:
    assert set(found(case(setup=Setup(GPU, debug=True)))) == {"debug-mode"}
    finding = found(case(setup=Setup(GPU, debugger=True, profiler=True)))["debugger"]
    assert "hook and profiler" in finding.seen.text


# --- failures -------------------------------------------------------------------------------------------------


def test_memory() -> None:
    line = "RuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 17179869184 bytes."
    told = found(case(worker(memory=Memory(2**30, "rss")), progress=failed(line)))["out-of-memory"]
    assert line in told.seen.text
    assert "a batch has 16 rows" in told.seen.text
    killed = found(case(progress=failed("last words", out_of_memory=True)))["out-of-memory"]
    assert "The kernel killed" in killed.seen.text
    by_cgroup = ("ExitCode 137", 'ErrorMessage ""', 'ExtraInfo "OutOfMemory: Process killed by SIGKILL (signal 9)"')
    assert "The kernel killed" in found(case(progress=failed(*by_cgroup)))["out-of-memory"].seen.text
    assert found(case(progress=Progress("Stopped", exit_code=137))) == {}
    assert set(found(case(progress=failed("ValueError: bad data")))) == {"script-error"}


def test_signal_9_alone_does_not_say_that_memory_was_full() -> None:
    """A launcher, a timeout and `kill -9` send it, too."""
    reason = "AlgorithmError: , exit code: 137"
    ended = found(case(progress=Progress("Failed", exit_code=137, reason=reason)))
    assert set(ended) == {"script-exit"}
    remedy = str(ended["script-exit"].seen.instead)
    assert "sagelet did not, and it knows of no full memory" in remedy
    assert remedy.index("`kill -9`") < remedy.index("`dmesg`")
    told = {
        'ExitCode -9\nErrorMessage ""': "ended by the signal SIGKILL",
        'ExitCode 137\nErrorMessage ""': "ended by the signal SIGKILL",
        'ExitCode 137\nErrorMessage "worker 1 of 2 was killed by SIGKILL"': "A worker was ended by",
        'ExitCode 1\nErrorMessage "Signal 9 (SIGKILL) received by PID 7"': "A worker was ended by",
    }
    for said, seen in told.items():
        text = f"ExecuteUserScriptError:\n{said}"
        progress = replace(failed(*text.split("\n")), reason=f"AlgorithmError: {text}, exit code: 1")
        (finding,) = found(case(progress=progress)).values()
        assert (finding.rule.name, seen in finding.seen.text) == ("script-exit", True), said


def test_a_checkpoint_that_cannot_be_loaded() -> None:
    line = "NotImplementedError: Could not run 'aten::empty.memory_format' with arguments from the 'XLA' backend."
    natively = Setup(GPU, compiled=False)
    assert set(found(case(progress=failed(line), setup=natively))) == {"unreadable-checkpoint"}


@pytest.mark.parametrize(
    "line",
    [
        "SMTrainingCompiler Error: ExecuteUserScriptError",
        "RuntimeError: Bad StatusOr access: INTERNAL: ptxas exited with non-zero error code 65280",
        "F0000 parse_flags_from_env.cc:234] Unknown flag in XLA_FLAGS: --xla_gpu_typo",
        "E0000 command_line_flags.cc:63] Couldn't interpret value abc for flag xla_cpu_prefer_vector_width.",
        'F0000 flags.cc:171] Could not open file "typo" to read flags for environment variable "XLA_FLAGS".',
        "NotImplementedError: Could not run 'aten::_sparse_coo_tensor' with arguments from the 'SparseXLA' backend.",
        "RuntimeError: No PjRtPlugin registered for: CUDA. Make sure the environment is configured correctly.",
    ],
)
def test_the_compiler_gave_up(line: str) -> None:
    assert set(found(case(progress=failed(line)))) == {"compiler-fault"}


def test_a_flag_that_xla_does_not_know_is_found_in_the_script() -> None:
    line = "F external/xla/xla/parse_flags_from_env.cc:234] Unknown flag in XLA_FLAGS: --xla_typo=1"
    script = 'import os\nos.environ["XLA_FLAGS"] = "--xla_typo=1"'
    assert found(case(script=script, progress=failed(line)))["compiler-fault"].to_json()["line"] == 2
    assert "line" not in found(case(script="import os", progress=failed(line)))["compiler-fault"].to_json()


def test_a_wrong_setting_has_a_remedy_of_its_own() -> None:
    value = "E0000 command_line_flags.cc:63] Couldn't interpret value abc for flag xla_cpu_width."
    script = 'import os\nos.environ["XLA_FLAGS"] = "--xla_cpu_width=abc"'
    finding = found(case(script=script, progress=failed(value)))["compiler-fault"].to_json()
    assert (finding["line"], finding["instead"].split(" ")[:2]) == (2, ["Correct", "XLA_FLAGS"])
    device = "RuntimeError: No PjRtPlugin registered for: GPU. Make sure the environment variable is right."
    assert "PJRT_DEVICE" in str(found(case(progress=failed(device)))["compiler-fault"].to_json()["instead"])


def test_an_exception_of_the_shutdown_is_not_the_error() -> None:
    lines = (
        "Traceback (most recent call last):", '  File "train.py", line 1, in <module>', "ValueError: no rows",
        "Exception ignored in: <function tqdm.__del__ at 0x7f>", "Traceback (most recent call last):",
        '  File "/lib/site-packages/tqdm/std.py", line 1148, in __del__', "AttributeError: no format_interval",
    )  # fmt: skip
    assert '"ValueError: no rows"' in found(case(progress=failed(*lines)))["script-error"].seen.text


def test_the_compilers_mark_alone_says_nothing_of_what_failed() -> None:
    lines = ('RuntimeError: no lowering for this"', 'ExtraInfo "SMTrainingCompiler Error: Error occurred."')
    finding = found(case(progress=failed(*lines)))["compiler-fault"]
    assert '"RuntimeError: no lowering for this"' in finding.seen.text
    mixed = ("RuntimeError: Expected XLA tensor. Got: torch.FloatTensor", *lines[1:])
    assert set(found(case(progress=failed(*mixed)))) == {"device-mixing"}


def silent(seconds: float, compiling: float = 0.0) -> Progress:
    return Progress("InProgress", silent_seconds=seconds, compiling_seconds=compiling)


def test_a_stall() -> None:
    assert found(case(worker(), progress=silent(500))) == {}
    assert "is at step 1000" in found(case(worker(), progress=silent(700)))["stall"].seen.text
    assert "no worker has reported" in found(case(progress=silent(700)))["stall"].seen.text
    assert "compiling one program for 10 minutes" in found(case(worker(), progress=silent(700, 600)))["stall"].seen.text
    behind = worker(rank=1, world_size=2, optimizer_steps=998, steps=998, collectives=Collectives(9))
    apart = found(case(exchanging(9)[0], behind, progress=silent(700)))["stall"]
    assert "worker 1 is at step 998" in apart.seen.text


# --- all of them ----------------------------------------------------------------------------------------------


def test_the_worst_comes_first_then_what_costs_most() -> None:
    looked_at = case(
        worker(
            evaluations=(read("item", 3, 1000), CallSite("tolist", "train.py", 2, "main", "", 900, 2.5)),
            saves=(CallSite("torch.save", "train.py", 5, "main", "", 1),),
            steady_input_wait_seconds=0.008,
        ),
        script=LOOP,
        setup=Setup(GPU, debug=True),
    )
    ordered = [(finding.rule.name, finding.seen.cost_seconds) for finding in diagnose(looked_at)]
    assert [name for name, _ in ordered] == [
        "input-bound", "explicit-evaluation", "explicit-evaluation", "torch-save", "debug-mode",
    ]  # fmt: skip


def test_a_rule_with_a_bug_says_so_and_the_others_hold(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: object) -> list[Seen]:
        raise ZeroDivisionError

    def fine(_: object) -> list[Seen]:
        return [Seen(Severity.INFO, "seen")]

    rules = tuple(
        Rule(name, "why", "instead", Section.ENABLE, check) for name, check in (("broken", broken), ("fine", fine))
    )
    with caplog.at_level(logging.ERROR):
        assert [finding.rule.name for finding in diagnose(case(), rules)] == ["broken", "fine"]
    assert "broken" in caplog.text
