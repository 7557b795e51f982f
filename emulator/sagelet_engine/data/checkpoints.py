"""A job's checkpoints as a directory that is kept in S3 (`directory_sync.py`)."""

from pathlib import Path

from sagelet_engine.data.directory_sync import DirectorySync, SyncedDirectory
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.model.objects import ObjectStore
from sagelet_engine.model.training import TrainingJob


class Checkpoints(DirectorySync):
    """The checkpoints of one attempt of a job. Does nothing for a job without CheckpointConfig."""

    def __init__(self, objects: ObjectStore, job: TrainingJob, directories: JobDirectories) -> None:
        super().__init__(objects, job, directories, _synced(job))


def _synced(job: TrainingJob) -> list[SyncedDirectory]:
    config = job.spec.checkpoint
    if config is None:
        return []
    inner = lambda: Path(*config.path())  # noqa: E731 - raises only when it is called
    return [SyncedDirectory(inner, config.target, "checkpoints.json", "restored.json", mirrored=True)]
