"""Uploads the results of a job to S3: the model and the output directory. `directory_sync.py` uploads while it runs."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from sagelet_engine.base import tarballs
from sagelet_engine.base.errors import ClientFault
from sagelet_engine.base.key_names import LeftOut, makes_key
from sagelet_engine.base.volume import GIB, measured
from sagelet_engine.data.layout import HostDirectories, JobDirectories
from sagelet_engine.model.job import Job
from sagelet_engine.model.objects import ObjectNotFound, ObjectStore, S3Uri, batches
from sagelet_engine.model.training import TrainingJob

_CHUNK = 1024 * 1024
#: Bytes of a sparse directory that are always uploaded, whatever the volume's size.
_MOST_HOLES = GIB


class TreeUploader:
    """Uploads directories of a job's hosts, which may hold anything."""

    def __init__(self, objects: ObjectStore, job: Job) -> None:
        self._objects = objects
        self._job = job

    def check(self, host: HostDirectories, directory: Path) -> None:
        """Raises ClientFault for a directory that cannot be uploaded.

        One is a link: through it the container, which is root inside, would read any file of this machine. The other
        has too large holes. Files are packed with their holes: a petabyte of holes takes no disk, and would upload
        forever.
        """
        inner = directory.relative_to(host.opt_ml)
        if host.behind_link(directory):
            raise ClientFault(f"/opt/ml/{inner} is a symbolic link: make it a directory, sagelet does not follow it")
        claimed, taken, _ = measured(directory)
        if claimed > max(self._job.spec.volume_gib * GIB, taken, _MOST_HOLES):
            raise ClientFault(
                f"the files of /opt/ml/{inner} have {claimed} bytes, most of them holes; that is more than "
                "VolumeSizeInGB: write no sparse files"
            )

    def tree(self, directories: list[Path], target: S3Uri, left_out: LeftOut) -> None:
        """Uploads a tree: small files in batches, others alone, all in the order of their names."""
        found: dict[str, Path] = {}
        for name, path in tarballs.merged(directories, left_out.add):
            if not path.is_file() or path.is_symlink():
                continue
            if makes_key((target / name).key):
                found[name] = path
            else:
                left_out.add(name)
        key = self._job.key
        for names in batches((name, path.stat().st_size) for name, path in found.items()):
            with self._bucket_there(target), self._objects.batch(key.account, key.region, target.bucket) as batch:
                for name in names:
                    with batch.create((target / name).key) as out, tarballs.opened(name, found[name]) as data:
                        shutil.copyfileobj(data, out, _CHUNK)

    @contextmanager
    def stream(self, target: S3Uri) -> Iterator[BinaryIO]:
        """Writes an object while the block lasts. Raises ClientFault if there is no such bucket."""
        key = self._job.key
        with (
            self._bucket_there(target),
            self._objects.create(key.account, key.region, target.bucket, target.key) as out,
        ):
            yield out

    @contextmanager
    def _bucket_there(self, target: S3Uri) -> Iterator[None]:
        try:
            yield
        except ObjectNotFound as error:
            raise ClientFault(f"Data upload failed:the bucket of {target} does not exist") from error


class Uploader(TreeUploader):
    """Uploads what the hosts of a training job left. May be repeated: the same keys are written again."""

    def __init__(
        self, objects: ObjectStore, job: TrainingJob, directories: JobDirectories, *, with_report: bool = False
    ) -> None:
        super().__init__(objects, job)
        self._training_job = job
        self._with_report = with_report
        self._directories = directories

    def upload(self) -> list[str]:
        """Uploads the hosts' directories as one. If names clash, the last host's file counts. An empty directory leaves
        no object.

        Returns warnings for the job's log.

        AWS says that it aggregates them and that names must not clash (dev guide, "How Amazon SageMaker AI Processes
        Training Output"). That the last host wins is sagelet's choice.
        """
        hosts = [self._directories.host(name) for name in self._job.hosts]
        for host in hosts:
            for directory in (host.model, host.output_data):
                self.check(host, directory)
        warnings = self._merged("model", "/opt/ml/model", [host.model for host in hosts])
        # First in the list, so that the script's own file of the same name wins.
        outputs = [*self._reports(), *(host.output_data for host in hosts)]
        return warnings + self._merged("output", "/opt/ml/output/data", outputs)

    def _reports(self) -> list[Path]:
        """Returns the directory of the compile report, for those who look for debug artifacts in output.tar.gz. Empty
        for a native job.
        """
        return [self._directories.report] if self._with_report else []

    def _merged(self, name: str, where: str, hosts: list[Path]) -> list[str]:
        left_out = LeftOut(where)
        directories = [directory for directory in hosts if directory.is_dir() and any(directory.iterdir())]
        if not directories:
            return []
        target = S3Uri.parse(self._training_job.output_uri)
        if not self._training_job.output.compressed:
            self.tree(directories, target / name, left_out)
        else:
            with self.stream(target / f"{name}.tar.gz") as out:
                tarballs.pack(directories, out, left_out.add)
        return left_out.tell()
