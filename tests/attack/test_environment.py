"""What a job installs, upgrades and removes: none of it is the server's, nor another job's.

The server runs in a Python environment of the test's own.
"""

import json
import os
import signal
import subprocess
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.runtimes.node import host_files
from support.jobs import Jobs
from support.packages import PROBE, OwnPython, module_of, wheel, wheel_name
from support.server import SageletProcess, until

pytestmark = pytest.mark.xla

NEW, OTHER, LAST = "sagelet-test-new", "sagelet-test-other", "sagelet-test-last"
#: Prints the version of PROBE that a new interpreter finds.
SHOWS = f"""
    import subprocess, sys
    def shows(what):
        code = "import {module_of(PROBE)} as probe; print(probe.WORD)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        print(what, done.stdout.strip() or done.stderr.strip().splitlines()[-1])
    def run(*command):
        done = subprocess.run(command, capture_output=True, text=True)
        print("exit", done.returncode, *command)
        print(done.stdout, done.stderr)
"""


class World:
    """A server in an environment of its own."""

    def __init__(self, root: Path) -> None:
        self.python = OwnPython(root)
        self.server = SageletProcess(root / "data", "--runtime", "process", "--max-jobs", "3", "--stop-grace", "2")
        self.server.program = self.python.sagelet
        self.server.environment = {**self.python.environment(), "PIP_NO_INDEX": "1", "PIP_NO_CACHE_DIR": "1"}
        self.server.start()
        self.jobs = Jobs(self.server)
        #: As it was before the first job.
        self.before = self.python.content()

    @property
    def kept(self) -> list[Path]:
        return sorted((self.server.data / "environments" / "kept").glob("*"))

    def runs(self, script: str, files: dict[str, str | bytes] | None = None, **options: Any) -> list[str]:
        """The log of a job that succeeds."""
        return self.ended(self.starts(script, files, **options))

    def starts(self, script: str, files: dict[str, str | bytes] | None = None, **options: Any) -> str:
        return self.jobs.submit(
            {"train.py": textwrap.dedent(SHOWS) + textwrap.dedent(script), **(files or {})}, **options
        )

    def ended(self, name: str) -> list[str]:
        job = self.jobs.ended(name)
        assert job["TrainingJobStatus"] == "Completed", (job["FailureReason"], self.jobs.log(name))
        return self.jobs.written(name)

    def gc(self, *options: str) -> str:
        command = [str(self.python.sagelet), "gc", "--data", str(self.server.data), *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("environment"))
    yield made
    made.server.stop()


@pytest.fixture(autouse=True)
def unchanged(world: World) -> Iterator[None]:
    """Checks after every test that the server's environment is unchanged and its home has nothing new."""
    yield
    assert world.python.content() == world.before


def wheels(*named: tuple[str, str]) -> dict[str, str | bytes]:
    return {wheel_name(name, version): wheel(name, version) for name, version in named}


def test_the_ways_of_pip(world: World) -> None:
    log = world.runs(
        f"""
        shows("at first")
        run(sys.executable, "-m", "pip", "install", "./{wheel_name(PROBE, "2.0")}")
        shows("upgraded")
        run("pip", "uninstall", "-y", "{PROBE}")
        shows("uninstalled")
        run("pip3", "install", "--user", "./{wheel_name(NEW)}")
        run("python", "-m", "pip", "install", "--force-reinstall", "./{wheel_name(PROBE, "0.5")}")
        shows("downgraded")
        import {module_of(NEW)} as new
        print("new", new.WORD, new.__file__)
        """,
        wheels((PROBE, "2.0"), (PROBE, "0.5"), (NEW, "1.0")),
    )
    said = [line for line in log if line.split(" ")[0] in ("at", "upgraded", "uninstalled", "downgraded")]
    # As in any environment over another: what lies below is there again.
    assert said == ["at first 1.0", "upgraded 2.0", "uninstalled 1.0", "downgraded 0.5"], log
    assert not [line for line in log if line.startswith("exit") and not line.startswith("exit 0")], log
    assert any(line.startswith("new 1.0 ") for line in log), log
    assert "after it 1.0" in world.runs('shows("after it")')


def test_the_ways_of_setuptools(world: World) -> None:
    """Runs in a directory of its own, because AWS's toolkit installs a source directory that has a setup.py."""
    log = world.runs(
        f"""
        import os
        os.chdir("package")
        run(sys.executable, "setup.py", "develop")
        run(sys.executable, "-m", "pip", "install", "--no-build-isolation", "-e", ".")
        os.chdir("/")
        run(sys.executable, "-c", "import {module_of(OTHER)} as other; print(other.WORD, other.__file__)")
        """,
        {
            "package/setup.py": f"import setuptools as s\ns.setup(name='{OTHER}', py_modules=['{module_of(OTHER)}'])",
            f"package/{module_of(OTHER)}.py": "WORD = 'developed'\n",
        },
    )
    assert any(line.startswith("developed /opt/ml/code/package/") for line in log), log


