"""The shim of one host: runs the command, outlives the server, and leaves no process of the host behind.

Run as `python -I -S host_shim.py RUN_DIR`; standard library only. Its first process ends as soon as the host has
started, and its exit status reports the start (see `host_files.py`). So the shim has no parent that must wait for it.

Signals: it passes SIGTERM to the command alone, as `docker stop` does. SIGUSR1 kills the whole host. When the command
ends, every process that descends from it is killed, as at the end of a container.
"""

import contextlib
import ctypes
import fcntl
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable

# `-I -S` hides both this package and site-packages; only this package is wanted here.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))

from sagelet_engine.base import json_files
from sagelet_engine.runtimes.node import host_files, host_limits, host_namespaces, host_packages
from sagelet_engine.runtimes.node.host_output import Output
from sagelet_engine.runtimes.node.plan import End, Plan, read_plan

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
FORCE = signal.SIGUSR1
WATCHED = {*FORWARDED, FORCE, signal.SIGCHLD}
NOT_EXECUTABLE, NOT_FOUND = 126, 127


def main(arguments: list[str]) -> int:
    if arguments[0] == "--probe":
        return probe(arguments[1], user=arguments[2] == "user", network=arguments[3] == "isolated")
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # some systems do not keep an ignored signal for sigwait
    os.chdir(arguments[0])
    ready, tell = os.pipe()
    if os.fork() == 0:
        os.close(ready)
        os.setsid()
        keep(tell)
        return 0
    os.close(tell)
    told = os.read(ready, 1)
    return told[0] if told else 1


def probe(directory: str, *, user: bool, network: bool) -> int:
    """Enters the namespaces. Returns 0 if /opt/ml is `directory`. Raises OSError (so status 1) if they are refused."""
    here = os.stat(directory).st_ino
    hosts_file = os.path.join(directory, "hosts")
    host_namespaces.enter(
        host_namespaces.View(directory, "algo-1", {"algo-1": "127.0.0.1"}, hosts_file, network), user=user
    )
    return 0 if os.stat(host_namespaces.OPT_ML).st_ino == here else 1


