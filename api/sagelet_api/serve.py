"""A whole sagelet server: engine, API and listeners. The command line and tests start this."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sagelet_api.app import Application
from sagelet_api.auth.authentication import Authentication
from sagelet_api.auth.authorization import Authorization
from sagelet_api.auth.callers import Callers
from sagelet_api.auth.request_guard import RequestGuard
from sagelet_api.control.endpoints import control_app
from sagelet_api.control.throttling import Throttling
from sagelet_api.http.server import Server
from sagelet_api.services.lambda_functions import LambdaFunctions, LambdaRequests
from sagelet_api.services.local_calls import LocalCalls
from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.services.own_services import OwnServices
from sagelet_api.services.s3.opening import open_s3
from sagelet_api.services.sagemaker.state_events import StateEvents
from sagelet_api.web.app import web_app
from sagelet_api.web.sessions import Sessions
from sagelet_engine.base.clock import Clock, SystemClock
from sagelet_engine.base.loading import Late
from sagelet_engine.engine import Engine
from sagelet_engine.machine.runtimes import Choice, choose, for_functions
from sagelet_engine.model.job import Job
from sagelet_engine.settings import Settings
from sagelet_engine.state.contents import check_complete
from sagelet_engine.state.owner import lock_directory

if TYPE_CHECKING:
    from flask import Blueprint

    from sagelet_api.http.tls import Certificate
    from sagelet_api.hub.service import Hub
    from sagelet_api.web.site import Site
    from sagelet_engine.state.garbage import Garbage, Rules


class Sagelet:
    """A running server. Raises SageletError if a setting is wrong, the port is taken or the data directory is in use.

    Tests pass a `clock` that they turn by hand, and the `choice` of a runtime that uses it.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock | None = None,
        choice: Choice | None = None,
        on_reset: Callable[[str], None] | None = None,
    ) -> None:
        """`on_reset`: stops this server, empties its data directory and starts another server."""
        clock = clock or SystemClock()
        # This comes first: another process may be about to replace the directory, and hosts know the directory by its
        # id.
        lock = lock_directory(settings.data)
        try:
            check_complete(settings.data)
            self.choice: Choice = choice or choose(settings, clock)
            bridge = MotoBridge()
            authorization = Authorization(bridge.iam, enforce_iam=settings.enforce_iam)
            self._calls = LocalCalls(bridge.requests.wsgi, authorization)
            self._s3 = open_s3(settings, clock, bridge.beside_s3, authorization)
        except BaseException:
            lock.close()
            raise
        try:
            self.engine = Engine(
                settings,
                runtime=self.choice.runtime,
                objects=self._s3.objects,
                metrics=bridge.metrics,
                statuses=StateEvents(bridge.events),
                clock=clock,
                lock=lock,
                calls=self._calls,
                functions=LambdaFunctions(bridge.functions, lambda: self.engine.keys, authorization),
                authorize=authorization,
                function_runtime=for_functions(settings, self.choice.runtime, clock),
            )
        except BaseException:
            self._s3.close()
            lock.close()
            raise
        #: Hosts of jobs may use another name for this machine.
        reached_by = self.choice.runtime.endpoint_host
        self.sessions = Sessions(self.engine.keys)
        callers = Callers(self.engine.keys, self.engine.jobs, bridge.iam)
        authentication = Authentication(callers, authorization, everywhere=settings.auth)
        self.application = self._make_application(settings, bridge, reached_by, on_reset, authentication)
        extra = self._extra_hosts(settings)
        names = (settings.host, reached_by, *extra, *settings.allowed_hosts)
        certificate = _certificate(settings, names) if settings.tls else None
        self.server = Server(self.application, settings.host, settings.port, extra, certificate)
        self._settings, self._bridge = settings, bridge

    def _make_application(
        self,
        settings: Settings,
        bridge: MotoBridge,
        reached_by: str,
        on_reset: Callable[[str], None] | None,
        authentication: Authentication,
    ) -> Application:
        """The services of AWS and of sagelet behind one request guard."""
        throttling = Throttling()
        own = OwnServices(self.engine, bridge, settings)
        self._calls.serve(own.tables, throttling.check_making)
        hub = Late(lambda: self._make_hub(settings))
        return Application(
            RequestGuard((settings.host, reached_by, *self.choice.listen, *settings.allowed_hosts), authentication),
            control_app(self.engine, throttling, lambda: self._state_endpoints(settings, on_reset)),
            throttling.checks(),
            own.tables,
            LambdaRequests(
                bridge.requests.wsgi,
                self.engine.functions,
                self._s3.objects,
                bridge.functions,
                enforce_iam=settings.enforce_iam,
            ),
            routes=bridge.requests.route,
            protocols={"s3": self._s3.service},
            rest=own.rest,
            hub=lambda *request: hub()(*request),
            computing=self.engine.computing,
            pages=web_app(lambda: self._make_site(own)),
        )

    def _make_hub(self, settings: Settings) -> "Hub":
        from sagelet_api.hub.readers import JobReaders
        from sagelet_api.hub.service import Hub
        from sagelet_api.hub.upstream import NotAsked, RealHub, Upstream
        from sagelet_engine.hub.store import HubStore

        readers = JobReaders(self.engine.keys, self.engine.jobs.by_id, everywhere=settings.auth)
        upstream: RealHub = Upstream(settings.hub_upstream)
        if settings.offline:
            upstream = NotAsked("The real Hub was not asked, because the server runs with --offline")
        return Hub(HubStore(settings.data), readers, upstream)

    def _make_site(self, own: OwnServices) -> "Site":
        from sagelet_api.web.site import Site

        sagemaker = own.sagemaker()
        operations = (sagemaker.jobs, sagemaker.tuning, sagemaker.pipelines)
        return Site(self.engine, *operations, self._s3.store, self.sessions)

    def _state_endpoints(self, settings: Settings, on_reset: Callable[[str], None] | None) -> "Blueprint":
        from sagelet_api.control import state

        return state.blueprint(settings.data, on_reset, self._collect, self._empty)

    def start(self) -> int:
        """Opens the port, then adopts the unfinished jobs. Returns their number."""
        try:
            # Only after the engine has the data directory for itself.
            self._s3.recover()
            self.server.start()
        except BaseException:
            self.engine.close()
            self._s3.close()
            raise
        try:
            return self.engine.start(self.server.port)
        except BaseException:
            self.stop()
            raise

    def forget_others(self) -> None:
        """Empties moto's services, for a server that is not the first in its process."""
        self._bridge.process.forget()

    def stop(self) -> list[Job]:
        """Closes the port and releases the jobs. Returns the jobs that run on."""
        # Pages that wait for news would keep the port open.
        self.engine.changes.close()
        self.server.stop()
        try:
            return self.engine.close()
        finally:
            self._s3.close()

    def lost(self) -> str | None:
        """Returns why this server has lost the data directory, for people. None while it has it."""
        return self.engine.lost()

    def _collect(self, rules: "Rules", dry_run: bool) -> "Garbage":
        from sagelet_engine.hub.store import HubStore
        from sagelet_engine.state.garbage import collect_garbage

        return collect_garbage(self.engine, self._s3.store, HubStore(self._settings.data), rules, dry_run=dry_run)

    def _empty(self, account: str) -> tuple[int, int]:
        self._bridge.iam.forget(account)
        return self.engine.stop_all(account), self._s3.store.delete_buckets(account)

    def _extra_hosts(self, settings: Settings) -> tuple[str, ...]:
        """Returns further addresses for hosts of jobs. A server that listens everywhere needs none."""
        return () if settings.host in ("0.0.0.0", "::") else self.choice.listen


def _certificate(settings: Settings, names: Sequence[str]) -> "Certificate":
    from sagelet_api.http.tls import server_certificate

    return server_certificate(settings.data, names)
