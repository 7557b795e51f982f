"""The object store of a server, and its two faces: REST, and the port that jobs use."""

from collections.abc import Mapping
from typing import Any

from sagelet_api.services.s3.context import Rest
from sagelet_api.services.s3.encryption import by_default
from sagelet_api.services.s3.service import S3Service
from sagelet_engine.clock import Clock
from sagelet_engine.errors import SettingsError
from sagelet_engine.s3.job_objects import JobObjectStore, plain
from sagelet_engine.s3.multipart import Uploads
from sagelet_engine.s3.records import StoredObject
from sagelet_engine.s3.store import S3Store
from sagelet_engine.settings import Settings


class S3:
    """`objects` for the engine, `wsgi` for clients."""

    def __init__(self, store: S3Store, rest: Rest) -> None:
        self.store = store
        self._rest = rest
        self.objects = JobObjectStore(store, self._tell, self._described)
        self.wsgi = S3Service(store, Uploads(store), rest).wsgi

    def recover(self) -> None:
        """See S3Store.recover."""
        self.store.recover()

    def close(self) -> None:
        self.store.close()

    def _described(self, bucket: str) -> Mapping[str, Any]:
        return {**plain(bucket), **by_default(self._rest, self.store.catalog.bucket(bucket))}

    def _tell(self, event: str, stored: StoredObject) -> None:
        self._rest.object_event(self.store.catalog.bucket(stored.bucket), stored, event)


def open_s3(settings: Settings, clock: Clock, rest: Rest) -> S3:
    """The store in the data directory. Raises SettingsError for a directory that cannot be made or written."""
    try:
        return S3(S3Store(settings.data / "s3", clock), rest)
    except OSError as error:
        raise SettingsError(f"--data {settings.data}: cannot be used as a directory: {error.strerror}") from error
