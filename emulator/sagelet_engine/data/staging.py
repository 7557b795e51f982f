"""Puts input data into /opt/ml before the hosts start: channels in File mode, checkpoints, an isolated job's source."""

import shutil
import tarfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from sagelet_engine.base import tarballs
from sagelet_engine.base.errors import ClientFault
from sagelet_engine.base.volume import GIB, room
from sagelet_engine.data.channels import file_mode
from sagelet_engine.data.channels.sources import JobObjects, Listing
from sagelet_engine.data.file_systems import directory_of
from sagelet_engine.data.layout import HostDirectories
from sagelet_engine.data.removal import DirectoryStays, remove_tree
from sagelet_engine.model.acting import of_job
from sagelet_engine.model.file_systems import NO_FILE_SYSTEMS
from sagelet_engine.model.objects import ObjectDamaged, ObjectNotFound, ObjectStore, S3Uri
from sagelet_engine.model.principal import NotAuthorized
from sagelet_engine.model.spec import Channel, CheckpointSpec, InputMode
from sagelet_engine.model.training import TrainingJob


class Stager:
    """Stages one job's inputs. Every method may be repeated: it starts with an empty directory."""

    def __init__(
        self,
        objects: ObjectStore,
        job: TrainingJob,
        job_objects: JobObjects | None = None,
        file_systems: Mapping[str, Path] = NO_FILE_SYSTEMS,
        *,
        protected: bool = False,
    ) -> None:
        self._objects = objects
        self._job = job
        self._file_systems = file_systems
        #: True if the runtime keeps the training code from writing to FastFile channels.
        self._protected = protected
        self._job_objects = job_objects or JobObjects(objects, job)

    def stage(self, host: HostDirectories) -> None:
        """Downloads everything that the host finds in /opt/ml. Raises ClientFault if an input is missing."""
        with suppress(DirectoryStays):
            remove_tree(host.opt_ml)
        host.create()
        name = host.root.name
        for channel in self._job.spec.channels_for(name):
            self._channel(channel, name, host)
        if self._job.spec.checkpoint is not None:
            self._checkpoints(self._job.spec.checkpoint, host)
        self._source(host.opt_ml / "code")

    def _channel(self, channel: Channel, name: str, host: HostDirectories) -> None:
        if channel.file_system is not None:
            directory_of(channel.file_system, self._file_systems)
            # The runtime mounts the directory there. Nothing is copied.
            (host.channels / channel.name).mkdir()
        elif channel.mode is not InputMode.PIPE:
            hosts = self._job.spec.receivers(channel)
            place = hosts.index(name), len(hosts)
            file_mode.stage(self._job_objects, channel, host.channels, *place, protected=self._protected)

    def _checkpoints(self, checkpoint: CheckpointSpec, host: HostDirectories) -> None:
        target = checkpoint_directory(host, checkpoint)
        target.mkdir(parents=True, exist_ok=True)
        uri = checkpoint.prefix
        found = list(self._job_objects.under(uri))
        # A URI without a slash at its end also brings other directories, whose files do not take the place of its own.
        own = {one.relative for one in found if one.uri.key.startswith(checkpoint.target.key)}
        found = [one for one in found if one.relative not in own or one.uri.key.startswith(checkpoint.target.key)]
        file_mode.place(self._job_objects, uri, found, target)
        file_mode.write_manifest(host.channels, "checkpoints", Listing(uri.key, found))

    def _source(self, code: Path) -> None:
        """Unpacks the source archive. The toolkit takes a filled code directory as it is.

        So a training job does not need its endpoint any more, and a server may die and come back meanwhile. A missing
        or damaged archive, or one that the role may not read, is left to the toolkit. It complains as on AWS, unless it
        could not reach S3.
        """
        submitted = self._job.spec.source
        if not submitted.startswith("s3://"):
            return
        uri = S3Uri.parse(submitted)
        archive = code.parent / "sourcedir.tar.gz"
        try:
            self._objects.download(of_job(self._job), uri.bucket, uri.key, archive)
            most = self._most_source(code.parent)
            tarballs.unpack(archive, code, most)
        except tarballs.TooLarge as error:
            shutil.rmtree(code)
            raise ClientFault(
                f"Data download failed:source archive {uri} unpacks to more than {most} bytes, which is what "
                "VolumeSizeInGB and the disk of the data directory have room for"
            ) from error
        except ObjectDamaged as error:
            raise ClientFault(f"Data download failed:{error}") from error
        except (ObjectNotFound, NotAuthorized, tarfile.TarError) as error:
            if self._job.spec.network_isolation:
                raise ClientFault(f"Data download failed:source archive {uri}: {error}") from error
            shutil.rmtree(code)
            code.mkdir()
        finally:
            archive.unlink(missing_ok=True)

    def _most_source(self, place: Path) -> int:
        """Returns the bytes that the source may take: those of the volume, and of the disk without its reserve."""
        left = room(place).for_jobs
        volume = self._job.spec.volume_gib * GIB
        return min(volume, left) if volume else left


def checkpoint_directory(host: HostDirectories, checkpoint: CheckpointSpec) -> Path:
    """Returns CheckpointConfig.LocalPath on this side of the mount. Raises ClientFault."""
    return host.opt_ml.joinpath(*checkpoint.path())
