"""The pipelines of examples/pipelines: by SDK v2 as containers, by v3 as processes, all of a place at once."""

import re
import site
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.clients import ENVIRONMENT, ENVIRONMENT_V3, ROOT, RunClients
from support.server import SageletProcess, printed, until

EXAMPLES = ROOT / "examples" / "pipelines"
SDKS = {"sdk_v2": ENVIRONMENT, "sdk_v3": ENVIRONMENT_V3}
#: Directory of the scripts, runtime. The training image has SDK v2, which jobs of Python functions import.
PLACES = [
    pytest.param("sdk_v2", "docker", marks=[pytest.mark.sdk, pytest.mark.docker]),
    pytest.param("sdk_v3", "process", marks=[pytest.mark.sdk3, pytest.mark.xla]),
]
#: Script -> its arguments. The slowest come first.
COMMANDS = {
    "compiled_tuning": ("2",),
    "functions": (),
    "abalone": (),
    "cache_and_retry": (),
    "callback": (),
    "remote_function": (),
}
#: Their jobs import the SDK.
OF_FUNCTIONS = ("functions", "remote_function")
#: Throttled calls are those of a region, so the other examples have another.
REGION, THROTTLED_REGION = "us-east-1", "us-west-2"

Servers = Callable[[str], SageletProcess]


@dataclass(frozen=True)
class Ran:
    """What a script printed, and its exit code."""

    code: int
    output: str
    server: SageletProcess

    @property
    def steps(self) -> list[tuple[str, str]]:
        """Returns name and status of each step, as the script printed them."""
        return re.findall(r"^(\w[\w-]*) (Succeeded|Failed)\b", self.output, re.MULTILINE)

    def client(self, service: str, region: str = REGION) -> Any:
        return self.server.client(service, region_name=region)


@pytest.fixture(scope="module")
def with_sdk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], SageletProcess]]:
    """Returns a process server in whose environment an SDK is installed, too: jobs of Python functions import it."""
    started: dict[str, SageletProcess] = {}

    def server_of(sdk: str) -> SageletProcess:
        if sdk not in started:
            directory = tmp_path_factory.mktemp(f"with-{sdk}")
            server = SageletProcess(directory / "data", "--runtime", "process", "--max-jobs", "2")
            server.program = both(directory / "environment", SDKS[sdk])
            started[sdk] = server.start()
        return started[sdk]

    yield server_of
    for server in started.values():
        server.stop()


def both(place: Path, sdk: Path) -> Path:
    """Makes an environment with the packages of an SDK's environment and of this one. Returns its `sagelet`."""
    venv.create(place)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = [str((sdk / "lib" / version / "site-packages").resolve()), *site.getsitepackages()]
    lines = [f"import site; site.addsitedir({path!r})\n" for path in packages]
    (place / "lib" / version / "site-packages" / "both.pth").write_text("".join(lines))
    program = place / "bin" / "sagelet"
    program.write_text(f"#!{place}/bin/python\nfrom sagelet_api.cli.main import main\nmain()\n")
    program.chmod(0o700)
    return program


@pytest.fixture(scope="module")
def ran() -> dict[tuple[str, str], dict[str, Ran]]:
    """Filled by the first test of each place."""
    return {}


@pytest.fixture
def outputs(
    request: pytest.FixtureRequest,
    servers: Servers,
    with_sdk: Servers,
    ran: dict[tuple[str, str], dict[str, Ran]],
    tmp_path: Path,
) -> dict[str, Ran]:
    """All scripts of a place at once, each as a user runs it."""
    place: tuple[str, str] = request.getfixturevalue("sdk"), request.getfixturevalue("runtime")
    if place not in ran:
        ran[place] = run_all(*place, servers(place[1]), with_sdk, tmp_path)
    return ran[place]


def run_all(sdk: str, runtime: str, server: SageletProcess, with_sdk: Servers, directory: Path) -> dict[str, Ran]:
    throttle = ("throttle", "CreateTrainingJob", "2", "--region", THROTTLED_REGION)
    printed(*throttle, "--endpoint", server.endpoint, "--data", str(server.data))
    where = {name: server for name in COMMANDS if (EXAMPLES / sdk / f"{name}.py").exists()}
    if runtime == "process":
        where |= {name: with_sdk(sdk) for name in where if name in OF_FUNCTIONS}
    processes = {name: start(sdk, name, one, directory) for name, one in where.items()}
    try:
        until(lambda: all(process.poll() is not None for process in processes.values()), 900, every=0.5)
    finally:
        for process in processes.values():
            process.kill()
    return {
        name: Ran(process.wait(), (directory / f"{name}.txt").read_text(), where[name])
        for name, process in processes.items()
    }