def test_the_interpreter_of_the_server_installs_nothing(world: World) -> None:
    log = world.runs(
        f"""
        run("{world.python.python}", "-m", "pip", "install", "./{wheel_name(NEW)}")
        run("{world.python.python}", "-m", "pip", "uninstall", "-y", "{PROBE}")
        try:
            open("{world.python.site}/{module_of(PROBE)}.py", "a").write("WORD = 'changed'")
        except OSError as error:
            print("refused:", error.strerror)
        """,
        wheels((NEW, "1.0")),
    )
    assert "refused: Read-only file system" in log
    assert any("Read-only file system" in line and "refused" not in line for line in log), log


def test_programs_of_the_server_see_what_the_job_installs(world: World) -> None:
    """`torchrun` is one: it names the server's interpreter in its first line."""
    program = world.python.root / "bin" / "probing"
    program.write_text(
        f"#!{world.python.python}\nimport sys, {module_of(PROBE)} as p\nprint('probing', p.WORD, sys.argv)\n"
    )
    program.chmod(0o755)
    world.before = world.python.content()
    # A server looks for them once.
    world.server.stop()
    world.server.start()
    world.jobs = Jobs(world.server)
    log = world.runs(
        f"""
        run("pip", "install", "./{wheel_name(PROBE, "2.0")}")
        run("probing", "a b")
        """,
        wheels((PROBE, "2.0")),
    )
    assert any(line.startswith("probing 2.0 [") and line.endswith("'a b']") for line in log), log


REQUIRES = f"""
    import {module_of(NEW)} as new
    print("new", new.WORD)
    shows("probe")
    run("new-command")
"""


def required(*more: str) -> dict[str, str | bytes]:
    return {
        "requirements.txt": "\n".join([f"./{wheel_name(NEW)}", f"./{wheel_name(PROBE, '2.0')}", *more]),
        wheel_name(NEW): wheel(NEW, script="new-command"),
        wheel_name(PROBE, "2.0"): wheel(PROBE, "2.0"),
    }


def check_required(log: list[str]) -> None:
    assert "new 1.0" in log, log
    assert "probe 2.0" in log, log
    assert f"{module_of(NEW)} says 1.0" in log, log


def test_the_same_requirements_are_installed_once(world: World) -> None:
    first, second = world.runs(REQUIRES, required("# once")), world.runs(REQUIRES, required("# once"))
    check_required(first)
    check_required(second)
    assert [any(line.startswith("Successfully installed") for line in log) for log in (first, second)] == [True, False]
    assert [sum("is installed, and kept for other jobs" in line for line in log) for log in (first, second)] == [1, 0]
    assert [sum("was installed before, and is kept" in line for line in log) for log in (first, second)] == [0, 1]


def test_no_job_changes_what_is_kept_for_others(world: World) -> None:
    """Neither with pip nor by writing to it. For root it is mounted read-only."""
    poison = f"""
        run("pip", "install", "--force-reinstall", "./{wheel_name(NEW, "6.66")}")
        run("pip", "uninstall", "-y", "{NEW}", "{PROBE}")
        run("pip", "uninstall", "-y", "{NEW}", "{PROBE}")
        run("pip", "install", "./{wheel_name(LAST)}")
        import {module_of(NEW)} as new
        print("new is", new.WORD)
        try:
            open(new.__file__, "a").write("WORD = 'changed'")
        except OSError as error:
            print("refused:", error.strerror)
    """
    added = {**required("# poison"), **wheels((NEW, "6.66"), (LAST, "1.0"))}
    for _ in range(2):
        log = world.runs(poison, added)
        assert "new is 1.0" in log, log
        assert "refused: Read-only file system" in log, log
    log = world.runs(REQUIRES + f'    run(sys.executable, "-c", "import {module_of(LAST)}")', added)
    check_required(log)
    assert any(f"No module named '{module_of(LAST)}'" in line for line in log), log


def test_requirements_that_follow_from_more_than_their_file_are_not_kept(world: World) -> None:
    files: dict[str, str | bytes] = {
        "requirements.txt": "--find-links ./wheels\n" + NEW,
        f"wheels/{wheel_name(NEW)}": wheel(NEW),
    }
    before = world.kept
    for _ in range(2):
        log = world.runs(f"import {module_of(NEW)} as new; print('new', new.WORD)", files)
        assert any("for this job alone" in line for line in log), log
        assert any(line.startswith("Successfully installed") for line in log), log
        assert "new 1.0" in log
    assert world.kept == before


def test_another_file_of_the_same_name_is_another_requirement(world: World) -> None:
    for command in ("one-command", "another-command"):
        files = {**required("# content"), wheel_name(NEW): wheel(NEW, script=command)}
        log = world.runs(f'run("{command}")', files)
        assert f"{module_of(NEW)} says 1.0" in log, log
        assert any(line.startswith("Successfully installed") for line in log), log


