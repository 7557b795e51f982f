"""What a definition with a member of the wrong type raises, wherever it is read.

CreatePipeline checks what it can. What an expression yields is known only when its step begins: then the step fails.
"""

import logging

from sagelet_engine.base.concurrency import pause
from sagelet_engine.model.pipeline import StepRun, StepStatus
from sagelet_engine.pipelines import retrying
from sagelet_engine.pipelines.expressions import Unresolved

log = logging.getLogger(__name__)

#: Python's errors about a value. Those of the store, the disk and the runtimes are tried again.
MALFORMED = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)
#: What the evaluation of a step raises if its values cannot be used. Unresolved says in plain words why.
UNUSABLE = (Unresolved, *MALFORMED)
_WRONG_TYPE = (
    "A value of the step has a type that it cannot have there. Compare its Arguments with the definition's rules."
)
#: Levels of objects and lists in a definition, at most.
DEEPEST = 150


def failed(run: StepRun, error: Exception, now_ms: int) -> StepRun:
    """Returns the run of a step that cannot go on, so that its execution ends."""
    reason = str(error)
    if not isinstance(error, Unresolved):
        # Python's own text is for the log.
        log.warning("step %s fails, because it cannot be evaluated", run.name, exc_info=error)
        reason = _WRONG_TYPE
    return retrying.ended(run, StepStatus.FAILED, now_ms, failure_reason=reason)


def depth_is_allowed(value: object) -> bool:
    """True if objects and lists are nested at most DEEPEST levels deep."""
    level = [value]
    for _ in range(DEEPEST + 1):
        pause()
        inner = [one for one in level if isinstance(one, (dict, list))]
        if not inner:
            return True
        level = [part for one in inner for part in (one.values() if isinstance(one, dict) else one)]
    return False
