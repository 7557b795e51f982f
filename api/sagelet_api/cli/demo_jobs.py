"""The three jobs that `sagelet demo` submits: compiled, native, and the compiled one again."""

import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import sagelet_api
from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.submission import COMPILE, COMPILED_IMAGE, NATIVE_IMAGE, ensure_bucket, role_of, upload_sources
from sagelet_api.servers.server import Server
from sagelet_engine.base.errors import SageletError

BUCKET = "sagelet-demo"
TEXT_BYTES = 500_000
COMPILED, NATIVE, AGAIN = "compiled", "native", "again"
#: In the order in which they run: the native job is between the two compiled ones (`demo_figures.py` says why).
KINDS = (COMPILED, NATIVE, AGAIN)
#: What a compiled job's Environment has, by compiler. XLA traces the model once, in place of at each step.
ENVIRONMENTS = {"xla": {"SAGELET_XLA_TRACING": "once"}, "inductor": {"SAGELET_COMPILER": "inductor"}}
NUMBER = "([0-9.e+-]+)"
METRICS = [
    {"Name": "train_loss", "Regex": f"'loss': {NUMBER}"},
    {"Name": "train_samples_per_second", "Regex": f"'train_samples_per_second': {NUMBER}"},
]


#: What a job's first compiled step imports, in the packages that have it.
_LOADED_LATE = {"torch": ("_dynamo", "_functorch", "fx", "_inductor"), "sympy": ("",)}


class NoDemo(SageletError):
    """Something that the demo needs is not installed."""


def submitted(aws: Aws, server: Server, compiler: str, steps: int) -> Iterator[tuple[str, str]]:
    """Submits one job after the other, each when the caller asks for it. Yields kind and name."""
    # Uploaded once: objects that were written after a job's start would make a comparison doubt its data.
    ensure_bucket(aws, server, BUCKET)
    aws.call("s3", "put_object", Bucket=BUCKET, Key="train/stdlib.txt", Body=_text())
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for kind in KINDS:
        name = f"demo-{kind}-{stamp}"
        _submit(aws, server, name, "" if kind == NATIVE else compiler, steps)
        yield kind, name


def compile_bytecode() -> None:
    """Has Python compile what a first step imports. No package does so where it is installed, so the price of XLA's or
    Inductor's compiling would have Python's in it, in the first job of an environment only.

    Takes no time where it has been done. Where Python may not write there, each job pays for it as before.
    """
    found = {name: find_spec(name) for name in _LOADED_LATE}
    directories = [
        str(Path(root, part))
        for name, spec in found.items()
        if spec is not None
        for root in spec.submodule_search_locations or ()
        for part in _LOADED_LATE[name]
    ]
    if directories:
        command = [sys.executable, "-m", "compileall", "-q", "-j", "0", *directories]
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _submit(aws: Aws, server: Server, name: str, compiler: str, steps: int) -> None:
    """`compiler`: empty for a native job."""
    sources = upload_sources(aws, BUCKET, f"{name}/sourcedir.tar.gz", scripts() / "train.py", None)
    aws.call(
        "sagemaker",
        "create_training_job",
        TrainingJobName=name,
        AlgorithmSpecification={
            "TrainingImage": COMPILED_IMAGE if compiler else NATIVE_IMAGE,
            "TrainingInputMode": "File",
            "MetricDefinitions": METRICS,
        },
        RoleArn=role_of(server),
        InputDataConfig=[
            {
                "ChannelName": "train",
                "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": f"s3://{BUCKET}/train"}},
            }
        ],
        OutputDataConfig={"S3OutputPath": f"s3://{BUCKET}/"},
        ResourceConfig={"InstanceType": "ml.g4dn.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 10},
        StoppingCondition={"MaxRuntimeInSeconds": 3600},
        HyperParameters={**sources, "max_steps": str(steps), "batch_size": "8", **(COMPILE if compiler else {})},
        Environment=ENVIRONMENTS.get(compiler, {}),
    )


def scripts() -> Path:
    """Returns the directory of train.py: in an installed wheel `sagelet_api/_demo`, in a checkout
    `examples/gpt2/scripts`.
    """
    package = Path(sagelet_api.__file__).resolve().parent
    for found in (package / "_demo", package.parents[1] / "examples" / "gpt2" / "scripts"):
        if (found / "train.py").is_file():
            return found
    raise NoDemo(f"The demo's training script is not there ({package / '_demo'}): install sagelet again")


def _text() -> bytes:
    """Returns real text that every machine has: the sources of Python's standard library."""
    parts: list[bytes] = []
    for source in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        if sum(map(len, parts)) >= TEXT_BYTES:
            break
        parts.append(source.read_bytes())
    return b"".join(parts)
