"""The tests' `python`, which forks, beside Python itself: what a script sees of its process is the same."""

import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from support import forked_python
from support.training_host import TrainingHost, poll

pytestmark = [
    pytest.mark.xla,
    pytest.mark.skipif(forked_python.VARIABLE not in os.environ, reason="no script is forked here"),
]

#: Everything that a process has from the one that starts it, and what an import changes.
PROBE = """
    import json, os, resource, signal, sys, threading
    seen = {
        "argv": sys.argv, "orig_argv": sys.orig_argv[1:], "path": [*sys.path], "prefix": sys.prefix,
        "flags": repr(sys.flags), "main": sorted(vars(sys.modules["__main__"])), "name": __name__, "file": __file__,
        "spec": repr(__spec__), "environ": {n: v for n, v in os.environ.items() if n != "TEST_FORKED_PYTHON"},
        "cwd": os.getcwd(), "umask": os.umask(0o22), "nice": os.nice(0), "cpus": sorted(os.sched_getaffinity(0)),
        "limits": [resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_")],
        "signals": {str(n): str(signal.getsignal(n)).split(" at ")[0] for n in signal.valid_signals()},
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "leads": [os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid()],
        "files": sorted(int(n) for n in os.listdir("/proc/self/fd")), "threads": threading.active_count(),
        "loaded": sorted({n.partition(".")[0] for n in sys.modules} & {"torch", "numpy", "sympy", "yaml", "template"}),
        "streams": [(s.encoding, s.errors, s.line_buffering, s.write_through, s.fileno()) for s in
                    (sys.stdin, sys.stdout, sys.stderr)],
        "stdin": sys.stdin.read(),
    }
    import torch
    seen |= {
        "torch": [torch.__file__, torch.get_num_threads(), torch.__spec__.origin,
                  type(torch.__spec__.loader).__name__, "torch.nn.functional" in sys.modules,
                  "torch._dynamo" in sys.modules],
        "attribute": "_dynamo" in vars(torch),
    }
    print(json.dumps(seen))
"""


