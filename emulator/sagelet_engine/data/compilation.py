"""Reads whether a job asks to be compiled, and whether its hosts report that it was."""

from dataclasses import replace
from typing import Any

from sagelet_engine.base import nofollow
from sagelet_engine.data import sdk_v3
from sagelet_engine.data.layout import HostDirectories, JobDirectories
from sagelet_engine.model.spec import TrainingSpec
from sagelet_engine.model.training import Compilation, TrainingJob

#: In /opt/ml/output; written by images/runtime, compilation.py.
FILE = "sagelet/compilation.json"
#: In bytes; the file holds a sentence.
LIMIT = 64 * 1024
#: Characters of a reason that fit a status message.
SHOWN = 300
#: The variable with which a job chooses its compiler (images/runtime, inductor/choice.py).
COMPILER, XLA, INDUCTOR, AUTO = "SAGELET_COMPILER", "xla", "inductor", "auto"
_TRUE = frozenset({"true", "1", "yes"})


def asks_for_compiler(spec: TrainingSpec) -> bool:
    """True if the job asks for the compiler. SDK v3's jobs may ask by their image alone."""
    return _asks(spec, sdk_v3.ENABLED)


def asks_for_debug_mode(spec: TrainingSpec) -> bool:
    """True if the job asks for the compiler's debug mode."""
    return _asks(spec, sdk_v3.DEBUG)


def _asks(spec: TrainingSpec, name: str) -> bool:
    """Reads a flag as `parse_flag` in images/runtime does. There another value fails the job."""
    asked = sdk_v3.compiler_parameters(spec) if sdk_v3.has_driver(spec) else spec.hyperparameters
    return str(asked.get(name, "")).strip().strip("\"'").strip().lower() in _TRUE


def chosen_compiler(spec: TrainingSpec) -> str:
    """Returns what the job's Environment says: XLA, INDUCTOR, AUTO, or an empty string if it says nothing."""
    return spec.environment.get(COMPILER, "").strip().lower()


def noticed(job: TrainingJob, directories: JobDirectories) -> TrainingJob:
    """Returns the job with its hosts' reports of compilation. One host that is not compiled outweighs those that
    are.
    """
    if not asks_for_compiler(job.spec) or (job.compilation is not None and not job.compilation.compiled):
        return job
    said = [found for name in job.hosts if (found := read(directories.host(name))) is not None]
    if not said:
        return job
    told = min(said, key=lambda one: one.compiled)
    return job if told == job.compilation else _told(job, told)


def trained_natively(job: TrainingJob, reason: str) -> TrainingJob:
    """Returns a job that asks for the compiler, and in which nothing was compiled by what its workers reported.

    Called when its hosts are down, and before the next status. A host's own word that the job is not compiled stays.
    """
    before = job.compilation
    if not asks_for_compiler(job.spec) or (before is not None and not before.compiled):
        return job
    return _told(job, Compilation(False, "" if before is None else before.platform, reason))


def _told(job: TrainingJob, told: Compilation) -> TrainingJob:
    changed = replace(job, compilation=told)
    if told.compiled:
        return changed
    current = job.transitions[-1]
    marked = replace(current, message=f"{current.message} ({marking(told)})")
    return replace(changed, transitions=(*job.transitions[:-1], marked))


def marking(compilation: Compilation) -> str:
    """Returns the text for a status message."""
    reason = compilation.reason if len(compilation.reason) <= SHOWN else compilation.reason[: SHOWN - 1] + "…"
    return f"NOT COMPILED, training natively: {reason}"


def read(host: HostDirectories) -> Compilation | None:
    """Returns a host's report, or None if there is no readable one. The host may write anything there."""
    try:
        content: Any = nofollow.read_json(host.opt_ml, f"output/{FILE}", LIMIT)
        compiled, platform, reason = content["compiled"], content["platform"], content["reason"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not isinstance(compiled, bool) or not isinstance(platform, str) or not isinstance(reason, str):
        return None
    return Compilation(compiled, platform[:100], reason[:LIMIT])
