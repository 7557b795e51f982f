"""`sagelet submit`: submits a training job from a request in a file, or from a script."""

import shlex
import sys
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.documents import BadDocument, read_document, request_from
from sagelet_api.cli.logs import JobLog, Printer, print_log
from sagelet_api.cli.options import json_option, pairs, server_options
from sagelet_api.cli.output import console
from sagelet_api.cli.submission import (
    COMPILE,
    COMPILED_IMAGE,
    NATIVE_IMAGE,
    ensure_bucket,
    input_files,
    new_name,
    own_bucket,
    role_of,
    upload_input,
    upload_sources,
)
from sagelet_api.cli.text import echo_json, say, until_reader_ends
from sagelet_api.cli.training_jobs import TRAINING
from sagelet_api.cli.wait import exit_code, outcome, until_ended
from sagelet_api.protocol.members import Parameters
from sagelet_api.servers.server import Server

DOCUMENTS = (".yaml", ".yml", ".json")
SCRIPTS = (".py", ".sh")
#: Options for what a document itself contains.
_OF_SCRIPTS = {
    "source_dir": "--source-dir",
    "inputs": "--input",
    "variables": "--env",
    "instance_type": "--instance-type",
    "instance_count": "--instance-count",
    "compiled": "--compile/--native",
    "image": "--image",
    "role": "--role",
    "output": "--output",
    "max_runtime": "--max-runtime",
}
DAY = 86_400


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", help="The job's name. Default: that of the document, else made of FILE and the time.")
@click.option(
    "-p",
    "--hyperparameter",
    "hyperparameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="Overrides the document's, too.",
)
@click.option(
    "--source-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The directory of the script, packed whole with its requirements.txt. FILE may be relative to it, as an "
    "entry_point of the SDK is. Default: the script alone.",
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="CHANNEL=SOURCE",
    help="s3://BUCKET/PREFIX, or a file or directory here, which is uploaded.",
)
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="A variable of the job's Environment.")
@click.option("--instance-type", default="ml.g4dn.xlarge", show_default=True, help="See `sagelet instances`.")
@click.option("--instance-count", type=click.IntRange(min=1), default=1, show_default=True, help="Hosts.")
@click.option("--compile/--native", "compiled", default=False, help="With the Training Compiler, or without (default).")
@click.option("--image", help="The training image. Default: AWS's for PyTorch 1.13.1, by --compile or --native.")
@click.option("--role", help="The RoleArn. Default: the execution role that every account has.")
@click.option("--output", metavar="S3://BUCKET[/PREFIX]", help="Default: s3://sagemaker-REGION-ACCOUNT/.")
@click.option("--max-runtime", type=click.IntRange(min=1), default=DAY, show_default=True, help="Seconds.")
@click.option("--wait", "waits", is_flag=True, help="Wait until the job has ended; exit codes as of `sagelet wait`.")
@click.option("-f", "--follow", is_flag=True, help="Print the job's log until it has ended; exit codes as with --wait.")
@json_option
@click.pass_context
@server_options
def submit(
    context: click.Context,
    file: Path,
    name: str | None,
    hyperparameters: tuple[str, ...],
    waits: bool,
    follow: bool,
    as_json: bool,
    server: Server,
    **of_script: Any,
) -> None:
    """Start a training job from a file.

    FILE is a CreateTrainingJob request in YAML or JSON (job.yaml, job.json), or a script (train.py, train.sh). The
    whole request is checked before anything is sent, and each wrong member is named. A script is packed and uploaded to
    the account's bucket sagemaker-REGION-ACCOUNT, which is made if it is not there.

    In a pipe the output is the job's name alone: `name=$(sagelet submit train.py)`. With --follow it is the job's log.
    """
    if as_json and follow:
        raise click.UsageError("Give either --json or --follow")
    file = existing(file, of_script["source_dir"])
    if file.is_dir():
        raise click.BadParameter(_of_a_directory(file), param_hint="FILE")
    aws, given = Aws(server), pairs(hyperparameters, "-p")
    if file.suffix.lower() in DOCUMENTS:
        _refuse_options_of_scripts(context)
        request = from_document(file, name, given)
    elif file.suffix.lower() in SCRIPTS:
        request = from_script(aws, server, file, name or new_name(file.stem), given, **of_script)
    else:
        raise click.BadParameter(f"{file}: must be a request ({', '.join(DOCUMENTS)}) or a script (.py, .sh)")
    arn = aws.call("sagemaker", "create_training_job", **request)["TrainingJobArn"]
    job = str(request["TrainingJobName"])
    if as_json and not waits:
        echo_json({"TrainingJobName": job, "TrainingJobArn": arn})
    elif not as_json:
        _tell(server, job, request, follow=follow)
    if follow:
        _follow(context, aws, server, job)
    elif waits:
        jobs = until_ended(aws, server, [job])
        with until_reader_ends():
            if as_json:
                echo_json(jobs[0])
            else:
                say(outcome(aws, jobs[0]), err=True)
        context.exit(exit_code(jobs))


