"""The steps over time on the page of the compile report."""

import json
import re
from dataclasses import asdict, fields
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.web.steps import parts, steps_view
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.compiler.worker import Device, Span
from support.api_world import ApiWorld
from support.doctor_cases import native_worker, worker

SPANS = (
    Span(
        step=0, steps=1, start_seconds=2.0, seconds=6.0, wait_seconds=0.5, compile_seconds=5.0, device_wait_seconds=0.1
    ),
    Span(step=1, steps=10, start_seconds=8.0, seconds=2.0, wait_seconds=0.5, device_wait_seconds=9.0),
)


def test_no_timeline_without_steps() -> None:
    assert steps_view(CompilerReport()) is None
    assert steps_view(CompilerReport.of("job", [worker()])) is None


def test_the_parts_of_a_span_are_its_time() -> None:
    first, second = (parts(span, worker()) for span in SPANS)
    assert first == pytest.approx({"wait": 0.5, "compile": 5.0, "held": 0.1, "rest": 0.4})
    assert second == {"wait": 0.5, "compile": 0.0, "held": 1.5, "rest": 0.0}
    assert parts(SPANS[1], native_worker()) == {"wait": 0.5, "rest": 1.5}
    by_inductor = Span(seconds=1.0, wait_seconds=0.25, compile_seconds=0.25, execute_seconds=0.25)
    assert parts(by_inductor, worker(compiler="inductor")) == dict.fromkeys(
        ("wait", "compile", "execute", "rest"), 0.25
    )


@given(
    st.builds(Span, **{one.name: st.floats(0, 1e6) for one in fields(Span) if one.type is float}),
    st.sampled_from(["", "inductor"]),
)
def test_the_parts_of_any_span_add_up_to_it_and_none_is_larger(span: Span, compiler: str) -> None:
    for one in (worker(compiler=compiler), native_worker()):
        seconds = parts(span, one)
        assert sum(seconds.values()) == pytest.approx(span.seconds)
        assert all(0 <= part <= span.seconds for part in seconds.values())


def test_widths_are_times_and_workers_begin_when_they_began() -> None:
    one = worker(started_ms=1_000, timeline=SPANS)
    late = worker(rank=1, started_ms=3_000, timeline=SPANS)
    view = steps_view(CompilerReport.of("job", [late, one]))
    assert view is not None
    assert (view.seconds, view.before) == (pytest.approx(10.0), 2.0)
    first, second = view.lanes
    for lane, start in ((first, 0.0), (second, 2.0)):
        widths = {piece.words: piece.width for piece in lane.pieces}
        assert lane.pieces[0].left == pytest.approx(start / 10 * 100, abs=0.01)
        assert widths["Compiling, step 0: 5 s"] == pytest.approx(50, abs=0.01)
        assert widths["Waiting for the device, steps 1 to 10: 1.5 s"] == pytest.approx(15, abs=0.01)
        assert sum(piece.width for piece in lane.pieces) == pytest.approx(80, abs=0.02)
    assert [(kind, pytest.approx(seconds)) for kind, _, seconds in view.totals] == [
        ("wait", 1.0), ("compile", 5.0), ("held", 1.6), ("rest", 0.4),
    ]  # fmt: skip


def test_what_the_device_did_is_said_in_the_units_of_the_legend() -> None:
    busy = worker(timeline=(Span(steps=5, seconds=103.6, execute_seconds=87.3),), device=Device(busy_seconds=87.3))
    view = steps_view(CompilerReport.of("job", [busy]))
    assert view is not None
    assert view.device == "Beside the script, the device was busy for 87.3 s of this time."


def test_a_native_worker_waits_and_works() -> None:
    view = steps_view(CompilerReport.of("job", [native_worker(timeline=SPANS[1:])]))
    assert view is not None
    assert [kind for kind, _, _ in view.totals] == ["wait", "rest"]


def test_many_workers_are_drawn_up_to_a_number() -> None:
    view = steps_view(CompilerReport.of("job", [worker(rank=rank, timeline=SPANS) for rank in range(20)]))
    assert view is not None
    assert (len(view.lanes), view.left_out) == (8, 12)


def words_of(page: Any) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", page.data.decode())).split())


def test_the_page_of_a_job_that_runs_shows_its_steps(tmp_path: Path, bridge: MotoBridge) -> None:
    with ApiWorld(tmp_path, bridge) as world:
        world.create("train", HyperParameters={"sagemaker_training_compiler_enabled": "true"})
        world.host("train")
        reports = JobDirectories.of(world.settings.data, world.job("train")).host("algo-1").opt_ml / "output/sagelet"
        reports.mkdir(parents=True)
        unseen = Span(step=0, steps=1, start_seconds=2.0)
        (reports / "worker-0.json").write_text(json.dumps(asdict(worker(timeline=(unseen, SPANS[1])))))
        assert "0 2.0 s not known - - - - " in words_of(world.page("/_sagelet/ui/jobs/train/report?part=report"))
        (reports / "worker-0.json").write_text(json.dumps(asdict(worker(timeline=SPANS))))
        text = world.page("/_sagelet/ui/jobs/train/report?part=report").data.decode()
        assert "Steps over time" in text
        widths = re.findall(r'<rect class="(\w+)" x="[\d.]+%" width="([\d.]+)%"', text)
        assert widths == [
            ("wait", "6.25"), ("compile", "62.5"), ("held", "1.25"), ("rest", "5.0"),
            ("wait", "6.25"), ("held", "18.75"),
        ]  # fmt: skip
        words = words_of(world.page("/_sagelet/ui/jobs/train/report?part=report"))
        assert "First step, 2.0 s after the start of Python" in words
        assert "1 to 10 8.0 s 2.0 s 500 ms - 1.5 s -" in words
