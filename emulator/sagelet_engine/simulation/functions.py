"""A runtime whose hosts are calls of a Python function, each in a thread of this process.

It differs from the port in two ways. Its hosts live in memory: they go with the process. And nothing can end a thread
from outside: a host that is killed counts as ended at once, and its function meets Terminated when it next asks for
something.
"""

import contextlib
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from sagelet_engine.model.runtime import (
    WARM_POOL_CACHE,
    Capabilities,
    Handle,
    HostPlan,
    LaunchPlan,
    Line,
    Observation,
    Usage,
)
from sagelet_engine.runtimes.node.host_environment import OptMlPaths
from sagelet_engine.simulation.clock import SimulatedClock

#: Exit codes of SIGTERM and SIGKILL, as a shell reports them.
TERMINATED, KILLED = 143, 137
#: Modules between the runtime and the user's function.
OWN = (__name__, "sagelet.testing.fast_forward")
#: Seconds within which a follower yields at least one batch.
HEARTBEAT_S = 1.0


class Terminated(BaseException):
    """SIGTERM, as a host's function meets it: once, and then again when the host is killed.

    It is not an Exception, so that a training loop which catches those does not catch it by accident.
    """


#: What a host runs. It returns the exit code; None means 0.
Function = Callable[["FunctionHost"], int | None]


@dataclass(eq=False)
class FunctionHost:
    """One host, as the runtime and the function in it see it. Thread-safe."""

    plan: LaunchPlan
    host: HostPlan
    handle: Handle
    clock: SimulatedClock
    printed: list[Line] = field(default_factory=list)
    ended: Observation | None = None
    #: When it was asked to end, ms since the epoch.
    asked_ms: int | None = None
    changed: threading.Condition = field(default_factory=threading.Condition)
    _told: bool = False

    # --- for the function -------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        """Prints lines. Raises Terminated."""
        self.heed()
        self._print(text)

    def sleep(self, seconds: float) -> None:
        """Lets time pass. Raises Terminated, also in the meantime."""
        self.heed()
        self.clock.sleep(seconds, self, unless=lambda: self._called)
        self.heed()

    def heed(self) -> None:
        """Raises Terminated if the host was killed, or was asked to end and the function does not know that yet."""
        if not self._called:
            return
        self._told = True
        raise Terminated(f"{self.handle.host} of {self.plan.job_name} was asked to end")

    @property
    def _called(self) -> bool:
        """Takes no lock, since the clock asks this under its own."""
        return self.ended is not None or (self.asked_ms is not None and not self._told)

    # --- for the runtime --------------------------------------------------------------------------------------

    def run(self, function: Function) -> None:
        try:
            code = function(self) or 0
        except Terminated:
            code = TERMINATED
        except SystemExit as error:
            code = self._exited(error.code)
        except BaseException as error:
            self._fail(error)
            code = 1
        self.end(code)

    def ask(self) -> None:
        """Asks the host to end, as SIGTERM does."""
        if self.asked_ms is None:
            self.asked_ms = self.clock.now_ms()
        self.clock.rouse(self)

    def end(self, exit_code: int) -> None:
        """Ends the host. Only the first end counts."""
        now = self.clock.now_ms()
        if self.asked_ms is not None:
            # Later than the host whose end was the reason to ask, even if time stands still.
            now = max(now, self.asked_ms + 1)
        with self.changed:
            if self.ended is None:
                self.ended = Observation(running=False, exit_code=exit_code, finished_ms=now)
            self.changed.notify_all()
        self.clock.end(self)

    @property
    def last_position(self) -> str | None:
        """The position of the last printed line, or None."""
        with self.changed:
            return self.printed[-1].position if self.printed else None

    @property
    def failed(self) -> bool:
        """True if its end fails the job."""
        return self.ended is not None and (self.ended.exit_code != 0 or self._failure.exists())

    @property
    def _failure(self) -> Path:
        return self.host.opt_ml / "output" / "failure"

    def _exited(self, code: object) -> int:
        """Returns the exit code as Python does for a process: a text is printed."""
        if code is None or isinstance(code, int):
            return (code or 0) & 0xFF
        self._print(str(code))
        return 1

    def _fail(self, error: BaseException) -> None:
        """Prints the traceback of an uncaught exception. Its last line becomes the FailureReason."""
        self._print("".join(traceback.format_exception(error.with_traceback(_of_the_user(error.__traceback__)))))
        with contextlib.suppress(FileExistsError), self._failure.open("x", encoding="utf-8") as file:
            file.write("".join(traceback.format_exception_only(error)).strip())

    def _print(self, text: str) -> None:
        now = self.clock.now_ms()
        with self.changed:
            if self.ended is None:
                for line in text.removesuffix("\n").split("\n"):
                    self.printed.append(Line(now, line, str(len(self.printed))))
            self.changed.notify_all()