def environment() -> dict[str, str]:
    """The same for all of these scripts, so that they share a template."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OMP"))}
    return {**inherited, "OMP_NUM_THREADS": "1"}


def run(directory: Path, program: str, *words: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    variables = {**environment(), **options.pop("variables", {})}
    return subprocess.run(
        [program, *words], cwd=directory, env=variables, capture_output=True, text=True, timeout=300, **options
    )


def both(directory: Path, text: str, *words: str, **options: Any) -> "list[subprocess.CompletedProcess[str]]":
    """Runs the script by Python itself and by a fork."""
    script = directory / "script.py"
    script.write_text(textwrap.dedent(text).strip() + "\n")
    return [
        run(directory, program, *words, "script.py", "one", "two words", **options)
        for program in (sys.executable, forked_python.python())
    ]


def limits() -> None:
    os.umask(0o27)
    os.nice(1)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, 600))
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)


OTHER = {"variables": {"PYTHONPATH": "/nowhere::lib", "PYTHONHASHSEED": "3"}, "start_new_session": True}


@pytest.mark.parametrize(
    ("options", "words"), [({}, ()), ({**OTHER, "preexec_fn": limits}, ("-u", "--"))], ids=["plain", "other"]
)
def test_a_script_sees_the_same_process(tmp_path: Path, options: dict[str, Any], words: tuple[str, ...]) -> None:
    own, forked = both(tmp_path, PROBE, *words, input="for the script", **options)
    assert (own.returncode, forked.returncode) == (0, 0), own.stderr + forked.stderr
    seen, of_the_fork = json.loads(own.stdout), json.loads(forked.stdout)
    assert of_the_fork == seen


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("import sys; sys.exit(7)", 7),
        ("import sys; sys.exit('a reason')", 1),
        ("raise SystemExit", 0),
        ("def fails():\n    raise ValueError('a reason')\nfails()", 1),
        ("not Python", 1),
        ("import atexit, threading, time\natexit.register(print, 'at exit')\n"
         "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()\nprint('main')", 0),
        ("import os\nos._exit(9)", 9),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", -9),
        ("import os\nos.abort()", -6),
    ],
)  # fmt: skip
def test_a_script_ends_the_same(tmp_path: Path, text: str, code: int) -> None:
    own, forked = both(tmp_path, text)
    assert own.returncode == code
    assert (forked.returncode, forked.stdout, forked.stderr) == (code, own.stdout, own.stderr)


def test_an_import_hook_sees_the_import(tmp_path: Path) -> None:
    """The modules are hidden until the script imports them: a finder of the script is asked for each of them."""
    text = """
    import sys
    asked = []
    class Finder:
        def find_spec(self, name, path=None, target=None):
            asked.append(name)
    sys.meta_path.insert(0, Finder())
    import torch
    print("torch" in asked, "torch.nn" in asked, torch.nn.Linear(2, 2)(torch.ones(2)).shape)
    """
    own, forked = both(tmp_path, text)
    assert own.stdout == forked.stdout == "True True torch.Size([2])\n", forked.stderr


def test_a_package_of_the_script_comes_first(tmp_path: Path) -> None:
    """A template has imported another numpy: Python itself runs the script."""
    (tmp_path / "numpy.py").write_text("WHOSE = 'the script'\n")
    own, forked = both(tmp_path, "import numpy\nprint(numpy.WHOSE)")
    assert own.stdout == forked.stdout == "the script\n", forked.stderr


def test_a_sitecustomize_beside_the_script_is_none(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('run')\n")
    own, forked = both(tmp_path, "print('script')")
    assert own.stdout == forked.stdout == "script\n", forked.stderr


def test_forks_share_no_chance(tmp_path: Path) -> None:
    drawn_by = "random.random(), numpy.random.rand(), uuid.uuid4(), torch.rand(1).item()"
    text = f"import random, uuid, numpy, torch\nprint({drawn_by})"
    drawn = [both(tmp_path, text)[1].stdout.split() for _ in range(2)]
    assert all(one != other for one, other in zip(*drawn, strict=True)), drawn


def test_a_module_is_run(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys; print('script', sys.argv)")
    words = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "1", "script.py", "word")
    assert "script ['script.py', 'word']\n" in run(tmp_path, forked_python.python(), *words).stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("handled", [True, False])
def test_a_signal_reaches_the_script(tmp_path: Path, number: signal.Signals, handled: bool) -> None:
    handler = "lambda *_: (print('signal', flush=True), os._exit(5))" if handled else "signal.SIG_DFL"
    kind = "SIGINT" if number is signal.SIGINT else "SIGTERM"
    (tmp_path / "script.py").write_text(
        f"import os, signal, time\nsignal.signal(signal.{kind}, {handler})\n"
        "open('pid', 'w').write(str(os.getpid()))\nos.rename('pid', 'ready')\nwhile True: time.sleep(0.05)\n"
    )
    process = subprocess.Popen(
        [forked_python.python(), "script.py"], cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
    )
    poll((tmp_path / "ready").exists, "the script runs")
    process.send_signal(number)
    expected = 5 if handled and number is not signal.SIGKILL else -number
    assert process.wait(120) == expected
    poll(lambda: not is_running(int((tmp_path / "ready").read_text())), "the script ends with its process")
    assert process.stdout is not None
    assert process.stdout.read() == ("signal\n" if expected == 5 else "")


@pytest.mark.parametrize("forked", [True, False])
def test_a_job_starts_its_script_by_a_fork_if_the_test_says_so(tmp_path: Path, forked: bool) -> None:
    host = TrainingHost(tmp_path, forked=forked)
    host.script("print('run by', open('/proc/self/cmdline').read().split(chr(0)))")
    (line,) = [line for line in host.run().log.splitlines() if line.startswith("run by ")]
    assert ("support.forked_python.template" in line) is forked


def is_running(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
