"""The contract of the runtime port. Every test runs against every runtime."""

import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from sagelet_engine.model.runtime import Line, Mount
from sagelet_engine.runtimes.docker import spec as docker_spec
from sagelet_engine.runtimes.node import host_plan
from sagelet_engine.runtimes.node.confinement import NOBODY
from sagelet_engine.runtimes.slurm import task as slurm_task
from support.harness import Harness, wait_for

PRINTER = 'i=0; while [ $i -lt 3000 ]; do echo "line $i"; i=$((i+1)); done'
PRINTED = [f"line {number}" for number in range(3000)]


def assert_continues(read: list[Line]) -> None:
    times = [line.time_ms for line in read]
    assert times == sorted(times)
    assert len({line.position for line in read}) == len(read)


def test_lines_come_whole_and_in_order(host: Harness) -> None:
    handle = host.start(PRINTER)
    read = host.output(handle)
    assert [line.text for line in read] == PRINTED
    assert_continues(read)


def test_follower_continues_right_after_a_position(host: Harness) -> None:
    handle = host.start(PRINTER)
    read = host.output(handle)
    for index in (0, 1, 777, 2998, 2999):
        assert host.text(handle, read[index].position) == PRINTED[index + 1 :], index


def test_many_followers_in_turn_read_each_line_once_while_the_host_prints(host: Harness) -> None:
    handle = host.start(PRINTER)
    read: list[Line] = []
    for wanted in itertools.count(1):
        position = read[-1].position if read else None
        ended = not host.runtime.observe(handle).running
        follower = host.runtime.lines(handle, position)
        new = next((batch for batch in follower if batch), [])[: 37 * wanted]
        follower.close()
        read += new
        if ended and not new:
            break
    assert [line.text for line in read] == PRINTED


def test_spaces_and_blank_lines_are_kept_and_the_last_line_needs_no_end(host: Harness) -> None:
    text, _ = host.run(r"printf '  two spaces\n\n\ttab \nlast'")
    assert text == ["  two spaces", "", "\ttab ", "last"]


def test_line_of_100_kilobytes_is_one_line(host: Harness) -> None:
    script = "x=0123456789; x=$x$x$x$x$x$x$x$x$x$x; x=$x$x$x$x$x$x$x$x$x$x; x=$x$x$x$x$x$x$x$x$x$x"
    handle = host.start(f'{script}; echo before; echo "$x$x$x$x$x$x$x$x$x$x"; echo after')
    read = host.output(handle)
    assert [line.text for line in read] == ["before", "0123456789" * 10_000, "after"]
    assert host.text(handle, read[0].position) == ["0123456789" * 10_000, "after"]
    assert host.text(handle, read[1].position) == ["after"]


def test_overlong_line_comes_in_pieces_that_lose_nothing(host: Harness) -> None:
    handle = host.start("i=0; while [ $i -lt 70000 ]; do printf 12345678; i=$((i+1)); done; echo; echo next")
    read = host.output(handle)
    assert "".join(line.text for line in read) == "12345678" * 70_000 + "next"
    sizes = [len(line.text) for line in read]
    assert len(sizes) == 4
    # A piece ends with a whole frame of the engine's log.
    assert all(262_144 - 16_384 < size <= 262_144 for size in sizes[:2])
    assert host.text(handle, read[0].position) == [line.text for line in read[1:]]


def test_stderr_is_output_too(host: Harness) -> None:
    text, _ = host.run("echo out; echo err >&2")
    assert sorted(text) == ["err", "out"]


def test_half_a_line_on_one_stream_does_not_hold_up_the_other(host: Harness) -> None:
    plan = host.plan("printf '%020000d' 0; echo err >&2; while [ ! -e /opt/ml/go ]; do sleep 0.1; done; echo end")
    handle = host.launch(plan)
    if host.name in ("process", "slurm"):  # one file holds both streams, as a terminal shows them
        (plan.hosts[0].opt_ml / "go").touch()
        assert host.text(handle) == ["0" * 20_000 + "err", "end"]
        return
    position = host.read_until(handle, "err")[-1].position
    assert host.runtime.observe(handle).running
    (plan.hosts[0].opt_ml / "go").touch()
    assert host.text(handle) == ["err", "0" * 20_000 + "end"]
    assert host.text(handle, position) == ["0" * 20_000 + "end"]


def test_bytes_that_are_not_utf8_are_replaced(host: Harness) -> None:
    text, _ = host.run(r"printf 'a\377b\n\303\244\n'")
    assert text == ["a�b", "ä"]


