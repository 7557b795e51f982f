"""SDK v3's driver installs requirements: what is said when that fails, or leaves torch_xla unusable."""

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from sagelet_runtime.requirements import driver_install
from support.packages import wheel, wheel_name
from support.training_host import RUNTIME, Ended, TrainingHost

INSTALLER = "input/data/sm_drivers/scripts/install_requirements.py"
#: What SDK v3 3.27's does, and the shell around it.
INSTALLING = """
    import subprocess, sys
    print("installs", sys.argv[1:], flush=True)
    subprocess.check_call([sys.executable, "-m", "pip", "install", "-r", sys.argv[1]])
"""
SHELL = """
    set -e
    trap '[ -s {base}/output/failure ] || echo "Training Execution failed" > {base}/output/failure' ERR
    cd {base}/code
    {install}
    echo "the script runs"
"""
INSTALL = "python3 {base}/input/data/sm_drivers/scripts/install_requirements.py requirements.txt"
#: SDK v3 of 2024.
INSTALL_BY_PIP = "python3 -m pip install -r requirements.txt"
COMPILED = {"sagemaker_training_compiler_enabled": "true"}


@pytest.fixture
def driven(host: TrainingHost) -> TrainingHost:
    """A driver with its own packages. torch and torch_xla exist by name only."""
    host.environment["PIP_TARGET"] = str(host.base / "site")
    host.environment["PIP_NO_INDEX"] = "1"
    # pip's configuration on this machine may have constraints of its own.
    host.environment["PIP_CONFIG_FILE"] = os.devnull
    host.environment["PIP_FIND_LINKS"] = str(host.base / "code")
    return host


def run(host: TrainingHost, wanted: str, parameters: dict[str, str] | None = None, install: str = INSTALL) -> Ended:
    host.environment["SAGELET_COMPILER_PARAMETERS"] = json.dumps(parameters or {})
    host.prepare({})
    drivers = host.base / "input" / "data" / "sm_drivers"
    (drivers / "scripts").mkdir(parents=True)
    if install != INSTALL_BY_PIP:
        (host.base / INSTALLER).write_text(dedent(INSTALLING))
    (drivers / "distributed.json").write_text("{}")
    script = drivers / "sm_train.sh"
    script.write_text(dedent(SHELL).format(base=host.base, install=install.format(base=host.base)))
    script.chmod(0o755)
    (host.base / "code" / "requirements.txt").write_text(wanted)
    (host.base / "code" / wheel_name("fine-for-test")).write_bytes(wheel("fine-for-test"))
    done = subprocess.run(
        [sys.executable, "-m", "sagelet_runtime.command", "/bin/bash", "-c", f"{script}"],
        env=host._environ(), cwd=host.base, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    host.log_file.write_text(done.stdout + done.stderr)
    return host.ended(done.returncode)


@pytest.mark.parametrize("install", [INSTALL, INSTALL_BY_PIP])
def test_pips_last_words_are_the_failure(driven: TrainingHost, install: str) -> None:
    ended = run(driven, "tokenizers-for-test<0.13\n", install=install)
    assert ended.code != 0
    failure = ended.failure or ""
    assert failure.startswith('InstallRequirementsError:\nExitCode 1\nErrorMessage "')
    assert "No matching distribution found for tokenizers-for-test<0.13" in failure
    assert "the index has no tokenizers-for-test, or none for this Python" in failure
    assert "ERROR: No matching distribution found for tokenizers-for-test<0.13" in ended.log
    assert "the index has no tokenizers-for-test" in ended.log
    assert "the script runs" not in ended.log


@pytest.mark.xla
def test_the_pin_and_the_remedy_are_named(driven: TrainingHost) -> None:
    (driven.base / "code").mkdir()
    (driven.base / "code" / wheel_name("torch", "99.0")).write_bytes(wheel("torch", "99.0"))
    failure = run(driven, "torch==99.0\n").failure or ""
    assert "The user requested torch==99.0. sagelet keeps torch==2.9.0" in failure
    assert "SAGELET_PINS=exact" in failure


@pytest.mark.parametrize("install", [INSTALL, INSTALL_BY_PIP])
def test_an_installation_that_goes_well_is_left_alone(driven: TrainingHost, install: str) -> None:
    ended = run(driven, "fine-for-test\n", install=install)
    assert (ended.code, ended.failure) == (0, None), ended.log
    assert "Successfully installed fine-for-test-1.0" in ended.log
    assert ended.log.splitlines()[-1] == "the script runs"
    assert install != INSTALL or "installs ['requirements.txt']" in ended.log


@pytest.mark.parametrize(
    "install",
    [
        "sh -c 'python3 -m pip install -r requirements.txt || echo lives on'",
        # SourceCode(command=...) runs in the driver's own shell.
        "python3 -m pip install -r requirements.txt || echo lives on",
    ],
)
def test_a_pip_of_the_script_is_its_own(driven: TrainingHost, install: str) -> None:
    ended = run(driven, "nothing-like-this\n", install=install)
    assert (ended.code, ended.failure) == (0, None)
    assert "lives on" in ended.log


@pytest.mark.xla
def test_torch_xla_is_looked_at_after_the_installation(driven: TrainingHost) -> None:
    """In a compiled job; exact pins bring another torch."""
    driven.environment["SAGELET_PINS"] = "exact"
    driven.environment["PYTHONPATH"] = os.pathsep.join([str(driven.base / "site"), str(RUNTIME)])
    (driven.base / "code").mkdir()
    for name, content in {
        wheel_name("vision-for-test"): wheel("vision-for-test", requires="torch==99.0"),
        wheel_name("torch", "99.0"): wheel("torch", "99.0"),
    }.items():
        (driven.base / "code" / name).write_bytes(content)
    ended = run(driven, "vision-for-test\n", COMPILED)
    assert ended.code != 0
    assert "requirements.txt was installed, and torch_xla cannot be used after it" in (ended.failure or "")
    assert "torch was 2.9.0 before: vision-for-test 1.0 needs torch==99.0." in (ended.failure or "")
    assert "the script runs" not in ended.log


SHELLS = [
    "/bin/bash",
    "-c",
    "chmod +x /opt/ml/input/data/sm_drivers/sm_train.sh && /opt/ml/input/data/sm_drivers/sm_train.sh",
]


@pytest.mark.parametrize(
    ("command", "parent", "expected"),
    [
        (["python3", f"/opt/ml/{INSTALLER}", "r.txt"], [], True),
        (["python3", "-u", f"/opt/ml/{INSTALLER}", "r.txt"], [], True),
        (["python3", "/usr/bin/pip3", "install", "-r", "r.txt"], SHELLS, True),
        (["python3", "-m", "pip", "install", "-r", "r.txt"], SHELLS, True),
        (["python3", "/usr/bin/pip3", "install", "-r", "r.txt"], ["python3", "train.py"], False),
        (["python3", "/usr/bin/pip3", "install", "einops"], SHELLS, False),
        (["python3", "/usr/bin/pip3", "list"], SHELLS, False),
        (["python3", "train.py"], SHELLS, False),
        (["python3"], SHELLS, False),
    ],
)
def test_what_is_the_drivers_installation(command: list[str], parent: list[str], expected: bool) -> None:
    assert driver_install.is_drivers(command, parent) is expected


def test_what_is_not_in_a_job_of_the_sdk_is_no_concern(tmp_path: Path) -> None:
    script = tmp_path / "sm_drivers" / "scripts" / "install_requirements.py"
    script.parent.mkdir(parents=True)
    script.write_text("print('plain')")
    environ = {"PYTHONPATH": f"{RUNTIME}/sagelet_runtime/startup:{RUNTIME}", "SAGELET_REPORT_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, str(script)], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == "plain\n"
