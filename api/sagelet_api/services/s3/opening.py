"""The object store of a server and its two interfaces: the port that jobs use, and S3's API."""

from typing import TYPE_CHECKING

from sagelet_engine.base.clock import Clock
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.base.loading import Late
from sagelet_engine.model.principal import Authorize
from sagelet_engine.s3.job_objects import JobObjectStore
from sagelet_engine.s3.store import S3Store
from sagelet_engine.settings import Settings

if TYPE_CHECKING:
    from sagelet_api.services.s3.context import OtherServices
    from sagelet_api.services.s3.service import S3Service


class S3:
    """`objects` for the engine, `service` for clients, which the first of them loads."""

    def __init__(self, store: S3Store, others: "OtherServices", authorize: Authorize) -> None:
        def service() -> "S3Service":
            from sagelet_api.services.s3.service import S3Service

            return S3Service(store, others)

        self.store = store
        self.service = Late(service)
        self.objects = JobObjectStore(
            store,
            authorize,
            lambda event, bucket, stored: self.service().tell(event, bucket, stored),
            lambda bucket: self.service().described(bucket),
        )

    def recover(self) -> None:
        """Completes and cleans up after a crash; see S3Store.recover."""
        self.store.recover()

    def close(self) -> None:
        self.store.close()


def open_s3(settings: Settings, clock: Clock, others: "OtherServices", authorize: Authorize) -> S3:
    """Returns the store of the data directory. `authorize`: asked for each access of a job.

    Raises SettingsError for a directory that cannot be made or written.
    """
    try:
        return S3(S3Store(settings.data / "s3", clock), others, authorize)
    except OSError as error:
        raise SettingsError(f"--data {settings.data}: cannot be used as a directory: {error.strerror}") from error
