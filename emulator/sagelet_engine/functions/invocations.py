"""Runs functions, each invocation as a host of its own by the runtime port.

All that is known of an invocation is in its directory, and its host goes on without the server. So after a crash the
next server finds it, and a repeated `begin` starts nothing twice. If the host was lost together with its machine, the
function runs again: at least once, as on AWS.
"""

import contextlib
import json
import logging
import shutil
import signal
import threading
import time
import uuid
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from sagelet_engine.base import json_files, nofollow
from sagelet_engine.base.clock import Clock
from sagelet_engine.base.errors import ClientFault, RuntimeUnavailable
from sagelet_engine.data import removal
from sagelet_engine.execution.ca_certificates import CA_FILE, write_authorities
from sagelet_engine.functions import bootstrap
from sagelet_engine.functions.invocation_log import LogLine, end_lines, in_order, printed_lines, tail_of
from sagelet_engine.images.variants import training_image
from sagelet_engine.model.functions import LOG_GROUPS, Function, FunctionRefused, Functions, Invoked, Outcome, owner_of
from sagelet_engine.model.principal import NotAuthorized, Principal, union
from sagelet_engine.model.runtime import Handle, HostPlan, LaunchPlan, Observation, Runtime

log = logging.getLogger(__name__)

#: In the data directory.
DIRECTORY = "functions"
#: The file of an invocation that the function never sees.
NOTE = "invocation.json"
OPT_ML, RUN = "opt-ml", "run"
#: Where the function finds its package and itself, in its /opt/ml.
TASK, INPUT, OUTPUT = "task", "input", "output"
#: Seconds that a function's process lives on after its time: it ends itself, unless it hangs in a library.
GRACE_SECONDS = 60
#: How often a function runs again whose host was lost. AWS tries an asynchronous invocation three times.
MOST_RESTARTS = 2
#: Bytes of the file with the answer: the payload is a text of JSON in JSON.
_MOST_ANSWER = 3 * bootstrap.LARGEST
_MIB, _MIB_OF_A_CPU = 1024**2, 1769
#: A session of a function's role lives longer than the function.
_SESSION_SECONDS = 3600
#: Exit code of SIGKILL.
_KILLED = 137
_POLL_SECONDS = 0.01
#: An exit code above it is that of a signal.
_SIGNALLED = 128