def test_lines_are_seen_while_the_host_runs_and_silence_gives_heartbeats(host: Harness) -> None:
    handle = host.start("echo hello; exec sleep 600")
    host.read_until(handle, "hello")
    follower = host.runtime.lines(handle, None)
    silent = next(batch for batch in follower if not batch)
    follower.close()
    assert silent == []
    assert host.runtime.observe(handle).running


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_exit_code(host: Harness, script: str, code: int) -> None:
    if host.name in ("docker", "podman", "slurm_docker") and code == 137:
        # The first process of a container cannot kill itself.
        script = "(sleep 600) & kill -9 $!; wait $!; exit $?"
    _, end = host.run(script)
    assert (end.running, end.exit_code) == (False, code)


def test_command_that_does_not_exist_ends_with_127_and_says_so(host: Harness) -> None:
    handle = host.launch(host.plan("", entrypoint=("/no/such/command",)))
    end = host.end(handle)
    assert end.exit_code == 127
    assert "/no/such/command" in (end.error or "")
    if host.name != "slurm_docker":  # its client says it there, too
        assert host.text(handle) == []


def test_entrypoint_gets_the_arguments(host: Harness) -> None:
    plan = host.plan("", entrypoint=("/bin/sh", "-c", 'echo "$0|$1"'), arguments=("a b", "c"))
    assert host.text(host.launch(plan)) == ["a b|c"]


def test_stop_lets_the_handler_run_to_its_end(host: Harness) -> None:
    handle = host.start(
        "trap 'echo saving; echo model > /opt/ml/model; echo saved; exit 3' TERM; echo ready; "
        "while true; do sleep 0.1; done"
    )
    seen = host.read_until(handle, "ready")
    host.runtime.stop(handle)
    assert host.text(handle, seen[-1].position) == ["saving", "saved"]
    assert host.end(handle).exit_code == 3


def test_force_ends_a_host_that_ignores_the_request(host: Harness) -> None:
    handle = host.start("trap 'echo no' TERM; echo ready; while true; do sleep 0.1; done")
    host.read_until(handle, "ready")
    host.runtime.stop(handle)
    host.read_until(handle, "no")
    assert host.runtime.observe(handle).running
    host.runtime.stop(handle, force=True)
    assert host.end(handle).exit_code == 137


def test_stop_of_an_ended_host_is_no_error(host: Harness) -> None:
    handle = host.start("exit 5")
    host.end(handle)
    host.runtime.stop(handle)
    host.runtime.stop(handle, force=True)
    assert host.end(handle).exit_code == 5


def test_launch_again_gives_the_same_host(host: Harness) -> None:
    plan = host.plan("echo once >> /opt/ml/runs; exit 4")
    handle = host.launch(plan)
    assert host.runtime.launch(plan) == [handle]
    host.end(handle)
    assert host.make().launch(plan) == [handle]
    assert host.end(handle).exit_code == 4
    assert (plan.hosts[0].opt_ml / "runs").read_text() == "once\n"


def test_launches_at_the_same_time_give_one_host(host: Harness) -> None:
    plan = host.plan("echo once >> /opt/ml/runs; exec sleep 600")
    with ThreadPoolExecutor(4) as pool:
        handles = list(pool.map(lambda runtime: runtime.launch(plan)[0], [host.make() for _ in range(4)]))
    host.jobs.append(plan.job_id)
    assert {handle.ref for handle in handles} == {handles[0].ref}
    runs = plan.hosts[0].opt_ml / "runs"
    wait_for("the host's start", lambda: runs.exists() and runs.read_text())
    assert runs.read_text() == "once\n"


def test_new_runtime_finds_the_host_and_reads_the_rest(host: Harness) -> None:
    plan = host.plan("echo first; while [ ! -e /opt/ml/go ]; do sleep 0.1; done; echo second; exit 6")
    handle = host.launch(plan)
    position = host.read_until(handle, "first")[-1].position
    host.runtime = host.make()
    assert host.runtime.find(plan.job_id) == [handle]
    assert host.runtime.observe(handle).running
    (plan.hosts[0].opt_ml / "go").touch()
    assert host.text(handle, position) == ["second"]
    assert host.end(handle).exit_code == 6


def test_ended_host_is_found_until_it_is_reaped(host: Harness) -> None:
    plan = host.plan("echo bye; exit 9")
    handle = host.launch(plan)
    host.end(handle)
    assert host.make().find(plan.job_id) == [handle]
    host.runtime.reap(plan.job_id)
    host.runtime.reap(plan.job_id)
    assert host.make().find(plan.job_id) == []
    assert host.runtime.find("job-never-launched") == []


