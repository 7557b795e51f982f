"""What jobs ask for, side by side: hyperparameters first, then the rest of the request."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sagelet_api.web.columns import compiled_text, instances_text, tags_text
from sagelet_engine.model.spec import unquoted
from sagelet_engine.model.training import TrainingJob

#: Beginning of the SDK's own hyperparameters. They are about the job's files, not about the experiment.
OWN = "sagemaker_"


@dataclass(frozen=True)
class Row:
    """One thing that the jobs ask for. A value is None if the job does not set it."""

    name: str
    values: tuple[str | None, ...]

    @property
    def differs(self) -> bool:
        return len(set(self.values)) > 1


@dataclass(frozen=True)
class SideBySide:
    hyperparameters: tuple[Row, ...]
    #: The SDK's own hyperparameters, image, instances, inputs, environment, tags.
    others: tuple[Row, ...]

    @property
    def has_own(self) -> bool:
        """True if the SDK has added hyperparameters, which are among the others."""
        return any(row.name.startswith(OWN) for row in self.others)

    @property
    def differing(self) -> list[Row]:
        return [row for row in self.hyperparameters if row.differs]

    @property
    def same(self) -> list[Row]:
        return [row for row in self.hyperparameters if not row.differs]


def side_by_side(jobs: Sequence[TrainingJob]) -> SideBySide:
    given = [{name: unquoted(text) for name, text in job.spec.hyperparameters.items()} for job in jobs]
    found = _rows(given)
    environment = _rows([job.spec.environment for job in jobs], "Environment ")
    facts = (Row(title, tuple(tell(job) or None for job in jobs)) for title, tell in _FACTS.items())
    return SideBySide(
        tuple(row for row in found if not row.name.startswith(OWN)),
        (*facts, *environment, *(row for row in found if row.name.startswith(OWN))),
    )


def _rows(given: Sequence[Mapping[str, str]], before: str = "") -> list[Row]:
    names = sorted({name for one in given for name in one}, key=str.lower)
    return [Row(f"{before}{name}", tuple(one.get(name) for one in given)) for name in names]


def _inputs(job: TrainingJob) -> str:
    return ", ".join(
        f"{one.name}: {one.url if one.file_system is None else f'{one.file_system.id} {one.file_system.path}'}"
        for one in job.spec.channels
    )


_FACTS: Mapping[str, Callable[[TrainingJob], str]] = {
    "Image": lambda job: job.spec.image,
    "Instances": instances_text,
    "Compiled": compiled_text,
    "Managed spot training": lambda job: "yes" if job.spec.spot else "no",
    "Inputs": _inputs,
    "Tags": tags_text,
}
