"""Which JobWork runs the jobs of each kind. A new kind of job is entered here."""

from collections.abc import Mapping

from sagelet_engine.execution.processing_work import ProcessingWork
from sagelet_engine.execution.training_work import TrainingWork
from sagelet_engine.model.job import JobKind

WORKS: Mapping[JobKind, type[TrainingWork] | type[ProcessingWork]] = {
    JobKind.TRAINING: TrainingWork,
    JobKind.PROCESSING: ProcessingWork,
}
