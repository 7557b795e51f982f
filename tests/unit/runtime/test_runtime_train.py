"""`python -m sagelet_runtime.train` around the real toolkit, without torch."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import zipfile

import pytest

from support.training_host import RUNTIME, TrainingHost, poll


def test_success_writes_the_model_and_exits_zero(host: TrainingHost) -> None:
    host.script(
        """
        import argparse, os
        parser = argparse.ArgumentParser()
        parser.add_argument("--epochs", type=int)
        args = parser.parse_args()
        open(os.environ["SM_MODEL_DIR"] + "/model.txt", "w").write(str(args.epochs * 2))
        """
    )
    ended = host.run({"epochs": "3"})
    assert ended.code == 0, ended.log
    assert (host.model / "model.txt").read_text() == "6"
    assert (host.base / "output" / "success").exists()
    assert ended.failure is None


def test_the_variables_before_the_script_s_first_line_are_those_that_it_may_read(host: TrainingHost) -> None:
    host.script("import os\nprint('RUNS', 'SAGELET_REPORT_DIR' in os.environ)\n")
    ended = host.run()
    dump, _, rest = ended.log.partition("Invoking script with the following command:")
    assert "SM_HOSTS=" in dump
    assert "SAGELET_" not in dump.partition("Environment variables:")[2]
    assert "RUNS True" in rest


@pytest.mark.parametrize(
    ("variables", "expected"),
    [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")],
    ids=["sagelet's", "the user's", "the user's policy"],
)
def test_threads_leave_the_cpus_to_other_jobs_soon(
    host: TrainingHost, variables: dict[str, str], expected: str
) -> None:
    host.environment |= variables
    host.script("import os; print('looks', os.environ.get('GOMP_SPINCOUNT'))")
    assert f"looks {expected}" in host.run().log.splitlines()


#: A toolkit that says how Python collects garbage while the toolkit works.
COLLECTOR = """
import gc, sys, types
toolkit = types.ModuleType("sagemaker_training.cli.train")
toolkit.main = lambda: print(gc.isenabled(), gc.get_freeze_count() > 10_000)
sys.modules[toolkit.__name__] = toolkit
from sagelet_runtime.train import main
main()
"""


def test_garbage_is_collected_but_not_looked_for_in_what_was_imported() -> None:
    program = [sys.executable, "-c", COLLECTOR]
    said = subprocess.run(program, env=os.environ | {"PYTHONPATH": str(RUNTIME)}, capture_output=True, text=True)
    assert said.stdout.split() == ["True", "True"], said.stderr


def test_lines_come_out_whole_and_exact(host: TrainingHost) -> None:
    host.environment["PYTHONUNBUFFERED"] = "1"
    host.script(
        r"""
        import sys
        print("<begin>")
        print("loss", 0.5, "step", 3)
        print("   indented")
        print()
        print("bar 10%\rbar 100%")
        sys.stdout.buffer.write(b"caf\xc3\xa9 \xff\n")
        print("unterminated", end="\n<end>")
        """
    )
    ended = host.run()
    raw = host.log_file.read_bytes().decode()
    assert ended.code == 0
    body = raw.split("<begin>\n", 1)[1].split("<end>", 1)[0]
    assert body == "loss 0.5 step 3\n   indented\n\nbar 10%\rbar 100%\ncafé \ufffd\nunterminated\n"


def test_a_line_is_seen_while_the_script_still_runs(host: TrainingHost) -> None:
    host.script(
        """
        import os, time
        print("first", 1)
        while not os.path.exists("go"):
            time.sleep(0.01)
        """
    )
    process = host.start()
    poll(lambda: "first 1\n" in host.log, "the line is in the log")
    assert process.poll() is None
    (host.base / "code" / "go").touch()
    assert process.wait(timeout=120) == 0


def test_user_error_gives_aws_form_with_the_traceback(host: TrainingHost) -> None:
    host.script(
        """
        def inner(rate):
            raise RuntimeError(f"boom at {rate}")

        def outer():
            inner(0.5)

        print("ValueError: a line of the log that only looks like it")
        outer()
        """
    )
    ended = host.run({"epochs": "3"})
    assert ended.code == 1
    assert ended.failure is not None
    assert ended.failure.startswith(
        'ExecuteUserScriptError:\nExitCode 1\nErrorMessage "Traceback (most recent call last)'
    )
    for part in ("line 8, in <module>", "line 5, in outer", "line 2, in inner", "RuntimeError: boom at 0.5"):
        assert part in ended.failure
    assert re.search(r'RuntimeError: boom at 0\.5"\nCommand ".*python[\d.]* -- train\.py --epochs 3"$', ended.failure)
    assert len(ended.failure) < 1024


def test_exit_code_without_an_error(host: TrainingHost) -> None:
    host.script("import sys; sys.exit(7)")
    ended = host.run()
    assert ended.code == 1
    assert ended.failure is not None
    assert ended.failure.startswith('ExecuteUserScriptError:\nExitCode 7\nErrorMessage ""\nCommand')


def test_shell_script_and_its_errors(host: TrainingHost) -> None:
    host.script("echo from the shell >&2\npython3 -c 'int(\"x\")'\n", "train.sh")
    ended = host.run(program="train.sh")
    assert ended.code == 1
    assert "from the shell\n" in ended.log
    assert "ValueError: invalid literal for int()" in (ended.failure or "")


def test_native_launcher_passes_the_streams_through(host: TrainingHost) -> None:
    host.script("raise RuntimeError('boom')")
    ended = host.run({"sagemaker_toolkit_native_launcher_enabled": "true"})
    assert ended.code == 1
    assert 'ErrorMessage ""' in (ended.failure or "")
    assert "RuntimeError: boom\n" in ended.log


def test_mpi_is_refused_and_says_what_to_use(host: TrainingHost) -> None:
    host.script("print('never')")
    ended = host.run({"sagemaker_mpi_enabled": "true"})
    assert ended.code == 1
    assert (ended.failure or "").startswith("sagelet does not run distribution={'mpi': ...}")
    assert "torch_distributed" in (ended.failure or "")
    assert "never" not in ended.log


def test_native_job_is_kept_off_xla(host: TrainingHost) -> None:
    host.script(
        """
        import os
        print("XLA is", os.environ["USE_TORCH_XLA"], os.environ.get("SM_TRAINING_COMPILER_CONFIGURED"))
        """
    )
    ended = host.run()
    assert "XLA is 0 None\n" in ended.log
    assert "Training Compiler" not in ended.log


def test_bad_compiler_flag_fails_with_the_remedy(host: TrainingHost) -> None:
    host.script("print('never')")
    ended = host.run({"sagemaker_training_compiler_enabled": "perhaps"})
    assert ended.code == 1
    assert ended.failure == (
        'The hyperparameter sagemaker_training_compiler_enabled is \'perhaps\'; use "true" or "false".'
    )


def test_image_that_is_stood_in_for_is_named(host: TrainingHost) -> None:
    host.environment["SAGELET_TRAINING_IMAGE"] = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.0"
    host.script("print('hello')")
    version = ".".join(map(str, sys.version_info[:3]))
    assert f"pytorch-training:2.0 the job has Python {version}" in host.run().log


def test_requirements_are_installed_by_the_toolkit(host: TrainingHost) -> None:
    wheel = host.base / "code" / "seen_by_the_test-1.0-py3-none-any.whl"
    wheel.parent.mkdir(parents=True)
    info = "seen_by_the_test-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("seen_here.py", "WORD = 'installed'\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: seen-by-the-test\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    (host.base / "code" / "requirements.txt").write_text(f"./{wheel.name}\n")
    target = str(host.base / "site")
    host.environment |= {"PIP_TARGET": target, "PIP_NO_INDEX": "1"}
    host.script(f"import sys; sys.path.append({target!r}); import seen_here; print('package', seen_here.WORD)")
    ended = host.run()
    assert ended.code == 0, ended.log
    assert "package installed\n" in ended.log


STOPPABLE = """
    import os, signal, sys, time

    def stop(signum, frame):
        open(os.environ["SM_MODEL_DIR"] + "/model.txt", "w").write("saved at the stop")
        print("handler done")
        sys.exit({code})

    signal.signal(signal.SIGTERM, stop)
    print("ready")
    while True:
        time.sleep(0.05)
    """


def stop_when_ready(host: TrainingHost, process: subprocess.Popen[str]) -> int:
    poll(lambda: "\nready\n" in host.log, "the script is ready")
    process.send_signal(signal.SIGTERM)
    return process.wait(timeout=120)


def test_stop_reaches_the_handler_and_the_job_succeeds(host: TrainingHost) -> None:
    host.script(STOPPABLE.format(code=0))
    assert stop_when_ready(host, host.start()) == 0
    assert (host.model / "model.txt").read_text() == "saved at the stop"
    assert "handler done\n" in host.log
    assert (host.base / "output" / "success").exists()


def test_stop_reaches_a_script_below_a_shell(host: TrainingHost) -> None:
    host.script(STOPPABLE.format(code=0), "inner.py")
    host.script(f"( trap '' TERM; {sys.executable} inner.py )\necho after $?\n", "train.sh")
    stop_when_ready(host, host.start(program="train.sh"))
    poll(lambda: (host.model / "model.txt").exists(), "the model is saved")
    assert "handler done\n" in host.log


def test_stop_spares_the_workers_of_the_script(host: TrainingHost) -> None:
    host.script(
        """
        import multiprocessing, os, signal, sys, time

        def work():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            time.sleep(600)

        def stop(signum, frame):
            time.sleep(0.2)
            print("worker alive:", worker.is_alive())
            worker.kill()
            sys.exit(0)

        worker = multiprocessing.get_context("fork").Process(target=work)
        worker.start()
        signal.signal(signal.SIGTERM, stop)
        print("ready")
        worker.join()
        """
    )
    assert stop_when_ready(host, host.start()) == 0
    assert "worker alive: True\n" in host.log


def test_script_that_dies_of_the_stop_fails_the_job(host: TrainingHost) -> None:
    host.script("import time; print('ready'); time.sleep(600)")
    assert stop_when_ready(host, host.start()) == 1
    assert "ExitCode -15" in (host.base / "output" / "failure").read_text()


def test_handler_that_exits_nonzero_fails_the_job(host: TrainingHost) -> None:
    host.script(STOPPABLE.format(code=3))
    assert stop_when_ready(host, host.start()) == 1
    assert "ExitCode 3" in (host.base / "output" / "failure").read_text()


def test_stop_before_the_script_starts_ends_the_job_at_once(host: TrainingHost) -> None:
    slow = host.base / "bin" / "nvidia-smi"
    slow.parent.mkdir()
    once = "[ -e asked ] && exit 0\ntrap 'exit 0' TERM\ntouch asked\n"
    slow.write_text(f"#!/bin/sh\n{once}while :; do sleep 0.05; done\n")
    slow.chmod(0o755)
    host.environment["PATH"] = f"{slow.parent}:{os.environ['PATH']}"
    host.script("print('must not run')")
    process = host.start()
    poll(lambda: (host.base / "asked").exists(), "the toolkit asks for the GPUs")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=120) == 128 + signal.SIGTERM
    assert "must not run\n" not in host.log
    assert not (host.base / "output" / "success").exists()


DETACHES = """
    import subprocess, sys, time
    daemon = "import time\\nwhile True: print('noise', flush=True); time.sleep({pause})"
    child = subprocess.Popen([sys.executable, "-c", daemon], start_new_session=True)
    open("daemon", "w").write(str(child.pid))
    print("x" * 40_000)
    print("last words", end="")
    sys.stdout.flush()
    sys.exit({code})
    """


@pytest.mark.parametrize(("code", "pause"), [(0, 1), (3, 0.01)])
def test_a_detached_process_that_holds_the_output_does_not_hold_the_job(
    host: TrainingHost, code: int, pause: float
) -> None:
    host.script(DETACHES.format(code=code, pause=pause))
    process = host.start()
    try:
        assert process.wait(timeout=120) == (1 if code else 0)
        assert "last words" in host.log
        assert "processes that it detached hold its output" in host.log
        assert (host.base / "output" / "success").exists() == (code == 0)
    finally:
        # It dies of its next word after the toolkit closed the pipe.
        with contextlib.suppress(ProcessLookupError):
            os.kill(int((host.base / "code" / "daemon").read_text()), signal.SIGKILL)


def test_what_runs_in_the_background_is_waited_for(host: TrainingHost) -> None:
    host.script("( until [ -e go ]; do sleep 0.05; done; echo late ) &\necho script ends\n", "train.sh")
    process = host.start(program="train.sh")
    poll(lambda: "script ends\n" in host.log, "the script ends")
    (host.base / "code" / "go").touch()
    assert process.wait(timeout=120) == 0
    assert "late\n" in host.log


def test_memory_does_not_grow_with_the_output(host: TrainingHost) -> None:
    host.script(
        """
        import os, resource, sys
        print("RuntimeError: from here on the text is collected")
        line = b"x" * 999 + b"\\n"
        for _ in range(200):
            sys.stdout.buffer.write(line * 1000)
        sys.stdout.flush()
        status = open(f"/proc/{os.getppid()}/status").read()
        print("peak", next(row for row in status.splitlines() if row.startswith("VmHWM")))
        """
    )
    ended = host.run()
    assert ended.code == 0
    assert host.log_file.stat().st_size > 200_000_000
    peak = int(re.findall(r"^peak VmHWM:\s+(\d+) kB", ended.log[-1000:], re.MULTILINE)[0])
    host.log_file.unlink()
    assert peak < 150_000


def test_bin_train_is_executable_and_runs_the_module(host: TrainingHost) -> None:
    train = RUNTIME / "bin" / "train"
    assert train.stat().st_mode & 0o111 == 0o111
    assert "exec python3 -m sagelet_runtime.train" in train.read_text()


def test_runtime_imports_nothing_of_the_engine_or_the_faces() -> None:
    sources = "\n".join(file.read_text() for file in (RUNTIME / "sagelet_runtime").rglob("*.py"))
    assert not re.search(r"^\s*(import|from) (sagelet|sagelet_api)\b", sources, re.MULTILINE)


def test_working_directory_is_not_handed_to_the_script(host: TrainingHost) -> None:
    (host.base / "stray.py").write_text("")
    host.script("import importlib.util; print('stray', importlib.util.find_spec('stray'))")
    assert "stray None\n" in host.run().log


MASTER = """
    import os
    print("master", os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"])
"""


def test_the_master_of_one_host_is_this_machine_at_a_port_of_the_runtimes_choice(host: TrainingHost) -> None:
    host.script(MASTER)
    host.environment["SAGELET_MASTER_PORT"] = "23456"
    assert "master 127.0.0.1 23456" in host.run().log


def test_the_master_of_hosts_without_names_is_this_machine(host: TrainingHost) -> None:
    host.hosts = ("no-such-name.invalid", "algo-2")
    host.script(MASTER)
    assert "master 127.0.0.1 7777" in host.run().log
    host.hosts = ("localhost", "algo-2")
    assert "master localhost 7777" in host.run().log
