"""Mistakes that users make in a training job, and what sagelet must say of each: what happened, and what to do.

`tests/acceptance/test_job_mistakes.py` submits them all. Each must get all of its three points: what happened, why, and
the remedy.
"""

from dataclasses import dataclass, field
from typing import Any

from support.packages import wheel, wheel_name

_ARGUMENTS = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--data-dir"{options})
parser.parse_args()
"""
_SAVE = "import os; open(os.environ['SM_MODEL_DIR'] + '/model.pt', 'w').write('weights')\n"
_TRAIN = "/opt/ml/input/data/train"


@dataclass(frozen=True)
class Mistake:
    """One mistake. `files`: the source directory, or the text of train.py."""

    name: str
    files: dict[str, str | bytes] | str
    #: The doctor's rule that explains it.
    rule: str
    #: Part of what happened.
    seen: str
    #: Part of what to do.
    remedy: str
    #: The members that differ from an ordinary request.
    options: dict[str, Any] = field(default_factory=dict)
    status: str = "Failed"


def _wheel(name: str, version: str, **options: str) -> dict[str, str | bytes]:
    return {wheel_name(name, version): wheel(name, version, **options)}


def _requires(text: str, **files: str | bytes) -> dict[str, str | bytes]:
    return {"train.py": _SAVE, "requirements.txt": f"--no-index\n--find-links .\n{text}\n", **files}


def _shell(text: str) -> dict[str, str | bytes]:
    return {"train.sh": text, "train.py": _SAVE}


_AS_SHELL = {"hyperparameters": {"sagemaker_program": '"train.sh"'}}

MISTAKES = (
    Mistake("error", "raise ValueError('no rows')", "script-error", "ValueError: no rows", "Correct the script"),
    Mistake(
        "error-in-function",
        "def load():\n    raise OverflowError('too long')\nload()",
        "script-error",
        "train.py:2: The script ended with an error",
        "a debugger",
    ),
    Mistake(
        "own-exception",
        "class NoRows(BaseException): pass\nraise NoRows('none')",
        "script-error",
        "NoRows: none",
        "Correct the script",
    ),
    Mistake("syntax", "def f(:\n  pass", "script-error", "train.py:1: The script ended", "py_compile"),
    Mistake("indentation", "def f():\npass", "script-error", "IndentationError", "py_compile"),
    Mistake(
        "renamed-argument",
        "def train(learning_rate): pass\ntrain(lr=0.1)",
        "script-error",
        "unexpected keyword argument 'lr'",
        "image of its day",
    ),
    Mistake(
        "modules-that-import-each-other",
        {"train.py": "import a\n", "a.py": "import b\nX = 1\n", "b.py": "from a import X\n"},
        "script-error",
        "b.py:1: The script ended with an error",
        "into a third module",
    ),
    Mistake(
        "library-of-the-system",
        "import ctypes; ctypes.CDLL('libNoSuchThing.so.1')",
        "script-error",
        "cannot open shared object file",
        "an image of your own",
    ),
    Mistake(
        "variable-of-a-shell",
        "import os; os.environ['WANDB_API_KEY']",
        "script-error",
        "KeyError: 'WANDB_API_KEY'",
        "Environment of CreateTrainingJob",
    ),
    Mistake(
        "workers-without-a-launcher",
        "import torch.distributed as d; d.init_process_group('gloo')",
        "script-error",
        "environment variable RANK expected",
        "'torch_distributed': {'enabled': True}",
    ),
    Mistake(
        "weights-of-another-model",
        "import torch; torch.nn.Linear(2, 3).load_state_dict({'w': torch.ones(1)})",
        "script-error",
        "loading state_dict for Linear",
        "of another model",
    ),
    Mistake(
        "flag-with-a-value",
        "import argparse; p = argparse.ArgumentParser(); p.add_argument('--fp16', action='store_true'); p.parse_args()",
        "refused-arguments",
        "unrecognized arguments: True",
        "store_true",
        {"hyperparameters": {"fp16": "true"}},
    ),
    Mistake(
        "unknown-hyperparameter",
        _ARGUMENTS.format(options=""),
        "refused-arguments",
        "unrecognized arguments: --batch-size 8",
        "parser.add_argument('--batch-size')",
        {"hyperparameters": {"batch-size": "8"}},
    ),
    Mistake(
        "hyperparameter-of-another-type",
        _ARGUMENTS.format(options=""),
        "refused-arguments",
        "argument --epochs: invalid int value: 'three'",
        "the argument's type can read",
        {"hyperparameters": {"epochs": "three"}},
    ),
    Mistake(
        "required-argument",
        _ARGUMENTS.format(options=", required=True"),
        "refused-arguments",
        "the following arguments are required: --data-dir",
        "give the argument a default",
    ),
    Mistake(
        "no-entry-point", {"main.py": _SAVE}, "missing-entry-point", "has no train.py; it has main.py", "entry_point"
    ),
    Mistake(
        "entry-point-in-a-folder",
        {"src/train.py": _SAVE},
        "missing-entry-point",
        "it has src/train.py",
        "Name it as it is in the source directory: src/train.py",
    ),
    Mistake(
        "entry-point-without-its-suffix",
        _SAVE,
        "missing-entry-point",
        "has no train; it has train.py",
        "Name it as it is in the source directory: train.py",
        {"hyperparameters": {"sagemaker_program": '"train"'}},
    ),
    Mistake(
        "no-program",
        _SAVE,
        "missing-entry-point",
        "does not say which script to run",
        "sagemaker_program",
        {"hyperparameters": {"sagemaker_program": '""'}},
    ),
    Mistake(
        "source-archive-that-is-none",
        _SAVE,
        "source-archive",
        "could not be fetched or unpacked",
        "tar -czf",
        {"hyperparameters": {"sagemaker_submit_directory": '"s3://tests/no-archive.tar.gz"'}},
    ),
    Mistake(
        "source-archive-that-is-missing",
        _SAVE,
        "source-archive",
        "(404)",
        "Upload the archive again",
        {"hyperparameters": {"sagemaker_submit_directory": '"s3://tests/missing.tar.gz"'}},
    ),
    Mistake(
        "unknown-requirement",
        _requires("no-such-package"),
        "failed-install",
        "No matching distribution found for no-such-package",
        "Look at the spelling",
    ),
    Mistake(
        "requirement-without-that-version",
        _requires("lib-for-test==9.0", **_wheel("lib-for-test", "1.0")),
        "failed-install",
        "No matching distribution found for lib-for-test==9.0",
        "Ask for a version",
    ),
    Mistake(
        "requirement-of-another-torch",
        _requires("torch==99.0", **_wheel("torch", "99.0")),
        "failed-install",
        "torch==99.0",
        "SAGELET_PINS=exact",
    ),
    Mistake(
        "misspelt-requirement", _requires("six = = 3"), "failed-install", "Invalid requirement", "Correct the line"
    ),
    Mistake(
        "missing-package",
        "import no_such_module",
        "missing-package",
        "No module named 'no_such_module'",
        "Put `no_such_module` into the requirements.txt",
    ),
    Mistake(
        "module-left-out",
        "from helpers.data import load",
        "missing-package",
        "'helpers'",
        "is probably a module of your own",
    ),
    Mistake("exit-code", "import sys; print('bad'); sys.exit(3)", "script-exit", "exit code 3", "Raise an exception"),
    Mistake(
        "exit-with-reason", "import sys; sys.exit('no rows here')", "script-exit", "no rows here", "Raise an exception"
    ),
    Mistake("segfault", "import ctypes; ctypes.string_at(0)", "script-exit", "signal SIGSEGV", "PYTHONFAULTHANDLER"),
    Mistake("abort", "import os; os.abort()", "script-exit", "signal SIGABRT", "PYTHONFAULTHANDLER"),
    # Nobody says that memory was full: reliability/test_docker_faults.py has a container whose memory was.
    Mistake("killed", "import os; os.kill(os.getpid(), 9)", "script-exit", "signal SIGKILL", "Look for `kill -9`"),
    Mistake("too-large-an-array", "bytearray(1 << 46)", "out-of-memory", "MemoryError", "Lower the batch size"),
    Mistake("cuda", "import torch; torch.ones(2).to('cuda')", "no-gpu", "This host has no GPU", "is_available()"),
    Mistake(
        "checkpoint-of-a-gpu",
        "raise RuntimeError('Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is "
        "False.')",
        "no-gpu",
        "needs a GPU",
        "map_location='cpu'",
    ),
    Mistake(
        "divided-by-the-gpus",
        "import os; 8 // int(os.environ['SM_NUM_GPUS'])",
        "no-gpu",
        "ZeroDivisionError",
        "Do not divide by SM_NUM_GPUS",
    ),
    Mistake(
        "nvidia-smi", "import subprocess; subprocess.run(['nvidia-smi'])", "no-gpu", "nvidia-smi", "--gpus require"
    ),
    Mistake(
        "no-network",
        "import urllib.request; urllib.request.urlopen('http://nothing.invalid/a.csv')",
        "no-network",
        "did not reach a server",
        "Bring the data as a channel",
    ),
    Mistake(
        "object-that-is-missing",
        "import boto3; boto3.client('s3').get_object(Bucket='tests', Key='nothing')",
        "aws-call",
        "NoSuchKey",
        "sagelet s3 import",
    ),
    Mistake(
        "bucket-that-is-missing",
        "import boto3; boto3.client('s3').download_file('no-such-bucket-here', 'a', '/tmp/a')",
        "aws-call",
        "(404)",
        "sagelet s3 import",
    ),
    Mistake(
        "channel-by-variable",
        "import os; os.environ['SM_CHANNEL_TRAIN']",
        "missing-input",
        "the job has no channel",
        "ChannelName in InputDataConfig",
    ),
    Mistake(
        "channel-in-small-letters",
        "import os; os.environ['SM_CHANNEL_train']",
        "missing-input",
        "SM_CHANNEL_TRAIN",
        "in capitals",
        {
            "InputDataConfig": [
                {
                    "ChannelName": "train",
                    "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://tests/no-archive.tar.gz"}},
                }
            ]
        },
    ),
    Mistake("channel-by-path", f"open('{_TRAIN}/a.csv')", "missing-input", "reads the channel train", "ChannelName"),
    Mistake("relative-path", "open('data/a.csv')", "missing-file", "'data/a.csv'", "source directory"),
    Mistake(
        "full-disk",
        "import errno; raise OSError(errno.ENOSPC, 'No space left on device')",
        "not-writable",
        "disk was full",
        "sagelet gc",
    ),
    Mistake(
        "line-ends-of-windows",
        _shell("#!/bin/bash\r\npython train.py\r\n"),
        "missing-entry-point",
        "could not start the script",
        "Windows line end",
        _AS_SHELL,
    ),
    Mistake(
        "misspelt-program",
        _shell("#!/bin/bash\nset -e\naccelerat launch train.py\n"),
        "missing-entry-point",
        "accelerat: command not found",
        "Correct the program's name",
        _AS_SHELL,
    ),
    Mistake("nothing-saved", "print('trained')", "nothing-saved", "SM_MODEL_DIR", "torch.save", status="Completed"),
    Mistake(
        "time-limit",
        "import time; time.sleep(600)",
        "time-limit",
        "its MaxRuntimeInSeconds",
        "Raise MaxRuntimeInSeconds",
        {"max_runtime": 2},
        status="Stopped",
    ),
)
