"""Jobs that use the compile cache on a machine without a GPU, all of it real but the GPU and its compiler.

A stand-in for nvidia-smi gives the server one GPU, and fake_pjrt_plugin.c stands in for the plugin. The job's script
(cache_worker.py) takes torch_xla's place: it has its programs compiled through sagelet's library before the plugin, and
reports as a worker does.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from support.jobs import Jobs
from support.server import COMPILED

SUPPORT = Path(__file__).parent
#: One GPU, and what AWS's toolkit and the server ask for.
NVIDIA_SMI = """#!/bin/sh
case "$*" in
  --list-gpus) echo "GPU 0: stand-in (UUID: GPU-00000000-0000-0000-0000-000000000000)" ;;
  "--query-gpu=uuid --format=csv,noheader") echo GPU-00000000-0000-0000-0000-000000000000 ;;
  *) exit 2 ;;
esac
"""


def build_plugin(target: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "a C compiler is needed"
    source = str(SUPPORT / "fake_pjrt_plugin.c")
    subprocess.run([compiler, "-w", "-shared", "-fPIC", "-o", str(target), source], check=True)


def install_gpu(directory: Path) -> str:
    """Makes the directory one for PATH, with the stand-in for nvidia-smi in it; returns its name."""
    directory.mkdir()
    tool = directory / "nvidia-smi"
    tool.write_text(NVIDIA_SMI)
    tool.chmod(0o755)
    return str(directory)


class CacheJobs:
    """Jobs of one worker, to a server with the stand-in GPU."""

    def __init__(self, jobs: Jobs, plugin: Path) -> None:
        self._jobs = jobs
        self._files: dict[str, str | bytes] = {
            "train.py": (SUPPORT / "cache_worker.py").read_text(),
            "pjrt_driver.py": (SUPPORT / "pjrt_driver.py").read_text(),
            "plugin.so": plugin.read_bytes(),
        }

    def run(self, programs: list[str], kib: int = 1, fail: bool = False, **variables: str) -> dict[str, Any]:
        """What a job of these programs has printed, with its `name`, `status` and `report` (`sagelet report --json`).

        `kib`: size of each program; `variables`: for the job's Environment.
        """
        parameters = {"programs": json.dumps(json.dumps(programs)), "kib": str(kib), "fail": str(int(fail))}
        name = self._jobs.submit(
            self._files,
            image=COMPILED,
            hyperparameters={"sagemaker_training_compiler_enabled": "true", **parameters},
            # A device of this name is taken as it is: the plugin is the script's business.
            Environment={"PJRT_DEVICE": "XLAGPU", **variables},
        )
        job = self._jobs.ended(name)
        log = self._jobs.log(name)
        told_by = [line for line in log if line.startswith("COMPILED ")]
        assert len(told_by) == 1, (job.get("FailureReason"), log)
        told: dict[str, Any] = json.loads(told_by[0].removeprefix("COMPILED "))
        report = self._jobs.server.report(name)
        return {**told, "name": name, "status": job["TrainingJobStatus"], "report": report}
