"""The data of processing jobs: inputs and configuration before the hosts start, outputs and exit message afterwards.

The files of /opt/ml/config are those of SageMaker's developer guide ("How Amazon SageMaker Processing Configures Input
and Output For Your Processing Container").
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sagelet_engine.base.key_names import LeftOut
from sagelet_engine.base.left_on_node import left_below
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.data.artifacts import TreeUploader
from sagelet_engine.data.channels import file_mode
from sagelet_engine.data.channels.sources import JobObjects
from sagelet_engine.data.directory_sync import SyncedDirectory
from sagelet_engine.data.end_notes import failure_text
from sagelet_engine.data.layout import PROCESSING, HostDirectories, JobDirectories
from sagelet_engine.data.removal import DirectoryStays, remove_tree
from sagelet_engine.model.objects import ObjectStore
from sagelet_engine.model.processing import ProcessingJob, ProcessingOutput
from sagelet_engine.model.spec import ONE_DAY

#: The configuration, below /opt/ml.
CONFIG = "config"
#: What becomes ExitMessage, below /opt/ml.
MESSAGE = Path("output", "message")
_INPUT_DEFAULTS = {"S3InputMode": "File", "S3DataDistributionType": "FullyReplicated", "S3CompressionType": "None"}


def stage(job: ProcessingJob, name: str, host: HostDirectories, objects: JobObjects) -> None:
    """Fills a host's /opt/ml from an empty directory. Raises ClientFault if an input is missing."""
    with suppress(DirectoryStays):
        remove_tree(host.opt_ml)
    host.create(PROCESSING)
    _write_config(job, name, host.opt_ml / CONFIG)
    hosts = job.hosts
    # A directory before those in it.
    for given in sorted(job.spec.inputs, key=lambda one: one.inner.parts):
        file_mode.fill(objects, given.source, host.opt_ml / given.inner, hosts.index(name), len(hosts))
    for output in job.spec.outputs:
        (host.opt_ml / output.inner).mkdir(parents=True, exist_ok=True)


def exit_message(job: ProcessingJob, directories: JobDirectories) -> str | None:
    """Returns the ExitMessage: that of the first host that wrote one. AWS does not say whose counts."""
    for name in job.hosts:
        text = failure_text(directories.host(name).opt_ml / MESSAGE, within=1 + len(MESSAGE.parts))
        if text:
            return text
    return None


def continuous(job: ProcessingJob) -> list[SyncedDirectory]:
    """Returns the outputs that are uploaded while the hosts run. What a host deletes stays in S3."""
    return [
        SyncedDirectory(
            _path_of(output), output.target, f"output-{number}.json", f"output-{number}-restored.json", mirrored=False
        )
        for number, output in enumerate(job.spec.outputs)
        if output.continuous
    ]


class OutputUploader(TreeUploader):
    """Uploads the outputs with S3UploadMode EndOfJob. May be repeated: the same keys are written again."""

    def __init__(self, objects: ObjectStore, job: ProcessingJob, directories: JobDirectories) -> None:
        super().__init__(objects, job)
        self._outputs = [output for output in job.spec.outputs if not output.continuous]
        self._hosts = [directories.host(name) for name in job.hosts]

    def upload(self) -> Sequence[str]:
        """Uploads each output of all hosts as one directory. If names clash, the last host's file counts.

        Returns lines about files that it left out. Raises ClientFault.
        """
        for output in self._outputs:
            for host in self._hosts:
                self.check(host, host.opt_ml / output.inner)
        return [line for output in self._outputs for line in self._upload(output)]

    def _upload(self, output: ProcessingOutput) -> list[str]:
        left_out = LeftOut(output.local_path)
        for host in self._hosts:
            left_out.add_all(left_below(host.run, output.inner))
        places = [host.opt_ml / output.inner for host in self._hosts]
        directories = [place for place in places if place.is_dir() and any(place.iterdir())]
        if directories:
            self.tree(directories, output.target, left_out, [output.local_path])
        return left_out.tell()


def _path_of(output: ProcessingOutput) -> Callable[[], Path]:
    return lambda: Path(output.inner)


def _write_config(job: ProcessingJob, name: str, directory: Path) -> None:
    files: JsonObject = {
        "processingjobconfig": job_config(job),
        "resourceconfig": {"current_host": name, "hosts": list(job.hosts)},
    }
    for file, content in files.items():
        (directory / f"{file}.json").write_text(json.dumps(content), encoding="utf-8")


def job_config(job: ProcessingJob) -> JsonObject:
    """Returns processingjobconfig.json: the request with its defaults, and null for what it leaves out."""
    request = job.request
    outputs = request.get("ProcessingOutputConfig", {"Outputs": []})
    cluster = request["ProcessingResources"]["ClusterConfig"]
    return {
        "ProcessingJobArn": job.key.arn,
        "ProcessingJobName": job.key.name,
        "AppSpecification": {"ContainerEntrypoint": None, "ContainerArguments": None, **request["AppSpecification"]},
        "Environment": dict(request.get("Environment", {})),
        "ProcessingInputs": [_input(entry) for entry in request.get("ProcessingInputs", [])],
        "ProcessingOutputConfig": {"KmsKeyId": None, **outputs},
        "ProcessingResources": {"ClusterConfig": {"InstanceCount": 1, "VolumeKmsKeyId": None, **cluster}},
        "RoleArn": request["RoleArn"],
        "StoppingCondition": request.get("StoppingCondition", {"MaxRuntimeInSeconds": ONE_DAY}),
        **({"NetworkConfig": request["NetworkConfig"]} if "NetworkConfig" in request else {}),
    }


def _input(entry: Mapping[str, Any]) -> JsonObject:
    if "S3Input" not in entry:
        return dict(entry)
    return {**entry, "S3Input": {**_INPUT_DEFAULTS, "S3DownloadMode": "StartOfJob", **entry["S3Input"]}}
