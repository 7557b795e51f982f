"""A directory laid out as SageMaker's /opt/ml, and `python -m sagelet_runtime.train` on it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sagelet_runtime.gpu.trial import SUFFIX
from support import forked_python
from support.xla_workers import quiet_port

#: The verdicts on plugins that earlier hosts have left. Their keys cover all that a trial depends on.
VERDICTS = Path(tempfile.gettempdir(), f"sagelet-tests-{os.getuid()}")
RUNTIME = Path(__file__).resolve().parents[2] / "images" / "runtime"
#: Inductor may believe /proc/cpuinfo. Otherwise each job compiles a program, and loads it in another Python with torch.
KNOWN_PROCESSOR = {"TORCHINDUCTOR_VEC_ISA_OK": "1"}


def poll(condition: Callable[[], Any], what: str, deadline_s: float = 120) -> None:
    """Waits until `condition()` is true. The test fails with `what` if that does not happen in time."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"never came true: {what}"
        time.sleep(0.02)


@dataclass
class Ended:
    code: int
    log: str
    failure: str | None


@dataclass
class TrainingHost:
    base: Path
    environment: dict[str, str] = field(default_factory=dict)
    #: The job's hosts. This is the first.
    hosts: tuple[str, ...] = ("algo-1",)
    instance_type: str = "ml.p3.2xlarge"
    #: Names of channels. Their data is under `input/data`.
    channels: tuple[str, ...] = ()
    #: True if the job starts its scripts by `forked_python`. Tests of processes and of imports have Python itself.
    forked: bool = False

    def script(self, text: str, name: str = "train.py") -> None:
        file = self.base / "code" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text).lstrip())

    def prepare(self, hyperparameters: dict[str, str], program: str = "train.py") -> None:
        config = self.base / "input" / "config"
        for directory in (config, self.base / "model", self.base / "output" / "data", self.base / "code"):
            directory.mkdir(parents=True, exist_ok=True)
        everything = {"sagemaker_program": program, **hyperparameters}
        files = {
            "hyperparameters.json": everything,
            "inputdataconfig.json": {name: {"TrainingInputMode": "File"} for name in self.channels},
            "resourceconfig.json": self._resources(),
        }
        for name, content in files.items():
            (config / name).write_text(json.dumps(content))

    def start(self, hyperparameters: dict[str, str] | None = None, program: str = "train.py") -> subprocess.Popen[str]:
        """Starts `train`. Its stdout and stderr go together to `log_file`."""
        self.prepare(hyperparameters or {}, program)
        self._share_verdicts(VERDICTS, self._cache)
        command = [sys.executable, "-m", "sagelet_runtime.train"]
        with self.log_file.open("w") as log:
            return subprocess.Popen(command, env=self._environ(), stdout=log, stderr=log, cwd=self.base, text=True)

    def run(self, hyperparameters: dict[str, str] | None = None, program: str = "train.py") -> Ended:
        process = self.start(hyperparameters, program)
        return self.ended(process.wait(timeout=300))

    def ended(self, code: int) -> Ended:
        self._share_verdicts(self._cache, VERDICTS)
        failure = self.base / "output" / "failure"
        return Ended(code, self.log, failure.read_text() if failure.exists() else None)

    @property
    def log_file(self) -> Path:
        return self.base / "log.txt"

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    @property
    def model(self) -> Path:
        return self.base / "model"

    @property
    def data(self) -> Path:
        return self.base / "input" / "data"

    def _resources(self) -> dict[str, object]:
        group = {"instance_type": self.instance_type, "hosts": list(self.hosts)}
        return {
            "current_host": self.hosts[0],
            "current_instance_type": self.instance_type,
            "current_group_name": "homogeneousCluster",
            "hosts": list(self.hosts),
            "instance_groups": [{"instance_group_name": "homogeneousCluster", **group}],
            "network_interface_name": "eth0",
        }

    def _environ(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
        variables = {
            **inherited,
            # As in an image, `torchrun` is beside `python`.
            "PATH": os.pathsep.join((os.path.dirname(sys.executable), inherited.get("PATH", os.defpath))),
            "PYTHONPATH": str(RUNTIME),
            "SAGEMAKER_BASE_DIR": str(self.base),
            "SM_STUDIO_LOCAL_MODE": "true",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            **self._meeting_place(),
            "SAGELET_COMPILE_CACHE": str(self._cache),
            **self.environment,
        }
        return forked_python.variables(variables) if self.forked else variables

    @property
    def _cache(self) -> Path:
        return self.base / "compile-cache"

    def _share_verdicts(self, source: Path, target: Path) -> None:
        """Copies the verdicts on plugins that the target lacks, as the server does between an account's jobs."""
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file in source.glob(f"*{SUFFIX}"):
            if not (target / file.name).exists():
                draft = target / f"{file.name}.{os.getpid()}"
                shutil.copy(file, draft)
                draft.replace(target / file.name)

    def _meeting_place(self) -> dict[str, str]:
        """Gives the job's workers their own port to meet, as the server does for jobs that share a machine."""
        return {"SAGELET_MASTER_PORT": str(quiet_port())} if len(self.hosts) == 1 else {}


_NOT_INHERITED = ("SAGE", "SM_", "PJRT", "XLA", "PT_XLA", "PYTHON", "GPU_NUM", "USE_TORCH")
