"""The docker runtime: one hardened container for each host. `networks.py` has their networks.

The state of a host is in Docker: labels find it, `inspect` observes it, and Docker's log holds what it printed.
"""

import fcntl
import logging
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cached_property

import docker
from docker.errors import APIError, DockerException, NotFound
from requests import Response
from requests.exceptions import JSONDecodeError, RequestException
from urllib3.exceptions import HTTPError

from sagelet_engine.base.clock import Clock
from sagelet_engine.base.errors import ClientFault, OutputTooLong, RuntimeUnavailable
from sagelet_engine.base.failpoints import Failpoint, failpoint
from sagelet_engine.model.runtime import SCRATCH, Capabilities, Handle, HostPlan, LaunchPlan, Line, Observation, Usage
from sagelet_engine.runtimes.docker import podman, refusals, spec
from sagelet_engine.runtimes.docker import stream as docker_stream
from sagelet_engine.runtimes.docker.engine import DockerAnswer, DockerFacts, facts, probe, usage
from sagelet_engine.runtimes.docker.log import FrameParser, LineAssembler, as_since, nanoseconds
from sagelet_engine.runtimes.docker.networks import NO_NETWORK, JobNetworks
from sagelet_engine.runtimes.docker.stream import ByteRelay
from sagelet_engine.runtimes.lost_hosts import is_deleted
from sagelet_engine.runtimes.node import confinement
from sagelet_engine.runtimes.node.confinement import NO_EXCEPTIONS, Exceptions
from sagelet_engine.runtimes.node.output import HEARTBEAT_S, MAX_BATCH
from sagelet_engine.settings import DEFAULT_LOG

__all__ = ["DockerFacts", "DockerRuntime", "probe"]

log = logging.getLogger(__name__)
CONNECT_TIMEOUT_S = 10.0
CONFLICT = 409
#: Seconds between two looks at a log that cannot be followed, and at least this many times what one look takes.
POLL_S, POLL_SHARE = 0.2, 3
#: The beginning of the start time that Docker reports for a container that was never started.
NEVER = "0001-01-01"


@contextmanager
def _answering() -> Iterator[None]:
    """Turns Docker's errors into sagelet's.

    If a caller handles an error itself (NotFound, a conflict), it catches the error inside this context.
    """
    try:
        yield
    except (DockerException, RequestException) as error:
        raise RuntimeUnavailable(f"Docker: {_explanation(error)}. Is the daemon running and in order?") from error


@contextmanager
def _one_at_a_time(plan: LaunchPlan) -> Iterator[None]:
    """Makes launches of one job wait for each other, in all processes: Docker allows two networks of one name."""
    directory = plan.hosts[0].run_dir
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "launch.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _explanation(error: Exception) -> str:
    return str(getattr(error, "explanation", None) or error).rstrip(".")


