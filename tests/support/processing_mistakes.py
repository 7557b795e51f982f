"""Mistakes that users make in a processing job, and what sagelet must say of each: what happened, and what to do.

`tests/acceptance/test_processing_mistakes.py` submits them all. Each must get all of its three points: what happened,
why, and the remedy.
"""

from dataclasses import dataclass, field
from typing import Any

from support.processing import given

CODE = "/opt/ml/processing/input/code"
RAW = "/opt/ml/processing/input/raw"
CLEAN = "/opt/ml/processing/output/clean"
_WRITE = f"open('{CLEAN}/rows.csv', 'w').write('1')\n"
_ARGUMENTS = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--ratio", type=float, default=0.2)
parser.parse_args()
"""


@dataclass(frozen=True)
class Mistake:
    """One mistake. `files`: what the input `code` brings, or the text of prepare.py."""

    name: str
    files: dict[str, str] | str
    #: The doctor's rule that explains it.
    rule: str
    #: Part of what happened.
    seen: str
    #: Part of what to do.
    remedy: str
    #: The command. None for prepare.py, by Python.
    command: tuple[str, ...] | None = None
    #: The members that differ from an ordinary request.
    options: dict[str, Any] = field(default_factory=dict)
    status: str = "Failed"


def _raw(uri: str) -> dict[str, Any]:
    return {"ProcessingInputs": [given("raw", uri, RAW)]}


_ISOLATED = {"NetworkConfig": {"EnableNetworkIsolation": True}}

MISTAKES = (
    Mistake("error", "raise ValueError('no rows')", "script-error", "ValueError: no rows", "Correct the script"),
    Mistake("syntax", "def f(:\n  pass", "script-error", "prepare.py:1: The script ended", "py_compile"),
    Mistake(
        "column",
        f"import csv\nfor row in csv.DictReader(open('{RAW}/rows.csv')):\n    row['price']\n",
        "script-error",
        "prepare.py:3: The script ended with an error: \"KeyError: 'price'\"",
        "has no such column or key",
    ),
    Mistake(
        "variable-of-a-training-job",
        "import os; os.environ['SM_CHANNEL_TRAIN']",
        "script-error",
        "KeyError: 'SM_CHANNEL_TRAIN'",
        "has no variables SM_",
    ),
    Mistake(
        "variable-of-a-shell",
        "import os; os.environ['WANDB_API_KEY']",
        "script-error",
        "KeyError: 'WANDB_API_KEY'",
        "Environment of CreateProcessingJob",
    ),
    Mistake(
        "missing-module",
        "import nosuchpackage",
        "missing-package",
        "No module named 'nosuchpackage'",
        "FrameworkProcessor",
    ),
    Mistake(
        "module-of-its-own",
        "import utils",
        "missing-package",
        "No module named 'utils'",
        "beside the script",
    ),
    Mistake(
        "unknown-argument",
        _ARGUMENTS,
        "refused-arguments",
        "unrecognized arguments: --rate 1",
        "parser.add_argument('--rate')",
        options={"arguments": ["--rate", "1"]},
    ),
    Mistake(
        "argument-of-another-type",
        _ARGUMENTS,
        "refused-arguments",
        "argument --ratio: invalid float value: 'half'",
        "ContainerArguments",
        options={"arguments": ["--ratio", "half"]},
    ),
    Mistake(
        "required-argument",
        _ARGUMENTS.replace("default=0.2", "required=True"),
        "refused-arguments",
        "the following arguments are required: --ratio",
        "ContainerArguments",
    ),
    Mistake(
        "no-script",
        {"main.py": _WRITE},
        "missing-entry-point",
        f"no input brings {CODE}/prepare.py; the input code brings {CODE}/main.py",
        "ContainerEntrypoint",
    ),
    Mistake(
        "script-in-another-directory",
        _WRITE,
        "missing-entry-point",
        "no input brings /opt/ml/processing/code/prepare.py",
        f"Name it as it is: {CODE}/prepare.py",
        ("python3", "/opt/ml/processing/code/prepare.py"),
    ),
    Mistake(
        "no-program",
        _WRITE,
        "missing-entry-point",
        f"no input brings {CODE}/prepare.sh",
        "ContainerEntrypoint",
        (f"{CODE}/prepare.sh",),
    ),
    Mistake(
        "no-shell-script",
        _WRITE,
        "missing-entry-point",
        f"no input brings {CODE}/prepare.sh",
        "ContainerEntrypoint",
        ("/bin/bash", f"{CODE}/prepare.sh"),
    ),
    Mistake(
        "a-script-as-program",
        _WRITE,
        "missing-entry-point",
        "is not executable",
        f'["python3", "{CODE}/prepare.py"]',
        (f"{CODE}/prepare.py",),
    ),
    Mistake(
        "misspelt-program",
        _WRITE,
        "missing-entry-point",
        "pythn3",
        "ContainerEntrypoint",
        ("pythn3", f"{CODE}/prepare.py"),
    ),
    Mistake(
        "program-that-a-shell-misses",
        {"prepare.sh": "set -e\naccelerat launch\n"},
        "missing-entry-point",
        "accelerat: command not found",
        "Correct the program's name",
        ("/bin/bash", f"{CODE}/prepare.sh"),
    ),
    Mistake(
        "file-that-the-input-lacks",
        f"open('{RAW}/prices.csv')",
        "missing-input",
        "The input raw does not have this file",
        "brought rows.csv",
    ),
    Mistake(
        "input-that-the-job-lacks",
        "open('/opt/ml/processing/input/prices/a.csv')",
        "missing-input",
        "No input or output has this LocalPath",
        "ProcessingInputs",
    ),
    Mistake(
        "channel-of-a-training-job",
        "open('/opt/ml/input/data/train/a.csv')",
        "missing-input",
        "a path of training jobs",
        "ProcessingInputs",
    ),
    Mistake(
        "directory-that-no-output-makes",
        "open('/opt/ml/processing/output/prices/rows.csv', 'w')",
        "missing-input",
        "No input or output has this LocalPath",
        "os.makedirs",
    ),
    Mistake(
        "directory-within-an-output",
        f"open('{CLEAN}/deep/rows.csv', 'w')",
        "missing-input",
        "The directory does not exist in the output clean",
        "os.makedirs",
    ),
    Mistake("relative-path", "open('data/a.csv')", "missing-file", "'data/a.csv'", "ProcessingInputs"),
    Mistake(
        "read-only",
        "import errno; raise PermissionError(errno.EACCES, 'Permission denied', '/usr/share/a')",
        "not-writable",
        "Permission denied",
        "LocalPath of an output",
    ),
    Mistake(
        "full-disk",
        "import errno; raise OSError(errno.ENOSPC, 'No space left on device')",
        "not-writable",
        "disk was full",
        "sagelet gc",
    ),
    Mistake("exit-code", "import sys; print('bad rows'); sys.exit(3)", "script-exit", "exit code 3", "sys.exit"),
    Mistake(
        "own-message",
        "import sys; open('/opt/ml/output/message', 'w').write('no rows at all'); sys.exit(3)",
        "script-exit",
        'its exit message is "no rows at all"',
        "what the exit message names",
    ),
    Mistake("signal", "import os; os.kill(os.getpid(), 11)", "script-exit", "SIGSEGV", "PYTHONFAULTHANDLER"),
    Mistake("too-large-an-array", "bytearray(1 << 46)", "out-of-memory", "MemoryError", "in parts"),
    Mistake("killed", "import os; os.kill(os.getpid(), 9)", "script-exit", "SIGKILL", "Look for `kill -9`"),
    Mistake(
        "no-network",
        "import urllib.request; urllib.request.urlopen('http://nothing.invalid/a.csv')",
        "no-network",
        "did not reach a server",
        "Bring the data as an input",
    ),
    Mistake(
        "object-that-is-missing",
        "import boto3; boto3.client('s3').get_object(Bucket='tests', Key='nothing')",
        "aws-call",
        "NoSuchKey",
        "sagelet s3 import",
    ),
    Mistake(
        "input-of-a-missing-bucket",
        _WRITE,
        "not-run",
        "s3://no-such-bucket-here/raw",
        "sagelet s3 import",
        options=_raw("s3://no-such-bucket-here/raw"),
    ),
    Mistake(
        "input-of-a-missing-prefix",
        _WRITE,
        "not-run",
        "s3://tests/nothing-here",
        "sagelet s3 import",
        options=_raw("s3://tests/nothing-here"),
    ),
    Mistake(
        "nothing-written",
        "print('done')",
        "nothing-written",
        f"The job completed without a file in {CLEAN}, the LocalPath of the output clean",
        "Write the results to the LocalPath",
        status="Completed",
    ),
    Mistake(
        "written-elsewhere",
        "import os; os.makedirs('/opt/ml/processing/clean'); open('/opt/ml/processing/clean/rows.csv', 'w').write('1')",
        "nothing-written",
        "/opt/ml/processing/clean/rows.csv",
        "Write the results to the LocalPath",
        status="Completed",
    ),
    Mistake(
        "saved-as-a-model",
        "open('/opt/ml/model/a', 'w').write('1') if __import__('os').makedirs('/opt/ml/model') is None else 0",
        "nothing-written",
        "/opt/ml/model/a",
        "Write the results to the LocalPath",
        status="Completed",
    ),
    Mistake(
        "time-limit",
        "import time; time.sleep(600)",
        "time-limit",
        "its MaxRuntimeInSeconds",
        "Raise MaxRuntimeInSeconds",
        options={"StoppingCondition": {"MaxRuntimeInSeconds": 2}},
        status="Stopped",
    ),
)
#: In Docker only: the process runtime cannot isolate a job, and a host has no memory of its own there.
IN_DOCKER = (
    Mistake(
        "isolated",
        "import urllib.request; urllib.request.urlopen('http://example.com/a.csv')",
        "no-network",
        "has EnableNetworkIsolation",
        "Take EnableNetworkIsolation out",
        options=_ISOLATED,
    ),
    Mistake(
        "isolated-from-aws",
        "import boto3; boto3.client('s3').list_buckets()",
        "no-network",
        "has EnableNetworkIsolation",
        "Take EnableNetworkIsolation out",
        options=_ISOLATED,
    ),
)
