"""`xmp.spawn` and `torch_xla.launch`: in a worker they call the function, in a plain script they start the workers.

torch_xla 2.9 refuses every nprocs but 1 and None, and its CPU client would give each process a world of its own.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from sagelet_runtime.base.say import say_once
from sagelet_runtime.base.variables import is_on_xla, on_cpu

#: Variables with the number of workers, for a script that names none. The first one that is set counts.
_COUNTS = ("GPU_NUM_DEVICES", "CPU_NUM_DEVICES")
_starting = threading.Lock()


def install(torch_xla: Any) -> None:
    import torch_xla.distributed.xla_multiprocessing as xmp

    torch_xla.launch = make_launch(torch_xla.launch)
    xmp.spawn = make_spawn(xmp.spawn, starts_workers=on_cpu(os.environ))


def make_launch(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps torch_xla's `launch`, which below torchrun passes the local rank in place of the ordinal."""

    def launch(
        fn: Callable[..., Any],
        args: tuple[Any, ...] = (),
        start_method: str = "spawn",
        debug_single_process: bool = False,
    ) -> Any:
        """Calls `fn(ordinal, *args)` in a worker. Elsewhere calls torch_xla's own function."""
        if int(os.environ.get("WORLD_SIZE") or 1) > 1:
            return fn(int(os.environ["RANK"]), *args)
        return original(fn, args=args, start_method=start_method, debug_single_process=debug_single_process)

    return launch


def make_spawn(original: Callable[..., Any], *, starts_workers: bool) -> Callable[..., Any]:
    """Makes a `spawn`. `original` runs one worker.

    `starts_workers`: if true, it also starts the workers of a plain script. Otherwise `original` does.
    """

    def spawn(
        fn: Callable[..., Any],
        args: tuple[Any, ...] = (),
        nprocs: int | None = None,
        join: bool = True,
        daemon: bool = False,
        start_method: str = "spawn",
    ) -> Any:
        """Runs `fn(ordinal, *args)` in each worker. Raises the error of the first worker that failed."""
        launched = int(os.environ.get("WORLD_SIZE") or 1)
        if launched > 1:
            if nprocs not in (None, 1, launched, int(os.environ.get("LOCAL_WORLD_SIZE") or launched)):
                say_once(f"xmp.spawn(nprocs={nprocs}): the job was started with {launched} workers and keeps them")
            return fn(int(os.environ["RANK"]), *args)
        if not starts_workers:
            return original(fn, args=args, nprocs=nprocs, join=join, daemon=daemon, start_method=start_method)
        count = worker_count(nprocs, os.environ)
        if count == 1:
            return original(fn, args=args, nprocs=1, start_method=start_method)
        context = start(fn, args, count, daemon, start_method)
        if not join:
            return context
        while not context.join():
            pass
        return None

    return spawn


def worker_count(nprocs: int | None, environ: Mapping[str, str]) -> int:
    """Returns the number of workers to start. Raises ValueError for a number below 1."""
    if nprocs is not None:
        named, source = str(nprocs), "nprocs"
    else:
        named, source = next(((environ[name], name) for name in _COUNTS if environ.get(name)), ("1", ""))
    if not named.isdigit() or int(named) < 1:
        raise ValueError(f"{source}={named} is not a number of workers")
    return int(named)


def start(fn: Callable[..., Any], args: tuple[Any, ...], count: int, daemon: bool, method: str) -> Any:
    """Starts the workers of one host. Returns torch's own ProcessContext.

    It ends the others when one worker fails, and raises that worker's error. Raises ValueError for an unknown `method`.
    """
    import torch.multiprocessing as mp
    from torch.multiprocessing.spawn import ProcessContext, _wrap

    if method not in ("spawn", "fork"):
        raise ValueError(f"xmp.spawn(start_method={method!r}) cannot start workers on CPUs; use 'spawn' or 'fork'")
    if method == "fork" and is_on_xla(os.environ):
        _check_no_device()
    context = mp.get_context(method)
    with ExitStack() as undone:
        held = undone.enter_context(hold_port())
        directory = tempfile.mkdtemp(prefix="sagelet-spawn-")
        undone.callback(shutil.rmtree, directory)
        processes, errors = [], []
        for rank in range(count):
            errors.append(os.path.join(directory, f"{rank}.pickle"))
            process = context.Process(target=_wrap, args=(_work, rank, (fn, args, method), errors[-1]), daemon=daemon)
            with worker_environment(rank, count, held.getsockname()[1]):
                process.start()
            undone.callback(_end, process)
            processes.append(process)
        started = ProcessContext(processes, errors)
        undone.pop_all()
    weakref.finalize(started, shutil.rmtree, directory, ignore_errors=True)
    weakref.finalize(started, held.close)
    return started


def _check_no_device() -> None:
    import torch_xla

    if torch_xla._XLAC._xla_runtime_is_initialized():
        raise RuntimeError("Runtime is already initialized. Do not use the XLA device before calling xmp.spawn.")


def _end(process: Any) -> None:
    """Kills a worker whose peers could not be started."""
    process.kill()
    process.join()


def _work(rank: int, fn: Callable[..., Any], args: tuple[Any, ...], method: str) -> None:
    if method == "fork" and is_on_xla(os.environ):
        # The script imported torch_xla before it had workers, so the patches are not installed yet.
        import torch_xla

        from sagelet_runtime.collectives import install as world

        world.install(torch_xla)
    fn(rank, *args)


@contextmanager
def worker_environment(rank: int, count: int, port: int) -> Iterator[None]:
    """Puts one worker's variables into os.environ, so that a child has them before it unpickles or imports anything."""
    variables = {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "WORLD_SIZE": count,
        "LOCAL_WORLD_SIZE": count,
        "GROUP_RANK": 0,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "PJRT_LOCAL_PROCESS_RANK": rank,
        "PJRT_LOCAL_PROCESS_COUNT": count,
        "CPU_NUM_DEVICES": 1,
    }
    with _starting:
        before = {name: os.environ.get(name) for name in variables}
        os.environ.update({name: str(value) for name, value in variables.items()})
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def hold_port() -> socket.socket:
    """Returns a socket that holds a port of this host, so that nobody gets it before the first worker listens there.

    It does not listen itself, so whoever sets SO_REUSEADDR can, as torch's rendezvous does.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder
