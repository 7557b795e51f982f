"""The doctor's rules: one for each item of AWS's best practices, for causes of failed compiled jobs, and for what any
job lacks.

A rule is registered by its file: each `Rule` at the top of a module of this package is a rule of training jobs. Modules
whose names begin with `processing` have those of processing jobs.
"""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from sagelet_engine.doctor.finding import Rule, Section
from sagelet_engine.doctor.rules import job_ends, missing_files, no_gpu, processing, script_failures, unreached

#: The rules with `last_resort`, whose order counts: the first that finds an error is the last that is asked.
LAST_RESORT: tuple[Rule, ...] = (
    missing_files.ENTRY_POINT,
    missing_files.ARCHIVE,
    script_failures.ARGUMENTS,
    no_gpu.RULE,
    missing_files.MISSING_INPUT,
    missing_files.MISSING_FILE,
    missing_files.UNWRITABLE,
    unreached.NETWORK,
    unreached.AWS,
    job_ends.NOT_RUN,
    script_failures.ERROR,
    script_failures.ENDED,
)


def _registered() -> Iterator[Rule]:
    """Yields the rules of the modules, in the order of the modules' names."""
    for name in sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("processing")):
        yield from (value for value in vars(import_module(f"{__name__}.{name}")).values() if isinstance(value, Rule))


_SECTIONS = list(Section)
_REGISTERED = sorted(_registered(), key=lambda rule: _SECTIONS.index(rule.section))
#: In the order of docs/reference/doctor.md: by AWS's sections, then by the modules' names.
RULES: tuple[Rule, ...] = (*(rule for rule in _REGISTERED if rule not in LAST_RESORT), *LAST_RESORT)
#: Those of processing jobs, which are never compiled.
PROCESSING_RULES: tuple[Rule, ...] = processing.RULES
