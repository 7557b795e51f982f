"""Tries a plugin before the user's script (`probe.py`), unless an earlier job has tried the same one.

A verdict is a file of JSON in the directory of compiled programs: `KEY.trial`, `{"works": true, "reason": "", "api":
"0.115", "tried_s": 1700000000}`. Its key covers all that a trial depends on. The engine keeps the files of an account's
jobs for its next jobs with the same image, as it does with compiled programs, which these jobs load and run. So a job
can mislead other jobs of its account about a plugin, and no others.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sagelet_runtime.base.variables import COMPILE_CACHE, on_cpu
from sagelet_runtime.gpu import plugin as gpu
from sagelet_runtime.gpu import probe

#: `kept`: an earlier verdict counts. `always`: each job tries for itself.
SETTING, SETTINGS = "SAGELET_GPU_TRIAL", ("kept", "always")
SUFFIX = ".trial"
#: Seconds for which a failed trial counts. A driver that is repaired or a GPU that is free again has the same key.
FAILED_FOR = 3600
#: Bytes of a verdict, at most.
LIMIT = 4096
#: Seconds that the driver's tool may take.
TIMEOUT_S = 30
#: Variables with these names or beginnings may decide whether a plugin works.
DECIDING = ("CUDA_", "JAX_", "LD_", "NVIDIA_", "PJRT_", "PYTHONPATH", "TF_", "XLA_", probe.SECONDS, gpu.NAME)
#: Variables that differ from job to job, and those whose meaning is in the key already.
NOT_DECIDING = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
#: Directories of this job alone, where a host is a process. Their paths do not count.
OWN_DIRECTORIES = ("PYTHONUSERBASE", "SAGEMAKER_BASE_DIR")


class UnknownSetting(Exception):
    """SAGELET_GPU_TRIAL has an unknown value."""


@dataclass(frozen=True)
class Verdict:
    works: bool
    #: Why it does not work.
    reason: str = ""
    #: The plugin's version of the PJRT C API: `0.115`. Empty if the trial did not get so far.
    api: str = ""
    #: Seconds since the epoch.
    tried_s: int = 0
    #: True if an earlier job has tried.
    kept: bool = False

    @property
    def when(self) -> str:
        """` on 2026-11-25 at 19:00 UTC` for an earlier job's trial, otherwise empty."""
        return time.strftime(" on %Y-%m-%d at %H:%M UTC", time.gmtime(self.tried_s)) if self.kept else ""


def tried(plugin: gpu.Plugin, environ: Mapping[str, str]) -> Verdict:
    """Returns an earlier job's verdict on this plugin, or tries it and leaves the verdict for the next jobs.

    `environ`: with the plugin's own variables. Raises UnknownSetting.
    """
    setting = environ.get(SETTING) or SETTINGS[0]
    if setting not in SETTINGS:
        raise UnknownSetting(f"{SETTING} is {setting!r}; use {' or '.join(SETTINGS)}")
    file = _file(plugin, environ)
    found = None if file is None or setting == "always" else _read(file)
    if found is not None and file is not None:
        os.utime(file)  # Tells the engine that it was used.
        return found
    result = probe.probe(environ)
    verdict = Verdict(result.problem is None, result.problem or "", result.api, int(time.time()))
    if file is not None and not result.killed:
        _write(file, verdict)
    return verdict


def key(plugin: gpu.Plugin, environ: Mapping[str, str]) -> str | None:
    """Returns 64 hexadecimal digits. None if the driver or the GPUs of this host are not known."""
    machine = _processor_only(environ) if on_cpu(environ) else gpu_models(environ)
    if machine is None:
        return None
    facts = [_own_code(), sys.version, plugin.digest, environ.get(gpu.KEY, ""), machine, _deciding(environ)]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _file(plugin: gpu.Plugin, environ: Mapping[str, str]) -> Path | None:
    directory = environ.get(COMPILE_CACHE, "")
    if not directory or not os.path.isdir(directory):
        return None
    name = key(plugin, environ)
    return None if name is None else Path(directory, name + SUFFIX)


def _read(file: Path) -> Verdict | None:
    """Returns a verdict that still counts."""
    try:
        found: Any = json.loads(file.read_bytes()[:LIMIT])
        verdict = Verdict(found["works"] is True, str(found["reason"]), str(found["api"]), int(found["tried_s"]), True)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    age = time.time() - verdict.tried_s
    return verdict if verdict.works or 0 <= age < FAILED_FOR else None


def _write(file: Path, verdict: Verdict) -> None:
    content = asdict(replace(verdict, reason=verdict.reason[:1000]))
    del content["kept"]
    draft = file.with_name(f"{file.name}.{os.getpid()}.draft")
    try:
        draft.write_text(json.dumps(content))
        draft.replace(file)
    except OSError:
        # A full or read-only disk: the next job tries again, and this one has its verdict.
        draft.unlink(missing_ok=True)


def _own_code() -> str:
    """Returns a digest of the sources that try and drive the plugin."""
    digest = hashlib.sha256()
    for source in sorted(path for path in Path(__file__).parent.iterdir() if path.suffix in (".py", ".c")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _processor_only(_environ: Mapping[str, str]) -> Sequence[str]:
    """Returns nothing more: SAGELET_COMPILE_KEY names the processor already."""
    return ()


def gpu_models(environ: Mapping[str, str]) -> Sequence[str] | None:
    """Returns the driver's version and the models of this host's GPUs. None if its tool does not say."""
    tool = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if tool is None:
        return None
    command = [tool, "--query-gpu=uuid,name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    rows = [[cell.strip() for cell in row] for row in csv.reader(said.splitlines())]
    gpus = {row[0]: ", ".join(row[1:]) for row in rows if len(row) == 4 and row[0].startswith("GPU-")}
    chosen = environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None and all(name.strip() in gpus for name in chosen.split(",")):
        return sorted({gpus[name.strip()] for name in chosen.split(",")})
    models = sorted(set(gpus.values()))
    # CUDA and the driver's tool number GPUs differently. So a number says which model only if there is one model.
    return models if len(models) == 1 else None


def _deciding(environ: Mapping[str, str]) -> Mapping[str, str]:
    own = [environ[name] for name in OWN_DIRECTORIES if environ.get(name)]
    return {
        name: _without(own, value)
        for name, value in sorted(environ.items())
        if name.startswith(DECIDING) and name not in NOT_DECIDING
    }


def _without(directories: Sequence[str], value: str) -> str:
    for directory in directories:
        value = value.replace(directory, "")
    return value
