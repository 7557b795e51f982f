"""Uploads the results of a job to S3: the model and the output directory. `directory_sync.py` uploads while it runs."""

import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import BinaryIO, NamedTuple

from sagelet_engine.base import nofollow, tarballs
from sagelet_engine.base.errors import ClientFault
from sagelet_engine.base.inner_links import Budget, InnerLinks
from sagelet_engine.base.key_names import LeftOut, Why, makes_key
from sagelet_engine.base.left_on_node import left_below
from sagelet_engine.base.volume import GIB, measured
from sagelet_engine.data.layout import HostDirectories, JobDirectories
from sagelet_engine.model import aws_texts
from sagelet_engine.model.acting import of_job
from sagelet_engine.model.job import Job
from sagelet_engine.model.objects import ObjectNotFound, ObjectStore, S3Uri, batches
from sagelet_engine.model.principal import NotAuthorized
from sagelet_engine.model.training import TrainingJob

_CHUNK = 1024 * 1024
#: Bytes of a sparse directory that are always uploaded, whatever the volume's size.
_MOST_HOLES = GIB


class _File(NamedTuple):
    """An ordinary file of a job, below a directory."""

    root: Path
    parts: tuple[str, ...]
    size: int

    def open(self) -> BinaryIO:
        return nofollow.open_file(self.root, self.parts)

    def is_readable(self) -> bool:
        try:
            with self.open():
                return True
        except PermissionError:
            return False


class TreeUploader:
    """Uploads directories of a job's hosts, which may hold anything."""

    def __init__(self, objects: ObjectStore, job: Job) -> None:
        self._objects = objects
        self._principal = of_job(job)
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

    def tree(self, directories: list[Path], target: S3Uri, left_out: LeftOut, names: Sequence[str]) -> None:
        """Uploads a tree: small files in batches, others alone, all in the order of their names.

        What a link names in the same directory goes under the link's name. `names`: paths under which scripts know the
        directory.
        """
        files: dict[str, _File] = {}
        for name, file in self._files(directories, left_out, names):
            if not makes_key((target / name).key):
                left_out.add(name)
            elif not file.is_readable():
                left_out.add(name, Why.UNREADABLE)
            else:
                files[name] = file
        for batch_names in batches((name, files[name].size) for name in sorted(files)):
            with self._bucket_there(target), self._objects.batch(self._principal, target.bucket) as batch:
                for name in batch_names:
                    with batch.create((target / name).key) as out, files[name].open() as data:
                        shutil.copyfileobj(data, out, _CHUNK)

    def _files(self, directories: list[Path], left_out: LeftOut, names: Sequence[str]) -> Iterator[tuple[str, "_File"]]:
        budget = Budget(max(self._job.spec.volume_gib * GIB, _MOST_HOLES))
        for name, path in tarballs.merged(directories, left_out.add):
            mode = path.lstat().st_mode
            parts = PurePath(name).parts
            root = path.parents[len(parts) - 1]
            if stat.S_ISREG(mode):
                yield name, _File(root, parts, path.lstat().st_size)
            elif stat.S_ISLNK(mode):
                links = InnerLinks(root, (*names, str(root)), budget, left_out.add)
                yield from ((one.name, _File(root, one.parts, one.status.st_size)) for one in links.files(parts))
            elif not stat.S_ISDIR(mode):
                left_out.add(name, Why.SPECIAL)

    @contextmanager
    def stream(self, target: S3Uri) -> Iterator[BinaryIO]:
        """Writes an object while the block lasts. Raises ClientFault without the bucket, or without the right."""
        with (
            self._bucket_there(target),
            self._objects.create(self._principal, target.bucket, target.key) as out,
        ):
            yield out

    @contextmanager
    def _bucket_there(self, target: S3Uri) -> Iterator[None]:
        try:
            yield
        except ObjectNotFound as error:
            raise ClientFault(f"Data upload failed:the bucket of {target} does not exist") from error
        except NotAuthorized as error:
            raise ClientFault(aws_texts.upload_denied(target, str(error))) from error


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
        warnings = self._merged("model", PurePath("model"), hosts, [])
        # The reports are first in the list, so that the script's own file of the same name wins.
        return warnings + self._merged("output", PurePath("output/data"), hosts, self._reports())

    def _reports(self) -> list[Path]:
        """Returns the directory of the compile report, for those who look for debug artifacts in output.tar.gz. Empty
        for a native job.
        """
        return [self._directories.report] if self._with_report else []

    def _merged(self, name: str, inner: PurePath, hosts: list[HostDirectories], before: list[Path]) -> list[str]:
        """Uploads the directory `inner` of the hosts' /opt/ml, after those of `before`."""
        where = f"/opt/ml/{inner}"
        left_out = LeftOut(where)
        for host in hosts:
            left_out.add_all(left_below(host.run, inner))
        there = [*before, *(host.opt_ml / inner for host in hosts)]
        directories = [directory for directory in there if directory.is_dir() and any(directory.iterdir())]
        if directories:
            target = S3Uri.parse(self._training_job.output_uri)
            if not self._training_job.output.compressed:
                self.tree(directories, target / name, left_out, [where])
            else:
                with self.stream(target / f"{name}.tar.gz") as out:
                    tarballs.pack(directories, out, left_out.add)
        return left_out.tell()
