"""Launchers and their workers as processes, without torch."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.training_host import RUNTIME, Ended, TrainingHost, poll

DDP, XLA = "sagemaker_pytorch_ddp_enabled", "sagemaker_pytorch_xla_multi_worker_enabled"
STARTUP = RUNTIME / "sagelet_runtime" / "startup"
FOUR = {"SAGELET_INSTANCE_GPUS": json.dumps({"ml.p3.2xlarge": 4})}


def spawn(directory: Path, module: str, *arguments: str, workers: int = 2) -> "subprocess.Popen[str]":
    """A launcher by itself, as `xla_spawn` is called by AWS's toolkit; its output goes to log.txt."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{STARTUP}{os.pathsep}{RUNTIME}",
        "SM_TRAINING_COMPILER_CONFIGURED": "1",
        "SAGELET_WORKER_NOTES": str(directory / "notes"),
        "GPU_NUM_DEVICES": str(workers),
        "PYTHONUNBUFFERED": "1",
    }
    environment.pop("OMP_NUM_THREADS", None)
    with (directory / "log.txt").open("w") as log:
        command = [sys.executable, "-m", f"torch_xla.distributed.{module}", *arguments]
        return subprocess.Popen(command, env=environment, cwd=directory, stdout=log, stderr=log, text=True)


def write(directory: Path, text: str) -> str:
    (directory / "train.py").write_text(text)
    return "train.py"


def test_workers_have_torchruns_variables_and_their_lines_stay_whole(host: TrainingHost) -> None:
    host.environment |= FOUR
    host.script(
        """
        import os, sys, time
        rank = os.environ["RANK"]
        for number in range(50):
            print("line", number, "of", rank, "{'loss': 0.5}")
            sys.stdout.write("x"); time.sleep(0.001); sys.stdout.write("y\\n")
        names = "LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK OMPI_COMM_WORLD_RANK SM_NUM_GPUS USE_TORCH_XLA"
        names += " ACCELERATE_USE_CPU"
        print("has", rank, *(os.environ.get(name) for name in names.split()), file=sys.stderr)
        """
    )
    ended = host.run({DDP: "true"})
    assert ended.code == 0, ended.log
    for rank in range(4):
        tag = f"[1,mpirank:{rank},algo-1]"
        own = [line for line in ended.log.splitlines() if line.startswith(f"{tag}<stdout>:")]
        lines = [f"{tag}<stdout>:line {n} of {rank} {{'loss': 0.5}}" for n in range(50)]
        assert own == [part for line in lines for part in (line, f"{tag}<stdout>:xy")]
        assert f"{tag}<stderr>:has {rank} {rank} 4 4 0 {rank} 4 0 true\n" in ended.log
    assert "Invoking SMDataParallel for native PT DDP job\n" in ended.log
    assert "pytorchddp: 4 CPU worker(s) for 4 GPU(s) of ml.p3.2xlarge, which this host does not have" in ended.log


FAILS = """
    import os, signal, sys, time
    from pathlib import Path
    rank = int(os.environ["RANK"])
    print("up", rank, os.getpid())
    ready = Path(os.environ["SM_OUTPUT_DATA_DIR"])
    (ready / str(rank)).touch()
    while len(list(ready.iterdir())) < 4:
        time.sleep(0.01)
    if rank == 2:
        {end}
    while not (ready / "gone").exists():
        time.sleep(0.01)
    {peers}
"""
STAYS = "time.sleep(3600)"


