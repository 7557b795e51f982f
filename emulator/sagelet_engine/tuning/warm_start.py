"""What a tuning job takes over from its parents (WarmStartConfig), and what its search makes of it.

The rules are in the developer guide, "Run a Warm Start Hyperparameter Tuning Job". It does not say how AWS uses the
parents' training jobs. Here a strategy sees them as trials before its own first one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sagelet_engine.model.tuning import Definition, Inherited, Trial, TuningJob, TuningSpec, WarmStart
from sagelet_engine.tuning.strategies.space import InvalidRange, space_of
from sagelet_engine.tuning.strategies.strategy import PastTrial

#: The strategies that look at earlier trials by their results, or go on in a sequence after them. A grid has its own
#: order, and Hyperband counts its trials by rungs.
USING_PARENTS = ("Random", "Bayesian")


@dataclass(frozen=True)
class ParentJob:
    """A tuning job that has ended, with its trials."""

    job: TuningJob
    trials: Sequence[Trial]


def counterparts(spec: TuningSpec, parent: TuningSpec) -> list[tuple[Definition, Definition | None]]:
    """Returns each definition with the parent's of the same name. If neither has several, names do not count."""
    if len(spec.definitions) == len(parent.definitions) == 1:
        return [(spec.definitions[0], parent.definitions[0])]
    named = {one.name: one for one in parent.definitions}
    return [(one, named.get(one.name)) for one in spec.definitions]


def take_over(spec: TuningSpec, parents: Sequence[ParentJob]) -> WarmStart:
    """Returns what a job with this spec has of its parents. It does not reach to their parents, as AWS documents."""
    inherited: list[Inherited] = []
    best: tuple[Trial, str] | None = None
    for parent in parents:
        for one, source in counterparts(spec, parent.job.spec):
            if source is None:
                continue
            for trial in (each for each in parent.trials if each.definition == source.name and each.ended):
                inherited += _inherited(one, source, trial)
                if trial.succeeded and (best is None or _is_better(one, trial, best[0])):
                    best = replace(trial, definition=one.name), parent.job.key.name
    return WarmStart(tuple(inherited)) if best is None else WarmStart(tuple(inherited), *best)


def past_trials(job: TuningJob, definition: str) -> list[PastTrial]:
    """Returns the trials that the search of a definition begins with."""
    if job.warm_start is None or job.spec.strategy not in USING_PARENTS:
        return []
    mine = (one for one in job.warm_start.inherited if one.definition == definition)
    return [PastTrial(one.values, ended=True, objective=one.objective) for one in mine]


def _is_better(one: Definition, trial: Trial, other: Trial) -> bool:
    """True if a trial is better than another. Definitions and parents have the same objective."""
    if trial.objective is None or other.objective is None:
        return other.objective is None
    return one.objective.better(trial.objective, other.objective)


def _inherited(one: Definition, source: Definition, trial: Trial) -> list[Inherited]:
    """Returns what a trial tells about a definition. Empty if one of its values is not in its range."""
    space = space_of(one.ranges)
    values = {**source.static, **trial.values}
    try:
        space.positions(values)
    except (InvalidRange, KeyError, ValueError):
        return []
    objective = trial.objective if trial.succeeded else None
    return [Inherited(one.name, {each.name: values[each.name] for each in space.parameters}, objective)]
