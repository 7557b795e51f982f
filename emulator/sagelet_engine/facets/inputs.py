"""Checks whether this server has what a request names: images, buckets, objects, file systems, hosts."""

from sagelet_engine.model.file_systems import FileSystemSource, directory_of
from sagelet_engine.model.job import JobKey
from sagelet_engine.model.objects import ObjectNotFound, ObjectStore, S3Uri
from sagelet_engine.scheduling.image_choice import ImageChoice
from sagelet_engine.settings import Settings


class Inputs:
    def __init__(self, settings: Settings, objects: ObjectStore, images: ImageChoice) -> None:
        self._settings = settings
        self._objects = objects
        self._images = images

    @property
    def host_limit(self) -> int:
        """Returns the most hosts that one job can have."""
        return self._settings.host_limit

    def check_file_system(self, source: FileSystemSource) -> None:
        """Raises ClientFault if no directory stands in for the file system that a channel names."""
        directory_of(source, self._settings.file_systems)

    def has_objects(self, key: JobKey, uri: S3Uri) -> bool:
        """True if there is an object under an S3 prefix."""
        try:
            return any(True for _ in self._objects.list(key.account, key.region, uri.bucket, uri.key))
        except ObjectNotFound:
            return False

    def has_bucket(self, key: JobKey, uri: S3Uri) -> bool:
        """True if the bucket of an S3 URI exists and belongs to the account."""
        return self._objects.has_bucket(key.account, uri.bucket)

    def knows_image(self, uri: str) -> bool:
        """True if the image is known; see ImageChoice.is_known."""
        return self._images.is_known(uri)