def test_opt_ml_is_the_job_directory_and_belongs_to_the_server(host: Harness) -> None:
    plan = host.plan("cat /opt/ml/in; echo out > /opt/ml/out; ls /opt/ml")
    (plan.hosts[0].opt_ml / "in").write_text("data\n")
    assert host.text(host.launch(plan)) == ["data", "in", "out"]
    written = plan.hosts[0].opt_ml / "out"
    assert written.read_text() == "out\n"
    # Of a server that is root containers are nobody's.
    assert written.stat().st_uid == (os.getuid() or (NOBODY if host.name in ("docker", "podman") else 0))


def test_host_name(host: Harness) -> None:
    assert host.run("hostname")[0] == ["algo-1"]


def test_environment_is_the_plans_and_not_the_servers(host: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-host")
    monkeypatch.setenv("SOMETHING_ELSE", "of-the-host")
    text, _ = host.run("env", environment={"AWS_REGION": "eu-west-1", "TRAINING_JOB_NAME": "x y"})
    assert {"AWS_REGION=eu-west-1", "TRAINING_JOB_NAME=x y"} <= set(text)
    assert not [line for line in text if "of-the-host" in line]


def test_nothing_is_left_when_the_command_ends(host: Harness) -> None:
    # An orphan in a session of its own, and one that ignores SIGTERM and SIGHUP.
    script = (
        "setsid sh -c 'while true; do echo x >> /opt/ml/a; sleep 0.05; done' & "
        "(trap '' TERM HUP; while true; do echo x >> /opt/ml/b; sleep 0.05; done) & "
        "while [ ! -s /opt/ml/a ] || [ ! -s /opt/ml/b ]; do sleep 0.05; done; exit 0"
    )
    plan = host.plan(script)
    assert host.end(host.launch(plan)).exit_code == 0
    sizes = {name: (plan.hosts[0].opt_ml / name).stat().st_size for name in ("a", "b")}
    # Anything alive would write within the time that another host takes.
    host.run("sleep 0.5")
    assert {name: (plan.hosts[0].opt_ml / name).stat().st_size for name in ("a", "b")} == sizes


def test_isolated_host_has_a_loopback_and_no_way_out(host: Harness) -> None:
    script = "tail -n +3 /proc/net/dev | while read name rest; do echo $name; done; tail -n +2 /proc/net/route | wc -l"
    text, end = host.run(script, network_isolation=True)
    assert [line.split(":")[0] for line in text if ":" in line] == ["lo"]
    assert text[-1].strip() == "0"
    assert end.exit_code == 0


def test_hosts_of_a_job_know_each_other_by_name(host: Harness) -> None:
    handles = host.launch_all(host.plan("cat /etc/hosts; hostname", hosts=2))
    assert [handle.host for handle in handles] == ["algo-1", "algo-2"]
    for handle in handles:
        text = host.text(handle)
        known = {name for line in text[:-1] for name in line.split()[1:]}
        assert {"algo-1", "algo-2"} <= known
        assert text[-1] == handle.host


def test_read_only_directories_can_be_read_and_not_written(host: Harness) -> None:
    script = """
        cat /opt/ml/data/fast/a/file
        for try in 'echo x > /opt/ml/data/fast/new' 'echo x > /opt/ml/data/fast/a/file' 'rm -r /opt/ml/data/fast/a'; do
            sh -c "$try" 2>/dev/null && echo "went through: $try"
        done
        echo free > /opt/ml/data/slow && cat /opt/ml/data/slow
    """
    plan = host.plan(script)
    (one,) = plan.hosts
    (one.opt_ml / "data/fast/a").mkdir(parents=True)
    (one.opt_ml / "data/fast/a/file").write_text("content\n")
    plan = replace(plan, hosts=(replace(one, read_only=("data/fast",)),))
    handle = host.launch(plan)
    assert host.text(handle) == ["content", "free"]
    assert host.end(handle).exit_code == 0
    assert (one.opt_ml / "data/fast/a/file").read_text() == "content\n"


def test_a_cache_goes_from_host_to_host_and_outlives_them(host: Harness) -> None:
    cache = host.directory / "cache"
    cache.mkdir()
    script = """
        cd /opt/ml/sagemaker/warmpoolcache && ls && mkdir -p pip && echo "$1" > pip/wheel
        rmdir /opt/ml/sagemaker/warmpoolcache 2>/dev/null && echo "it went"
        mv /opt/ml/sagemaker/warmpoolcache /opt/ml/elsewhere 2>/dev/null && echo "it moved"
        echo own > /opt/ml/own
    """
    said = []
    for number in "12":
        plan = host.plan(script.replace("$1", number))
        (one,) = plan.hosts
        (one.opt_ml / "sagemaker/warmpoolcache").mkdir(parents=True)
        handle = host.launch(replace(plan, hosts=(replace(one, cache=cache),)))
        said.append(host.text(handle))
        assert host.end(handle).exit_code == 0
        host.runtime.reap(plan.job_id)
        assert (cache / "pip/wheel").read_text() == f"{number}\n"
        assert sorted(path.name for path in one.opt_ml.iterdir()) == ["own", "sagemaker"]
    assert said == [[], ["pip"]]
    assert list(cache.iterdir()) == [cache / "pip"]


def test_mounts_show_directories_of_this_machine(host: Harness) -> None:
    script = """
        cat /opt/ml/data/fixed/a /opt/ml/data/free/a
        echo x 2>/dev/null > /opt/ml/data/fixed/new && echo "went through"
        echo new > /opt/ml/data/free/b
    """
    source = host.directory / "of the user: all"
    source.mkdir()
    source.chmod(0o777)
    (source / "a").write_text("content\n")
    plan = host.plan(script)
    (one,) = plan.hosts
    for name in ("fixed", "free"):
        (one.opt_ml / "data" / name).mkdir(parents=True)
    mounts = (Mount(source, "data/fixed", read_only=True), Mount(source, "data/free", read_only=False))
    handle = host.launch(replace(plan, hosts=(replace(one, mounts=mounts),)))
    assert [line for line in host.text(handle) if "new" not in line] == ["content", "content"]
    host.end(handle)
    assert sorted(path.name for path in source.iterdir()) == ["a", "b"]
    assert list((one.opt_ml / "data/free").iterdir()) == []


def test_the_end_of_a_host_has_a_time(host: Harness) -> None:
    script = "[ $(hostname) = algo-2 ] || while [ ! -e /opt/ml/go ]; do sleep 0.05; done; exit 3"
    plan = host.plan(script, hosts=2)
    handles = host.launch_all(plan)
    second = host.end(handles[1])
    (plan.hosts[0].opt_ml / "go").touch()
    first = host.end(handles[0])
    assert first.finished_ms is not None
    assert second.finished_ms is not None
    assert handles[1].started_ms <= second.finished_ms < first.finished_ms
    assert host.make().observe(handles[0]) == first


def test_usage_is_of_all_processes_that_ever_ran_in_the_host(host: Harness) -> None:
    # The work is done by a child that has ended, and none of it by the processes that are left.
    handle = host.start("sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; echo done; exec sleep 600")
    host.read_until(handle, "done")
    after = host.runtime.usage(handle)
    assert after is not None
    assert after.cpu_seconds > 0.05
    assert 0 < after.memory_bytes < after.memory_limit_bytes
    later = host.make().usage(handle)
    assert later is not None
    assert after.cpu_seconds <= later.cpu_seconds < after.cpu_seconds + 1
    host.runtime.stop(handle, force=True)
    host.end(handle)
    assert host.runtime.usage(handle) is None
    host.runtime.reap(host.jobs[-1])
    assert host.runtime.usage(handle) is None


def test_usage_rises_while_a_process_works(host: Harness) -> None:
    handle = host.start("echo on; while :; do :; done")
    host.read_until(handle, "on")
    first = host.runtime.usage(handle)
    assert first is not None

    def more() -> bool:
        now = host.runtime.usage(handle)
        assert now is not None
        return now.cpu_seconds > first.cpu_seconds + 0.2

    wait_for("a fifth of a second of CPU time", more)


def test_memory_that_a_host_holds_counts(host: Harness) -> None:
    # A shell variable of 32 MiB.
    handle = host.start("x=x; i=0; while [ $i -lt 25 ]; do x=$x$x; i=$((i+1)); done; echo held; sleep 600; echo $#x")
    host.read_until(handle, "held")
    held = host.runtime.usage(handle)
    assert held is not None
    assert held.memory_bytes > 32 * 1024**2


def test_a_fork_bomb_ends_in_an_error_of_its_own(host: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (docker_spec, host_plan, slurm_task):
        monkeypatch.setattr(module, "MOST_PROCESSES", 50)
    bomb = "i=0; while [ $i -lt 300 ]; do sleep 100 & i=$((i+1)); echo $i; done; echo all"
    text, ended = host.run(bomb)
    assert "all" not in text
    assert len([line for line in text if line.isdecimal()]) < 51
    assert ended.exit_code not in (0, None)
    # Its processes went with it, and the next host has as many as it wants again.
    assert host.run("sleep 100 & sleep 100 & echo fine")[0] == ["fine"]