def keep(tell: int) -> None:
    """Runs the shim. `tell` is the pipe to the first process. It takes one byte: that process's exit status."""
    lock = os.open(host_files.LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.write(tell, bytes([host_files.IN_USE]))
        return
    if os.path.exists(host_files.STARTED):
        os.write(tell, bytes([host_files.ALREADY_STARTED]))
        return
    plan = read_plan()
    if plan is None:
        raise FileNotFoundError(f"no {host_files.PLAN} in {os.getcwd()}")

    def begun() -> None:
        with contextlib.suppress(BrokenPipeError):  # the server was killed meanwhile: the host goes on
            os.write(tell, bytes([host_files.READY]))
        os.close(tell)

    run(plan, begun, Requests())


class Requests:
    """Requests to a shim, as signals. Signals are blocked and awaited here, so none is lost or comes too early."""

    def next(self) -> int:
        """Waits for a signal and returns it: one of WATCHED."""
        return signal.sigwait(WATCHED)

    def heard(self, _code: int | None) -> End:
        """Returns the members about requests for `exit.json` of a host that ended with this exit code."""
        return {}


class Body:
    """How a host is ended and cleaned up. This class does it for a process tree; subclasses do it for containers."""

    def terminate(self, child: int) -> None:
        """Asks the host's command, and it alone, to end."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)

    def kill(self, child: int) -> None:
        """Kills every process of the host."""
        _kill_all(child)

    def end(self, code: int | None, error: str | None) -> End:
        """Removes what a host left after its command ended. Returns the members for `exit.json`."""
        return {"exit_code": code, "error": error}


def run(plan: Plan, begun: Callable[[], None], requests: Requests, body: Body | None = None) -> int:
    """Runs a plan's host in the working directory to its end. Returns its exit code. Calls `begun` once it runs."""
    body = body or Body()
    cookie = secrets.token_hex(16)
    here = os.stat(".")
    started = {
        # Identifies the working directory. A copy of the file in another directory does not match.
        "directory": [here.st_dev, here.st_ino],
        "pid": os.getpid(),
        "start_time": host_files.start_time(os.getpid()),
        "cookie": cookie,
        "started_ms": time.time_ns() // 1_000_000,
    }
    json_files.reserve(host_files.EXIT)
    error = _prepare(plan)
    json_files.write_json(host_files.STARTED, started)
    begun()
    end = body.end(*((None, error) if error else _start_and_wait(plan, cookie, requests, body)))
    code: int | None = end["exit_code"]
    if "packages" in plan:
        host_packages.remove(plan["packages"])
    finished = {
        **end,
        "finished_ms": time.time_ns() // 1_000_000,
        "refused": "refused" in plan,
        **requests.heard(code),
    }
    json_files.write_reserved(host_files.EXIT, finished)
    return NOT_EXECUTABLE if code is None else code


def _prepare(plan: Plan) -> str | None:
    """Makes the packages of the plan and enters its namespaces. Returns what went wrong, or None."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    packages = plan.get("packages")
    if packages is not None:
        # An earlier shim may have been killed while it made them.
        host_packages.remove(packages)
        try:
            host_packages.make({**packages, "namespaces": plan["namespaces"]})
        except OSError as error:
            return f"the host's Python environment could not be made: {error}"
    if plan["namespaces"] not in ("root", "user"):
        return plan.get("refused") or plan.get("failed")
    view = host_namespaces.View(
        plan["opt_ml"],
        plan["hostname"],
        plan["hosts"],
        os.path.abspath("hosts"),
        plan["isolate_network"],
        tuple(plan["read_only"]),
        tuple(plan["mounts"]),
        tuple(plan.get("protected", ())),
    )
    try:
        host_namespaces.enter(view, user=plan["namespaces"] == "user")
    except OSError as error:
        return f"the host's namespaces could not be made: {error}"
    return None


def _start_and_wait(plan: Plan, cookie: str, requests: Requests, body: Body) -> tuple[int, str | None]:
    """Returns the exit code of the command, as a shell and Docker report it, and why it could not start."""
    command: list[str] = plan["command"]
    environment = {**plan["environment"], host_files.COOKIE: cookie}
    most: int = plan["most_processes"]
    group = host_limits.make_group(host_limits.group_of(cookie), most)
    with Output(host_files.OUTPUT) as output:
        try:
            child = _spawn(command, environment, plan["directory"], output, lambda: host_limits.enter(group, most))
        except FileNotFoundError as error:
            return NOT_FOUND, f"exec: {command[0]!r}: {error.strerror}"
        except OSError as error:
            return NOT_EXECUTABLE, f"exec: {command[0]!r}: {error.strerror}"
        try:
            return _wait(child.pid, requests, body), None
        finally:
            _kill_all(child.pid)
            _collect(child.pid)
            host_limits.remove_group(group)


def _spawn(
    command: list[str], environment: dict[str, str], directory: str, output: Output, bound: Callable[[], None]
) -> "subprocess.Popen[bytes]":
    shim = os.getpid()
    with output.given() as end:
        return subprocess.Popen(
            command,
            env=environment,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=end,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: _before_exec(shim, bound),
        )


def _before_exec(shim: int, bound: Callable[[], None]) -> None:
    """Runs in the child: sets its process group, default signals and process limit, and makes it die with the shim."""
    os.setpgid(0, 0)
    bound()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != shim:
            os._exit(128 + signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _wait(child: int, requests: Requests, body: Body) -> int:
    """Serves requests until the command has ended."""
    while True:
        number = requests.next()
        if number == FORCE:
            body.kill(child)
        elif number in FORWARDED:
            body.terminate(child)
        code = _collect(child)
        if code is not None:
            return code


def _collect(child: int) -> int | None:
    """Collects ended processes, adopted orphans too. Returns the command's exit code if it is among them."""
    code = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == child:
                raw = os.waitstatus_to_exitcode(status)
                code = raw if raw >= 0 else 128 - raw
    return code


def _kill_all(child: int) -> None:
    """Kills every process of the host. All descend from the shim, since orphans come to it as the subreaper."""
    if sys.platform != "linux":  # no /proc and no subreaper: kill the process group
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while (left := host_files.descendants(os.getpid())) and time.monotonic() < deadline:
        for pid in left:
            host_files.kill(pid)
        time.sleep(0.005)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