class Invocations:
    """An Invoker."""

    def __init__(
        self,
        data: Path,
        runtime: Runtime,
        functions: Functions,
        url: Callable[[str], str],
        authority: Callable[[], Path | None],
        clock: Clock,
        *,
        waits: bool = False,
    ) -> None:
        """`url`: returns the endpoint's for hosts that know this machine by a name. `clock`: the runtime's. `waits`:
        `begin` returns after the end, for a server whose time is simulated.
        """
        self._root = data / DIRECTORY
        self._runtime = runtime
        self._functions = functions
        self._url = url
        self._authority = authority
        self._clock = clock
        self._waits = waits
        self._guard = threading.Lock()
        #: Invocations whose end was seen, and whose log was kept.
        self._outcomes: dict[str, Outcome] = {}
        #: Invocations that a request waits for.
        self._waited: set[str] = set()
        #: The ends of their logs.
        self._tails: dict[str, bytes] = {}

    def begin(
        self, invocation: str, principal: Principal, region: str, arn: str, event: str, most_seconds: int = 900
    ) -> None:
        if not self.has(invocation):
            found = self._functions.get(principal, region, arn)
            limited = replace(found, timeout_seconds=min(found.timeout_seconds, most_seconds))
            self._prepare(invocation, principal, region, limited, event, str(uuid.uuid4()))
        self._launch(invocation)
        if self._waits:
            self._wait(invocation)

    def check(self, principal: Principal, region: str, arn: str) -> None:
        """Raises FunctionRefused or NotAuthorized for a function that cannot be invoked."""
        self._functions.get(principal, region, arn)

    def invoke(self, principal: Principal, region: str, arn: str, event: str, request_id: str) -> Invoked:
        """Runs a function and waits for its end. Raises FunctionRefused, NotAuthorized, RuntimeUnavailable."""
        invocation = f"function-invoke{uuid.uuid4().hex}-0"
        with self._guard:
            self._waited.add(invocation)
        try:
            function = self._functions.get(principal, region, arn)
            self._prepare(invocation, principal, region, function, event, request_id)
            self._launch(invocation)
            outcome = self._wait(invocation)
            log_tail = self._tails.get(invocation, b"")
            return Invoked(outcome, request_id, function.version, function.timeout_seconds, log_tail)
        finally:
            try:
                self.forget(invocation)
            except (RuntimeUnavailable, removal.DirectoryStays) as error:
                # Its result counts all the same. The next server that starts removes it.
                log.warning("a function's host or files are left: %s", error)
            finally:
                with self._guard:
                    self._waited.discard(invocation)

    def invoke_unattended(self, principal: Principal, region: str, arn: str, event: str, request_id: str) -> None:
        """Runs a function whose caller has its answer already. If it cannot run, its log says why."""
        try:
            self.invoke(principal, region, arn, event, request_id)
        except (FunctionRefused, NotAuthorized, RuntimeUnavailable) as error:
            log.warning("the function %s was not invoked: %s", arn, error)
            note = {"account": principal.account, "region": region, "name": arn, **_log_of(arn)}
            text = f"sagelet: the invocation {request_id} did not take place: {error}"
            self._keep_log(note, [(self._clock.now_ms(), text)])

    def has(self, invocation: str) -> bool:
        return (self._root / invocation / NOTE).exists()

    def is_waited_for(self, invocation: str) -> bool:
        """True while a request waits for the invocation. It ends with the request."""
        with self._guard:
            return invocation in self._waited

    def look(self, invocation: str) -> Outcome | None:
        if (known := self._outcomes.get(invocation)) is not None:
            return known
        note = json_files.read_json(self._root / invocation / NOTE)
        if note is None:
            return Outcome(error="Fault", message="the files of the invocation are gone", fault=True)
        handles = self._runtime.find(invocation)
        if not handles:
            self._launch(invocation)
            return None
        seen = self._runtime.observe(handles[0])
        if seen.running:
            if self._seconds_of(handles[0]) > bootstrap.INIT_SECONDS + note["timeout_seconds"] + GRACE_SECONDS:
                self._runtime.stop(handles[0], force=True)
            return None
        outcome = self._outcome(invocation, note, handles[0], seen)
        if outcome.fault and note["restarts"] < MOST_RESTARTS:
            self._start_again(invocation, note, handles[0], outcome)
            return None
        lines = self._keep_log(note, self._lines(invocation, note, handles[0], seen, outcome))
        if self.is_waited_for(invocation):
            self._tails[invocation] = tail_of(lines)
        self._outcomes[invocation] = outcome
        return outcome

    def forget(self, invocation: str) -> None:
        self._runtime.reap(invocation)
        removal.remove_tree(self._root / invocation)
        self._outcomes.pop(invocation, None)
        self._tails.pop(invocation, None)

    def sweep(self, owners: Collection[str]) -> None:
        """Forgets what an earlier server left, except the invocations of these owners. Raises RuntimeUnavailable."""
        for place in [*self._root.iterdir()] if self._root.is_dir() else ():
            if place.name.startswith("."):
                removal.remove_tree(place)
            elif owner_of(place.name) not in owners and not self.is_waited_for(place.name):
                self.forget(place.name)

    # --- inner ------------------------------------------------------------------------------------------------------

    def _prepare(
        self, invocation: str, principal: Principal, region: str, function: Function, event: str, request_id: str
    ) -> None:
        """Makes the directory of an invocation, whole or not at all."""
        from sagelet_engine.functions.package import unpack  # Loaded late: few servers run functions.

        made = self._root / f".{invocation}"
        removal.remove_tree(made)
        opt_ml = made / OPT_ML
        try:
            made.mkdir(parents=True, mode=0o700)
            unpack(function.code, opt_ml / TASK)
            (opt_ml / INPUT).mkdir()
            (opt_ml / OUTPUT).mkdir()
            shutil.copyfile(bootstrap.__file__, opt_ml / INPUT / "bootstrap.py")
            write_authorities(self._authority(), opt_ml / INPUT)
            (opt_ml / INPUT / "event.json").write_text(event)
            note = {**_described(function), "account": principal.account, "region": region, "request_id": request_id}
            (opt_ml / INPUT / "invocation.json").write_text(json.dumps(note))
            jobs = union(principal.jobs, function.jobs)
            more = {"environment": dict(function.environment), "role": function.role, "restarts": 0, "jobs": jobs}
            json_files.write_json(made / NOTE, {**note, **more})
            made.rename(self._root / invocation)
        except OSError as error:
            removal.remove_tree(made)
            raise RuntimeUnavailable(f"the files of function {function.name} could not be written: {error}") from error

    def _launch(self, invocation: str) -> None:
        home = self._root / invocation
        note = json_files.read_json(home / NOTE)
        if note is None:
            raise RuntimeUnavailable("the files of the invocation are gone")
        host = HostPlan(
            "function",
            home / OPT_ML,
            home / RUN,
            read_only=(TASK, INPUT),
            vcpus=max(1, note["memory_mib"] // _MIB_OF_A_CPU),
            memory_bytes=note["memory_mib"] * _MIB,
        )
        plan = LaunchPlan(
            job_id=invocation,
            job_name=note["name"],
            image=training_image(),
            hosts=(host,),
            entrypoint=("python3", f"/opt/ml/{INPUT}/bootstrap.py"),
            arguments=(),
            environment=self._environment(note),
        )
        try:
            self._runtime.launch(plan)
        except ClientFault as error:
            raise FunctionRefused(str(error)) from error

    def _environment(self, note: dict[str, Any]) -> dict[str, str]:
        """Returns the variables of Lambda's own environment, then the function's."""
        account, region = note["account"], note["region"]
        url = self._url(self._runtime.endpoint_host)
        seconds = _SESSION_SECONDS + note["timeout_seconds"]
        session = self._functions.credentials(account, note["role"], note["name"], seconds, note["jobs"])
        return {
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
            **session,
            **({"AWS_CA_BUNDLE": f"/opt/ml/{INPUT}/{CA_FILE}"} if self._authority() is not None else {}),
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ENDPOINT_URL": url,
            "AWS_EXECUTION_ENV": f"AWS_Lambda_{note['runtime']}",
            "AWS_LAMBDA_FUNCTION_NAME": note["name"],
            "AWS_LAMBDA_FUNCTION_VERSION": note["version"],
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(note["memory_mib"]),
            "AWS_LAMBDA_LOG_GROUP_NAME": note["log_group"],
            "AWS_LAMBDA_LOG_STREAM_NAME": note["log_stream"],
            "LAMBDA_TASK_ROOT": f"/opt/ml/{TASK}",
            "_HANDLER": note["handler"],
            **note["environment"],
        }

    def _wait(self, invocation: str) -> Outcome:
        while (outcome := self.look(invocation)) is None:
            time.sleep(_POLL_SECONDS)
        return outcome

    def _outcome(self, invocation: str, note: dict[str, Any], handle: Handle, seen: Observation) -> Outcome:
        try:
            found = self._answer_of(invocation)
        except ValueError as error:
            return Outcome(error="Runtime.MarshalError", message=f"the function's answer cannot be read: {error}")
        answer = _answered(found)
        if answer is not None:
            return answer
        if seen.exit_code is None:
            return Outcome(error="Fault", message=seen.error or "the function's process was lost", fault=True)
        if (
            seen.exit_code == _KILLED
            and self._seconds_of(handle, seen) > note["timeout_seconds"] + bootstrap.INIT_SECONDS
        ):
            return Outcome(timed_out=True)
        if seen.out_of_memory:
            return Outcome(
                error="Runtime.OutOfMemory", message=f"it needs more than its {note['memory_mib']} MB of memory"
            )
        return Outcome(
            error="Runtime.ExitError",
            message=seen.error or _exited(seen.exit_code),
        )

    def _answer_of(self, invocation: str) -> Any:
        """Returns what the bootstrap, or the function in its place, has written. Raises ValueError."""
        return nofollow.read_json(self._root / invocation / OPT_ML, f"{OUTPUT}/answer.json", _MOST_ANSWER)

    def _lines(
        self, invocation: str, note: dict[str, Any], handle: Handle, seen: Observation, outcome: Outcome
    ) -> list[LogLine]:
        """Returns the whole log of an invocation that has ended."""
        answer: Any = None
        with contextlib.suppress(ValueError):
            answer = self._answer_of(invocation)
        end_ms = self._clock.now_ms() if seen.finished_ms is None else seen.finished_ms
        ends = end_lines(note, outcome, answer, self._seconds_of(handle, seen) * 1000)
        return in_order([*printed_lines(self._runtime, handle), *((end_ms, text) for text in ends)], end_ms)

    def _seconds_of(self, handle: Handle, seen: Observation | None = None) -> float:
        """Returns for how long a host has run."""
        end_ms = None if seen is None else seen.finished_ms
        return ((self._clock.now_ms() if end_ms is None else end_ms) - handle.started_ms) / 1000

    def _start_again(self, invocation: str, note: dict[str, Any], handle: Handle, outcome: Outcome) -> None:
        log.warning("function %s runs again: %s", note["name"], outcome.message)
        home, now_ms = self._root / invocation, self._clock.now_ms()
        # Its output goes with its directory.
        why = f"sagelet: the function runs again: {outcome.message}"
        self._keep_log(note, in_order([*printed_lines(self._runtime, handle), (now_ms, why)], now_ms))
        # Counted first: a server that is killed meanwhile finds no host, and launches it.
        json_files.write_json(home / NOTE, {**note, "restarts": note["restarts"] + 1})
        self._runtime.reap(invocation)
        removal.remove_tree(home / RUN)
        self._launch(invocation)

    def _keep_log(self, note: dict[str, Any], lines: list[LogLine]) -> list[LogLine]:
        """Puts lines into CloudWatch Logs. Returns what a reader of the log gets to see.

        The result of the function counts whatever happens. If lines are refused, a line in their place says so.
        """
        where = (note["account"], note["region"], note["log_group"], note["log_stream"])
        try:
            self._functions.keep_log(*where, lines)
            return lines
        except Exception as error:
            log.exception("the log of function %s was refused", note["name"])
            refused = f"sagelet: {len(lines)} lines of this log were refused: {type(error).__name__}: {error}"
        instead = [(self._clock.now_ms(), refused)]
        try:
            self._functions.keep_log(*where, instead)
        except Exception:
            # Then the tail that Invoke returns is the only place left.
            log.exception("not even a line about it could be kept")
        return [*lines, *instead]


def _log_of(arn: str, version: str = "$LATEST") -> dict[str, str]:
    """Returns group and stream of an invocation. `arn`: an ARN, a partial one or a name, with a version or without."""
    name = arn.rpartition("function:")[2].partition(":")[0]
    stream = f"{time.strftime('%Y/%m/%d', time.gmtime())}/[{version}]{uuid.uuid4().hex}"
    return {"log_group": f"{LOG_GROUPS}{name}", "log_stream": stream}


def _described(function: Function) -> dict[str, Any]:
    return {
        "arn": function.arn,
        "name": function.name,
        "version": function.version,
        "runtime": function.runtime,
        "handler": function.handler,
        "timeout_seconds": function.timeout_seconds,
        "memory_mib": function.memory_mib,
        **_log_of(function.name, function.version),
    }


def _answered(found: Any) -> Outcome | None:
    """Returns what the file of the bootstrap says. None if it says nothing: the function may have written it."""
    if not isinstance(found, dict):
        return None
    if found.get("timed_out"):
        return Outcome(timed_out=True)
    if isinstance(found.get("payload"), str):
        return Outcome(payload=found["payload"])
    if isinstance(found.get("error"), str):
        frames = found.get("stack")
        stack = tuple(map(str, frames)) if isinstance(frames, list) else ()
        return Outcome(error=found["error"] or "Error", message=str(found.get("message", "")), stack=stack)
    return None


def _exited(code: int) -> str:
    """Returns Lambda's text about a process that ended without an answer. Above 128 it is a signal, as in a shell."""
    if code == 0:
        return "Runtime exited without providing a reason"
    if code <= _SIGNALLED:
        return f"Runtime exited with error: exit status {code}"
    name = (signal.strsignal(code - _SIGNALLED) or f"signal {code - _SIGNALLED}").lower()
    return f"Runtime exited with error: signal: {name}"
