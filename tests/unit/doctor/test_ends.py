"""The rules on how a job ended: each failure has exactly one explanation."""

from dataclasses import replace

import pytest

from sagelet_engine.doctor.case import Progress, Setup
from sagelet_engine.doctor.finding import Finding, Severity
from sagelet_engine.doctor.sources import Sources
from support.doctor_cases import GPU, case, found

#: AWS's toolkit, behind the script's own lines.
REPORTED = """
2026-11-24 02:05:51,831 sagemaker-training-toolkit ERROR    Reporting training FAILURE
2026-11-24 02:05:51,831 sagemaker-training-toolkit ERROR    ExecuteUserScriptError:
ExitCode {code}
ErrorMessage ""
Command "/usr/bin/python -- train.py"
2026-11-24 02:05:51,831 sagemaker-training-toolkit ERROR    Encountered exit_code 1
"""
FRAME = 'Traceback (most recent call last):\n  File "/opt/ml/code/train.py", line 1, in <module>\n    step()\n'
STARTED = "Invoking script with the following command:\nSM_MODEL_DIR=/opt/ml/model\n/usr/bin/python -- train.py\n"


def failed(
    text: str, code: int = 1, setup: Setup | None = None, script: str = "step()\n", **progress: object
) -> Finding:
    """Returns the only finding about a job that failed."""
    lines = (STARTED + text + REPORTED.format(code=code)).splitlines()
    reason = f"AlgorithmError: ExecuteUserScriptError:\nExitCode {code}\n, exit code: 1"
    ended = Progress("Failed", last_lines=lines, **{"exit_code": 1, "reason": reason, **progress})  # type: ignore[arg-type]
    (finding,) = found(case(setup=setup or Setup(GPU, compiled=False), progress=ended, script=script)).values()
    assert finding.seen.severity is Severity.ERROR
    return finding


DIGITS = "9" * 5000


def test_a_number_that_no_program_prints_hides_no_failure() -> None:
    """Python makes no integer of more than 4,300 digits. A job may print them anywhere."""
    frame = f'Traceback (most recent call last):\n  File "/opt/ml/code/train.py", line {DIGITS}, in <module>\n'
    assert failed(f"{frame}NoRows: none in the file").rule.name == "script-error"
    odd = failed(f"ExitCode {DIGITS}\nbad data", reason="AlgorithmError: , exit code: 1")
    assert odd.rule.name == "script-exit"


def instead(finding: Finding) -> str:
    return str(finding.to_json()["instead"])


@pytest.mark.parametrize(
    ("text", "code", "rule", "seen"),
    [
        ("train.py: error: unrecognized arguments: --batch-size 8", 2, "refused-arguments", "--batch-size 8"),
        (f"{FRAME}NoRows: none in the file", 1, "script-error", '"NoRows: none in the file" (`step()`)'),
        (f"{FRAME}KeyboardInterrupt", 1, "script-error", '"KeyboardInterrupt"'),
        ("python: can't open file '/opt/ml/code/run.py': [Errno 2] No such file", 2, "missing-entry-point", "train.py"),
        ("./train.sh: line 3: accelerat: command not found", 127, "missing-entry-point", "accelerat"),
        ("/bin/sh: 1: ./train.sh: not found", 127, "missing-entry-point", "could not start"),
        (f"{FRAME}KeyError: 'SM_CHANNEL_TRAIN'", 1, "missing-input", "the job has no channel"),
        (f"{FRAME}KeyError: 'loss'", 1, "script-error", "KeyError: 'loss'"),
        (f"{FRAME}FileNotFoundError: [Errno 2] No such file or directory: 'a.csv'", 1, "missing-file", "a.csv"),
        (f"{FRAME}OSError: [Errno 30] Read-only file system: '/usr/a'", 1, "not-writable", "may not write"),
        (f"{FRAME}OSError: [Errno 28] No space left on device", 1, "not-writable", "disk was full"),
        (f"{FRAME}FileNotFoundError: [Errno 2] No such file or directory: 'nvidia-smi'", 1, "no-gpu", "nvidia-smi"),
        (f"{FRAME}requests.exceptions.ConnectionError: HTTPSConnectionPool(host='a.b')", 1, "no-network", "a.b"),
        (f"{FRAME}socket.gaierror: [Errno -2] Name or service not known", 1, "no-network", "gaierror"),
        ("bad data", 3, "script-exit", 'exit code 3 and without a traceback; its last line was "bad data"'),
        ("", 3, "script-exit", "exit code 3 and without a traceback"),
        ("", -11, "script-exit", "signal SIGSEGV"),
        ("epoch 1", -11, "script-exit", 'SIGSEGV; its last line was "epoch 1"'),
        ("", 134, "script-exit", "signal SIGABRT"),
        ("", -40, "script-exit", "signal number 40"),
    ],
)
def test_a_failure_has_one_explanation(text: str, code: int, rule: str, seen: str) -> None:
    finding = failed(text, code)
    assert finding.rule.name == rule
    assert seen in finding.seen.text


GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "/opt/ml/code/train.py", line 1, in <module>
  |     step()
  | ExceptionGroup: many (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: one
    +---------------- 2 ----------------
    | OverflowError: two
    +------------------------------------
"""


def test_a_group_of_exceptions_is_an_error() -> None:
    finding = failed(GROUP)
    assert (finding.rule.name, finding.seen.text) == (
        "script-error",
        'The script ended with an error: "OverflowError: two" (`step()`)',
    )


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        ("ImportError: cannot import name 'X' from partially initialized module 'a' (most likely due to a circular "
         "import) (/opt/ml/code/a.py)", "into a third module"),
        ("ImportError: libGL.so.1: cannot open shared object file: No such file", "opencv-python-headless"),
        ("OSError: libnccl.so.2: cannot open shared object file: No such file or directory", "image of your own"),
        ("RuntimeError: Error(s) in loading state_dict for Linear:", "of another model"),
        ("ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable RANK "
         "expected, but not set", "torch_distributed"),
    ],
)  # fmt: skip
def test_an_error_has_its_own_remedy(error: str, remedy: str) -> None:
    finding = failed(f"{FRAME}{error}")
    assert finding.rule.name == "script-error"
    assert remedy in instead(finding)


def test_a_variable_that_the_job_does_not_have() -> None:
    finding = failed(f"{FRAME}KeyError: 'WANDB_API_KEY'", script="key = os.environ['WANDB_API_KEY']\n")
    assert "Give the job the variable WANDB_API_KEY: Environment" in instead(finding)
    assert "Environment" not in instead(failed(f"{FRAME}KeyError: 'lr'", script="rate = settings['lr']\n"))


def test_the_variable_of_a_channel_is_in_capitals() -> None:
    setup = Setup(GPU, compiled=False, channels=("train",))
    finding = failed(f"{FRAME}KeyError: 'SM_CHANNEL_train'", setup=setup)
    assert "The variable of the channel train is SM_CHANNEL_TRAIN" in finding.seen.text
    assert "os.environ['SM_CHANNEL_TRAIN']" in instead(finding)


def test_a_flag_takes_no_value() -> None:
    finding = failed("train.py: error: unrecognized arguments: True", 2)
    assert "store_true" in instead(finding)


def test_an_entry_point_without_its_suffix() -> None:
    lines = 'Traceback (most recent call last):\n  File "/lib/site-packages/sagemaker_training/trainer.py", line 88\n'
    error = "FileNotFoundError: [Errno 2] No such file or directory: '/opt/ml/code/train'"
    finding = failed(f"{lines}{error}", reason=f"AlgorithmError: Framework Error: \n{lines}{error}, exit code: 2")
    assert finding.rule.name == "missing-entry-point"
    assert "The archive of the scripts has no train; it has train.py" in finding.seen.text
    assert "train.py" in instead(finding)


def test_an_error_that_the_script_outlived_is_not_the_reason() -> None:
    lived_with = f"{FRAME}ValueError: skipped a row\n"
    assert "TypeError: no" in failed(f"{lived_with}{FRAME}TypeError: no").seen.text


def test_a_call_of_aws_is_explained_by_its_code() -> None:
    error = "botocore.errorfactory.{0}: An error occurred ({0}) when calling the GetObject operation: no"
    assert "s3 import" in instead(failed(FRAME + error.format("NoSuchKey")))
    assert "role" in instead(failed(FRAME + error.format("AccessDenied")))
    assert "differences-from-aws" in instead(failed(FRAME + error.format("Throttling")))


def test_the_archive_of_the_scripts() -> None:
    frame = '  File "/usr/lib/site-packages/sagemaker_training/files.py", line 276, in download_and_extract'
    head = f"Traceback (most recent call last):\n{frame}\n    tarfile.open()\n"
    assert failed(f"{head}tarfile.ReadError: not a gzip file").rule.name == "source-archive"
    # A script may read archives of its own.
    assert failed(f"{FRAME}tarfile.ReadError: not a gzip file").rule.name == "script-error"


def test_a_file_that_its_channel_does_not_have() -> None:
    error = "FileNotFoundError: [Errno 2] No such file or directory: '/opt/ml/input/data/train/a.csv'"
    has = Setup(GPU, compiled=False, channels=("train",))
    other = Setup(GPU, compiled=False, channels=("training", "test"))
    assert "prefix" in instead(failed(FRAME + error, setup=has))
    assert "the job has training, test" in failed(FRAME + error, setup=other).seen.text


def test_the_number_of_gpus_as_a_divisor() -> None:
    error = f"{FRAME}ZeroDivisionError: division by zero"
    assert failed(error, script="8 // int(os.environ['SM_NUM_GPUS'])\n").rule.name == "no-gpu"
    assert failed(error, script="1 / 0\n").rule.name == "script-error"


@pytest.mark.parametrize(
    ("reason", "cause", "seen", "remedy"),
    [
        ("ClientError: Data download failed: no", "", "Data download failed: no", "s3 import"),
        ("ClientError: The image a/b is not on this machine", "", "is not on this machine", "or what it needs here"),
        (
            "ClientError: The process runtime cannot train: torch not installed.",
            "",
            "torch not",
            "`sagelet install-torch`",
        ),
        ("CapacityError: Unable to provision", "", "Unable to provision", "smaller instance type"),
        (
            "InternalServerError: We encountered an internal error.",
            "OSError: gone",
            "OSError: gone",
            "defect of sagelet",
        ),
    ],
)
def test_a_job_that_never_ran(reason: str, cause: str, seen: str, remedy: str) -> None:
    ended = Progress("Failed", reason=reason, cause=cause)
    (finding,) = found(case(progress=ended)).values()
    assert finding.rule.name == "not-run"
    assert seen in finding.seen.text
    assert remedy in instead(finding)


def test_a_reason_that_the_job_wrote_itself() -> None:
    finding = failed("", 0, reason="AlgorithmError: no rows\nin the file, exit code: 0")
    assert finding.seen.text == 'The job gave its reason: "no rows"'


def test_a_program_that_the_image_does_not_have() -> None:
    """Docker's words of a container that never began: the job wrote no reason and printed nothing."""
    told = (
        "failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: "
    )
    why = 'exec: "train": executable file not found in $PATH: unknown'
    finding = failed("", 127, reason=f"AlgorithmError: {told}{why}, exit code: 127")
    assert finding.seen.text == f'The program train of the container could not be started: "{why}"'
    assert "ContainerEntrypoint" in instead(finding)


def test_lines_of_the_toolkit_are_not_the_scripts_last_words() -> None:
    lines = f"Environment variables:\n\n{STARTED}{REPORTED.format(code=-11)}".splitlines()
    reason = "AlgorithmError: ExecuteUserScriptError:\nExitCode -11\n, exit code: 1"
    ended = Progress("Failed", last_lines=lines, exit_code=1, reason=reason)
    (finding,) = found(case(progress=ended)).values()
    assert finding.seen.text == "The script was ended by the signal SIGSEGV"


def test_results_that_are_not_there() -> None:
    assert set(found(case(progress=Progress("Completed", saved=False)))) == {"nothing-saved"}
    assert found(case(progress=Progress("Completed", saved=True))) == {}
    assert found(case(progress=Progress("Completed", saved=None))) == {}
    # A container that runs a command of its own has no scripts, and may keep its results anywhere.
    assert found(replace(case(progress=Progress("Completed", saved=False)), sources=Sources({}))) == {}
    stopped = found(case(setup=Setup(GPU, max_runtime_seconds=60), progress=Progress("Stopped", timed_out=True)))
    assert "60 s, its MaxRuntimeInSeconds" in stopped["time-limit"].seen.text
