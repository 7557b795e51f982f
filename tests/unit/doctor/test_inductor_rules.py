"""What the doctor says of a job that Inductor compiles."""

from dataclasses import replace
from typing import Any

from sagelet_engine.doctor.case import Progress, Setup
from sagelet_engine.telemetry.compiler.text import heading, summary
from sagelet_engine.telemetry.compiler.worker import BatchShape, Cache, Devices, Graph, WorkerReport
from support.doctor_cases import GPU, case, found, worker


def inductors(**figures: Any) -> WorkerReport:
    usual: dict[str, Any] = {"compiler": "inductor", "markers": 0, "devices": Devices(cpu_params=4)}
    return worker(**{**usual, **figures})


def test_rules_about_xla_say_nothing() -> None:
    """Each of these figures would be a finding of a job of XLA."""
    shapes = tuple(BatchShape((16, length), 100) for length in range(5))
    steps = {"compiling_steps": tuple(range(90)), "compiling_step_count": 90, "batch_shapes": shapes}
    odd = {**steps, "world_size": 2, "fallbacks": {}}
    assert "gradients-not-reduced" in found(case(worker(**odd), worker(rank=1, **odd)))
    assert found(case(inductors(**odd), inductors(rank=1, **odd))).keys() <= {"short-training"}


def test_what_runs_natively_is_named() -> None:
    fault = "forward (train.py:7): InternalTorchDynamoError: TypeError: no"
    one = found(case(inductors(fallbacks={fault: 2})))["cpu-fallback"]
    assert one.seen.text == f"Inductor could not compile a part of the model, which ran natively: {fault}"
    assert "XLA has" not in one.to_json()["instead"]
    assert "runs as in a native job" in one.to_json()["why"]


def test_recompilations_and_breaks_have_dynamos_reason() -> None:
    graph = Graph(recompiles=4, recompile_reasons={"size mismatch": 3, "other": 1}, breaks=2, break_reasons={"item": 2})
    both = found(case(inductors(graph=graph)))
    assert both["dynamic-shapes"].seen.text == (
        "Dynamo traced 4 functions anew, about 2.0 s of compiling: size mismatch"
    )
    assert both["explicit-evaluation"].seen.text == "Dynamo ended the graph at 2 places: item"
    few = found(case(inductors(graph=replace(graph, recompiles=2))))
    assert "dynamic-shapes" not in few


def test_a_model_that_is_left_alone_is_not_compiled() -> None:
    script = """
        from transformers import TrainingArguments
        args = TrainingArguments("out", torch_compile=False)
        """
    one = found(case(inductors(compiles=0, compile_seconds=0.0), script=script))["not-compiled"]
    assert "The job asks for Inductor, but 1,000 optimizer steps ran and no program was compiled" in one.seen.text
    assert one.seen.place is not None
    assert one.seen.place.line == 2


def test_before_the_first_report_the_request_decides() -> None:
    failed = Progress(
        "Failed", last_lines=["RuntimeError: Found no NVIDIA driver on your system"], reason="AlgorithmError: x"
    )
    assert "device-mixing" in found(case(progress=failed, setup=Setup(GPU)))
    assert "no-gpu" in found(case(progress=failed, setup=Setup(GPU, compiler="inductor")))


def test_a_long_compilation_is_inductors() -> None:
    slow = Progress("InProgress", silent_seconds=700, compiling_seconds=690)
    one = found(case(inductors(finished=False), progress=slow))["stall"]
    assert "Inductor has been compiling one program for" in one.seen.text


def test_the_logs_line_names_inductor() -> None:
    line = summary(case(inductors(graph=Graph(recompiles=1), fallbacks={"forward: no": 1})).report)
    assert line.startswith("compiled by Inductor 2 times in 1.0 s")
    assert "; 1 recompilation; natively instead: forward: no" in line


def test_the_reports_heading_names_inductor() -> None:
    assert heading(case(inductors(platform="CPU")).report) == "compiled on CPU by Inductor"


def test_programs_of_the_cache_are_traced_and_not_compiled() -> None:
    warm = summary(case(inductors(cache=Cache(enabled=True, hits=2))).report)
    assert warm.startswith("traced and read all programs from Inductor's cache in 1.0 s")
