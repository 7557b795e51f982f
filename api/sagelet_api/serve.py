"""A whole sagelet server: engine, API and listeners. The command line and tests start this."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sagelet_api.app import Application
from sagelet_api.auth.authentication import Authentication
from sagelet_api.auth.authorization import Authorization
from sagelet_api.auth.callers import Callers
from sagelet_api.auth.request_guard import RequestGuard
from sagelet_api.control.endpoints import ControlApp
from sagelet_api.control.throttling import Throttling
from sagelet_api.http.server import Server
from sagelet_api.services.lambda_functions import LambdaFunctions, LambdaRequests
from sagelet_api.services.local_calls import LocalCalls
from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.services.own_services import OwnServices
from sagelet_api.services.s3.opening import open_s3
from sagelet_api.services.sagemaker.state_events import StateEvents
from sagelet_api.web.app import WebApp
from sagelet_api.web.sessions import Sessions
from sagelet_engine.base.clock import Clock, SystemClock
from sagelet_engine.base.loading import Late
from sagelet_engine.engine import Engine
from sagelet_engine.machine.runtimes import Choice, choose, for_functions
from sagelet_engine.model.job import Job
from sagelet_engine.model.objects import ObjectStore
from sagelet_engine.model.principal import Authorize
from sagelet_engine.settings import Settings
from sagelet_engine.state.contents import check_complete
from sagelet_engine.state.owner import lock_directory

if TYPE_CHECKING:
    from flask import Blueprint

    from sagelet_api.http.tls import Certificate
    from sagelet_api.hub.service import Hub
    from sagelet_api.web.site import Site
    from sagelet_engine.state.garbage import Garbage, Rules


@dataclass(frozen=True)
class Surroundings:
    """What a server works with: time, hosts of jobs, AWS's other services, objects of jobs, and a port.

    Tests put simulated ones here.
    """

    clock: Clock = field(default_factory=SystemClock)
    #: The runtime of the jobs. None: the settings choose it.
    choice: Choice | None = None
    #: What it holds is shared by the servers of a process.
    bridge: MotoBridge = field(default_factory=MotoBridge)
    #: Returns the objects of jobs, which ask what each principal may do. None: the objects of the S3 API.
    objects: Callable[[Authorize], ObjectStore] | None = None
    server: type[Server] = Server


class Sagelet:
    """A running server.

    Raises SageletError if a setting is wrong, the port is taken or the data directory is in use.
    """

    def __init__(
        self,
        settings: Settings,
        surroundings: Surroundings | None = None,
        on_reset: Callable[[str], None] | None = None,
    ) -> None:
        """`on_reset`: stops this server, empties its data directory and starts another server."""
        outside = surroundings or Surroundings()
        clock, bridge = outside.clock, outside.bridge
        self._settings, self._bridge = settings, bridge
        with ExitStack() as undo:
            # This comes first: another process may be about to replace the directory, and hosts know the directory by
            # its id.
            lock = lock_directory(settings.data)
            undo.callback(lock.close)
            check_complete(settings.data)
            self.choice: Choice = outside.choice or choose(settings, clock)
            authorization = Authorization(bridge.iam, enforce_iam=settings.enforce_iam)
            self._calls = LocalCalls(bridge.requests.wsgi, authorization)
            #: Objects, for clients.
            self.s3 = open_s3(settings, clock, bridge.beside_s3, authorization)
            undo.callback(self.s3.close)
            self._objects = outside.objects(authorization) if outside.objects else self.s3.objects
            self.engine = Engine(
                settings,
                runtime=self.choice.runtime,
                objects=self._objects,
                metrics=bridge.metrics,
                statuses=StateEvents(bridge.events),
                clock=clock,
                lock=lock,
                calls=self._calls,
                functions=LambdaFunctions(bridge.functions, lambda: self.engine.keys, authorization),
                authorize=authorization,
                function_runtime=for_functions(settings, self.choice.runtime, clock),
            )
            undo.callback(self.engine.close)
            #: Hosts of jobs may use another name for this machine.
            reached_by = self.choice.runtime.endpoint_host
            self.sessions = Sessions(self.engine.keys)
            self._throttling = Throttling()
            #: sagelet's own operations.
            self.own = OwnServices(self.engine, bridge, settings)
            self._calls.serve(self.own.tables, self._throttling.check_making)
            self.pages = WebApp(self._make_site)
            self.control = ControlApp(self.engine, self._throttling, lambda: self._state_endpoints(on_reset))
            callers = Callers(self.engine.keys, self.engine.jobs, bridge.iam)
            authentication = Authentication(callers, authorization, everywhere=settings.auth)
            self.application = self._make_application(reached_by, authentication)
            extra = self._extra_hosts(settings)
            names = (settings.host, reached_by, *extra, *settings.allowed_hosts)
            certificate = _certificate(settings, names) if settings.tls else None
            self.server = outside.server(self.application, settings.host, settings.port, extra, certificate)
            undo.pop_all()

    def _make_application(self, reached_by: str, authentication: Authentication) -> Application:
        """The services of AWS and of sagelet behind one request guard."""
        settings, bridge = self._settings, self._bridge
        hub = Late(self._make_hub)
        return Application(
            RequestGuard((settings.host, reached_by, *self.choice.listen, *settings.allowed_hosts), authentication),
            self.control,
            self._throttling.checks(),
            self.own.tables,
            LambdaRequests(
                bridge.requests.wsgi,
                self.engine.functions,
                self._objects,
                bridge.functions,
                enforce_iam=settings.enforce_iam,
            ),
            routes=bridge.requests.route,
            protocols={"s3": self.s3.service},
            rest=self.own.rest,
            hub=lambda *request: hub()(*request),
            computing=self.engine.computing,
            pages=self.pages,
        )

    def _make_hub(self) -> "Hub":
        from sagelet_api.hub.readers import JobReaders
        from sagelet_api.hub.service import Hub
        from sagelet_api.hub.upstream import NotAsked, RealHub, Upstream
        from sagelet_engine.hub.store import HubStore

        settings = self._settings
        readers = JobReaders(self.engine.keys, self.engine.jobs.by_id, everywhere=settings.auth)
        upstream: RealHub = Upstream(settings.hub_upstream)
        if settings.offline:
            upstream = NotAsked("The real Hub was not asked, because the server runs with --offline")
        return Hub(HubStore(settings.data), readers, upstream)

    def _make_site(self) -> "Site":
        from sagelet_api.web.site import Site

        sagemaker = self.own.sagemaker()
        operations = (sagemaker.jobs, sagemaker.tuning, sagemaker.pipelines)
        return Site(self.engine, *operations, self.s3.store, self.sessions)

    def _state_endpoints(self, on_reset: Callable[[str], None] | None) -> "Blueprint":
        from sagelet_api.control import state

        return state.blueprint(self._settings.data, on_reset, self._collect, self._empty)

    def start(self) -> int:
        """Opens the port, then adopts the unfinished jobs. Returns their number."""
        try:
            # Only after the engine has the data directory for itself.
            self.s3.recover()
            self.server.start()
        except BaseException:
            self.engine.close()
            self.s3.close()
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
            self.s3.close()

    def lost(self) -> str | None:
        """Returns why this server has lost the data directory, for people. None while it has it."""
        return self.engine.lost()

    def _collect(self, rules: "Rules", dry_run: bool) -> "Garbage":
        from sagelet_engine.hub.store import HubStore
        from sagelet_engine.state.garbage import collect_garbage

        return collect_garbage(self.engine, self.s3.store, HubStore(self._settings.data), rules, dry_run=dry_run)

    def _empty(self, account: str) -> tuple[int, int]:
        self._bridge.iam.forget(account)
        return self.engine.stop_all(account), self.s3.store.delete_buckets(account)

    def _extra_hosts(self, settings: Settings) -> tuple[str, ...]:
        """Returns further addresses for hosts of jobs. A server that listens everywhere needs none."""
        return () if settings.host in ("0.0.0.0", "::") else self.choice.listen


def _certificate(settings: Settings, names: Sequence[str]) -> "Certificate":
    from sagelet_api.http.tls import server_certificate

    return server_certificate(settings.data, names)
