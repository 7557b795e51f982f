"""A runtime whose hosts follow a script drawn from the seed: they print, write files, end, vanish, or ignore signals.

What a host has done by now follows from its script, its signals and the time. The runtime itself behaves as badly as
the port allows: it fails for a while, after half of the work or after all of it, and its lines may end early.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from sagelet_engine.base.errors import RuntimeUnavailable
from sagelet_engine.model.runtime import Capabilities, Handle, HostPlan, LaunchPlan, Line, Observation, Usage
from support.histories.files import Files
from support.histories.schedule import Schedule

KILLED = 137
#: The longest time between two calls of a follower.
HEARTBEAT_S = 1.0


class Act(NamedTuple):
    """What a host does, and when, in ms after its start."""

    at: int
    does: str


@dataclass
class Script:
    acts: list[Act]
    end: int
    exit_code: int
    #: ms from SIGTERM to the host's end, or None if it ignores SIGTERM.
    heeds: int | None
    #: True if a failure file says why.
    explains: bool = False


@dataclass
class Host:
    plan: HostPlan
    launch: LaunchPlan
    handle: Handle
    script: Script
    #: By the time of the schedule.
    started: int
    printed: list[Line] = field(default_factory=list)
    ended: Observation | None = None
    ended_at: int | None = None
    signals: list[tuple[int, str]] = field(default_factory=list)
    #: True if somebody other than sagelet removed it.
    vanished: bool = False
    reaped_alive: bool = False
    #: The output that was removed before the host ended or was read.
    checkpoint: str | None = None
    done: int = 0

    @property
    def ref(self) -> str:
        return self.handle.ref


class Hosts:
    """The runtime, and all hosts that ever were."""

    name = "simulated"
    #: They are this machine's own.
    endpoint_host = "endpoint"
    capabilities = Capabilities("", runs_scripts=False)
    awaits_time = True
    #: The hosts run on this machine.
    cluster = None

    def __init__(
        self, schedule: Schedule, files: Files, wall: Callable[[], int], script: Callable[[LaunchPlan, str], Script]
    ) -> None:
        self._schedule = schedule
        self._files = files
        self._wall = wall
        self._script = script
        self.down = False
        #: The existing hosts.
        self.there: dict[str, Host] = {}
        #: Every host that was ever started, by its ref.
        self.ever: defaultdict[str, list[Host]] = defaultdict(list)
        #: Launch ids for which a call by sagelet failed.
        self.troubled: set[str] = set()
        self.reaped: set[str] = set()
        self.watch: Callable[[Host], None] = lambda host: None

    # --- the port ---------------------------------------------------------------------------------------------

    def has_image(self, image: str) -> bool:
        self._answer("has_image", "")
        return True

    def launch(self, plan: LaunchPlan) -> list[Handle]:
        self._answer("launch", plan.job_id)
        for host in plan.hosts:
            if f"{plan.job_id}/{host.name}" not in self.there:
                self._start(plan, host)
            self._answer("launch half way", plan.job_id, 0.25)
        return self._known(plan.job_id)

    def find(self, job_id: str) -> list[Handle]:
        self._answer("find", job_id)
        return self._known(job_id)

    def end_lost(self, *, dry_run: bool = False) -> list[str]:
        return []

    def jobs(self) -> set[str]:
        return {ref.rpartition("/")[0] for ref in self.there}

    def observe(self, handle: Handle) -> Observation:
        self._answer("observe", handle.ref)
        host = self.there.get(handle.ref)
        if host is None:
            return Observation(running=False, error="it was removed")
        self.catch_up(host)
        return host.ended or Observation(running=True)

    def usage(self, handle: Handle) -> Usage | None:
        self._answer("usage", handle.ref)
        host = self.there.get(handle.ref)
        if host is None or host.ended is not None or host.plan.gpu_uuids:
            return None
        return Usage((self._schedule.now - host.started) / 1000, 2**20, 2**30)

    def lines(self, handle: Handle, position: str | None) -> Iterator[list[Line]]:
        self._answer("lines", handle.ref)
        host = self.there.get(handle.ref)
        if host is None:
            return
        self.catch_up(host)
        whole = host.ended is not None
        read = 0 if position is None else int(position) + 1
        while True:
            self.catch_up(host)
            ended = host.ended is not None
            most = 1 + int(self._schedule.random.random() * 4)
            new = host.printed[read : read + most]
            read += len(new)
            yield new
            if self.there.get(host.ref) is not host or (ended and read == len(host.printed)):
                return
            if not whole and self._schedule.point("lines end early", 0.1):
                return
            if self.down:
                raise RuntimeUnavailable("the engine went away")
            if not new:
                self._schedule.sleep(min(HEARTBEAT_S, max(1, self._next(host) - self._schedule.now) / 1000))
            else:
                self._schedule.step()

    def stop(self, handle: Handle, *, force: bool = False) -> None:
        self._answer("stop", handle.ref)
        host = self.there.get(handle.ref)
        if host is None:
            return
        self.catch_up(host)
        host.signals.append((self._schedule.now, "KILL" if force else "TERM"))
        self._schedule.note(host.ref, host.signals[-1][1])
        if host.ended is not None:
            return
        since = self._schedule.now - host.started
        if force:
            self._end(host, KILLED, self._schedule.now)
        elif host.script.heeds is not None and since + host.script.heeds < host.script.end:
            script = host.script
            last = [Act(since, "print last words")] if script.heeds else []
            host.script = Script([*script.acts[: host.done], *last], since + (script.heeds or 0), 143, None)
            self.catch_up(host)
        self._answer("stop", handle.ref)

    def reap(self, job_id: str) -> None:
        self._answer("reap", job_id)
        for handle in self._known(job_id):
            host = self.there[handle.ref]
            self.catch_up(host)
            if host.ended is None:
                host.reaped_alive = True
                self._end(host, KILLED, self._schedule.now)
            del self.there[handle.ref]
            self._answer("reap half way", job_id, 0.25)
        self.reaped.add(job_id)

    # --- the outside ------------------------------------------------------------------------------------------

    def catch_up(self, host: Host) -> None:
        """Does everything that the host's script has done by now."""
        while host.ended is None:
            script, at = host.script, self._next(host)
            if at > self._schedule.now:
                return
            if host.done == len(script.acts):
                self._end(host, script.exit_code, at)
                return
            host.done += 1
            self._act(host, script.acts[host.done - 1])

    def catch_up_all(self) -> None:
        for host in [*self.there.values()]:
            self.catch_up(host)

    def vanish(self, host: Host) -> None:
        """Removes the host, as somebody else's `docker rm -f` does."""
        self.catch_up(host)
        self._schedule.note(host.ref, "vanishes")
        host.vanished = True
        if host.ended is None:
            self._end(host, KILLED, self._schedule.now)
        self.there.pop(host.ref, None)

    def running(self) -> list[Host]:
        self.catch_up_all()
        return [host for host in self.there.values() if host.ended is None]

    # --- inner ------------------------------------------------------------------------------------------------

    def _answer(self, what: str, ref: str, likely: float = 0.1) -> None:
        """Makes a call a step, which may fail to reach the runtime."""
        self._schedule.step()
        if self.down or self._schedule.point(f"runtime: {what}", likely):
            self.troubled.add(ref.partition("/")[0])
            raise RuntimeUnavailable("the engine does not answer")

    def _known(self, job_id: str) -> list[Handle]:
        return [host.handle for ref, host in sorted(self.there.items()) if ref.startswith(f"{job_id}/")]

    def _start(self, plan: LaunchPlan, host: HostPlan) -> None:
        ref = f"{plan.job_id}/{host.name}"
        handle = Handle(host.name, ref, self._wall())
        started = Host(host, plan, handle, self._script(plan, host.name), self._schedule.now)
        self.there[ref] = started
        self.ever[ref].append(started)
        self._schedule.note("launched", ref, started.script)
        self.watch(started)

    def _next(self, host: Host) -> int:
        acts = host.script.acts
        return host.started + (acts[host.done].at if host.done < len(acts) else host.script.end)

    def _act(self, host: Host, act: Act) -> None:
        verb, _, rest = act.does.partition(" ")
        if verb == "print":
            last = host.printed[-1].time_ms if host.printed else host.handle.started_ms
            number = len(host.printed)
            host.printed.append(Line(max(last, self._wall()), f"{host.ref} {number} {rest}", str(number)))
        elif verb == "model":
            self._write(host, "model/weights", rest)
        elif verb == "checkpoint":
            host.checkpoint = f"{host.ref} {rest}"
            self._write(host, "checkpoints/state", host.checkpoint)

    def _end(self, host: Host, code: int, at: int) -> None:
        if host.script.explains and code not in (0, KILLED, 143):
            self._write(host, "output/failure", f"why {host.ref} failed")
        host.ended_at = at
        host.ended = Observation(False, code, finished_ms=self._wall() - (self._schedule.now - at))
        self._schedule.note(host.ref, "ended", code)

    def _write(self, host: Host, name: str, text: str) -> None:
        """Writes a file with a unique time, so that sagelet sees a changed file whatever the clock's resolution."""
        with self._files.beside():
            path = host.plan.opt_ml / name
            if not path.parent.is_dir():
                return
            path.write_text(text)
            now = self._schedule.now * 1_000_000
            os.utime(path, ns=(now, now))
