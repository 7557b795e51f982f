"""Directories of a job: `DATA/jobs/ACCOUNT/REGION/JOB_ID/algo-N/{opt-ml,run}`, and the directories in /opt/ml.

They have the job's id, not its name, because a deleted job's name may be used again. A second attempt starts on new
instances, so it has directories of its own in `JOB_ID/attempt-2`. What a warm pool keeps belongs to no job:
`DATA/warm-pools/CLUSTER/algo-N`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sagelet_engine.model.job import Job
from sagelet_engine.model.runtime import SCRATCH, WARM_POOL_CACHE

#: What SageMaker creates in /opt/ml before the container starts (seen in real containers). /opt/ml/output/intermediate
#: is not made: if it is missing, the toolkit leaves its upload to the platform.
OPT_ML = ("code", "input/config", "input/data", "model", "output/data", "output/metrics/sagemaker")
#: The same for a processing job (developer guide, "Build Your Own Processing Container").
PROCESSING = ("config", "processing", "output")


def clusters_directory(data: Path) -> Path:
    """Returns the directory that holds a directory for each warm pool."""
    return data / "warm-pools"


def cluster_directory(data: Path, cluster: str) -> Path:
    """Returns the directory of what a warm pool keeps from job to job."""
    return clusters_directory(data) / cluster


@dataclass(frozen=True)
class HostDirectories:
    """The directories of one host."""

    root: Path
    #: The host's persistent cache, which a warm pool keeps. None if the job has no warm pool.
    cache: Path | None = None

    @cached_property
    def opt_ml(self) -> Path:
        """The directory that becomes /opt/ml."""
        return self.root / "opt-ml"

    @property
    def run(self) -> Path:
        """The directory of the runtime's own files."""
        return self.root / "run"

    @property
    def scratch(self) -> Path:
        """The directory of what a container writes outside of /opt/ml, as long as the container exists."""
        return self.run / SCRATCH

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
        """True if a part of the path from /opt/ml to `path` is a symbolic link, which the container can point
        anywhere.
        """
        within = len(path.parts) - len(self.opt_ml.parts) + 1
        return any(part.is_symlink() for part in (path, *path.parents)[:within])

    def create(self, parts: Sequence[str] = OPT_ML) -> None:
        """Makes the directories. `parts`: those in /opt/ml."""
        self.run.mkdir(parents=True, exist_ok=True)
        for part in parts:
            (self.opt_ml / part).mkdir(parents=True, exist_ok=True)
        if self.cache is not None:
            self.cache.mkdir(parents=True, exist_ok=True)
            (self.opt_ml / WARM_POOL_CACHE).mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True)
class JobDirectories:
    root: Path
    #: The directory of the warm pool that the job's hosts run in, or will become.
    caches: Path | None = None
    #: The job's own directory, which its attempts share. None if it is `root`.
    job_root: Path | None = None

    @classmethod
    def of(cls, data: Path, job: Job) -> "JobDirectories":
        """Returns the directories of the present attempt."""
        root = data / "jobs" / job.key.account / job.key.region / job.id
        caches = None if job.cluster is None else cluster_directory(data, job.cluster)
        return cls(root if job.attempt == 1 else root / f"attempt-{job.attempt}", caches, root)

    def host(self, name: str) -> HostDirectories:
        return HostDirectories(self.root / name, None if self.caches is None else self.caches / name)

    @property
    def report(self) -> Path:
        """The directory that holds only the compile report, sagelet's addition to the job's output."""
        return (self.job_root or self.root) / "report"

    @property
    def report_scratch(self) -> Path:
        """The directory in which the compile report is made."""
        return (self.job_root or self.root) / "report.new"

    @property
    def work(self) -> Path:
        """The server's scratch space for this job: archives before their upload."""
        return self.root / "work"