@pytest.mark.parametrize(
    ("end", "peers", "code", "message"),
    [
        ("raise ValueError('bad worker')", STAYS, 1, 'algo-1, local rank 2):\n Traceback (most recent call last):'),
        # The peers' own errors come first to the launcher, and are not why the job failed.
        (
            "try:\n            raise ValueError('bad worker')\n        finally:\n            import atexit\n"
            "            atexit.register(lambda: ((ready / 'gone').touch(), time.sleep(2)))",
            "raise RuntimeError('Connection closed by peer')",
            1,
            "worker 2 of 4 (algo-1, local rank 2):\n Traceback",
        ),
        ("os.kill(os.getpid(), signal.SIGKILL)", STAYS, 137, "worker 2 of 4 (algo-1, local rank 2) was killed"),
        ("sys.exit(7)", STAYS, 7, "(algo-1, local rank 2) left with exit code 7"),
    ],
)  # fmt: skip
def test_the_first_worker_that_fails_is_the_jobs_error(
    host: TrainingHost, end: str, peers: str, code: int, message: str
) -> None:
    host.environment |= FOUR
    host.script(FAILS.format(end=end, peers=peers))
    ended = host.run({DDP: "true"})
    assert ended.code == 1
    assert (ended.failure or "").startswith(f"ExecuteUserScriptError:\nExitCode {code}\nErrorMessage")
    assert message in (ended.failure or "")
    if "ValueError" in end:
        assert "ValueError: bad worker" in (ended.failure or "")
    assert_gone(ended.log)


def assert_gone(log: str) -> None:
    pids = [int(pid) for pid in re.findall(r"up \d+ (\d+)", log)]
    assert len(pids) == 4
    poll(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "no worker is left")


STOPPED = """
import os, signal, sys, time
def stop(number, frame):
    print("asked", os.environ["RANK"])
    time.sleep(0.5)
    print("saved", os.environ["RANK"])
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("up", os.environ["RANK"], os.getpid())
time.sleep(3600)
"""


@pytest.mark.parametrize("through", ["the launcher", "train"])
def test_a_stop_reaches_each_worker_once_and_each_ends_in_its_own_time(host: TrainingHost, through: str) -> None:
    if through == "train":
        host.environment |= FOUR
        host.script(STOPPED)
        process, count = host.start({DDP: "true"}), 4
    else:
        process, count = spawn(host.base, "xla_spawn", write(host.base, STOPPED)), 2
    poll(lambda: host.log.count("up ") >= count, "the workers are up")
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert sorted(re.findall(r"(asked|saved) (\d)", host.log)) == sorted(
        (word, str(rank)) for word in ("asked", "saved") for rank in range(count)
    )


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's help is Linux's")
def test_no_worker_outlives_a_launcher_that_is_killed(tmp_path: Path) -> None:
    script = write(tmp_path, "import os, time\nprint('up', os.environ['RANK'], os.getpid())\ntime.sleep(3600)\n")
    process = spawn(tmp_path, "xla_spawn", "--num_gpus", "4", script)
    log = tmp_path / "log.txt"
    poll(lambda: log.read_text().count("up ") == 4, "the workers are up")
    process.kill()
    process.wait(60)
    assert_gone(log.read_text())


#: A launcher whose patience is short.
IMPATIENT = """
import os, sys
from sagelet_runtime.workers import launcher
from sagelet_runtime.base.world import from_environment
launcher.GRACE = launcher.LATE = 1.0
sys.exit(launcher.Launcher(from_environment(os.environ), [sys.executable, "train.py"], os.environ).run())
"""


def impatient(directory: Path, script: str) -> "subprocess.Popen[str]":
    """Its two workers run `script`."""
    write(directory, script)
    environment = {**os.environ, "PYTHONPATH": str(RUNTIME), "GPU_NUM_DEVICES": "2", "PYTHONUNBUFFERED": "1"}
    with (directory / "log.txt").open("w") as log:
        command = [sys.executable, "-c", IMPATIENT]
        return subprocess.Popen(command, env=environment, cwd=directory, stdout=log, stderr=log, text=True)


ENDLESS = """
import os, subprocess, sys
if os.environ["RANK"] == "0":
    prints = "import time\\nwhile 1: print('x', flush=True); time.sleep(0.01)"
    subprocess.Popen([sys.executable, "-c", prints], start_new_session=True)
"""


def test_a_daemon_that_prints_without_end_does_not_hold_the_launcher_up(tmp_path: Path) -> None:
    launcher = impatient(tmp_path, ENDLESS)
    assert launcher.wait(120) == 0


STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", os.environ["RANK"], os.getpid())
while os.environ["RANK"] == "0":
    time.sleep(0.01)
while not os.path.exists("fail"):
    time.sleep(0.01)
