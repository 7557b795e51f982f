"""First on PYTHONPATH of the processes of jobs.

Readies the hooks of torch_xla, transformers and the Hub's clients, the stand-ins of packages and the workers' notes,
has the installation of SDK v3's driver watched, then runs the sitecustomize that it hides. Every Python of the job
imports this at start, so it stays small. In a native job it readies what counts steps.
"""

import os
import sys
from importlib import util

_HERE = os.path.dirname(os.path.abspath(__file__))
_ROOT = os.path.dirname(os.path.dirname(_HERE))


def _activate() -> None:
    native = "SAGELET_NOT_COMPILED" in os.environ
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
        from sagelet_runtime import driver_install

        driver_install.watch_if_it_is_this_process()
    if several:
        from sagelet_runtime.workers import deaths

        deaths.install(os.environ)
    if hub:
        from sagelet_runtime.hugging_face import hub as clients

        clients.activate()
    if old_names:
        from sagelet_runtime.hugging_face import activation

        activation.activate()
    if stands_in:
        from sagelet_runtime import missing_gpu

        missing_gpu.activate()
    from sagelet_runtime import command_line, hook, processes, spawn_modules, stand_ins

    command = command_line.of_this_process()
    if spawn_modules.stand_in(command):
        return
    stand_ins.activate()
    if hooked:
        hook.activate()
    if counted and (native or not hooked):
        hook.activate_native()
    if processes.is_torchrun(command):
        from sagelet_runtime.workers import whole_lines

        hook.after(whole_lines.MODULE, whole_lines.install)
    if debugged:
        from sagelet_runtime import attach

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
