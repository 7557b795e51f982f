"""Results of a job into S3: the model and the output directory. (Checkpoints: `checkpoints.py`.)"""

from pathlib import Path

from sagelet.data import tarballs
from sagelet.data.layout import HostDirectories, JobDirectories
from sagelet.data.objects import ObjectStore, S3Uri
from sagelet.errors import ClientFault
from sagelet.jobs.record import TrainingJob


class Uploader:
    """Uploads what the hosts left. May be repeated: the same keys are written again."""

    def __init__(self, objects: ObjectStore, job: TrainingJob, directories: JobDirectories) -> None:
        self._objects = objects
        self._job = job
        self._directories = directories

    def upload(self) -> None:
        """The hosts' directories as one, on a clash of names the last host's; an empty one leaves no object.

        AWS says that it aggregates them and that names must not clash (dev guide, "How Amazon SageMaker AI Processes
        Training Output"); which host wins is ours.
        """
        hosts = [self._directories.host(name) for name in self._job.hosts]
        for host in hosts:
            self._refuse_links(host)
        self._merged("model", [host.model for host in hosts])
        self._merged("output", [host.output_data for host in hosts])

    def _refuse_links(self, host: HostDirectories) -> None:
        """Through such a link the container, which is root within, would read any file of this machine."""
        for directory in (host.model, host.output_data):
            if host.behind_link(directory):
                inner = directory.relative_to(host.opt_ml)
                raise ClientFault(
                    f"/opt/ml/{inner} is a symbolic link: make it a directory, sagelet does not follow it"
                )

    def _merged(self, name: str, hosts: list[Path]) -> None:
        directories = [directory for directory in hosts if directory.is_dir() and any(directory.iterdir())]
        if not directories:
            return
        target = S3Uri.parse(self._job.output_uri)
        if self._job.request["OutputDataConfig"].get("CompressionType") == "NONE":
            self._tree(directories, target / name)
            return
        self._directories.work.mkdir(exist_ok=True)
        archive = self._directories.work / f"{name}.tar.gz"
        try:
            tarballs.pack(directories, archive)
            self._file(archive, target / archive.name)
        finally:
            # Half an archive on a full disk must not keep the job's end from being written down.
            archive.unlink(missing_ok=True)

    def _tree(self, directories: list[Path], target: S3Uri) -> None:
        for name, path in tarballs.merged(directories):
            if path.is_file() and not path.is_symlink():
                self._file(path, target / name)

    def _file(self, path: Path, target: S3Uri) -> None:
        key = self._job.key
        self._objects.upload(key.account, key.region, path, target.bucket, target.key)
