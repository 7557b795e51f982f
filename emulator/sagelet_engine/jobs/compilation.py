"""Whether a job asks to be compiled, in which image it runs then, and what its hosts say became of it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sagelet_engine import nofollow
from sagelet_engine.data.layout import HostDirectories, JobDirectories
from sagelet_engine.images.resolve import Resolution
from sagelet_engine.jobs import sdk_v3
from sagelet_engine.jobs.record import Compilation, TrainingJob
from sagelet_engine.runtimes.port import Runtime

#: In /opt/ml/output; written by images/runtime, compilation.py.
FILE = "sagelet/compilation.json"
#: Bytes; it holds a sentence.
LIMIT = 64 * 1024
#: Characters of a reason that a status message has room for.
SHOWN = 300
_TRUE = frozenset({"true", "1", "yes"})


def asks_for_compiler(request: Mapping[str, Any]) -> bool:
    """As images/runtime, compiler.py reads it; SDK v3's jobs may ask by their image alone.

    `request`: a CreateTrainingJob body, or what DescribeTrainingJob answers.
    """
    asked = sdk_v3.compiler_parameters(request) if sdk_v3.has_driver(request) else request.get("HyperParameters", {})
    return str(asked.get(sdk_v3.ENABLED, "")).strip().strip("\"'").strip().lower() in _TRUE


def choose_image(job: TrainingJob, resolution: Resolution, runtime: Runtime) -> tuple[str | None, str]:
    """The image of a job that has its GPUs or none, and what stands in for what it asked for; None: it is not there."""
    has_image = runtime.has_image
    image, gpu_image = resolution.local_image, resolution.gpu_image
    if job.gpus and gpu_image is not None and has_image(gpu_image):
        return gpu_image, job.stand_in
    dated_image = resolution.dated_image
    if not job.gpus and dated_image is not None and runtime.knows_images and has_image(dated_image):
        return dated_image, job.stand_in
    if image is None or not has_image(image):
        return None, job.stand_in
    if job.gpus and gpu_image is not None and asks_for_compiler(job.request):
        return image, (
            f"compiled code runs on the CPU and the GPUs stay unused: {gpu_image} is not there "
            "(`sagelet image build --variant cu12`)"
        )
    return image, job.stand_in


def noticed(job: TrainingJob, directories: JobDirectories) -> TrainingJob:
    """The job with what its hosts say of their compilation; a host that is not compiled outweighs those that are."""
    if not asks_for_compiler(job.request) or (job.compilation is not None and not job.compilation.compiled):
        return job
    said = [found for name in job.hosts if (found := read(directories.host(name))) is not None]
    if not said:
        return job
    told = min(said, key=lambda one: one.compiled)
    if told == job.compilation:
        return job
    changed = replace(job, compilation=told)
    if told.compiled:
        return changed
    current = job.transitions[-1]
    marked = replace(current, message=f"{current.message} ({marking(told)})")
    return replace(changed, transitions=(*job.transitions[:-1], marked))


def marking(compilation: Compilation) -> str:
    """For a status message."""
    reason = compilation.reason if len(compilation.reason) <= SHOWN else compilation.reason[: SHOWN - 1] + "…"
    return f"NOT COMPILED, training natively: {reason}"


def read(host: HostDirectories) -> Compilation | None:
    """What a host says; None when it says nothing that can be understood. The host may put anything there."""
    try:
        content: Any = nofollow.read_json(host.opt_ml, f"output/{FILE}", LIMIT)
        compiled, platform, reason = content["compiled"], content["platform"], content["reason"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not isinstance(compiled, bool) or not isinstance(platform, str) or not isinstance(reason, str):
        return None
    return Compilation(compiled, platform[:100], reason[:LIMIT])
