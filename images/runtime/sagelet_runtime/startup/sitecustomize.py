"""Sets up a Python process of a job. This file is first on PYTHONPATH there.

It installs the hooks of torch_xla, transformers and the Hub's clients, the stand-ins for packages and the notes of
workers. It has the installation of SDK v3's driver watched, and notes where a process hangs and what it has loaded. In
a native job it installs the hooks that count steps. Then it runs the sitecustomize that it hides. Every Python of the
job imports it at start, so keep it small.
"""

import os
import sys
from importlib import util

_HERE = os.path.dirname(os.path.abspath(__file__))
_ROOT = os.path.dirname(os.path.dirname(_HERE))


def _activate() -> None:
    by_inductor = "SAGELET_INDUCTOR" in os.environ
    native = by_inductor or "SAGELET_NOT_COMPILED" in os.environ
    hooked = native or os.environ.get("SM_TRAINING_COMPILER_CONFIGURED") == "1"
    counted = bool(os.environ.get("SAGELET_REPORT_DIR"))
    several = "SAGELET_WORKER_NOTES" in os.environ
    old_names = "SAGELET_OLD_TRANSFORMERS" in os.environ
    debugged = bool(os.environ.get("SAGELET_DEBUGPY"))
    stands_in = "SAGELET_STANDS_IN_FOR" in os.environ
    driven = "SAGELET_DRIVER_INSTALL" in os.environ
    hub = "/_sagelet/hub" in os.environ.get("HF_ENDPOINT", "")
    if not any((hooked, several, counted, old_names, debugged, stands_in, hub, driven)):
        return
    if util.find_spec("sagelet_runtime") is None:
        sys.path.append(_ROOT)
    if driven:
        from sagelet_runtime.requirements import driver_install

        driver_install.watch_if_it_is_this_process()
    if several:
        from sagelet_runtime.workers import worker_failures

        worker_failures.install(os.environ)
    if hub:
        from sagelet_runtime.hugging_face import hub as clients

        clients.activate()
    if old_names:
        from sagelet_runtime.hugging_face import activation

        activation.activate()
    from sagelet_runtime import stand_ins
    from sagelet_runtime.base import command_line, import_hook, processes, quiet_imports
    from sagelet_runtime.entry import patches as hook
    from sagelet_runtime.torch_xla import spawn_modules

    if stands_in:
        hook.activate_without_gpu()

    command = command_line.of_this_process()
    if spawn_modules.stand_in(command):
        return
    if counted and not processes.is_launcher(command):
        _watch()
    stand_ins.activate(torch_xla=native)
    if hooked:
        hook.activate()
    if by_inductor:
        hook.activate_inductor()
    if counted and (native or not hooked):
        hook.activate_native()
    if processes.is_torchrun(command):
        from sagelet_runtime.workers import whole_lines

        import_hook.after(whole_lines.MODULE, whole_lines.install)
    if os.environ.get(quiet_imports.VARIABLE) != "0":
        quiet_imports.activate()
    if debugged:
        _debug(command)


def _watch() -> None:
    from sagelet_runtime.reporting import idling

    idling.watch()


def _debug(command: list[str]) -> None:
    from sagelet_runtime.entry import attach

    if attach.is_wanted(os.environ, command):
        attach.listen(os.environ)


def _run_hidden() -> None:
    for path in sys.path:
        file = os.path.join(path, "sitecustomize.py")
        if os.path.abspath(path) == _HERE or not os.path.isfile(file):
            continue
        spec = util.spec_from_file_location("_hidden_sitecustomize", file)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module(util.module_from_spec(spec))
        return


_activate()
_run_hidden()