def existing(file: Path, source_dir: Path | None, parameter: str = "FILE") -> Path:
    """Returns the path of a script or a request.

    With a source directory a script is looked for there first, as the SDK does. Raises BadParameter if it is not there.
    """
    inner = None if source_dir is None or file.suffix.lower() not in SCRIPTS else source_dir / file
    if inner is not None and inner.is_file():
        return inner
    if file.exists():
        return file
    text = f"Path '{file}' does not exist" + ("." if inner is None else f", and neither does '{inner}'.")
    raise click.BadParameter(text, param_hint=parameter)


def _of_a_directory(directory: Path) -> str:
    scripts = sorted(path.name for path in directory.iterdir() if path.suffix.lower() in SCRIPTS)
    script = "train.py" if "train.py" in scripts or not scripts else scripts[0]
    return (
        f"{directory} is a directory. Name its script, and pack the directory with --source-dir: "
        f"sagelet submit {shlex.quote(str(directory / script))} --source-dir {shlex.quote(str(directory))}"
    )


def _refuse_options_of_scripts(context: click.Context) -> None:
    for parameter, option in _OF_SCRIPTS.items():
        if context.get_parameter_source(parameter) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option} goes with a script: a request in a file says it itself")


def from_document(file: Path, name: str | None, hyperparameters: dict[str, str]) -> Parameters:
    """Reads a request from a file. Raises BadDocument."""
    document = read_document(file)
    document["TrainingJobName"] = name or document.get("TrainingJobName") or new_name(file.stem)
    if hyperparameters:
        own = document.get("HyperParameters") or {}
        document["HyperParameters"] = {**own, **hyperparameters} if isinstance(own, dict) else own
    return request_from(document, str(file))


def from_script(
    aws: Aws,
    server: Server,
    script: Path,
    name: str,
    hyperparameters: dict[str, str],
    *,
    source_dir: Path | None,
    inputs: tuple[str, ...],
    variables: tuple[str, ...],
    instance_type: str,
    instance_count: int,
    compiled: bool,
    image: str | None,
    role: str | None,
    output: str | None,
    max_runtime: int,
) -> Parameters:
    """Makes a request from a script. Uploads its parts after the rest of the request was checked."""
    bucket, channels = own_bucket(server), pairs(inputs, "--input", "CHANNEL=SOURCE")
    environment = pairs(variables, "--env")
    request: Parameters = {
        "TrainingJobName": name,
        "AlgorithmSpecification": {
            "TrainingImage": image or (COMPILED_IMAGE if compiled else NATIVE_IMAGE),
            "TrainingInputMode": "File",
        },
        "RoleArn": role or role_of(server),
        "OutputDataConfig": {"S3OutputPath": output or f"s3://{bucket}/"},
        "ResourceConfig": {
            "InstanceType": instance_type,
            "InstanceCount": instance_count,
            "VolumeSizeInGB": 30,
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": max_runtime},
        "HyperParameters": {**(COMPILE if compiled else {}), **hyperparameters},
        **({"Environment": environment} if environment else {}),
        **({"InputDataConfig": [_channel(*one) for one in channels.items()]} if channels else {}),
    }
    _check(request)
    here = {
        channel: Path(source).expanduser() for channel, source in channels.items() if not source.startswith("s3://")
    }
    files = {channel: input_files(channel, source) for channel, source in here.items()}
    ensure_bucket(aws, server, bucket)
    key = f"{name}/source/sourcedir.tar.gz"
    request["HyperParameters"] |= upload_sources(aws, bucket, key, script, source_dir)
    for channel, source in here.items():
        uri = upload_input(aws, bucket, f"{name}/input/{channel}", source, files[channel])
        _place(request, channel)["S3Uri"] = uri
    return request


def _check(request: Parameters) -> None:
    """Checks the request. Raises BadDocument in the words of the options."""
    try:
        request_from(request, "This")
    except BadDocument as error:
        raise BadDocument(str(error).replace("This is not a valid", "The options make no valid", 1)) from error


def _channel(name: str, source: str) -> Parameters:
    uri = source if source.startswith("s3://") else "s3://later"
    return {
        "ChannelName": name,
        "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": uri}},
    }


def _place(request: Parameters, channel: str) -> Parameters:
    found = next(one for one in request["InputDataConfig"] if one["ChannelName"] == channel)
    place: Parameters = found["DataSource"]["S3DataSource"]
    return place


def _tell(server: Server, name: str, request: Parameters, *, follow: bool) -> None:
    """Prints the result. For programs it is the name alone, or the name goes to stderr if stdout has the log."""
    if not sys.stdout.isatty():
        click.echo(name, err=follow)
        return
    image = request["AlgorithmSpecification"].get("TrainingImage", "")
    say(f"{name}: submitted to {server.endpoint}" + (f" ({image})" if image else ""))
    if not follow:
        click.echo(f"`sagelet logs -f {name}` shows its log, `sagelet open {name}` its page")


def _follow(context: click.Context, aws: Aws, server: Server, name: str) -> None:
    printer = Printer(console(), as_json=False, timestamps=False)
    # The exit code also counts for a user who has stopped reading, so the command still waits.
    with until_reader_ends():
        print_log(
            aws, server, TRAINING.describe(aws, server, name), JobLog(aws, name, None, None), printer, follow=True
        )
    jobs = until_ended(aws, server, [name])
    with until_reader_ends():
        say(outcome(aws, jobs[0]), err=True)
    context.exit(exit_code(jobs))
