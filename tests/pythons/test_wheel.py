"""The wheel, installed into a fresh environment of each Python: all of sagelet that needs no torch there."""

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
import pytest

import sagelet_engine
from support import pythons, sources, tiny_image
from support.jobs import Jobs
from support.pythons import ROOT, WheelPython
from support.server import SageletProcess
from support.shell_jobs import ShellJobs

pytestmark = pytest.mark.parametrize(
    "python",
    [pytest.param(version, marks=getattr(pytest.mark, pythons.marker_of(version))) for version in pythons.VERSIONS],
    indirect=True,
)

#: Imports every module of the wheel. A warning of the compiler, such as that of 3.12 for unknown escapes, is an error.
IMPORTS = """
import importlib, pkgutil, sagelet, sagelet_api, sagelet_engine
count = 0
for package in (sagelet, sagelet_api, sagelet_engine):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not found.name.endswith("__main__"):
            try:
                importlib.import_module(found.name)
            except ModuleNotFoundError as error:
                # What the wheel alone does not bring: the extra `tuning`, and the jobs' own Python runs tiny_model.py.
                if (found.name, error.name) != ("sagelet_engine.hub.tiny_model", "torch") and error.name != "optuna":
                    raise
            count += 1
print(count)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once of what the server's image has, by the hatchling of the tests' own environment."""
    dist, source = tmp_path_factory.mktemp("dist"), sources.copy(tmp_path_factory.mktemp("source"))
    command = ["pip", "wheel", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "-w", str(dist), "."]
    done = subprocess.run([sys.executable, "-m", *command], cwd=source, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = dist.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def made(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], WheelPython]:
    known: dict[str, WheelPython] = {}

    def python_of(version: str) -> WheelPython:
        if version not in known:
            known[version] = WheelPython(version, tmp_path_factory.mktemp(f"python-{version}"), wheel)
        return known[version]

    return python_of


@pytest.fixture
def python(request: pytest.FixtureRequest, made: Callable[[str], WheelPython]) -> WheelPython:
    return made(request.param)


@contextmanager
def serving(python: WheelPython, data: Path, runtime: str) -> Iterator[SageletProcess]:
    server = SageletProcess(data, "--runtime", runtime)
    server.program, server.environment = python.sagelet, python.environ
    try:
        yield server.start()
    finally:
        server.stop()


def test_its_requirements_are_met_and_it_says_its_version(python: WheelPython) -> None:
    python.pip("check")
    assert python.run(str(python.sagelet), "--version").split()[-1] == sagelet_engine.__version__


def test_its_wheel_is_made_again_from_the_installation(python: WheelPython, wheel: Path, tmp_path: Path) -> None:
    """As `sagelet bundle` does."""
    repack = "import sys; from importlib.metadata import distribution; from pathlib import Path;"
    repack += "from sagelet_engine.images.own_wheel import repack; repack(distribution('sagelet'), Path(sys.argv[1]))"
    python.run(str(python.python), "-c", repack, str(tmp_path))
    with zipfile.ZipFile(wheel) as original, zipfile.ZipFile(tmp_path / wheel.name) as again:
        assert sorted(again.namelist()) == sorted(original.namelist())
        records = [name for name in original.namelist() if name.endswith(".dist-info/RECORD")]
        assert [name for name in original.namelist() if original.read(name) != again.read(name)] in ([], records)
        (record,) = records
        assert sorted(original.read(record).splitlines()) == sorted(again.read(record).splitlines())


def test_every_module_is_imported(python: WheelPython) -> None:
    warnings = ["-W", "error::SyntaxWarning", "-W", "error::DeprecationWarning:sagelet"]
    assert int(python.run(str(python.python), *warnings, "-c", IMPORTS)) > 400


def test_an_hour_of_training_in_simulated_time(python: WheelPython, tmp_path: Path) -> None:
    """The test that docs/how-to/install.md prints, by the pytest plugin."""
    (printed,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/how-to/install.md").read_text(), re.DOTALL)
    (tmp_path / "test_train.py").write_text(printed)
    # Without a place of its own it would clean up what other runs of pytest have left, and warn of what it cannot.
    own = ("-p", "no:cacheprovider", f"--basetemp={tmp_path / 'own'}")
    said = python.run(str(python.python), "-m", "pytest", "-q", *own, directory=tmp_path)
    assert "1 passed" in said
    assert "warning" not in said


@pytest.mark.docker
@pytest.mark.programs("busybox")
def test_a_job_of_boto3_runs_in_a_container(python: WheelPython, tmp_path: Path) -> None:
    client = docker.from_env()
    image = tiny_image.ensure(client)
    client.close()
    with serving(python, tmp_path / "data", "docker") as server:
        jobs = ShellJobs(server, image)
        name = jobs.start("echo it trains; echo weights > /opt/ml/model/model.txt")
        job = jobs.ended(name)
        assert job["TrainingJobStatus"] == "Completed", job
        assert jobs.written(name) == ["it trains"]
        assert jobs.artifact(name)["model.txt"] == b"weights\n"
        listed = python.run(str(python.sagelet), "jobs", "--endpoint", server.endpoint)
        assert listed.startswith(f"{name}\tCompleted\t")


def test_without_torch_a_job_says_what_to_install(python: WheelPython, tmp_path: Path) -> None:
    with serving(python, tmp_path / "data", "process") as server:
        jobs = Jobs(server)
        job = jobs.ended(jobs.submit("print('not run')"))
    assert job["TrainingJobStatus"] == "Failed"
    assert "`sagelet install-torch`" in job["FailureReason"]


def test_the_doctor_looks_at_the_machine(python: WheelPython, tmp_path: Path) -> None:
    """It exits with 1 where neither Docker's image nor torch is there, so that no job can run."""
    done = python.call(str(python.sagelet), "doctor", "--json", "--data", str(tmp_path / "data"))
    checks = {check["name"]: check for check in json.loads(done.stdout)}
    assert done.returncode == any(check["needed"] and not check["good"] for check in checks.values()), done
    version = python.run(str(python.python), "-c", "import platform; print(platform.python_version())").strip()
    assert checks["python"]["found"].endswith(f"on Python {version}")
    assert "torch_xla" in checks["packages"]["found"]
