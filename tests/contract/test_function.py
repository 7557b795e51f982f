"""What of the runtime port's contract holds for hosts that are Python functions, and what is their own.

Not of theirs: anything about processes, private directories and networks, and hosts that outlive this process.
"""

import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from contract.test_runtime import (
    test_ended_host_is_found_until_it_is_reaped as test_ended_host_is_found_until_it_is_reaped,
)
from contract.test_runtime import (
    test_follower_continues_right_after_a_position as test_follower_continues_right_after_a_position,
)
from contract.test_runtime import (
    test_launch_again_gives_the_same_host as test_launch_again_gives_the_same_host,
)
from contract.test_runtime import (
    test_launches_at_the_same_time_give_one_host as test_launches_at_the_same_time_give_one_host,
)
from contract.test_runtime import (
    test_lines_come_whole_and_in_order as test_lines_come_whole_and_in_order,
)
from contract.test_runtime import (
    test_stop_of_an_ended_host_is_no_error as test_stop_of_an_ended_host_is_no_error,
)
from sagelet_engine.model.runtime import LaunchPlan, Mount
from sagelet_engine.simulation.clock import SimulatedClock
from sagelet_engine.simulation.functions import Function, FunctionHost, FunctionRuntime, Terminated
from support.harness import Harness, wait_for


def in_a_shell(plan: LaunchPlan) -> Function:
    """Runs the commands of the contract's tests, and prints what they print."""
    assert plan.entrypoint is not None
    command = [*plan.entrypoint, *plan.arguments]

    def run(host: FunctionHost) -> int:
        command[-1] = command[-1].replace("/opt/ml", str(host.host.opt_ml))
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as process:
            stopper = threading.Thread(target=stop_with, args=(host, process), daemon=True)
            stopper.start()
            assert process.stdout is not None
            for line in process.stdout:
                host.say(line)
            return process.wait()

    return run


def stop_with(host: FunctionHost, process: "subprocess.Popen[str]") -> None:
    with host.changed:
        host.changed.wait_for(lambda: host.ended is not None)
    process.kill()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Harness]:
    runtime = FunctionRuntime(SimulatedClock(1_700_000_000_000), in_a_shell)
    harness = Harness("function", lambda: runtime, tmp_path)
    yield harness
    harness.clean_up()


def harness_of(function: Function, directory: Path) -> Harness:
    runtime = FunctionRuntime(SimulatedClock(1_700_000_000_000), lambda plan: function)
    return Harness("function", lambda: runtime, directory)


def test_stop_lets_the_handler_run_to_its_end(tmp_path: Path) -> None:
    def train(host: FunctionHost) -> int:
        host.say("ready")
        try:
            host.sleep(600)
        except Terminated:
            host.say("saved")
        return 3

    harness = harness_of(train, tmp_path)
    handle = harness.start("")
    seen = harness.read_until(handle, "ready")
    harness.runtime.stop(handle)
    assert harness.text(handle, seen[-1].position) == ["saved"]
    assert harness.end(handle).exit_code == 3


def test_force_ends_a_host_that_ignores_the_request(tmp_path: Path) -> None:
    asked, over = threading.Event(), threading.Event()

    def train(host: FunctionHost) -> None:
        try:
            try:
                host.sleep(600)
            except Terminated:
                asked.set()
                host.sleep(600)
        finally:
            over.set()

    harness = harness_of(train, tmp_path)
    handle = harness.start("")
    harness.runtime.stop(handle)
    assert asked.wait(120)
    assert harness.runtime.observe(handle).running
    harness.runtime.stop(handle, force=True)
    assert harness.end(handle).exit_code == 137
    assert over.wait(120)
    assert harness.text(handle) == []


def test_a_stop_is_never_lost_on_its_way(tmp_path: Path) -> None:
    """Also when it comes just as the function lies down to sleep."""

    def train(host: FunctionHost) -> None:
        while True:
            host.sleep(float("inf"))

    harness = harness_of(train, tmp_path)
    for _ in range(50):
        handle = harness.start("")
        harness.runtime.stop(handle)
        assert harness.end(handle).exit_code == 143


def test_the_end_of_a_host_has_a_time_and_those_it_ends_come_after(tmp_path: Path) -> None:
    def train(host: FunctionHost) -> int:
        if host.handle.host == "algo-1":
            host.sleep(600)
        return 5

    harness = harness_of(train, tmp_path)
    first, second = harness.launch_all(harness.plan("", hosts=2))
    failed = harness.end(second)
    harness.runtime.stop(first)
    ended = harness.end(first)
    assert failed.finished_ms is not None
    assert ended.finished_ms is not None
    assert second.started_ms <= failed.finished_ms < ended.finished_ms


def test_time_does_not_pass_for_one_host_before_the_other_has_begun(tmp_path: Path) -> None:
    clock, go = SimulatedClock(0), threading.Event()

    def train(host: FunctionHost) -> None:
        if host.handle.host == "algo-1":
            assert go.wait(120)
        host.sleep(60)

    runtime = FunctionRuntime(clock, lambda plan: train)
    harness = Harness("function", lambda: runtime, tmp_path)
    handles = harness.launch_all(harness.plan("", hosts=2))
    wait_for("a sleeper", lambda: clock.next_wake_ms() == 60_000)
    assert not clock.turn_to(60_000)
    go.set()
    wait_for("both to sleep", lambda: not clock.at_work)
    assert clock.turn_to(60_000)
    assert [harness.end(handle).exit_code for handle in handles] == [0, 0]
    assert clock.now_ms() == 60_000


def test_mounts_and_a_cache_are_links_to_directories_of_this_machine(tmp_path: Path) -> None:
    def train(host: FunctionHost) -> None:
        host.say((host.host.opt_ml / "input/data/efs/a").read_text())
        (host.host.opt_ml / "sagemaker/warmpoolcache/wheel").write_text("kept")

    harness = harness_of(train, tmp_path)
    source, cache = tmp_path / "efs", tmp_path / "cache"
    source.mkdir()
    cache.mkdir()
    (source / "a").write_text("content\n")
    plan = harness.plan("")
    (one,) = plan.hosts
    mounts = (Mount(source, "input/data/efs", read_only=True),)
    handle = harness.launch(replace(plan, hosts=(replace(one, mounts=mounts, cache=cache),)))
    assert harness.text(handle) == ["content"]
    assert (cache / "wheel").read_text() == "kept"
    assert harness.runtime.usage(handle) is None
