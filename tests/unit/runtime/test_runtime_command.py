"""`python -m sagelet_runtime.command`, which runs a command in the toolkit's place."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.training_host import Ended, TrainingHost

PRINT = "import json, os; print(json.dumps(dict(os.environ)))"
DEBUG = "sagemaker_training_compiler_debug_mode"
ENABLED = "sagemaker_training_compiler_enabled"


def command(host: TrainingHost, parameters: dict[str, str], *arguments: str) -> Ended:
    host.environment["SAGELET_COMPILER_PARAMETERS"] = json.dumps(parameters)
    host.prepare({})
    done = subprocess.run(
        [sys.executable, "-m", "sagelet_runtime.command", *arguments],
        env=host._environ(), cwd=host.base, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    host.log_file.write_text(done.stdout + done.stderr)
    return host.ended(done.returncode)


def seen(ended: Ended) -> dict[str, str]:
    environment: dict[str, str] = json.loads(ended.log.splitlines()[-1])
    return environment


def test_a_native_job_is_kept_off_xla(host: TrainingHost) -> None:
    environment = seen(command(host, {}, sys.executable, "-c", PRINT))
    assert environment["USE_TORCH_XLA"] == "0"
    assert "PJRT_DEVICE" not in environment
    assert "SAGELET_COMPILER_PARAMETERS" not in environment


def test_a_script_is_told_whose_gpus_are_stood_in_for(host: TrainingHost) -> None:
    host.environment |= {**FOUR, "CUDA_VISIBLE_DEVICES": ""}
    environment = seen(command(host, {}, sys.executable, "-c", PRINT))
    assert environment["SAGELET_STANDS_IN_FOR"] == "ml.p3.2xlarge"
    assert "sagelet_runtime/startup" in environment["PYTHONPATH"]


def test_the_command_has_the_exit_code(host: TrainingHost) -> None:
    ended = command(host, {}, "sh", "-c", 'echo "$1"; exit 5', "sh", "--flag")
    assert (ended.code, ended.log.splitlines()[-1]) == (5, "--flag")
    assert ended.failure is None


def test_a_wrong_flag_is_the_failure_reason(host: TrainingHost) -> None:
    ended = command(host, {ENABLED: "perhaps"}, "sh", "-c", "echo must not run")
    assert ended.code == 1
    assert ended.failure == f'The hyperparameter {ENABLED} is \'perhaps\'; use "true" or "false".'
    assert "must not run" not in ended.log


@pytest.mark.xla
def test_a_compiled_job_is_on_xla(host: TrainingHost) -> None:
    script = "import torch, torch_xla; print(torch.ones(2, device=torch_xla.device()).sum().item()); " + PRINT
    host.environment["SAGELET_XLA_CLIENT"] = "builtin"
    ended = command(host, {ENABLED: "true", DEBUG: "true"}, sys.executable, "-c", script)
    lines = ended.log.splitlines()
    assert "Found configuration for Training Compiler" in ended.log
    assert f"Debug artifacts will be saved in {host.base}/output/data/compiler" in ended.log
    assert "device: xla:0 (PJRT CPU:0" in ended.log
    assert "2.0" in lines
    environment = json.loads(next(line for line in lines if line.startswith("{")))
    assert (environment["PJRT_DEVICE"], environment["USE_TORCH_XLA"]) == ("CPU", "1")
    assert (host.base / "output" / "data" / "compiler").is_dir()


# --- SDK v3's distributed drivers: files as it sends them, but for what nobody reads --------------------------------

FOUR = {"SAGELET_INSTANCE_GPUS": json.dumps({"ml.p3.2xlarge": 4})}
MULTI_WORKER = "sagemaker_pytorch_xla_multi_worker_enabled"


def drivers(host: TrainingHost, driver: str, count: int | None = None) -> Path:
    directory = host.base / "input" / "data" / "sm_drivers"
    (directory / "scripts").mkdir(parents=True)
    (directory / "sm_train.sh").write_text(f"$SM_PYTHON_CMD {driver}\n")
    (directory / "distributed.json").write_text(json.dumps({"process_count_per_node": count, "smp": None}))
    (directory / "scripts" / "environment.py").write_text('SM_MASTER_ADDR = "algo-1"\nSM_MASTER_PORT = 7777\n')
    return directory


@pytest.mark.parametrize(("asked", "count"), [(None, 4), (3, 3)])
def test_torchrun_starts_a_worker_for_each_gpu_of_the_instance_type(
    host: TrainingHost, asked: int | None, count: int
) -> None:
    host.environment |= FOUR
    directory = drivers(host, "/opt/ml/input/data/sm_drivers/distributed_drivers/torchrun_driver.py", asked)
    ended = command(host, {}, sys.executable, "-c", PRINT)
    assert json.loads((directory / "distributed.json").read_text()) == {"process_count_per_node": count, "smp": None}
    assert int(seen(ended)["OMP_NUM_THREADS"]) == max(1, len(os.sched_getaffinity(0)) // count)
    assert ("torchrun: 4 CPU worker(s) for 4 GPU(s) of ml.p3.2xlarge" in ended.log) == (asked is None)
    assert "SM_MASTER_PORT = 7777" in (directory / "scripts" / "environment.py").read_text()


def test_hosts_that_share_ports_meet_at_their_jobs_own(host: TrainingHost) -> None:
    host.environment |= {**FOUR, "SAGELET_MASTER_PORT": "21000"}
    host.hosts = ("algo-1", "algo-2")
    directory = drivers(host, "torchrun_driver.py")
    assert seen(command(host, {}, sys.executable, "-c", PRINT))["PET_MASTER_PORT"] == "21000"
    assert "SM_MASTER_PORT = 21000\n" in (directory / "scripts" / "environment.py").read_text()


@pytest.mark.parametrize(
    ("driver", "parameters", "text"),
    [
        ("mpi_driver.py", {}, "does not run SDK v3's distributed=MPI()"),
        pytest.param(
            "basic_script_driver.py",
            {MULTI_WORKER: "true"},
            "asks for 4 workers, and SDK v3's driver starts one",
            marks=pytest.mark.xla,
        ),
    ],
)
def test_what_would_not_be_one_training_is_refused(
    host: TrainingHost, driver: str, parameters: dict[str, str], text: str
) -> None:
    host.environment |= FOUR
    drivers(host, driver)
    ended = command(host, parameters, "sh", "-c", "echo must not run")
    assert ended.code == 1
    assert text in (ended.failure or "")
    assert "Torchrun()" in (ended.failure or "")
    assert "must not run" not in ended.log
