"""`python -m sagelet_runtime.command`, which runs a command in the toolkit's place."""

import json
import subprocess
import sys

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
    ended = command(host, {ENABLED: "true", DEBUG: "true"}, sys.executable, "-c", script)
    lines = ended.log.splitlines()
    assert "Found configuration for Training Compiler" in ended.log
    assert f"Debug artifacts will be saved in {host.base}/output/data/compiler" in ended.log
    assert "device: xla:0 (PJRT CPU:0" in ended.log
    assert "2.0" in lines
    environment = json.loads(next(line for line in lines if line.startswith("{")))
    assert (environment["PJRT_DEVICE"], environment["USE_TORCH_XLA"]) == ("CPU", "1")
    assert (host.base / "output" / "data" / "compiler").is_dir()
