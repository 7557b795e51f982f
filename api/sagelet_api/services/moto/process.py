"""moto in this process. The first call that needs it loads it, once (0.5 s). Its backends come from here."""

import sys
import threading
from importlib import import_module
from typing import Any

from sagelet_api.services.moto.confined import confine
from sagelet_api.services.moto.dispatch import bind
from sagelet_engine.base.loading import LOADING


class MotoProcess:
    """`seeding` is held while an account's backend gets its first content."""

    def __init__(self) -> None:
        self.seeding = threading.Lock()
        self._app: Any = None
        #: The backends of each service that was asked for. `forget` empties them; they stay the same objects.
        self._backends: dict[str, Any] = {}

    @property
    def is_loaded(self) -> bool:
        """False until a call has needed moto. Until then nothing is set in it."""
        return self._app is not None

    def forget(self) -> None:
        """Empties every service of moto. Its state belongs to the process, and a server may not be the first in it."""
        if not self.is_loaded and "moto.core.base_backend" not in sys.modules:
            return
        with LOADING, self.seeding:
            import_module("moto.core.base_backend").BackendDict.reset()
            import_module("moto.core.model_instances").reset_model_data()

    def app(self) -> Any:
        """Returns moto's WSGI application."""
        with LOADING:
            if self._app is None:
                self._app = _load()
            return self._app

    def backend(self, service: str) -> Any:
        """Returns a service's backends, by account and region."""
        if (known := self._backends.get(service)) is not None:
            return known
        self.app()
        # Two threads that import two packages of moto at once may meet in a third and deadlock.
        with LOADING:
            return self._backends.setdefault(service, import_module("moto.backends").get_backend(service))

    def partition(self, region: str) -> str:
        """Returns the partition of a region: `aws`, `aws-cn`, ..."""
        self.app()
        return str(import_module("moto.utilities.utils").get_partition(region))


def _load() -> Any:
    # moto's WSGI module reads these once, when it loads. The request guard decides about CORS, and allows none.
    settings: Any = import_module("moto.settings")
    settings.DISABLE_GLOBAL_CORS = True
    confine()
    bind()
    moto_server = import_module("moto.moto_server.werkzeug_app")
    return moto_server.DomainDispatcherApplication(moto_server.create_backend_app)
