import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from sagelet_runtime.base import processes
from sagelet_runtime.base.processes import ProcessInfo, stop_targets
from support.training_host import RUNTIME, poll

PYTHON = ("/usr/bin/python3.11", "--", "train.py")


def test_every_level_gets_the_signal_parents_first() -> None:
    table = [
        ProcessInfo(4, 3, ("python", "train.py")),
        ProcessInfo(3, 2, ("/bin/sh", "-c", "./x.sh")),
        ProcessInfo(2, 1, ("/bin/sh", "-c", "./x.sh")),
        ProcessInfo(9, 8, ("stranger",)),
    ]
    assert stop_targets(table, 1) == [2, 3, 4]


def test_workers_helpers_and_zombies_are_left_out() -> None:
    table = [
        ProcessInfo(2, 1, PYTHON),
        ProcessInfo(3, 2, PYTHON),
        ProcessInfo(4, 2, ("python", "-c", "from multiprocessing.spawn import spawn_main")),
        ProcessInfo(5, 2, ("python", "launcher.py")),
        ProcessInfo(6, 3, ("child-of-a-worker",)),
        ProcessInfo(7, 1, ("uploads",)),
        ProcessInfo(8, 2, (), zombie=True),
    ]
    assert stop_targets(table, 1, frozenset({7})) == [2, 5]


def test_table_of_proc_agrees_with_psutil() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "a word"])
    try:
        poll(lambda: any(p.pid == child.pid and p.command for p in processes.table()), "psutil sees the child")
        (by_psutil,) = [p for p in processes.table() if p.pid == child.pid]
        (by_proc,) = [p for p in processes._table_from_proc() if p.pid == child.pid]
    finally:
        child.kill()
        child.wait()
    assert by_proc == by_psutil
    assert by_proc.parent == os.getpid()
    assert by_proc.command[-1] == "a word"


INIT = """
    import ctypes, os, signal, subprocess, sys, time
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans come here, as they come to process 1
    from sagelet_runtime.entry import init
    init.become_child_of_init()
    subprocess.run([sys.executable, "-c", "import os, time; os.fork() or (time.sleep(0.2), os._exit(0))"])

    def stop(signum, frame):
        sys.exit(5)

    signal.signal(signal.SIGTERM, stop)
    print("ready", flush=True)
    while True:
        time.sleep(0.05)
    """


def start_init(tmp_path: Path) -> subprocess.Popen[str]:
    script = tmp_path / "init.py"
    script.write_text(textwrap.dedent(INIT))
    environ = {**os.environ, "PYTHONPATH": str(RUNTIME)}
    process = subprocess.Popen([sys.executable, str(script)], env=environ, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_init_reaps_orphans_forwards_sigterm_and_takes_the_exit_code(tmp_path: Path) -> None:
    process = start_init(tmp_path)
    poll(lambda: len(children(process.pid)) == 1, "only the worker is left, the orphan is reaped")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=120) == 5


def test_init_reports_a_killed_child_as_a_shell_does(tmp_path: Path) -> None:
    process = start_init(tmp_path)
    poll(lambda: len(children(process.pid)) == 1, "only the worker is left")
    os.kill(children(process.pid)[0], signal.SIGKILL)
    assert process.wait(timeout=120) == 128 + signal.SIGKILL


def children(pid: int) -> list[int]:
    return [process.pid for process in processes.table() if process.parent == pid]
