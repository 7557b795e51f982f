"""Jobs that use the compile cache on a machine without a GPU. Only the GPU and its compiler are not real.

A stand-in for nvidia-smi gives the server one GPU, and fake_pjrt_plugin.c stands in for the plugin. The job's script
(cache_worker.py) takes torch_xla's place. It compiles its programs through sagelet's library in front of the plugin,
and reports as a worker does.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from support.jobs import Jobs
from support.server import COMPILED

SUPPORT = Path(__file__).parent
#: Lists one GPU, and answers what AWS's toolkit and the server ask.
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
    """Puts the stand-in for nvidia-smi into the directory. Returns the directory's name, for PATH."""
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
        """Runs a job of these programs. Returns what it printed, its `name`, `status` and `report`.

        `report` is that of `sagelet report --json`. `kib`: the size of each program. `variables`: for the Environment.
        """
        parameters = {"programs": json.dumps(json.dumps(programs)), "kib": str(kib), "fail": str(int(fail))}
        name = self._jobs.submit(
            self._files,
            image=COMPILED,
            hyperparameters={"sagemaker_training_compiler_enabled": "true", **parameters},
            # sagelet accepts a device of this name unchecked, and the script itself loads the plugin.
            Environment={"PJRT_DEVICE": "XLAGPU", **variables},
        )
        job = self._jobs.ended(name)
        log = self._jobs.log(name)
        told_by = [line for line in log if line.startswith("COMPILED ")]
        assert len(told_by) == 1, (job.get("FailureReason"), log)
        told: dict[str, Any] = json.loads(told_by[0].removeprefix("COMPILED "))
        report = self._jobs.server.report(name)
        return {**told, "name": name, "status": job["TrainingJobStatus"], "report": report}
