"""Tensors on a CUDA device, or on the CPU, among those on the XLA device."""

from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity
from sagelet_engine.doctor.rules.evaluations import place_of
from sagelet_engine.doctor.rules.failures import failed_at, last_match, quoted

#: torch_xla's and torch's words for a tensor on another device (seen).
ELSEWHERE = (
    r"Expected XLA tensor\. Got: ",
    r"Input tensor is not an XLA tensor",
    r"Expected all tensors to be on the same device, but (found|got).*xla",
    r"bridge::IsXlaTensor|Check failed: xtensor",
)
CUDA = (
    r"This host has no GPU: its CPUs stand in for",
    r"Found no NVIDIA driver on your system",
    r"Torch not compiled with CUDA enabled",
    r"No CUDA GPUs are available",
    r"no kernel image is available for execution on the device",
)


def check(case: Case) -> Iterator[Seen]:
    yield from _failed(case)
    worker = case.lead
    if worker is None or case.by_inductor or case.progress.failed:
        return
    if worker.devices.cpu_params and worker.devices.xla_params:
        text = f"{worker.devices.cpu_params} of the optimizers' parameters are on the CPU, "
        text += f"{worker.devices.xla_params} on the XLA device"
        yield Seen(Severity.WARNING, text, None, worker.devices.cpu_params)
    for request in worker.devices.cuda_requests:
        if not request.via:
            place = place_of(request, case.sources)
            text = f"{request.call} asked for a CUDA device in a compiled job{case.sources.quoted(place)}"
            yield Seen(Severity.WARNING, text, place, request.count)


def _failed(case: Case) -> Iterator[Seen]:
    if not case.setup.compiled or case.by_inductor:
        return
    elsewhere = last_match(case, ELSEWHERE)
    cuda = None if elsewhere else last_match(case, CUDA)
    line = elsewhere or cuda
    if line is None:
        return
    place = failed_at(case)
    what = "a tensor that is not on the XLA device met one that is" if elsewhere else "the script asked for CUDA"
    yield Seen(Severity.ERROR, f"The job failed because {what}: {quoted(line)}{case.sources.quoted(place)}", place)


RULE = Rule(
    name="device-mixing",
    why="A compiled program has all of its tensors on one XLA device. One on another device makes the job fail, or "
    "stays out of what is compiled.",
    instead="device = xm.xla_device(), and .to(device) for the model and for every tensor of a batch, in place of "
    ".cuda(), .to('cuda') and tensors that are left on the CPU.",
    section=Section.WRONG_API,
    check=check,
)
