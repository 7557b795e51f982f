"""Directories of a job: `DATA/jobs/ACCOUNT/REGION/JOB_ID/algo-N/{opt-ml,run}`, and the directories in /opt/ml.

They carry the job's id, not its name: a deleted job's name may be used again. A second attempt starts on new
instances, so it has directories of its own in `JOB_ID/attempt-2`. What a warm pool keeps is no job's:
`DATA/warm-pools/CLUSTER/algo-N`.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sagelet_engine.model.confinement import SCRATCH
from sagelet_engine.model.job import Job
from sagelet_engine.model.runtime import WARM_POOL_CACHE

#: What SageMaker creates in /opt/ml before the container starts (seen in real containers).
#: /opt/ml/output/intermediate is not made: the toolkit takes its absence as the platform's consent to upload it.
OPT_ML = ("code", "input/config", "input/data", "model", "output/data", "output/metrics/sagemaker")


def clusters_directory(data: Path) -> Path:
    """Holds a directory for each warm pool."""
    return data / "warm-pools"


def cluster_directory(data: Path, cluster: str) -> Path:
    """What a warm pool keeps from job to job."""
    return clusters_directory(data) / cluster


@dataclass(frozen=True)
class HostDirectories:
    """What one host has on the disk."""

    root: Path
    #: The host's persistent cache, which a warm pool keeps, or None if the job has no warm pool.
    cache: Path | None = None

    @cached_property
    def opt_ml(self) -> Path:
        """Becomes /opt/ml."""
        return self.root / "opt-ml"

    @property
    def run(self) -> Path:
        """The runtime's own files."""
        return self.root / "run"

    @property
    def scratch(self) -> Path:
        """What a container writes outside of /opt/ml, as long as it is there."""
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
        """Whether something between /opt/ml and `path` is a symbolic link, which the container can point anywhere."""
        within = len(path.parts) - len(self.opt_ml.parts) + 1
        return any(part.is_symlink() for part in (path, *path.parents)[:within])

    def create(self) -> None:
        self.run.mkdir(parents=True, exist_ok=True)
        for part in OPT_ML:
            (self.opt_ml / part).mkdir(parents=True, exist_ok=True)
        if self.cache is not None:
            self.cache.mkdir(parents=True, exist_ok=True)
            (self.opt_ml / WARM_POOL_CACHE).mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True)
class JobDirectories:
    root: Path
    #: The directory of the warm pool that the job's hosts are, or become.
    caches: Path | None = None
    #: The job's own directory, which its attempts share, or None if it is `root`.
    job_root: Path | None = None

    @classmethod
    def of(cls, data: Path, job: Job) -> "JobDirectories":
        """Those of the attempt under way."""
        root = data / "jobs" / job.key.account / job.key.region / job.id
        caches = None if job.cluster is None else cluster_directory(data, job.cluster)
        return cls(root if job.attempt == 1 else root / f"attempt-{job.attempt}", caches, root)

    def host(self, name: str) -> HostDirectories:
        return HostDirectories(self.root / name, None if self.caches is None else self.caches / name)

    @property
    def report(self) -> Path:
        """Holds the compile report and nothing else: what sagelet adds to the job's output."""
        return (self.job_root or self.root) / "report"

    @property
    def report_scratch(self) -> Path:
        """Becomes the compile report."""
        return (self.job_root or self.root) / "report.new"

    @property
    def work(self) -> Path:
        """Scratch space of the server for this job: archives before their upload."""
        return self.root / "work"
