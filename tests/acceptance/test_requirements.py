"""What requirements.txt cannot do to torch, and what a job says whose packages cannot be installed."""

import os
from importlib.metadata import version
from textwrap import dedent
from typing import Any

from support.jobs import Jobs
from support.on_runtimes import by_processes, in_docker
from support.packages import wheel, wheel_name
from support.server import COMPILED

ASKS = {"sagemaker_training_compiler_enabled": "true"}
#: pip looks here only.
HERE = "--no-index\n--find-links .\n"
#: The newest brings another torch, as torchvision's does.
WHEELS = {
    wheel_name("vision-for-test", "2.0"): wheel("vision-for-test", "2.0", requires="torch==99.0"),
    wheel_name("vision-for-test", "1.0"): wheel("vision-for-test", "1.0"),
    wheel_name("torch", "99.0"): wheel("torch", "99.0"),
}
SCRIPT = """
    import vision_for_test, importlib.metadata
    vision_for_test.main()
    print("torch is", importlib.metadata.version("torch"))
"""


#: pip's configuration on this machine may have constraints of its own.
NO_CONFIGURATION = {"PIP_CONFIG_FILE": os.devnull}


def submit(jobs: Jobs, wanted: str, script: str = SCRIPT, **options: Any) -> str:
    options["Environment"] = NO_CONFIGURATION | options.get("Environment", {})
    return jobs.submit({"train.py": dedent(script), "requirements.txt": HERE + wanted, **WHEELS}, **options)


@by_processes
def test_pip_takes_the_version_that_fits_the_torch_that_is_here(jobs: Jobs) -> None:
    name = submit(jobs, "vision-for-test\n", image=COMPILED, hyperparameters=ASKS)
    job = jobs.ended(name)
    assert job["TrainingJobStatus"] == "Completed", job["FailureReason"]
    log = jobs.log(name)
    assert "vision_for_test says 1.0" in log
    assert f"torch is {version('torch')}" in log


@in_docker
def test_a_pip_of_the_script_is_held_to_it_too(jobs: Jobs) -> None:
    script = """
        import subprocess, sys
        command = [sys.executable, "-m", "pip", "install", "--no-index", "--find-links", ".", "torch==99.0"]
        print("pip says", subprocess.run(command).returncode)
    """
    name = submit(jobs, "", script)
    job = jobs.ended(name)
    assert job["TrainingJobStatus"] == "Completed", job["FailureReason"]
    assert "pip says 1" in jobs.log(name)


@by_processes
def test_a_pin_of_another_torch_is_named_with_the_remedy(jobs: Jobs) -> None:
    job = jobs.ended(submit(jobs, "torch==99.0\n"))
    reason = job["FailureReason"]
    assert reason.startswith("AlgorithmError: InstallRequirementsError:\nExitCode 1\nErrorMessage ")
    assert "Cannot install torch==99.0" in reason
    assert "The user requested torch==99.0" in reason
    assert f"sagelet keeps torch=={version('torch')}" in reason
    assert "SAGELET_PINS=exact" in reason


@by_processes
def test_what_nobody_has_is_said_in_pips_last_words(jobs: Jobs) -> None:
    job = jobs.ended(name := submit(jobs, "nothing-like-this\n"))
    assert "No matching distribution found for nothing-like-this" in job["FailureReason"]
    assert "No matching distribution found for nothing-like-this" in jobs.finding(name, "failed-install")["seen"]
    assert "sagelet keeps" not in job["FailureReason"]


@by_processes
def test_a_package_that_is_missing_has_a_finding(jobs: Jobs) -> None:
    job = jobs.ended(name := submit(jobs, "", "import nothing_like_this"))
    assert "No module named 'nothing_like_this'" in job["FailureReason"]
    finding = jobs.finding(name, "missing-package")
    assert (finding["file"], finding["line"]) == ("train.py", 1)
    assert "Put `nothing_like_this` into the requirements.txt" in finding["instead"]


@in_docker
def test_exact_pins_are_installed_and_torch_xla_is_looked_at_afterwards(jobs: Jobs) -> None:
    exact = {"Environment": {"SAGELET_PINS": "exact"}}
    job = jobs.ended(submit(jobs, "vision-for-test\n", image=COMPILED, hyperparameters=ASKS, **exact))
    assert "requirements.txt was installed, and torch_xla cannot be used after it" in job["FailureReason"]
    assert "does not load with torch 99.0" in job["FailureReason"]
    native = jobs.ended(name := submit(jobs, "vision-for-test\n", **exact))
    assert native["TrainingJobStatus"] == "Completed", native["FailureReason"]
    assert "torch is 99.0" in jobs.log(name)


#: The newest brings a huggingface_hub with which the installed Transformers cannot be imported, as datasets' does.
SETS = {
    wheel_name("sets-for-test", "2.0"): wheel("sets-for-test", "2.0", requires="huggingface-hub>=99"),
    wheel_name("sets-for-test", "1.0"): wheel("sets-for-test", "1.0"),
    wheel_name("huggingface-hub", "99.0"): wheel("huggingface-hub", "99.0"),
    wheel_name("transformers", "99.0"): wheel("transformers", "99.0"),
}
SETS_SCRIPT = """
    import importlib.metadata, sets_for_test, transformers
    sets_for_test.main()
    print("hub is", importlib.metadata.version("huggingface-hub"))
"""


def submit_sets(jobs: Jobs, wanted: str) -> str:
    return jobs.submit({"train.py": dedent(SETS_SCRIPT), "requirements.txt": HERE + wanted, **SETS})


@by_processes
def test_pip_takes_the_version_with_which_transformers_can_be_imported(jobs: Jobs) -> None:
    job = jobs.ended(name := submit_sets(jobs, "sets-for-test >= 1.0\n"))
    assert job["TrainingJobStatus"] == "Completed", job["FailureReason"]
    assert "sets_for_test says 1.0" in jobs.log(name)
    assert f"hub is {version('huggingface-hub')}" in jobs.log(name)


@by_processes
def test_a_job_that_brings_its_own_transformers_has_what_that_needs(jobs: Jobs) -> None:
    job = jobs.ended(name := submit_sets(jobs, "sets-for-test >= 1.0\ntransformers >= 4.0\n"))
    assert job["TrainingJobStatus"] == "Completed", job["FailureReason"]
    assert "sets_for_test says 2.0" in jobs.log(name)
    assert "hub is 99.0" in jobs.log(name)


@by_processes
def test_a_pin_that_transformers_cannot_be_used_with_is_named_with_the_remedy(jobs: Jobs) -> None:
    reason = jobs.ended(submit_sets(jobs, "sets-for-test==2.0\n"))["FailureReason"]
    assert "sets-for-test 2.0 depends on huggingface-hub>=99" in reason
    assert "sagelet keeps huggingface-hub<1.0,>=0.34.0, which the installed Transformers needs" in reason
    assert "SAGELET_PINS=exact in Environment" in reason
    assert "torch_xla is built for" not in reason