class DockerRuntime:
    """Runs hosts as containers. Servers may share one engine: each sees only the containers of its `owner`.

    `owner`: the data directory's id. `data`: its path, for people.
    """

    name = "docker"
    cluster = None
    #: The engine makes the mounts, and a container without capabilities cannot change them.
    capabilities = Capabilities(
        "`sagelet image build --variant cu13`, or cu12 for a driver older than 580", binds_read_only=True
    )
    awaits_time = True

    def __init__(
        self,
        client: docker.DockerClient,
        owner: str,
        clock: Clock,
        exceptions: Exceptions = NO_EXCEPTIONS,
        log_bytes: int = DEFAULT_LOG,
        *,
        data: str = "",
    ) -> None:
        self._exceptions = exceptions
        self._log_bytes = log_bytes
        self._may_limit_storage = True
        self._client = client
        self._api = client.api
        self._owner = owner
        self._data = data
        #: By container: why Podman could not start its command. Podman does not keep it.
        self._not_started: dict[str, Observation] = {}
        self._clock = clock
        self._facts: DockerFacts | None = None

    def facts(self) -> DockerFacts:
        """Returns facts about the engine. Raises RuntimeUnavailable if it does not answer."""
        if self._facts is None:
            with _answering():
                self._facts = facts(self._client)
        return self._facts

    @property
    def endpoint_host(self) -> str:
        return spec.PODMAN_HOST_GATEWAY if self.facts().podman else spec.HOST_GATEWAY

    @cached_property
    def _networks(self) -> JobNetworks:
        return self._networks_of(self._owner)

    def _networks_of(self, owner: str) -> JobNetworks:
        kind = podman.PodmanNetworks if self.facts().podman else JobNetworks
        return kind(self._api, owner)

    def has_image(self, reference: str) -> bool:
        with _answering():
            try:
                self._client.images.get(reference)
            except NotFound:
                return False
        return True

    def launch(self, plan: LaunchPlan) -> list[Handle]:
        """See the port. Raises ClientFault if the image is not on this machine: images are never pulled."""
        with _answering(), _one_at_a_time(plan):
            return self._launch(plan)

    def _launch(self, plan: LaunchPlan) -> list[Handle]:
        """Launches a job. The caller holds the lock of `_one_at_a_time`."""
        known = {handle.host: handle.ref for handle in self.find(plan.job_id)}
        if any(host.name not in known for host in plan.hosts) and not self.has_image(plan.image):
            raise ClientFault(
                f"The image {plan.image} is not on this machine, and sagelet pulls none. "
                f"Load or build it: docker pull, docker load, or sagelet image build."
            )
        if self.facts().podman and any(host.gpu_uuids for host in plan.hosts):
            # Podman would drop the request without a word, and the job would train on the CPU.
            raise ClientFault(
                "Podman's Docker API gives containers no GPUs. Use a Docker Engine, or `sagelet up --runtime process`"
            )
        try:
            network, addresses = self._networks.join(plan)
            failpoint(Failpoint.BEFORE_HOST)
            return [
                self._launch_host(host, known.get(host.name) or self._created(plan, host, network, addresses))
                for host in plan.hosts
            ]
        except Exception:
            self._networks.remove(plan.job_id)
            raise

    def find(self, job_id: str) -> list[Handle]:
        with _answering():
            handles = [self._handle(found["Id"]) for found in self._containers(job_id)]
        return sorted((handle for handle in handles if handle is not None), key=lambda handle: handle.host)

    def jobs(self) -> set[str]:
        with _answering():
            listed = self._api.containers(all=True, filters=spec.as_filters({spec.OWNER: self._owner}))
            return {container["Labels"][spec.JOB_ID] for container in listed} | self._networks.jobs()

    def end_lost(self, *, dry_run: bool = False) -> list[str]:
        with _answering():
            listed = self._api.containers(filters={"label": [spec.OWNER, spec.JOB_ID]})
            lost = [one for one in listed if self._is_lost(one["Id"])]
            for one in () if dry_run else lost:
                with suppress(NotFound):
                    self._api.remove_container(one["Id"], force=True, v=True)
                self._networks_of(one["Labels"][spec.OWNER]).remove(one["Labels"][spec.JOB_ID])
        return [f"container {one['Names'][0].lstrip('/')}, whose data directory was deleted" for one in lost]

    def _is_lost(self, container: str) -> bool:
        """True if a container's /opt/ml was deleted. Its process shows that, so the engine must be on this machine."""
        with suppress(NotFound):
            pid = self._api.inspect_container(container)["State"]["Pid"]
            return bool(pid) and is_deleted(f"/proc/{pid}/root/opt/ml")
        return False

    def observe(self, handle: Handle) -> Observation:
        with _answering():
            try:
                state = self._api.inspect_container(handle.ref)["State"]
            except NotFound:
                return Observation(running=False, error=f"the container of {handle.host} was removed from outside")
        if state["Status"] == "created" and handle.ref in self._not_started:
            return self._not_started[handle.ref]
        return observation(state)

    def usage(self, handle: Handle) -> Usage | None:
        if not self.facts().has_cgroups:
            return None
        with _answering():
            try:
                # One shot: Docker takes no second sample. (Docker 20.10 waits up to a second for its own next one.)
                return usage(self._api.stats(handle.ref, stream=False, one_shot=True))
            except (NotFound, JSONDecodeError):  # Podman answers with nothing for a host that does not run
                return None

    def lines(self, handle: Handle, position: str | None) -> Iterator[list[Line]]:
        return self._polled(handle, position) if self.facts().podman else self._followed(handle, position)

    def _followed(self, handle: Handle, position: str | None) -> Iterator[list[Line]]:
        assembler = LineAssembler(position)
        self._check_output(handle, assembler)
        response = self._open_log(handle, assembler.since_ns, follow=True)
        if response is None:
            return
        with closing(response):
            for lines in self._batches(response, assembler):
                yield lines
                self._check_output(handle, assembler)
        # The stream also ends when the daemon ends. The next follower then reads an unfinished line again.
        if not self.observe(handle).running and (last := list(assembler.flush())):
            yield last

    def _polled(self, handle: Handle, position: str | None) -> Iterator[list[Line]]:
        """Reads what is there, again and again.

        Podman's own way to follow drops lines, also in the middle, if much is still unread when the container ends.
        """
        ended = False
        while not ended:
            ended = not self.observe(handle).running
            assembler, began = LineAssembler(position), time.monotonic()
            self._check_output(handle, assembler)
            # Podman gives what is later than that time, and Docker also what is of that time.
            response = self._open_log(handle, max(assembler.since_ns - 1, 0), follow=False)
            if response is None:
                return
            with closing(response):
                for lines in self._batches(response, assembler):
                    yield lines
                    position = lines[-1].position if lines else position
                    self._check_output(handle, assembler)
            # Podman reads the whole log each time.
            pause = 0.0 if ended else max(POLL_S, POLL_SHARE * (time.monotonic() - began))
            while pause > 0:
                yield []
                time.sleep(min(pause, HEARTBEAT_S))
                pause -= HEARTBEAT_S
        if not self.observe(handle).running and (last := list(assembler.flush())):
            yield last

    def _check_output(self, handle: Handle, assembler: LineAssembler) -> None:
        if assembler.printed > self._log_bytes:
            raise OutputTooLong(
                f"{handle.host} has printed more than {self._log_bytes // 1024**2} MiB, which is all that is kept of "
                "a host's output. Print less, or start sagelet with a larger --log-size"
            )

    def stop(self, handle: Handle, *, force: bool = False) -> None:
        with _answering():
            try:
                self._api.kill(handle.ref, "SIGKILL" if force else "SIGTERM")
            except APIError:
                # For a host that has ended Docker answers 409, and Podman 500.
                if self.observe(handle).running:
                    raise

    def reap(self, job_id: str) -> None:
        with _answering():
            for container in self._containers(job_id):
                with suppress(NotFound):
                    self._api.remove_container(container["Id"], force=True, v=True)
            failpoint(Failpoint.BEFORE_REAP)
            self._networks.remove(job_id)

    def _containers(self, job_id: str) -> list[DockerAnswer]:
        filters = spec.as_filters(spec.job_labels(job_id, self._owner))
        return list(self._api.containers(all=True, filters=filters))

    def _handle(self, container: str) -> Handle | None:
        try:
            facts = self._api.inspect_container(container)
        except NotFound:
            return None
        began = facts["State"]["StartedAt"]
        started = facts["Created"] if began.startswith(NEVER) else began
        labels = facts["Config"]["Labels"]
        return Handle(labels[spec.HOST], facts["Id"], nanoseconds(started) // 1_000_000)

    def _launch_host(self, host: HostPlan, container: str) -> Handle:
        failpoint(Failpoint.AFTER_CONTAINER)
        if self._api.inspect_container(container)["State"]["Status"] == "created":
            self._start(container, host.name)
            failpoint(Failpoint.AFTER_HOST)
        handle = self._handle(container)
        if handle is None:
            raise RuntimeUnavailable(f"the container of {host.name} was removed while it started")
        return handle

    def _start(self, container: str, host: str) -> None:
        try:
            self._api.start(container)
        except APIError as error:
            # If the command cannot be executed, the host has ended and Docker has not failed: `observe` reports it.
            if self._api.inspect_container(container)["State"]["Error"]:
                return
            code = podman.exit_code(_explanation(error)) if self.facts().podman else None
            if code is None:
                if refusals.is_refusal(error):
                    raise refusals.refused(host, _explanation(error)) from error
                raise
            self._not_started[container] = Observation(False, code, error=_explanation(error))

    def _created(self, plan: LaunchPlan, host: HostPlan, network: str, addresses: dict[str, str]) -> str:
        """Returns the host's container: a new one, or the existing container of its name."""
        name = spec.container_name(plan, self._owner, host.name)
        try:
            return str(self._create(name, plan, host, network, addresses)["Id"])
        except APIError as error:
            if error.status_code == CONFLICT:
                return str(self._api.inspect_container(name)["Id"])
            if not self._may_limit_storage or "storage-opt" not in _explanation(error):
                if refusals.is_refusal(error):
                    raise refusals.refused(host.name, _explanation(error)) from error
                raise
            # XFS without project quotas cannot limit the size.
            self._may_limit_storage = False
            return self._created(plan, host, network, addresses)

    def _create(
        self, name: str, plan: LaunchPlan, host: HostPlan, network: str, addresses: dict[str, str]
    ) -> DockerAnswer:
        shell = self._shell(plan.image)
        _check_mounts(plan, host, shell)
        _give(plan, host, shell)
        endpoint = None
        if network != NO_NETWORK:
            address = self._api.create_endpoint_config(
                ipv4_address=addresses.get(host.name), link_local_ips=[*spec.METADATA_ADDRESSES]
            )
            endpoint = {"EndpointsConfig": {network: address}}
        debugpy = spec.debugpy_port(plan, host)
        config = spec.host_config(plan, host, addresses, network, shell)
        image = self._client.images.get(plan.image).attrs
        _check_command(plan, image["Config"])
        path = confinement.path_of(image["Config"].get("Env"))
        directory = confinement.working_directory(image["Config"].get("WorkingDir"), read_only=shell.read_only)
        created: DockerAnswer = self._api.create_container(
            plan.image,
            name=name,
            hostname=host.name,
            entrypoint=None if plan.entrypoint is None else list(plan.entrypoint),
            command=list(plan.arguments) or None,
            environment=spec.environment(plan, host, shell, path),
            user=None if shell.user is None else str(shell.user),
            working_dir=directory,
            ports=None if debugpy is None else [debugpy],
            labels={**spec.host_labels(plan, self._owner, host.name), spec.DATA: self._data},
            host_config=self._api.create_host_config(**config),
            networking_config=endpoint,
            platform=spec.platform(image, shell.engine),
        )
        return created

    def _shell(self, image: str) -> spec.Shell:
        engine = self.facts()
        return spec.Shell(
            user=confinement.user_of(rootless=engine.rootless, as_root=self._exceptions.runs_as_root(image)),
            read_only=not self._exceptions.keeps_root_writable(image),
            log_bytes=self._log_bytes,
            engine=engine,
            limits_storage=engine.may_limit_storage and self._may_limit_storage,
        )

    def _open_log(self, handle: Handle, since_ns: int, *, follow: bool) -> Response | None:
        """Opens the log as raw frames. docker-py's own `logs` would round `since` and join frames."""
        url = f"{self._api.base_url}/v{self._api.api_version}/containers/{handle.ref}/logs"
        params = {
            "stdout": "1",
            "stderr": "1",
            "timestamps": "1",
            "follow": str(int(follow)),
            "since": as_since(since_ns),
        }
        with _answering():
            response = self._api.get(url, params=params, stream=True, timeout=(CONNECT_TIMEOUT_S, None))
            if response.status_code == 404:
                response.close()
                return None
            response.raise_for_status()
        return response

    def _batches(self, response: Response, assembler: LineAssembler) -> Iterator[list[Line]]:
        parser = FrameParser()
        with ByteRelay(
            docker_stream.body(response.raw), lambda: _interrupt(response), broken=(HTTPError, OSError)
        ) as relay:
            while (data := relay.read(HEARTBEAT_S)) is not None:
                lines = assembler.feed(parser.feed(data))
                for start in range(0, max(len(lines), 1), MAX_BATCH):
                    yield lines[start : start + MAX_BATCH]


def _check_mounts(plan: LaunchPlan, host: HostPlan, shell: spec.Shell) -> None:
    """Raises ClientFault if the container could not read a directory of this machine that it mounts."""
    remedy = f"give it the directory (`chown -R {shell.user}`), or start sagelet with --root-image {plan.image}"
    for mount in host.mounts:
        if not confinement.may_use(mount.source, shell.user, write=False):
            raise ClientFault(f"The user {shell.user} of its container may not read {mount.source}: {remedy}")
        if not mount.read_only and not confinement.may_use(mount.source, shell.user, write=True):
            # The user may still be able to write to files and directories below it.
            log.warning("%s: the user %s may not write to %s: %s", plan.job_name, shell.user, mount.source, remedy)


def _check_command(plan: LaunchPlan, image: DockerAnswer) -> None:
    """Raises ClientFault if nothing says what the container runs. Docker would refuse it each time."""
    if not (plan.entrypoint or plan.arguments or image.get("Entrypoint") or image.get("Cmd")):
        raise ClientFault(
            f"The image {plan.image} has neither an entry point nor a command. Name the program in the request, as "
            "ContainerEntrypoint, or build the image with ENTRYPOINT"
        )


def _give(plan: LaunchPlan, host: HostPlan, shell: spec.Shell) -> None:
    """Gives the host's files to the user of its container, before the container is made. Raises ClientFault."""
    own = [host.opt_ml, *([host.cache] if host.cache is not None else [])]
    try:
        if shell.read_only:
            confinement.make_scratch(host.run_dir / SCRATCH, shell.user)
        confinement.give(own, shell.user, [host.opt_ml / path for path in host.read_only])
    except confinement.CannotGive as error:
        raise ClientFault(f"{plan.job_name}: {error}") from error


def _interrupt(response: Response) -> None:
    with suppress(RuntimeError, ValueError):  # it was read to its end and is back in the pool
        response.raw.shutdown()


def observation(state: DockerAnswer) -> Observation:
    if state["Status"] in ("running", "paused", "restarting"):
        return Observation(running=True)
    error = state.get("Error") or None
    if state["Status"] == "created" and error is None:
        return Observation(running=False, error="the container was created, but never started")
    return Observation(
        running=False,
        exit_code=int(state["ExitCode"]),
        out_of_memory=bool(state.get("OOMKilled")),
        error=error,
        finished_ms=_finished_ms(state),
    )


def _finished_ms(state: DockerAnswer) -> int | None:
    """Returns the end, never before the start. Docker notes a start late, so a short process may seem to end first."""
    times = (state.get("StartedAt") or NEVER, state.get("FinishedAt") or NEVER)
    started, finished = (None if time.startswith(NEVER) else nanoseconds(time) // 1_000_000 for time in times)
    if finished is None or started is None:
        return finished
    return max(started, finished)
