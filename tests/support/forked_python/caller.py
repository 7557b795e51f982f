"""Runs as `python`, in a script's place. Standard library only, and little of it: each script waits for this."""

import array
import fcntl
import hashlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys

VARIABLE = "TEST_FORKED_PYTHON"
HERE = os.path.dirname(os.path.abspath(__file__))
#: What Python, torch, numpy and the C library read when they start or are loaded. TORCHELASTIC_* is read by calls.
READ_AT_START = (
    *("TORCH", "PYTORCH", "ATEN_", "CUDA", "OMP_", "GOMP_", "KMP_", "MKL", "OPENBLAS", "NUMEXPR", "NPY_", "SYMPY"),
    *("PYTHON", "LANG", "LC_", "TZ", "LD_", "MALLOC_", "GLIBC_"),
)
NOT_READ_AT_START = ("TORCHELASTIC_", "PYTHONPATH")
#: What a template needs beside that.
ANY_PROCESS = ("PATH", "HOME", "TMPDIR", "USER")
#: Options of Python that are a template's own. A script with other options is run by Python itself.
OPTIONS = {"-u", "-B"}
#: Modules that `python -m` runs and that import torch. A `-m` of another module is run by Python itself.
MODULES = {"torch.distributed.run", "torch.distributed.launch", "sagelet_runtime.workers.script"}
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def main() -> None:
    """Runs `sys.argv[1:]` as Python would."""
    directory = os.environ.get(VARIABLE)
    words = sys.argv[1:]
    options = forkable(words)
    if directory is None or options is None or any(os.isatty(fd) for fd in (0, 1, 2)):
        os.execv(sys.executable, [sys.executable, *words])
    # Signals wait until the script is there.
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    connection = template(directory, options)
    status = call(connection, words)
    end_as(status)


def forkable(words: "list[str]") -> "list[str] | None":
    """Returns Python's own options if the rest is a script or one of `MODULES`, else None."""
    options, rest = split(words)
    if rest[:1] == ["-m"]:
        return options if rest[1:2] and rest[1] in MODULES else None
    return options if rest and rest[0].endswith(".py") and os.path.isfile(rest[0]) else None


def split(words: "list[str]") -> "tuple[list[str], list[str]]":
    """Returns Python's own options, and the script or `-m` with its arguments. AWS's toolkit puts `--` between them."""
    count = next((at for at, word in enumerate(words) if word not in OPTIONS), len(words))
    return words[:count], words[count + (words[count : count + 1] == ["--"]) :]


def template(directory: str, options: "list[str]") -> socket.socket:
    """Connects to the template for processes like this one. Starts it if there is none."""
    environment = {name: value for name, value in os.environ.items() if is_read_at_start(name)}
    compiled = os.environ.get("SM_TRAINING_COMPILER_CONFIGURED") == "1" and "SAGELET_NOT_COMPILED" not in os.environ
    known = [sys.executable, options, sorted(environment.items()), compiled, *inherited()]
    name = hashlib.sha256(json.dumps(known).encode()).hexdigest()[:16]
    place = os.path.join(directory, name)
    with open(f"{place}.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = connected(place)
        if found is None:
            start(directory, place, options, environment, "compiled" if compiled else "native")
            found = connected(place)
    assert found is not None, place
    return found


def is_read_at_start(name: str) -> bool:
    return name.startswith(READ_AT_START) and not name.startswith(NOT_READ_AT_START)


def inherited() -> "list[object]":
    """Returns what a process has from the one that starts it, beside its environment and its files."""
    limits = [resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")]
    ignored = [number for number in signal.valid_signals() if signal.getsignal(number) is signal.SIG_IGN]
    blocked = sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ()) - set(PASSED_ON))
    mask = os.umask(0)
    os.umask(mask)
    owner = [os.getuid(), os.getgid(), sorted(os.getgroups())]
    return [limits, sorted(ignored), blocked, mask, owner, os.nice(0), sorted(os.sched_getaffinity(0))]


def connected(place: str) -> "socket.socket | None":
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(place)
    except OSError:
        connection.close()
        return None
    return connection


def start(directory: str, place: str, options: "list[str]", environment: "dict[str, str]", kind: str) -> None:
    """Starts a template with what this process has inherited, and waits until it listens. It imports afterwards."""
    also = {name: os.environ[name] for name in ANY_PROCESS if name in os.environ}
    command = [sys.executable, *options, "-m", "support.forked_python.template", place, kind]
    with open(f"{place}.log", "ab") as log, open(os.path.join(directory, "owner")) as owner:
        process = subprocess.Popen(
            [*command, owner.read()],
            env={**also, **environment},
            cwd=os.path.dirname(os.path.dirname(HERE)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON),
        )
    assert process.stdout is not None
    assert process.stdout.read(1) == b"!", f"{command} does not listen: see {place}.log"
    process.stdout.close()
    process.returncode = 0  # It outlives this process.


def call(connection: socket.socket, words: "list[str]") -> int:
    """Has the template fork for the script. Returns the status of its end, as `waitpid` does."""
    fds = sorted(fd for fd in map(int, os.listdir("/proc/self/fd")) if fd != connection.fileno() and is_open(fd))
    request = {
        "words": words,
        "environment": dict(os.environ),
        "directory": os.getcwd(),
        "fds": fds,
        "session": os.getsid(0) == os.getpid(),
        "group": os.getpgrp() == os.getpid(),
    }
    body = json.dumps(request).encode()
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
    connection.sendmsg([len(body).to_bytes(8, "big")], rights)
    connection.sendall(body)
    pid = received(connection)
    for number in PASSED_ON:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _frame: os.kill(pid, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    return received(connection)


def is_open(fd: int) -> bool:
    """False for the descriptor by which the list was read."""
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def received(connection: socket.socket) -> int:
    data = b""
    while len(data) < 8:
        more = connection.recv(8 - len(data))
        if not more:
            sys.exit("the template of forked scripts has ended")
        data += more
    return int.from_bytes(data, "big")


def end_as(status: int) -> None:
    """Ends this process as the script ended."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))
