"""The rules on how a processing job ended: each failure has exactly one explanation."""

import pytest

from sagelet_engine.doctor.case import Case, Place, Processing, Progress, Setup
from sagelet_engine.doctor.finding import Finding
from sagelet_engine.doctor.sources import Sources
from support.doctor_cases import found

ROOT = "/opt/ml/processing"
CODE = Place("code", f"{ROOT}/input/code", (f"{ROOT}/input/code/prepare.py",))
RAW = Place("raw", f"{ROOT}/input/raw", (f"{ROOT}/input/raw/rows.csv",))
CLEAN = Place("clean", f"{ROOT}/output/clean")
JOB = Processing(("python3", CODE.files[0]), (CODE, RAW), (CLEAN,), down=True)
SAVE = "OSError: Cannot save file into a non-existent directory"
FRAME = f'Traceback (most recent call last):\n  File "{CODE.files[0]}", line 1, in <module>\n    step()\n'
SHIM = "failed to create shim task: OCI runtime create failed: unable to start container process: exec: "


def case(text: str = "", status: str = "Failed", job: Processing = JOB, isolated: bool = False, **ends: object) -> Case:
    usual = {"exit_code": 1, "reason": "AlgorithmError: , exit code: 1"} if status == "Failed" else {}
    progress = Progress(status, last_lines=text.splitlines(), **{**usual, **ends})  # type: ignore[arg-type]
    setup = Setup(compiled=False, isolated=isolated, max_runtime_seconds=60)
    return Case(sources=Sources({"prepare.py": "step()\n"}), setup=setup, progress=progress, processing=job)


def explained(*given: str, **options: object) -> Finding:
    (finding,) = found(case(*given, **options)).values()  # type: ignore[arg-type]
    return finding


@pytest.mark.parametrize(
    ("text", "rule", "seen"),
    [
        (f"{FRAME}KeyError: 'price'", "script-error", "\"KeyError: 'price'\" (`step()`)"),
        (f"{FRAME}ModuleNotFoundError: No module named 'a'", "missing-package", "No module named 'a'"),
        ("prepare.py: error: unrecognized arguments: --a 1", "refused-arguments", "--a 1"),
        (f"{FRAME}{SAVE}: '{ROOT}/output/x'", "missing-input", "No input"),
        (f"{FRAME}FileNotFoundError: [Errno 2] No such file: '{CLEAN.path}/a/b'", "missing-input", "does not exist in"),
        (f"{FRAME}FileNotFoundError: [Errno 2] No such file: '{CLEAN.path}/a'", "missing-input", "clean does not"),
        (f"{FRAME}FileNotFoundError: [Errno 2] No such file: '/opt/ml/model/a'", "missing-input", "of training jobs"),
        (f"{FRAME}FileNotFoundError: [Errno 2] No such file: 'a.csv'", "missing-file", "a.csv"),
        (f"{FRAME}PermissionError: [Errno 13] Permission denied: '/usr/a'", "not-writable", "/usr/a"),
        ("python3: can't open file '/opt/x/a.py': [Errno 2] No such", "missing-entry-point", "brings /opt/x/a.py"),
        ("/bin/bash: line 1: accelerat: command not found", "missing-entry-point", "accelerat"),
        ("ERROR: No matching distribution found for nosuch==1", "failed-install", "No matching distribution"),
        ("CUDA error\nRuntimeError: Found no NVIDIA driver on your system", "no-gpu", "NVIDIA"),
        ("bad rows", "script-exit", 'its last line was "bad rows"'),
    ],
)  # fmt: skip
def test_a_failure_has_one_explanation(text: str, rule: str, seen: str) -> None:
    finding = explained(text)
    assert finding.rule.name == rule
    assert seen in finding.seen.text


@pytest.mark.parametrize(
    ("told", "seen"),
    [
        (f'{SHIM}"{ROOT}/a.sh": stat {ROOT}/a.sh: no such file or directory: unknown', f"no input brings {ROOT}/a.sh"),
        (f'{SHIM}"{CODE.files[0]}": permission denied: unknown', "is not executable"),
        (f"exec: '{CODE.files[0]}': Permission denied", "is not executable"),
        (f"exec: '{CODE.files[0]}': No such file or directory", "an input brings it"),
        (f'{SHIM}"pythn3": executable file not found in $PATH: unknown', "The image has no program pythn3"),
    ],
)
def test_a_program_that_no_runtime_could_start(told: str, seen: str) -> None:
    finding = explained(reason=f"AlgorithmError: {told}, exit code: 127", exit_code=127)
    assert finding.rule.name == "missing-entry-point"
    assert seen in finding.seen.text


def test_an_isolated_job_reaches_no_server() -> None:
    error = f"{FRAME}botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL"
    assert explained(error, isolated=True).rule.name == "no-network"
    assert explained(error).rule.name == "aws-call"


def test_memory_limits_and_signals() -> None:
    reason = "ClientError: Please use an instance type with more memory"
    assert explained(out_of_memory=True, exit_code=137, reason=reason).rule.name == "out-of-memory"
    assert "SIGSEGV" in explained(exit_code=139).seen.text
    assert explained(status="Stopped", timed_out=True).rule.name == "time-limit"


def test_a_bucket_that_was_deleted_while_the_job_ran() -> None:
    finding = explained(reason="ClientError: Data upload failed:the bucket of s3://b/out does not exist")
    assert (finding.rule.name, "aws s3 mb" in (finding.seen.instead or "")) == ("not-run", True)


def test_an_output_that_is_empty() -> None:
    elsewhere = Processing(outputs=(CLEAN,), elsewhere=(f"{ROOT}/rows.csv",), down=True)
    empty = explained(status="Completed", job=elsewhere)
    assert empty.seen.text.endswith(f"of the output clean; it wrote {ROOT}/rows.csv, which no output uploads")
    written = Processing(outputs=(Place("clean", CLEAN.path, (f"{CLEAN.path}/a",)),), down=True)
    assert found(case(status="Completed", job=written)) == {}
    assert found(case(status="Completed", job=Processing(outputs=(CLEAN,)))) == {}
