"""The toolkit's runners of several workers, without what is only in AWS's images."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from sagemaker_training import errors, process, pytorch_xla, runner, torch_distributed

from sagelet_runtime.base import installed
from sagelet_runtime.base.variables import INDUCTOR
from sagelet_runtime.base.world import World
from sagelet_runtime.workers import distribution


class XlaRunner(pytorch_xla.PyTorchXLARunner):  # type: ignore[misc]
    """The toolkit's runner without its `import torch_xla`, which would take half a gigabyte until the job ends."""

    def _check_for_torch_xla(self) -> None:
        if INDUCTOR in self._env_vars:
            return
        try:
            installed.require_torch_xla()
        except installed.TorchXlaUnavailable as error:
            raise errors.SMTrainingCompilerConfigurationError(str(error)) from error

    def _check_for_sagemaker_integration(self) -> None:
        """Checks nothing: the launcher is sagelet's (`sagelet_runtime.torch_xla.spawn_modules`)."""


class DataParallelRunner(process.ProcessRunner):  # type: ignore[misc]
    """Runs sagelet's launcher on each host, in place of mpirun and smddprun. So it needs no ssh between hosts."""

    def _create_command(self) -> list[str]:
        return [sys.executable, "-m", "sagelet_runtime.workers.mpi_like", *super()._create_command()]


class TorchrunRunner(torch_distributed.TorchDistributedRunner):  # type: ignore[misc]
    """Calls torchrun as AWS does, except for the port: hosts that are processes share this machine's ports."""

    def __init__(self, *arguments: Any, world: World, shared_ports: bool, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._world = world
        self._shared_ports = shared_ports

    def _create_command(self) -> list[str]:
        command: list[str] = super()._create_command()
        if not self._shared_ports:
            return command
        at = command.index("torchrun") + 1
        world = self._world
        nodes = ["--nnodes", str(len(world.hosts)), "--nproc_per_node", str(world.local_size)]
        master = ["--master_addr", world.master_address, "--master_port", str(world.master_port)]
        rest = command[command.index(self._user_entry_point) :]
        return [*command[:at], *nodes, *master, "--node_rank", str(world.host_index), *rest]


def make(name: str | None, job: Any, variables: Mapping[str, str], world: World | None) -> Any:
    """Returns the runner for a distribution. Raises the toolkit's errors."""
    if name is None or world is None:
        return runner.ProcessRunnerType
    own = (job.user_entry_point, job.to_cmd_args(), dict(variables), world.local_size)
    if name == distribution.XLA:
        gpus = int(variables["SM_NUM_GPUS"])
        return XlaRunner(*own, world.hosts[0], world.current, list(world.hosts), gpus)
    if name == distribution.TORCHRUN:
        return TorchrunRunner(
            *own,
            world.hosts[0],
            list(world.hosts),
            world.current,
            job.network_interface_name,
            instance_type=job.current_instance_type,
            world=world,
            shared_ports="SAGELET_MASTER_PORT" in os.environ,
        )
    return DataParallelRunner(*own)