def start(sdk: str, name: str, server: SageletProcess, directory: Path) -> "subprocess.Popen[bytes]":
    region = THROTTLED_REGION if name == "cache_and_retry" else REGION
    others = {"SAGEMAKER_SUPPRESS_V2_WARNING": "1", "COLUMNS": "200"}
    clients = RunClients(server, EXAMPLES, SDKS[sdk], others, "--region", region)
    command = [str(SDKS[sdk] / "bin" / "python"), f"{sdk}/{name}.py", *COMMANDS[name]]
    with (directory / f"{name}.txt").open("wb") as output:
        return clients.start(command, output)


def succeeded(ran: Ran, *names: str) -> None:
    assert ran.code == 0, ran.output[-4000:]
    assert ran.steps == [(name, "Succeeded") for name in names]


@pytest.mark.parametrize(("sdk", "runtime"), PLACES)
def test_abalone(outputs: dict[str, Ran], sdk: str, runtime: str) -> None:
    ran = outputs["abalone"]
    register = "Abalone-RegisterModel" if sdk == "sdk_v2" else "Abalone"
    succeeded(ran, "AbaloneProcess", "AbaloneTrain", "AbaloneEval", "AbaloneMSECond", register)
    sagemaker = ran.client("sagemaker")
    group = "AbaloneModels" if sdk == "sdk_v2" else "AbaloneModelsV3"
    (found,) = sagemaker.list_model_packages(ModelPackageGroupName=group)["ModelPackageSummaryList"]
    package = sagemaker.describe_model_package(ModelPackageName=found["ModelPackageArn"])
    assert package["ModelApprovalStatus"] == "PendingManualApproval"
    model = package["InferenceSpecification"]["Containers"][0]["ModelDataUrl"]
    assert size_of(ran, model) > 0
    if sdk == "sdk_v2":
        assert size_of(ran, package["ModelMetrics"]["ModelQuality"]["Statistics"]["S3Uri"]) > 0


def size_of(ran: Ran, uri: str) -> int:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    size: int = ran.client("s3").head_object(Bucket=bucket, Key=key)["ContentLength"]
    return size


@pytest.mark.parametrize(("sdk", "runtime"), PLACES)
def test_compiled_tuning(outputs: dict[str, Ran], sdk: str, runtime: str) -> None:
    ran = outputs["compiled_tuning"]
    made = ["BestModel-CreateModel", "BestPackage-RegisterModel"] if sdk == "sdk_v2" else ["BestModel", "BestPackage"]
    succeeded(ran, "Tune", "LossIsSmall", *made)
    found = re.search(r"^registered (s3://.*/([^/]+)/output/model\.tar\.gz)$", ran.output, re.MULTILINE)
    assert found is not None
    assert size_of(ran, found[1]) > 0
    tuning_job = found[2].rsplit("-", 2)[0]
    described = ran.client("sagemaker").describe_hyper_parameter_tuning_job(HyperParameterTuningJobName=tuning_job)
    assert described["BestTrainingJob"]["TrainingJobName"] == found[2]
    assert described["ObjectiveStatusCounters"]["Succeeded"] == 2
    assert ran.server.report(found[2])["compiled"]


@pytest.mark.parametrize(("sdk", "runtime"), PLACES)
def test_cache_and_retry(outputs: dict[str, Ran], sdk: str, runtime: str) -> None:
    ran = outputs["cache_and_retry"]
    succeeded(ran, *["Process", "Train"] * 3)
    first, second, third = re.split(r"^started ", ran.output, flags=re.MULTILINE)[1:]
    arn = first.split()[0]
    assert "Train Succeeded after 3 attempts" in first
    assert second.count(f"cached from {arn}") == 2
    assert f"Process Succeeded cached from {arn}" in third
    assert "Train Succeeded after 1 attempts" in third


@pytest.mark.parametrize(("sdk", "runtime"), PLACES)
def test_callback(outputs: dict[str, Ran], sdk: str, runtime: str) -> None:
    ran = outputs["callback"]
    succeeded(ran, "Label", "Process")
    assert "{'Name': 'count', 'Value': '240'}" in ran.output


@pytest.mark.parametrize(("sdk", "runtime"), PLACES)
def test_functions(outputs: dict[str, Ran], sdk: str, runtime: str) -> None:
    ran = outputs["functions"]
    succeeded(ran, "Prepare", "Train", "ErrorIsSmall", "Publish")
    assert ran.output.rstrip().endswith("y = 3.00 x + 1.00")


@pytest.mark.parametrize(("sdk", "runtime"), PLACES)
def test_a_remote_function(outputs: dict[str, Ran], sdk: str, runtime: str) -> None:
    ran = outputs["remote_function"]
    assert ran.code == 0, ran.output[-4000:]
    assert "solving 2 equations" in ran.output
    assert ran.output.rstrip().endswith("[0.8 1.4]")
