"""Adapts the distributed drivers that SDK v3 sends with a job to this machine.

The drivers start one worker for each GPU that nvidia-smi lists, and rendezvous at port 7777. Only the job's own copy of
them is changed, in its channel `sm_drivers`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sagemaker_training import errors

from sagelet_runtime.base.say import say
from sagelet_runtime.base.world import gpus_of
from sagelet_runtime.gpu import device

#: The drivers of several workers that `sm_train.sh` runs (sagemaker.train.templates).
TORCHRUN, MPI = "torchrun_driver.py", "mpi_driver.py"
PORT = "SM_MASTER_PORT = 7777"


def prepare(
    drivers: Path, resources: Mapping[str, Any], environ: Mapping[str, str], found: int
) -> dict[str, str] | None:
    """Returns the variables for a driver of several workers, or None for the plain driver. `found`: GPUs of this host.

    Raises the toolkit's ClientError for distributed=MPI().
    """
    script = drivers / "sm_train.sh"
    text = script.read_text() if script.is_file() else ""
    if MPI in text:
        raise errors.ClientError(
            "sagelet does not run SDK v3's distributed=MPI(): its image has no ssh, which mpirun needs to start hosts. "
            "Use Torchrun()"
        )
    if TORCHRUN not in text:
        return None
    hosts = len(resources["hosts"])
    count = _processes(drivers, resources["current_instance_type"], environ, found)
    port = environ.get("SAGELET_MASTER_PORT")
    if port and hosts > 1:
        _move_port(drivers / "scripts" / "environment.py", port)
    # PET_MASTER_PORT is torchrun's own variable. With one host the driver names no port.
    moved = {"PET_MASTER_PORT": port} if port else {}
    return moved | (device.shared_threads(environ, hosts * count) if hosts * count > 1 else {})


def _processes(drivers: Path, instance_type: str, environ: Mapping[str, str], found: int) -> int:
    """Returns how many workers the driver starts on this host. Writes that number down if the host has fewer GPUs."""
    file = drivers / "distributed.json"
    config = json.loads(file.read_text())
    if config.get("process_count_per_node"):
        return int(config["process_count_per_node"])
    count = max(1, gpus_of(instance_type, environ, found))
    if count > found:
        say(f"torchrun: {count} CPU worker(s) for {count} GPU(s) of {instance_type}, which this host does not have")
        _replace(file, json.dumps({**config, "process_count_per_node": count}))
    return count


def _move_port(file: Path, port: str) -> None:
    """Changes the driver's port. Hosts that are processes share this machine's ports with other jobs."""
    text = file.read_text()
    if PORT in text:
        _replace(file, text.replace(PORT, f"SM_MASTER_PORT = {port}"))
    else:
        say("SDK v3's driver names another port than 7777; other jobs of several hosts may hold it")


def _replace(file: Path, text: str) -> None:
    temporary = file.with_name(f"{file.name}.sagelet")
    temporary.write_text(text)
    os.replace(temporary, file)
