"""Finds out what this machine can run, and reports what was left out.

With SAGELET_TEST_REQUIRE=all (as in CI) nothing may be left out: a missing program fails the run at once.
"""

import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from sagelet_engine.images.variants import training_image
from sagelet_engine.machine.runtimes import NEEDED_MODULES, missing_modules
from support import forked_python, front, in_memory
from support.browser import NAMES, find_chromium
from support.disks import missing_mounts
from support.layers import Choice
from support.private_docker import missing_dockerd
from support.private_podman import missing_podman
from support.programs import PROGRAMS, WATCH, asked_for, missing_program, watch_subprocesses
from support.pythons import VERSIONS, marker_of, missing_python
from support.slurm_cluster import SlurmCluster, missing_slurm

ROOT = Path(__file__).parents[1]
UNIT = Path(__file__).parent / "unit"
REQUIRE_ALL = os.environ.get("SAGELET_TEST_REQUIRE") == "all"
#: Files that `make check` runs even on a machine that is too slow for more: the pages' and the three nearest.
ALWAYS = 6
LEFT_OUT = pytest.StashKey[dict[str, int]]()


#: The same examples on every run, whatever the machine's speed.
settings.register_profile(
    "quick", max_examples=200, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
#: `make properties`: other examples on every run. A failure prints how to repeat it.
settings.register_profile(
    "thorough", settings.get_profile("quick"), max_examples=20_000, derandomize=False, print_blob=True
)
settings.load_profile("quick")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--chosen", action="store_true", help="run what tests/layers.toml chooses, as `make test` does")
    parser.addoption("--begin-until", type=float, help="`make check`: no test begins after this time (time.monotonic)")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("chosen"):
        config.pluginmanager.register(Choice())
    # The workers of pytest-xdist have the directory, and so the templates, of the process that deals them tests.
    if not hasattr(config, "workerinput"):
        forked_python.prepare()
        in_memory.choose(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        forked_python.remove()
        in_memory.remove(config)


watch_subprocesses()


def pytest_runtest_setup(item: pytest.Item) -> None:
    until = item.config.getoption("begin_until")
    if until is None or time.monotonic() <= until:
        return
    if item.path not in {Path(name).resolve() for name in item.config.args[:ALWAYS]}:
        pytest.skip("make check has no time left: `make test` runs them")


@pytest.fixture(scope="session", autouse=True)
def contexts_of_nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps the contexts of whoever runs the tests out of them, and so their servers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAGELET_CONTEXTS", str(tmp_path_factory.mktemp("contexts") / "contexts.json"))
        patch.delenv("SAGELET_CONTEXT", raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def fronts() -> Iterator[None]:
    """Ends the servers that unit tests share after the last test."""
    yield
    front.stop()


@pytest.fixture(scope="session")
def slurm_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """A cluster of two nodes with one CPU each. Each test leaves it idle, with every node up."""
    cluster = SlurmCluster(tmp_path_factory.mktemp("slurm"))
    try:
        yield cluster.start()
    finally:
        cluster.stop()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Names a parameter of bytes by its argument: an archive has its time in it, and workers must agree."""
    return argname if isinstance(val, bytes) else None


def missing_docker() -> str | None:
    from sagelet_engine.base.errors import RuntimeUnavailable
    from sagelet_engine.images.engine import connect, image_id

    try:
        client = connect()
    except RuntimeUnavailable:
        return "no Docker Engine answers: start one"
    return None if image_id(client, training_image()) else f"{training_image()} is not there: run `make image`"


def missing_xla() -> str | None:
    absent = missing_modules(NEEDED_MODULES)
    return f"{', '.join(absent)} not installed: run `make setup`" if absent else None


def missing_cpu_plugin() -> str | None:
    name = "lammps-jax-pjrt-cpu"
    absent = next(distributions(name=name), None) is None
    return f"{name}, XLA's CPU plugin, is not installed: run `pip install --no-deps {name}==0.11.2`" if absent else None


def missing_sdk() -> str | None:
    present = (ROOT / ".venv-sdk" / "bin" / "aws").exists()
    return None if present else "the environment of the SageMaker SDK is not there: run `make setup-sdk`"


def missing_sdk3() -> str | None:
    found = [*(ROOT / ".venv-sdk3").glob("lib/python*/site-packages/sagemaker/train")]
    return None if found else "the environment of the SageMaker SDK v3 is not there: run `make setup-sdk3`"


def missing_s3clients() -> str | None:
    present = (ROOT / ".venv-s3" / "boto3-1.26" / "boto3").exists()
    return None if present else "the environment of the S3 clients is not there: run `make setup-s3`"


def missing_hubclients() -> str | None:
    present = (ROOT / ".venv-hub" / "2022" / "huggingface_hub").exists()
    return None if present else "the environment of the Hub's clients is not there: run `make setup-hub`"


def missing_browser() -> str | None:
    if not find_chromium():
        return f"none of {', '.join(NAMES)} is there: install Chromium"
    present = (ROOT / ".axe" / "axe_playwright_python" / "axe.min.js").exists()
    return None if present else "axe-core is not there: run `make setup-browser`"


def missing_index() -> str | None:
    """Asks pip, which knows mirrors, certificates and proxies."""
    with tempfile.TemporaryDirectory() as target:
        words = ["-m", "pip", "download", "--disable-pip-version-check", "--no-cache-dir", "--retries", "1"]
        done = subprocess.run(
            [sys.executable, *words, "--no-deps", "-q", "-d", target, "idna"], capture_output=True, check=False
        )
    return "pip reaches no package index" if done.returncode else None


NEEDS: dict[str, Callable[[], str | None]] = {
    "docker": missing_docker,
    "xla": missing_xla,
    "cpu_plugin": missing_cpu_plugin,
    "sdk": missing_sdk,
    "sdk3": missing_sdk3,
    "s3clients": missing_s3clients,
    "hubclients": missing_hubclients,
    "browser": missing_browser,
    "index": missing_index,
    "mounts": missing_mounts,
    "dockerd": missing_dockerd,
    "podman": missing_podman,
    "slurm": missing_slurm,
    **{marker_of(version): partial(missing_python, version) for version in VERSIONS},
}


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spares Python the search for garbage in the tests and what they import, which stay until the end.

    The process that deals tests to workers collects none, and must search as ever.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Short tests come last. pytest-xdist gives its processes a file at a time, so they end at about the same time.
    short = {path: path.is_relative_to(UNIT) for path in {item.path for item in items}}
    items.sort(key=lambda item: short[item.path])
    config.stash[LEFT_OUT] = {}
    needing: dict[str, list[pytest.Item]] = {name: [] for name in (*NEEDS, *PROGRAMS)}
    for item in items:
        for name in {marker.name for marker in item.iter_markers()} & NEEDS.keys() | _programs(item):
            needing[name].append(item)
    for marker, find_missing in NEEDS.items():
        _leave_out(config, needing[marker], find_missing)
    for name in PROGRAMS:
        _leave_out(config, needing[name], partial(missing_program, name))


def _programs(item: pytest.Item) -> set[str]:
    """Returns the programs of the machine that a test asks for. Fails for one that has no entry."""
    named = asked_for(item)
    if unknown := named - PROGRAMS.keys():
        raise pytest.UsageError(f"{item.nodeid}: {', '.join(unknown)} has no entry in tests/support/programs.py")
    return named


def _leave_out(config: pytest.Config, needing: list[pytest.Item], find_missing: Callable[[], str | None]) -> None:
    reason = find_missing() if needing else None
    if reason is None:
        return
    if REQUIRE_ALL:
        _refuse(config, f"SAGELET_TEST_REQUIRE=all, but {reason}")
    config.stash[LEFT_OUT][reason] = len(needing)
    for item in needing:
        item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    with WATCH.test(asked_for(item), [marker.name for marker in item.iter_markers()]):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    # A fixture of a session or a module ends after any test, which asks for none of its programs. Its beginning was
    # watched.
    with WATCH.paused():
        return (yield)


@pytest.fixture(autouse=True)
def programs_are_asked_for() -> Iterator[None]:
    """Fails a test that used a program which it does not ask for, also where something swallowed the error."""
    yield
    assert WATCH.undeclared == [], "see tests/support/programs.py"


def _refuse(config: pytest.Config, reason: str) -> None:
    """Ends the run. A worker of pytest-xdist only leaves a message, because an error here would end only itself."""
    if hasattr(config, "workeroutput"):
        config.workeroutput["refused"] = reason
    pytest.exit(reason, returncode=1)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Reads what a worker of pytest-xdist left out. All workers collect the same tests, so it is true of the run."""
    told = getattr(node, "workeroutput", {})
    if "refused" in told:
        pytest.exit(told["refused"], returncode=1)
    node.config.stash[LEFT_OUT] = told.get("left_out", {})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for reason, count in config.stash.get(LEFT_OUT, {}).items():
        terminalreporter.write_line(f"Left out {count} tests: {reason}", yellow=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(LEFT_OUT, {})
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if REQUIRE_ALL and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
