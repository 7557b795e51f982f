"""Tries a PJRT plugin before the user's script, in a process of its own and within a time limit.

`python -m sagelet_runtime.gpu.probe` prints the name of each stage before it enters it, and `works` at the end. The
stages are import, load, client, a 2x2 matrix product and one training step. Results are compared with the CPU's. A
plugin that does not work may abort the process or hang, so the parent judges the result.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sagelet_runtime.base import deferrals, fatal_lines, quiet_imports
from sagelet_runtime.base.variables import on_cpu
from sagelet_runtime.gpu import pjrt_api

#: Seconds for a trial. They allow for a first CUDA context and first compilations on a slow disk.
TIMEOUT_S = 240
SECONDS = "SAGELET_GPU_PROBE_SECONDS"
STAGE = "sagelet-probe: "
STAGES = {
    "import": "it imported torch_xla and the plugin",
    "load": "it loaded the plugin",
    "client": "it created the plugin's client",
    "matmul": "it multiplied two 2x2 matrices",
    "step": "it ran a training step",
}
WORKS = "works"
#: Before the plugin's version of the PJRT C API, which the trial prints, too.
API = "sagelet-probe-api: "
#: Variables of the trial. It is one process on the host's first GPU, whatever workers the job has.
WORLD = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "PJRT_LOCAL_PROCESS_RANK")
_TELLING = re.compile(r"error|fail|no visible|cannot|not found|unimplemented|mismatch", re.IGNORECASE)
_RAISED = re.compile(r"^([\w.]+(Error|Exception)|error): \S")
_NOISE = re.compile(r"^\s*(File \"|\[|\*\*\*|@|WARNING|Traceback)")


@dataclass(frozen=True)
class Result:
    #: A sentence that says why the plugin does not work. None if it works.
    problem: str | None = None
    #: The plugin's version of the PJRT C API: `0.115`. Empty if the trial did not get so far.
    api: str = ""
    #: True if something else ended the trial, such as the kernel for want of memory. The plugin may work all the same.
    killed: bool = False


def probe(environ: Mapping[str, str]) -> Result:
    """Tries the plugin of these variables."""
    try:
        patience = float(environ.get(SECONDS, TIMEOUT_S))
    except ValueError:
        patience = TIMEOUT_S
    child = {name: value for name, value in environ.items() if name not in WORLD}
    child["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), environ.get("PYTHONPATH", "")]))
    # The trial writes no cache entries, because its programs are of no use to a job.
    child["SAGELET_COMPILE_CACHE"] = ""
    command = [sys.executable, "-m", "sagelet_runtime.gpu.probe"]
    try:
        tried = subprocess.run(command, env=child, capture_output=True, text=True, errors="replace", timeout=patience)
    except subprocess.TimeoutExpired as expired:
        out = expired.stdout or b""
        said = out.decode(errors="replace") if isinstance(out, bytes) else out
        return Result(f"the trial did not end within {patience:g} s, while {_meant(_last_stage(said))}", _api(said))
    stage, api = _last_stage(tried.stdout), _api(tried.stdout)
    if tried.returncode == 0 and stage == WORKS:
        return Result(None, api)
    why = telling_line(tried.stderr) or _ending(tried.returncode)
    killed = -tried.returncode in (signal.SIGKILL, signal.SIGTERM)
    return Result(f"the trial failed while {_meant(stage)}: {why}", api, killed)


def telling_line(said: str) -> str:
    """Returns the most telling line of an error output: Python's own error, else C++'s, else the last error."""
    lines = [line.strip() for line in said.splitlines() if line.strip() and not _NOISE.match(line)]
    raised = [line for line in lines if _RAISED.match(line)]
    # The first one: C++ ends the process there.
    fatal = list(filter(None, map(fatal_lines.said, lines)))[:1]
    telling = [line for line in lines if _TELLING.search(line)]
    # Lines after a Python error are not the cause: torch_xla aborts in its exit handler.
    return (raised or fatal or telling or lines or [""])[-1][:300]


def _ending(code: int) -> str:
    return f"the process ended with signal {-code}" if code < 0 else f"the process ended with {code}"


def _last_stage(printed: str) -> str:
    stages = [line.removeprefix(STAGE) for line in printed.splitlines() if line.startswith(STAGE)]
    return stages[-1] if stages else "import"


def _api(printed: str) -> str:
    return next((line.removeprefix(API) for line in printed.splitlines() if line.startswith(API)), "")


def _meant(stage: str) -> str:
    return STAGES.get(stage, stage)


def main() -> None:
    # These take more than half of a trial's time away.
    quiet_imports.activate()
    deferrals.activate_torch_xla()
    _enter("import")
    import torch
    import torch_xla

    from sagelet_runtime.gpu import plugin as gpu

    gpu.install(torch_xla)
    _enter("load")
    _load(os.environ)
    _enter("client")
    device = torch_xla.device()
    kind = torch_xla._XLAC._xla_real_devices([str(device)])[0]
    if kind.startswith("CPU") and not on_cpu(os.environ):
        raise SystemExit(f"error: the device is {kind}, not a GPU")
    if (count := len(torch_xla._XLAC._xla_get_devices())) != 1:
        raise SystemExit(f"error: the plugin shows a worker {count} devices. torch_xla hangs with more than one")
    _enter("matmul")
    left, right = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[0.5, 0.0], [1.0, 2.0]])
    _compare("the matrix product", torch.mm(left.to(device), right.to(device)).cpu(), torch.mm(left, right))
    _enter("step")
    _compare("the weights after a training step", _trained(device), _trained(torch.device("cpu")))
    _enter(WORKS)


def _load(environ: Mapping[str, str]) -> None:
    """Prints the plugin's version of the API. Raises SystemExit if it is older than torch_xla's."""
    from sagelet_runtime.gpu import plugin as gpu

    path = environ.get(gpu.PLUGIN)
    if not path:
        return
    try:
        found = pjrt_api.version(path)
    except pjrt_api.NoPlugin as error:
        raise SystemExit(f"error: {error}") from error
    print(f"{API}{found}", flush=True)
    oldest = pjrt_api.Version(0, int(environ.get(gpu.OLDEST, "0")))
    refusal = pjrt_api.refusal(environ.get(gpu.LABEL, path), found, oldest)
    if refusal:
        raise SystemExit(f"error: {refusal}")


def _trained(device: Any) -> Any:
    import torch
    import torch_xla

    torch.manual_seed(1)
    model = torch.nn.Linear(4, 2)
    data = torch.randn(8, 4)
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(data.to(device)).square().mean().backward()
    optimizer.step()
    torch_xla.sync()
    return model.weight.detach().cpu()


def _compare(what: str, found: Any, expected: Any) -> None:
    import torch

    if not torch.allclose(found, expected, rtol=1e-2, atol=1e-3):
        raise SystemExit(f"error: {what} differs from the CPU's: {found}, {expected}")


def _enter(stage: str) -> None:
    print(STAGE + stage, flush=True)


if __name__ == "__main__":
    main()