sys.exit(3)
"""


def test_a_stop_after_a_workers_failure_does_not_spare_its_peers(tmp_path: Path) -> None:
    launcher = impatient(tmp_path, STUBBORN)
    log = tmp_path / "log.txt"
    poll(lambda: log.read_text().count("up ") == 2, "the workers are up")
    (tmp_path / "fail").touch()
    poll(lambda: "ended with exit code 3" in log.read_text(), "the failure was seen")
    launcher.send_signal(signal.SIGTERM)
    assert launcher.wait(120) == 3


LAUNCHER = '''
# distributed_training_launcher.py

#!/bin/python

import subprocess
import sys

if __name__ == "__main__":
    arguments_command = " ".join([arg for arg in sys.argv[1:]])
    """
    The following line takes care of setting up an inter-node communication
    as well as managing intra-node workers for each GPU.
    """
    subprocess.check_call("python -m torch_xla.distributed.sm_dist " + arguments_command, shell=True)
'''
MP_FN = """
import os, sys

def _mp_fn(index):
    names = ("WORLD_SIZE", "OMP_NUM_THREADS", "PJRT_NPROC", "XRT_SHARD_WORLD_SIZE")
    print("worker", index, sys.argv[1:], "torch_xla" in sys.modules, *(os.environ.get(name) for name in names))
"""


def test_the_launcher_script_of_the_documents(tmp_path: Path) -> None:
    """As copied from AWS's "Enable PyTorch"; the script has a bare `_mp_fn`."""
    write(tmp_path, MP_FN)
    process = spawn(tmp_path, "sm_dist", "--n_gpus", "2", "--training_script", "train.py", workers=2)
    assert process.wait(60) == 0
    expected = [f"worker {rank} ['--n_gpus', '2'] False 2 1 1 None" for rank in range(2)]
    assert sorted((tmp_path / "log.txt").read_text().splitlines()) == expected


def launched(host: TrainingHost, **environment: str) -> Ended:
    host.environment |= FOUR | environment
    host.script(LAUNCHER, "distributed_training_launcher.py")
    host.script(MP_FN)
    parameters = {"sagemaker_training_compiler_enabled": "true", "training_script": "train.py", "n_gpus": "4"}
    return host.run(parameters, "distributed_training_launcher.py")


@pytest.mark.xla
def test_the_launcher_script_starts_a_worker_for_each_gpu(host: TrainingHost) -> None:
    ended = launched(host, GPU_NUM_DEVICES="2")
    assert ended.code == 0, ended.log
    assert sorted(re.findall(r"^worker (\d) \['--n_gpus', '4'\] False 2", ended.log, re.MULTILINE)) == ["0", "1"]


@pytest.mark.xla
def test_what_pytorchxla_prints_and_sets(host: TrainingHost) -> None:
    host.environment |= {**FOUR, "SAGELET_XLA_CLIENT": "builtin"}
    host.script(
        """
        import os
        names = "RANK GPU_NUM_DEVICES XRT_HOST_ORDINAL XRT_SHARD_WORLD_SIZE XRT_WORKERS PJRT_DEVICE SM_NUM_GPUS"
        print("has", *(os.environ.get(name) for name in names.split()))
        """
    )
    ended = host.run({XLA: "true", "sagemaker_training_compiler_enabled": "true"})
    assert ended.code == 0, ended.log
    lines = [
        "Found configuration for Training Compiler",
        "Invoking PT-XLA Runner",
        "Starting distributed training through PT-XLA Runtime.",
        "Completed environment setup for distributed training through PT-XLA Runtime.",
        "-m torch_xla.distributed.xla_spawn --num_gpus 4 train.py",
    ]
    positions = [ended.log.find(line) for line in lines]
    assert -1 not in positions
    assert positions == sorted(positions)
    for rank in range(4):
        assert f"has {rank} 4 0 1 localservice:0;algo-1:43857 CPU 4\n" in ended.log


@pytest.mark.xla
def test_pytorchxla_needs_gpus_and_a_python_script(host: TrainingHost) -> None:
    host.environment["SAGELET_INSTANCE_GPUS"] = '{"ml.p3.2xlarge": 0}'
    host.script("print('never')")
    failure = host.run({XLA: "true", "sagemaker_training_compiler_enabled": "true"}).failure or ""
    assert "Distributed training through PT-XLA is only supported for GPUs." in failure