def _of_the_user(trace: TracebackType | None) -> TracebackType | None:
    """Removes sagelet's frames that called the function."""
    while trace is not None and trace.tb_next and trace.tb_frame.f_globals.get("__name__", "").startswith(OWN):
        trace = trace.tb_next
    return trace


class FunctionRuntime:
    """Runs hosts as functions. `function_of` returns the function of a plan, or raises ClientFault if it has none."""

    name = "function"
    endpoint_host = "127.0.0.1"
    cluster = None
    #: A function could write through any link, and replaces any image.
    capabilities = Capabilities("functions use no GPUs", knows_images=False, runs_scripts=False)

    def __init__(self, clock: SimulatedClock, function_of: Callable[[LaunchPlan], Function]) -> None:
        self._clock = clock
        self._function_of = function_of
        self._guard = threading.Lock()
        self._hosts: dict[str, list[FunctionHost]] = {}
        #: Number of times that something began to happen, and that number when all was known to be over.
        self._stirred = 0
        self._rested = -1
        #: True if somebody waits for it.
        self.is_awaited = False

    @property
    def awaits_time(self) -> bool:
        with self._guard:
            self.is_awaited = self._rested != self._stirred
            return not self.is_awaited

    @property
    def stirred(self) -> int:
        with self._guard:
            return self._stirred

    def stir(self) -> None:
        """Notes that something may happen from now on."""
        with self._guard:
            self._stirred += 1

    def rest(self, stirred: int) -> None:
        """Notes that nothing more happens at the present moment, unless something began after `stirred` was read."""
        with self._guard:
            self._rested = stirred

    def has_image(self, image: str) -> bool:  # noqa: ARG002 - see Capabilities.knows_images
        return True

    def launch(self, plan: LaunchPlan) -> list[Handle]:
        function = self._function_of(plan)
        self.stir()
        with self._guard:
            there = self._hosts.get(plan.job_id)
            hosts = there or [self._host(plan, host) for host in plan.hosts]
            self._hosts[plan.job_id] = hosts
            if there is None:
                # All begin before the first starts: time must not pass for one while another has not begun.
                self._clock.begin(*hosts)
        if there is None:
            for one in hosts:
                name = f"{plan.job_name}/{one.handle.host}"
                threading.Thread(target=one.run, args=(function,), name=name, daemon=True).start()
        return [one.handle for one in hosts]

    def find(self, job_id: str) -> list[Handle]:
        return [one.handle for one in self.hosts(job_id)]

    def hosts(self, job_id: str) -> list[FunctionHost]:
        """Returns the hosts of a job that were not reaped."""
        with self._guard:
            return [*self._hosts.get(job_id, ())]

    def observe(self, handle: Handle) -> Observation:
        one = self._known(handle)
        if one is None:
            return Observation(running=False, error="the host was removed")
        with one.changed:
            return one.ended or Observation(running=True)

    def usage(self, handle: Handle) -> Usage | None:  # noqa: ARG002 - the port's
        """Returns None, because a thread's share of this process is not known."""
        return None

    def lines(self, handle: Handle, position: str | None) -> Iterator[list[Line]]:
        one = self._known(handle)
        read = 0 if position is None else int(position) + 1
        while one is not None:
            with one.changed:
                if len(one.printed) == read and one.ended is None:
                    one.changed.wait(HEARTBEAT_S)
                new, over = one.printed[read:], one.ended is not None
            read += len(new)
            yield new
            if over:
                return

    def end_lost(self, *, dry_run: bool = False) -> list[str]:  # noqa: ARG002
        return []

    def jobs(self) -> set[str]:
        with self._guard:
            return set(self._hosts)

    def stop(self, handle: Handle, *, force: bool = False) -> None:
        one = self._known(handle)
        if one is None:
            return
        self.stir()
        if force:
            one.end(KILLED)
        else:
            one.ask()

    def reap(self, job_id: str) -> None:
        with self._guard:
            hosts = self._hosts.pop(job_id, [])
        for one in hosts:
            one.end(KILLED)

    def _known(self, handle: Handle) -> FunctionHost | None:
        job_id, _, name = handle.ref.rpartition("/")
        return next((one for one in self.hosts(job_id) if one.handle.host == name), None)

    def _host(self, plan: LaunchPlan, host: HostPlan) -> FunctionHost:
        paths = OptMlPaths(host.opt_ml)
        for mount in host.mounts:
            paths.link(mount.target, mount.source)
        if host.cache is not None:
            paths.link(WARM_POOL_CACHE, host.cache)
        handle = Handle(host.name, f"{plan.job_id}/{host.name}", self._clock.now_ms())
        return FunctionHost(plan, host, handle, self._clock)
