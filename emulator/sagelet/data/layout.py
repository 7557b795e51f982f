"""Directories of a job: `DATA/jobs/ACCOUNT/REGION/JOB_ID/algo-N/{opt-ml,run}`, and the directories in /opt/ml.

They carry the job's id, not its name: a deleted job's name may be used again. A second attempt starts on new
instances, so it has directories of its own in `JOB_ID/attempt-2`.
"""

from dataclasses import dataclass
from pathlib import Path

from sagelet.jobs.record import TrainingJob

#: What SageMaker creates in /opt/ml before the container starts (seen in real containers).
#: /opt/ml/output/intermediate is not made: the toolkit takes its absence as the platform's consent to upload it.
OPT_ML = ("code", "input/config", "input/data", "model", "output/data", "output/metrics/sagemaker")


@dataclass(frozen=True)
class HostDirectories:
    """What one host has on the disk."""

    root: Path

    @property
    def opt_ml(self) -> Path:
        """Becomes /opt/ml."""
        return self.root / "opt-ml"

    @property
    def run(self) -> Path:
        """The runtime's own files."""
        return self.root / "run"

    @property
    def config(self) -> Path:
        return self.opt_ml / "input" / "config"

    @property
    def channels(self) -> Path:
        return self.opt_ml / "input" / "data"

    @property
    def model(self) -> Path:
        return self.opt_ml / "model"

    @property
    def output_data(self) -> Path:
        return self.opt_ml / "output" / "data"

    @property
    def failure_file(self) -> Path:
        return self.opt_ml / "output" / "failure"

    def behind_link(self, path: Path) -> bool:
        """Whether something between /opt/ml and `path` is a symbolic link, which the container can point anywhere."""
        return any(part.is_symlink() for part in (path, *path.parents) if part.is_relative_to(self.opt_ml))

    def create(self) -> None:
        self.run.mkdir(parents=True, exist_ok=True)
        for part in OPT_ML:
            (self.opt_ml / part).mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True)
class JobDirectories:
    root: Path

    @classmethod
    def of(cls, data: Path, job: TrainingJob) -> "JobDirectories":
        """Those of the attempt under way."""
        root = data / "jobs" / job.key.account / job.key.region / job.id
        return cls(root if job.attempt == 1 else root / f"attempt-{job.attempt}")

    def host(self, name: str) -> HostDirectories:
        return HostDirectories(self.root / name)

    @property
    def work(self) -> Path:
        """Scratch space of the server for this job: archives before their upload."""
        return self.root / "work"
