"""Results of a job into S3: the model and the output directory. (Checkpoints: `checkpoints.py`.)"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from sagelet_engine.data import tarballs
from sagelet_engine.data.layout import HostDirectories, JobDirectories
from sagelet_engine.data.objects import ObjectNotFound, ObjectStore, S3Uri
from sagelet_engine.data.volume import GIB, measured
from sagelet_engine.errors import ClientFault
from sagelet_engine.jobs.record import TrainingJob

_CHUNK = 1024 * 1024
#: Bytes of a sparse directory that are uploaded whatever the volume is.
_MOST_HOLES = GIB


class Uploader:
    """Uploads what the hosts left. May be repeated: the same keys are written again."""

    def __init__(
        self, objects: ObjectStore, job: TrainingJob, directories: JobDirectories, *, with_report: bool = False
    ) -> None:
        self._with_report = with_report
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
            self._refuse_holes(host)
        self._merged("model", [host.model for host in hosts])
        # First, so that a file of that name that the script wrote is the one that stays.
        self._merged("output", [*self._reports(), *(host.output_data for host in hosts)])

    def _reports(self) -> list[Path]:
        """The compile report, for those who find their debug artifacts in output.tar.gz, too; not of a native job."""
        return [self._directories.report] if self._with_report else []

    def _refuse_links(self, host: HostDirectories) -> None:
        """Through such a link the container, which is root within, would read any file of this machine."""
        for directory in (host.model, host.output_data):
            if host.behind_link(directory):
                inner = directory.relative_to(host.opt_ml)
                raise ClientFault(
                    f"/opt/ml/{inner} is a symbolic link: make it a directory, sagelet does not follow it"
                )

    def _refuse_holes(self, host: HostDirectories) -> None:
        """Files with holes are packed whole: a petabyte of them takes no disk, and for ever to upload."""
        volume = int(self._job.request["ResourceConfig"].get("VolumeSizeInGB") or 0) * GIB
        for directory in (host.model, host.output_data):
            claimed, taken = measured(directory)
            if claimed > max(volume, taken, _MOST_HOLES):
                inner = directory.relative_to(host.opt_ml)
                raise ClientFault(
                    f"the files of /opt/ml/{inner} have {claimed} bytes, most of them holes; that is more than "
                    "VolumeSizeInGB: write no sparse files"
                )

    def _merged(self, name: str, hosts: list[Path]) -> None:
        directories = [directory for directory in hosts if directory.is_dir() and any(directory.iterdir())]
        if not directories:
            return
        target = S3Uri.parse(self._job.output_uri)
        if self._job.request["OutputDataConfig"].get("CompressionType") == "NONE":
            self._tree(directories, target / name)
            return
        with self._stream(target / f"{name}.tar.gz") as out:
            tarballs.pack(directories, out)

    def _tree(self, directories: list[Path], target: S3Uri) -> None:
        for name, path in tarballs.merged(directories):
            if path.is_file() and not path.is_symlink():
                self._file(name, path, target / name)

    def _file(self, name: str, path: Path, target: S3Uri) -> None:
        with self._stream(target) as out, tarballs.opened(name, path) as data:
            shutil.copyfileobj(data, out, _CHUNK)

    @contextmanager
    def _stream(self, target: S3Uri) -> Iterator[BinaryIO]:
        """An object that is written here, and only here. Raises ClientFault when there is no such bucket."""
        key = self._job.key
        try:
            with self._objects.create(key.account, key.region, target.bucket, target.key) as out:
                yield out
        except ObjectNotFound as error:
            raise ClientFault(f"Data upload failed:the bucket of {target} does not exist") from error