def test_each_host_has_packages_of_its_own(world: World) -> None:
    script = f"""
        import os
        host = os.environ["SM_CURRENT_HOST"]
        run("pip", "install", f"./{module_of(OTHER)}-{{1 if host == 'algo-1' else 2}}.0-py3-none-any.whl")
        import {module_of(OTHER)} as other
        print("other", other.WORD)
    """
    name = world.starts(script, {**required("# hosts"), **wheels((OTHER, "1.0"), (OTHER, "2.0"))}, hosts=2)
    assert world.jobs.ended(name)["TrainingJobStatus"] == "Completed"
    for number in (1, 2):
        log = world.jobs.log(name, f"algo-{number}")
        assert f"other {number}.0" in log, log
        assert any("kept for other jobs" in line for line in log), log


class Index:
    """A package index that answers when it is let to."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.asked: list[str] = []
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.asked.append(self.path)
                index.go.wait(120)
                is_wheel = self.path.endswith(".whl")
                body = wheel(NEW) if is_wheel else f'<a href="/{wheel_name(NEW)}">{wheel_name(NEW)}</a>'.encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/octet-stream" if is_wheel else "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def files(self) -> dict[str, str | bytes]:
        url = f"http://127.0.0.1:{self._server.server_port}/simple"
        return {"requirements.txt": f"--index-url {url}\n{NEW}\n"}

    def close(self) -> None:
        self.go.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def index() -> Iterator[Index]:
    made = Index()
    yield made
    made.close()


USES = f"import {module_of(NEW)} as new; print('new', new.WORD)"
WITH_INDEX = {"Environment": {"PIP_NO_INDEX": "0"}}


def test_jobs_at_the_same_time_install_once(world: World, index: Index) -> None:
    before = world.kept
    names = [world.starts(USES, index.files(), **WITH_INDEX) for _ in range(3)]
    until(lambda: index.asked)
    index.go.set()
    with ThreadPoolExecutor(3) as pool:
        logs = list(pool.map(world.ended, names))
    assert all("new 1.0" in log for log in logs), logs
    assert sum(any(line.startswith("Successfully installed") for line in log) for log in logs) == 1
    assert len(world.kept) == len(before) + 1


def test_an_installation_that_is_killed_leaves_nothing_for_others(world: World, index: Index) -> None:
    before = world.kept
    name = world.starts(USES, index.files(), **WITH_INDEX)
    until(lambda: index.asked)
    (drafts,) = world.server.data.glob("environments/making")
    until(lambda: list(drafts.glob("*-*")))
    killed = killed_hosts(world)
    assert world.jobs.ended(name)["TrainingJobStatus"] == "Failed"
    until(lambda: not any(Path(f"/proc/{pid}/fd").exists() for pid in killed))
    assert world.kept == before
    index.go.set()
    assert "new 1.0" in world.runs(USES, index.files(), **WITH_INDEX)
    assert len(world.kept) == len(before) + 1
    world.gc("--keep-files", "30d")
    assert list(drafts.glob("*")) == []


def killed_hosts(world: World) -> list[int]:
    """`kill -9` of all that runs for the only job, its shim first."""
    (started,) = [
        path
        for path in world.server.data.glob("jobs/*/*/*/algo-1/run/started.json")
        if not (path.parent / "exit.json").exists()
    ]
    shim = json.loads(started.read_text())["pid"]
    below = host_files.descendants(shim)
    for pid in (shim, *below):
        os.kill(pid, signal.SIGKILL)
    return [shim, *below]


def test_what_is_kept_goes_with_the_garbage_unless_it_is_used(world: World) -> None:
    log = world.runs(REQUIRES, required("# garbage"))
    check_required(log)
    name = world.starts(
        REQUIRES
        + "    import os, time\n    print('waits')\n    while not os.path.exists('/opt/ml/model/go'): time.sleep(0.05)",
        required("# garbage"),
    )
    world.jobs.wait_for_line(name, "waits")
    assert "would go" in world.gc("--dry-run")
    world.gc()
    (used,) = world.kept
    (model,) = world.server.data.glob("jobs/*/*/*/algo-1/opt-ml/model")
    (model / "go").touch()
    check_required(world.ended(name))
    assert "packages of 1 requirements files gone" in world.gc()
    assert not used.exists()
    check_required(world.runs(REQUIRES, required("# garbage")))


def test_the_installation_of_the_sdk_v3_is_kept_too(world: World, index: Index) -> None:
    """Its driver takes the toolkit's place, and runs a script that runs `python -m pip install -r FILE`."""
    index.go.set()
    install = "import subprocess, sys; subprocess.check_call([sys.executable, '-m', 'pip', 'install', '-r', 'wanted'])"
    use = f"import {module_of(NEW)} as new; print('new', new.WORD)"
    text = str(index.files()["requirements.txt"]).replace("\n", "\\n")
    script = f'cd /opt/ml/code; printf -- "{text}" > wanted; python3 -c "{install}" && python3 -c "{use}"'
    before = world.kept
    options = {
        "entrypoint": ["/bin/sh", "-c", 'eval "$SCRIPT"'],
        "Environment": {"PIP_NO_INDEX": "0", "SCRIPT": script},
    }
    logs = [world.runs("", **options) for _ in range(2)]
    assert all("new 1.0" in log for log in logs), logs
    assert [any(line.startswith("Successfully installed") for line in log) for log in logs] == [True, False]
    assert len(world.kept) == len(before) + 1
