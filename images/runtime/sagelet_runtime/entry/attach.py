"""Opens a port for a debugger on request: the script's process listens for debugpy's clients (VS Code: "attach").

Environment of CreateTrainingJob asks for it. SAGELET_DEBUGPY is the port (0 means any free port), and
SAGELET_DEBUGPY_WAIT=true holds the script until a debugger is attached. Host N of a job listens on the port after host
N-1's. Of several workers of a host, the first one listens. AWS has no such feature: its RemoteDebugConfig is a shell in
the container through AWS's SSM agent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

from sagelet_runtime.base.command_line import module_of
from sagelet_runtime.base.say import say

VARIABLE, WAIT = "SAGELET_DEBUGPY", "SAGELET_DEBUGPY_WAIT"
#: The address to listen on. The docker runtime sets it, and publishes the port on this machine's loopback address only.
LISTEN = "SAGELET_DEBUGPY_LISTEN"
#: Variables that name the user's script: AWS's toolkit sets one, SDK v3's driver the other.
ENTRY_POINTS = ("SM_USER_ENTRY_POINT", "SM_ENTRY_SCRIPT")
WORKER = "sagelet_runtime.workers.script"


def is_wanted(environ: Mapping[str, str], command: Sequence[str]) -> bool:
    """True if this process must listen, judged by its command line and LOCAL_RANK."""
    if not environ.get(VARIABLE) or environ.get("LOCAL_RANK", "0") != "0":
        return False
    module = module_of(command)
    if module is not None:
        return module == WORKER
    script = next((word for word in command[1:] if not word.startswith("-")), "")
    names = {os.path.basename(environ[name]) for name in ENTRY_POINTS if environ.get(name)}
    return os.path.basename(script) in names


def port_of(environ: Mapping[str, str]) -> int | None:
    """Returns the port of this host, or None if SAGELET_DEBUGPY is not a port. 0 means any free port."""
    asked = environ[VARIABLE]
    if not asked.isdecimal() or int(asked) > 65535:
        return None
    hosts = json.loads(environ.get("SM_HOSTS", "[]"))
    current = environ.get("SM_CURRENT_HOST", "")
    place = hosts.index(current) if current in hosts else 0
    return int(asked) + place if int(asked) else 0


def listen(environ: Mapping[str, str]) -> None:
    """Listens, says where, and waits for a debugger if asked to. If it cannot listen, says so and the script runs."""
    port = port_of(environ)
    if port is None:
        say(f"{VARIABLE}={environ[VARIABLE]} is not a port: give a number from 0 (any that is free) to 65535")
        return
    # Without this, debugpy warns of Python's own frozen modules, which nobody steps through.
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    try:
        import debugpy
    except ImportError:
        say(f"{VARIABLE}: debugpy is not installed here; put it into the requirements.txt of the source directory")
        return
    # Processes that the script starts (data loaders, compilers) would wait for debuggers of their own.
    debugpy.configure(subProcess=False)
    try:
        _, port = debugpy.listen((environ.get(LISTEN, "127.0.0.1"), port))
    except (RuntimeError, OSError) as error:
        say(f"{VARIABLE}: cannot listen on port {port}: {error}")
        return
    say(f"debugpy listens: attach a debugger to 127.0.0.1:{port}")
    if environ.get(WAIT, "").lower() in ("1", "true", "yes"):
        say("the script waits for the debugger")
        debugpy.wait_for_client()
