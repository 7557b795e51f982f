"""What the doctor gets to see of a job."""

import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.data.compilation import asks_for_compiler
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.model import training
from sagelet_engine.model.job import SecondaryStatus, Verdict
from sagelet_engine.model.runtime import Observation
from sagelet_engine.model.sinks import MetricPoint
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.reports.doctor_inputs import DoctorInputs, End, setup_of
from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.compiler.worker import WorkerReport
from sagelet_runtime.base.compiler import CompilerConfig, CompilerConfigurationError, config_from_parameters
from support.doctor_cases import native_worker, read, worker
from support.world import World, key, request, until

LOOP = "for batch in loader:\n    total += loss.item()\n"
COMPILED = {"sagemaker_training_compiler_enabled": "true", "sagemaker_program": '"train.py"'}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.engine.close()


def make(world: World, name: str, parameters: dict[str, str], script: str = LOOP, **changes: Any) -> TrainingJob:
    """A job that trains, with a script in its source directory."""
    changes = {"ResourceConfig": {"InstanceType": "ml.p3.2xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}, **changes}
    world.create(name, HyperParameters=parameters, **changes)
    world.host(name)
    code = JobDirectories.of(world.settings.data, world.job(name)).host("algo-1").opt_ml / "code"
    (code / "train.py").write_text(script)
    (code.parent / "model" / "model.pt").write_text("weights")
    return world.job(name)


def taken_in(world: World, text: str) -> None:
    """Waits until a line of any host is in the store."""
    streams = world.engine.logs.streams
    until(
        lambda: any(
            text in event.text
            for stream in streams("123456789012", "us-east-1", "one/")
            for event in world.engine.logs.events(stream, limit=100)
        )
    )


def consult(
    world: World, job: TrainingJob, report: CompilerReport | None = None, **hosts: Observation
) -> dict[str, dict[str, Any]]:
    """Findings by rule; `hosts`: how they ended."""
    ended = {name.replace("_", "-"): host for name, host in hosts.items()}
    status = SecondaryStatus.FAILED if any(host.exit_code for host in ended.values()) else SecondaryStatus.COMPLETED
    end = End(Verdict(status), ended) if ended else None
    inputs = DoctorInputs(world.engine._store, world.settings.data)
    found = inputs.findings(job, report or CompilerReport(), world.clock.now_ms(), end)
    assert json.loads(json.dumps(found)) == list(found)
    return {finding["rule"]: finding for finding in found}


def report_of(world: World, name: str, *workers: WorkerReport) -> CompilerReport:
    """What the workers of the job's only host reported, also in its directory."""
    directory = JobDirectories.of(world.settings.data, world.job(name)).host("algo-1").opt_ml / "output" / "sagelet"
    directory.mkdir(parents=True, exist_ok=True)
    for one in workers:
        (directory / f"worker-{one.rank}.json").write_text(json.dumps(asdict(one)))
    return CompilerReport.of(name, workers)


def test_metrics_that_were_not_finite(world: World) -> None:
    definitions = [{"Name": name, "Regex": f"{name}=(.*)"} for name in ("loss", "norm")]
    image = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:1.13.1-gpu-py39"
    world.create(
        "one",
        AlgorithmSpecification={"TrainingImage": image, "TrainingInputMode": "File", "MetricDefinitions": definitions},
    )
    host = world.host("one")
    host.say("loss=1", "norm=inf", "loss=nan", "norm=2")
    until(lambda: len(world.engine._store.points.not_finite(world.job("one").id)) == 2)
    until(lambda: any(point.name == "norm" for point in world.engine._store.last_points(world.job("one").id)))
    host.end(0)
    world.ended("one")
    inputs = DoctorInputs(world.engine._store, world.settings.data)
    found = inputs.findings(world.job("one"), CompilerReport(), world.clock.now_ms())
    seen = [(one["severity"], one["seen"]) for one in found if one["rule"] == "not-finite-metric"]
    assert seen == [
        ("warning", "loss (nan) ended as no finite number"),
        ("info", "norm (inf) was no finite number for a while"),
    ]
    assert [point.value for _, point in world.metrics.points if point.name in ("loss", "norm")] == [1.0, 2.0]
    # FinalMetricDataList has what went to CloudWatch (API reference, DescribeTrainingJob): the last finite value.
    final = {point.name: point for point in world.engine.metrics.final(world.job("one"))}
    assert {name: point.value for name, point in final.items()} == {"loss": 1.0, "norm": 2.0}
    sent = {point.name: point for _, point in world.metrics.points}
    assert final["loss"].time_ms == sent["loss"].time_ms


def test_findings_of_a_job_that_runs(world: World) -> None:
    job = make(world, "one", COMPILED)
    reading = report_of(world, "one", worker(evaluations=(read("item", 2, 1000),)))
    found = consult(world, job, reading)
    assert set(found) == {"explicit-evaluation"}
    assert "`total += loss.item()`" in found["explicit-evaluation"]["seen"]


def test_a_job_that_is_silent_has_stalled(world: World) -> None:
    job = make(world, "one", COMPILED)
    world.host("one").say("step 1")
    taken_in(world, "step 1")
    assert consult(world, job) == {}
    world.clock.turn(900)
    assert "15 minutes" in consult(world, world.job("one"))["stall"]["seen"]


def test_a_failed_job_is_diagnosed_from_its_last_lines(world: World) -> None:
    job = make(world, "one", COMPILED, script="x = 1\nmodel(batch)\n")
    world.host("one").say(
        "Traceback (most recent call last):",
        '  File "/opt/ml/code/train.py", line 2, in <module>',
        "RuntimeError: Expected XLA tensor. Got: torch.FloatTensor",
    )
    taken_in(world, "Expected XLA tensor")
    down = Observation(running=False, exit_code=1, finished_ms=5)
    finding = consult(world, job, algo_1=down)["device-mixing"]
    assert (finding["file"], finding["line"]) == ("train.py", 2)


def test_the_host_that_failed_first_speaks(world: World) -> None:
    hosts = {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2, "VolumeSizeInGB": 1}
    make(world, "one", COMPILED, ResourceConfig=hosts)
    first, second = world.all_hosts("one")
    first.say("SMTrainingCompiler Error of the other")
    second.say("RuntimeError: RESOURCE_EXHAUSTED: out of memory")
    taken_in(world, "SMTrainingCompiler")
    taken_in(world, "RESOURCE_EXHAUSTED")
    ended = {
        "algo_1": Observation(running=False, exit_code=1, finished_ms=9),
        "algo_2": Observation(running=False, exit_code=1, finished_ms=7),
    }
    assert set(consult(world, world.job("one"), **ended)) == {"out-of-memory"}


def test_the_host_of_the_worker_that_died_first_speaks(world: World) -> None:
    """Its peer's host may be down first. The workers' notes tell which worker failed first."""
    hosts = {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2, "VolumeSizeInGB": 1}
    make(world, "one", COMPILED, ResourceConfig=hosts)
    first, second = world.all_hosts("one")
    first.say("RuntimeError: Connection closed by peer")
    second.say('ErrorMessage "worker 1 of 2 (algo-2, local rank 0) was killed by SIGKILL"')
    taken_in(world, "Connection closed")
    taken_in(world, "SIGKILL")
    for name, time_ms in (("algo-1", 2500), ("algo-2", 3000)):
        output = JobDirectories.of(world.settings.data, world.job("one")).host(name).failure_file.parent
        notes = output / "sagelet" / "workers"
        notes.mkdir(parents=True)
        note = {"rank": 1, "time_ms": time_ms, "killed": name == "algo-2"}
        (notes / "failure.json").write_text(json.dumps(note))
    ended = {
        "algo_1": Observation(running=False, exit_code=1, finished_ms=5000),
        "algo_2": Observation(running=False, exit_code=1, finished_ms=9000),
    }
    assert set(consult(world, world.job("one"), **ended)) == {"script-exit"}


def finished_native(world: World, name: str, parameters: dict[str, str], script: str = LOOP) -> None:
    make(world, name, parameters, script)
    report_of(world, name, native_worker())
    world.host(name).end(0)
    world.ended(name)


@pytest.mark.parametrize(
    ("parameters", "script", "compared"),
    [
        ({"sagemaker_program": '"train.py"', "batch_size": "8", "model": "gpt2"}, LOOP, True),
        ({"sagemaker_program": '"train.py"', "batch_size": "8", "model": "bert"}, LOOP, False),
        ({"sagemaker_program": '"train.py"', "batch_size": "8", "model": "gpt2"}, "another = 1", False),
        ({**COMPILED, "batch_size": "8", "model": "gpt2"}, LOOP, False),
    ],
)
def test_the_native_job_to_compare_with(world: World, parameters: dict[str, str], script: str, compared: bool) -> None:
    finished_native(world, "before", parameters, script)
    job = make(world, "one", {**COMPILED, "batch_size": "16", "model": "gpt2"})
    found = consult(world, job, report_of(world, "one", worker()))
    assert set(found) == ({"batch-size"} if compared else set())


def test_what_the_request_says(world: World) -> None:
    job = make(world, "one", {"sagemaker_training_compiler_enabled": '"true"', "steps": "5", "name": '"gpt"'})
    assert setup_of(job).compiled
    assert not setup_of(job).debugger
    assert setup_of(job).hyperparameters["name"] == "gpt"
    assert setup_of(job).hyperparameters["steps"] == "5"
    parameters = {"sagemaker_training_compiler_debug_mode": "True"}
    request = {
        **job.request,
        "HyperParameters": parameters,
        "DebugHookConfig": {"S3OutputPath": "s3://b/c"},
        "ProfilerConfig": {"S3OutputPath": "s3://b/c"},
    }
    setup = setup_of(replace(job, request=request))
    assert (setup.compiled, setup.debug, setup.debugger, setup.profiler) == (False, True, True, True)
    off = setup_of(replace(job, request={**request, "ProfilerConfig": {"DisableProfiler": True}}))
    assert not off.profiler


def test_a_silent_job_that_steps_has_not_stalled(world: World) -> None:
    job = make(world, "one", COMPILED)
    world.clock.turn(900)
    stepping = worker(last_step_ms=world.clock.now_ms() - 1000)
    assert consult(world, job, report_of(world, "one", stepping)) == {}


def test_findings_of_a_job_that_ended_are_in_its_log_and_report(world: World) -> None:
    make(world, "one", COMPILED)
    report_of(world, "one", worker(evaluations=(read("item", 2, 1000),)))
    (live,) = world.engine.reports.findings(key("one"))
    assert live["rule"] == "explicit-evaluation"
    host = world.host("one")
    host.say("the last line")
    host.end(0)
    world.ended("one")
    log = world.log("one")
    at = log.index("the last line")
    assert log[at + 1].startswith("sagelet: compiled")
    assert [line.startswith("sagelet doctor: ") for line in log[at + 2 :]] == [True] * 3
    assert "train.py:2: .item()" in log[at + 3]
    (kept,) = world.engine.reports.findings(key("one"))
    assert kept == live
    report = world.engine.reports.compiler(key("one"))
    assert report is not None
    assert report.findings == (live,)
    output = world.objects.under("out")["models/one/output/output.tar.gz"]
    with tarfile.open(fileobj=io.BytesIO(output)) as archive:
        assert json.load(archive.extractfile("compiler-report.json"))["findings"] == [live]  # type: ignore[arg-type]


@pytest.mark.parametrize("noted", [True, False], ids=["by the workers' record", "by the import statements"])
def test_a_place_is_one_that_ran(world: World, noted: bool) -> None:
    """Not the first of the directory by the alphabet."""
    job = make(world, "one", COMPILED, script="import loop\n")
    opt_ml = JobDirectories.of(world.settings.data, job).host("algo-1").opt_ml
    (opt_ml / "code" / "bench.py").write_text("for batch in loader:\n    optimizer.step()\n")
    (opt_ml / "code" / "loop.py").write_text("\n\nfor batch in loader:\n    optimizer.step()\n")
    report_of(world, "one", worker(steps=0, markers=0))
    if noted:
        ran = {"files": ["train.py", "loop.py"], "compiler": "torch_xla", "loaded": True}
        (opt_ml / "output" / "sagelet" / "ran-1.json").write_text(json.dumps(ran))
    finding = consult(world, job, CompilerReport.of("one", [worker(steps=0, markers=0)]))["missing-mark-step"]
    assert (finding["file"], finding["line"]) == ("loop.py", 4)


def test_a_job_that_failed_before_any_worker_reported(world: World) -> None:
    make(world, "one", COMPILED, script="model(x.cuda())\n")
    host = world.host("one")
    host.say(
        '  File "/opt/ml/code/train.py", line 1, in <module>',
        "RuntimeError: Found no NVIDIA driver on your system \x1b[31m",
    )
    host.end(1)
    world.ended("one")
    (finding,) = world.engine.reports.findings(key("one"))
    assert (finding["rule"], finding["line"]) == ("device-mixing", 1)
    assert "\x1b" not in finding["seen"]
    assert any(line.startswith("sagelet doctor: error device-mixing train.py:1") for line in world.log("one"))


def test_a_job_whose_upload_failed_after_its_hosts_had_ended(world: World) -> None:
    make(world, "one", COMPILED)
    report_of(world, "one", worker(evaluations=(read("item", 2, 1000),)))
    world.objects.missing.add("out")
    world.host("one").end(0)
    world.ended("one")
    reason = world.job("one").failure_reason
    assert reason is not None
    findings = world.engine.reports.findings(key("one"))
    assert ("error", reason.removeprefix("ClientError: ")) in {(one["severity"], one["seen"]) for one in findings}
    report = world.engine.reports.compiler(key("one"))
    assert report is not None
    assert report.findings == findings


def test_an_interrupted_attempt_is_not_diagnosed(world: World) -> None:
    spot = {"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 3600}
    make(world, "one", COMPILED, EnableManagedSpotTraining=True, StoppingCondition=spot)
    host = world.host("one")
    world.engine.jobs.interrupt(key("one"))
    until(lambda: host.signals)
    host.end(137)
    until(lambda: world.job("one").attempt == 2 and world.job("one").launched)
    assert not any("doctor" in event for event in _all_lines(world))


def _all_lines(world: World) -> list[str]:
    streams = world.engine.logs.streams("123456789012", "us-east-1", "one/")
    return [event.text for stream in streams for event in world.engine.logs.events(stream, limit=100)]


def test_a_stopped_job_has_no_failure(world: World) -> None:
    make(world, "one", COMPILED)
    world.engine.jobs.stop(key("one"))
    host = world.host("one")
    until(lambda: host.signals)
    host.end(137)
    world.ended("one")
    assert world.engine.reports.findings(key("one")) == ()


def test_a_native_job_has_no_findings_and_no_section(world: World) -> None:
    make(world, "one", {})
    report_of(world, "one", native_worker(steady_input_wait_seconds=0.009))
    world.host("one").end(0)
    world.ended("one")
    assert [line for line in world.log("one") if "doctor" in line] == []


def test_metric_definitions_without_a_value_are_named_once_the_job_has_ended(world: World) -> None:
    algorithm = {
        **request("x")["AlgorithmSpecification"],
        "MetricDefinitions": [
            {"Name": "loss", "Regex": "loss: ([0-9.]+)"},
            {"Name": "lr", "Regex": "lr=([0-9.e-]+)"},
            {"Name": "odd", "Regex": "odd=([a-z]+)"},
        ],
    }
    job = make(world, "one", COMPILED, AlgorithmSpecification=algorithm)
    world.host("one").say("step 1 loss=2.5 lr=0.1 odd=nan", "the end")
    taken_in(world, "the end")
    assert "unmatched-metric" not in consult(world, job)
    finding = consult(world, job, algo_1=Observation(running=False, exit_code=0, finished_ms=5))["unmatched-metric"]
    assert finding["seen"] == (
        "No line gave a value of 'loss' (Regex 'loss: ([0-9.]+)'; 4 lines). "
        "The nearest line: 'step 1 loss=2.5 lr=0.1 odd=nan'. What is in the way: another separator"
    )


NOTE = {"pid": 7, "trains": True, "stack": ["lock.py:3 in wait", "train.py:7 in main"]}
CALLS = "lock.py:3 in wait, called by train.py:7 in main"


def minutes(world: World, job: TrainingJob, *cpu: float, host: str = "algo-1") -> int:
    """Measures a host for some minutes from now on, and returns when they begin."""
    began = world.clock.now_ms()
    points = [
        MetricPoint("CPUUtilization", value, began + minute * 60_000, host) for minute, value in enumerate(cpu, start=1)
    ]
    world.engine._store.points.put_host(job.id, points)
    return began


def note(world: World, job: TrainingJob, **members: Any) -> None:
    """What the sitecustomize of a job writes of a process."""
    directory = JobDirectories.of(world.settings.data, job).host("algo-1").opt_ml / "output" / "sagelet"
    directory.mkdir(parents=True, exist_ok=True)
    written = {**NOTE, **members}
    (directory / f"idle-{written['pid']}.json").write_text(json.dumps(written))


@pytest.mark.parametrize("parameters", [COMPILED, {}], ids=["compiled", "native"])
@pytest.mark.parametrize(
    ("cpu", "hung"),
    [
        ([1.0] * 6, "360 s of the 360 s of training"),
        ([1.0] * 4 + [80.0] * 2, "240 s of the 360 s of training"),
        ([80.0, 1.0, 1.0, 1.0, 1.0, 80.0], "240 s of the 360 s of training, from second 60 on"),
        ([80.0, 80.0, 1.0, 1.0, 1.0, 1.0], "240 s of the 360 s of training, from second 120 on"),
        ([80.0, 1.0, 80.0, 1.0, 1.0, 80.0], ""),
        ([80.0] * 6, ""),
    ],
)
def test_a_job_that_neither_printed_nor_computed_for_most_of_its_time(
    world: World, parameters: dict[str, str], cpu: list[float], hung: str
) -> None:
    job = make(world, "one", parameters)
    began = minutes(world, job, *cpu)
    idle_at = cpu.index(1.0) if 1.0 in cpu else 0
    note(world, job, seconds=60.0 * cpu.count(1.0), end_ms=began + (idle_at + cpu.count(1.0)) * 60_000)
    world.clock.turn(360)
    world.host("one").say("at the end", at_ms=world.clock.now_ms())
    taken_in(world, "at the end")
    report = report_of(world, "one", worker(host="algo-1", started_ms=began, pid=7, last_step_ms=world.clock.now_ms()))
    ended = consult(world, job, report, algo_1=Observation(running=False, exit_code=0, finished_ms=5))
    expected = {f"No line, no step and no CPU time for {hung}; worker 0 waited in {CALLS}"} if hung else set()
    assert {one["seen"] for rule, one in ended.items() if rule == "idle"} == expected


def test_a_job_that_printed_or_stepped_meanwhile_did_not_hang(world: World) -> None:
    job = make(world, "one", {})
    began = minutes(world, job, *[1.0] * 6)
    for minute in range(6):
        world.host("one").say(f"still here {minute}", at_ms=world.clock.now_ms())
        taken_in(world, f"still here {minute}")
        world.clock.turn(60)
    assert "idle" not in consult(world, job)
    other = make(world, "two", {})
    minutes(world, other, *[1.0] * 6)
    world.clock.turn(360)
    stepped = worker(started_ms=began, pid=7, last_step_ms=world.clock.now_ms(), compiled=False)
    assert "idle" not in consult(world, other, report_of(world, "two", stepped))


def test_where_a_job_hung_before_it_trained(world: World) -> None:
    """The script waits for its download; `accelerate launch` waits for the script, a second process is younger."""
    job = make(world, "one", {})
    began = minutes(world, job, *[1.0] * 6)
    world.clock.turn(360)
    idle: dict[str, Any] = {"trains": False, "seconds": 350, "end_ms": began + 355_000}
    launcher = ["/usr/lib/python3.11/subprocess.py:2011 in _wait", "accelerate/commands/launch.py:9 in main"]
    note(world, job, **idle, pid=5, started_ms=1, stack=launcher)
    note(world, job, **idle, pid=6, started_ms=2, stack=["ssl.py:1 in read", "train.py:2 in download"])
    note(world, job, **idle, pid=7, started_ms=3, stack=["board.py:1 in serve"])
    assert consult(world, job)["idle"]["seen"].endswith(
        "; the script waited in ssl.py:1 in read, called by train.py:2 in download"
    )


def test_all_hosts_do_nothing_before_a_job_is_said_to_hang(world: World) -> None:
    job = make(
        world, "one", {}, ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 2, "VolumeSizeInGB": 1}
    )
    minutes(world, job, *[1.0] * 6)
    world.clock.turn(360)
    assert "idle" not in consult(world, job), "of the other host nothing is known"
    minutes(world, make(world, "two", {}), *[1.0] * 6)
    busy = [MetricPoint("CPUUtilization", 50.0, world.clock.now_ms() - 100_000, "algo-2")]
    world.engine._store.points.put_host(job.id, busy)
    assert "idle" not in consult(world, job)


@pytest.mark.parametrize(("gpu", "hung"), [(80.0, False), (0.0, True)])
def test_a_gpu_that_works_is_no_job_that_hangs(world: World, gpu: float, hung: bool) -> None:
    job = make(world, "one", {})
    began = minutes(world, job, *[1.0] * 6)
    points = [MetricPoint("GPUUtilization", gpu, began + minute * 60_000, "algo-1") for minute in range(1, 7)]
    world.engine._store.points.put_host(job.id, points)
    world.clock.turn(360)
    assert ("idle" in consult(world, job)) is hung


def test_a_job_may_write_anything_into_its_notes(world: World) -> None:
    job = make(world, "one", {})
    minutes(world, job, *[1.0] * 6)
    world.clock.turn(360)
    for pid, (seconds, end_ms) in enumerate([(2**80, -5), (-1, 2**80), ("x", None), (1e308, 2**53), (360, 0)]):
        note(world, job, pid=pid, seconds=seconds, end_ms=end_ms, stack=["\x1b[31m" * 1000] * 1000)
    seen = consult(world, job)["idle"]["seen"]
    assert "\x1b" not in seen
    assert len(seen) < 3_000


def test_a_stalled_job_says_where_it_waits(world: World) -> None:
    job = make(world, "one", {})
    world.host("one").say("step 1")
    taken_in(world, "step 1")
    world.clock.turn(900)
    note(world, job, seconds=880, end_ms=world.clock.now_ms() - 5_000)
    assert consult(world, job)["stall"]["seen"].endswith(f"; worker 0 waits in {CALLS}")


def test_a_loss_that_is_no_number_needs_no_metric_definition(world: World) -> None:
    job = make(world, "one", COMPILED)
    world.host("one").say("{'loss': 3.1, 'epoch': 1.0}", "{'loss': nan, 'epoch': 2.0}", "the end")
    taken_in(world, "the end")
    finding = consult(world, job)["not-finite-metric"]
    assert finding["seen"].endswith("""not a finite number: "{'loss': nan, 'epoch': 2.0}\"""")
    world.host("one").say("{'loss': 2.9, 'epoch': 3.0}", "after it")
    taken_in(world, "after it")
    assert "not-finite-metric" not in consult(world, job)


@pytest.mark.parametrize(
    "value",
    [
        "true",
        '"true"',
        "'true'",
        " TRUE ",
        '" true "',
        "1",
        "yes",
        "false",
        '"False"',
        "0",
        "none",
        "",
        "on-ish",
        "[true]",
    ],
)
def test_server_doctor_and_container_agree_on_who_asks_for_the_compiler(value: str) -> None:
    """Any other value asks for nothing, and fails the job in its container."""
    parameters = {"sagemaker_training_compiler_enabled": value, "sagemaker_training_compiler_debug_mode": value}
    job = training.create(key("one"), "id", request("one", HyperParameters=parameters), {}, 0)
    try:
        config = config_from_parameters(parameters)
    except CompilerConfigurationError:
        config = CompilerConfig()
    assert asks_for_compiler(job.spec) is config.enabled
    assert (setup_of(job).compiled, setup_of(job).debug) == (config.enabled, config.debug)
