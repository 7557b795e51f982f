"""The argument of a function that stands in for a container: its job, as code in a container of SageMaker sees it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any, Generic

from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model.job import J
from sagelet_engine.model.processing import ProcessingJob as Record
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.simulation.functions import FunctionHost
from sagelet_engine.simulation.functions import Terminated as Terminated

ROOT = "/opt/ml"


@dataclass(frozen=True)
class JobClock:
    """The time of the job. Only these calls take time."""

    _host: FunctionHost

    def now(self) -> datetime:
        """Returns the time in UTC."""
        return datetime.fromtimestamp(self._host.clock.now_ms() / 1000, timezone.utc)

    def advance(self, seconds: float) -> None:
        """Works for this long. Limits, interruptions and faults happen on time meanwhile.

        Raises Terminated if the job is stopped, interrupted, or out of time.
        """
        if seconds < 0:
            raise ValueError(f"advance({seconds}): time does not go back")
        self._host.sleep(seconds)


class HostJob(Generic[J]):
    """One host of a job of any kind.

    Directories are those of this host on this machine (`/opt/ml` has another path here, which is why they are
    attributes). Every method raises Terminated if the host was asked to end.
    """

    def __init__(self, record: J, host: FunctionHost) -> None:
        self._record = record
        self._host = host
        self.clock = JobClock(host)

    @property
    def name(self) -> str:
        """The job's name."""
        return self._record.key.name

    @property
    def request(self) -> Mapping[str, Any]:
        """The request that created the job."""
        return self._record.request

    @property
    def arn(self) -> str:
        return self._record.key.arn

    @property
    def opt_ml(self) -> Path:
        """The directory that is /opt/ml in a container."""
        return self._host.host.opt_ml

    @property
    def current_host(self) -> str:
        """`algo-1`."""
        return self._host.handle.host

    @property
    def hosts(self) -> tuple[str, ...]:
        return self._record.hosts

    @property
    def environment(self) -> Mapping[str, str]:
        """The container's environment variables: the platform's and those of the request."""
        return self._host.plan.environment

    def print(self, *values: object, sep: str = " ") -> None:
        """Prints to the job's log. Metric definitions find their values in it. Raises Terminated."""
        self._host.say(sep.join(str(value) for value in values))

    def hang(self) -> None:
        """Does nothing more until the job is stopped, interrupted or out of time. Then raises Terminated."""
        self._host.sleep(float("inf"))


class Job(HostJob[TrainingJob]):
    """One host of a training job.

    Directories are those of this host on this machine (`/opt/ml/model` has another path here, which is why they are
    attributes). Every method raises Terminated if the host was asked to end. Catch it to save a checkpoint.
    """

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 1. It grows after a spot interruption, or an internal fault that was
        retried.
        """
        return self._record.attempt

    @cached_property
    def hyperparameters(self) -> Mapping[str, Any]:
        """Decoded as SageMaker's toolkit does: `"3"` is 3, `"true"` True, `"[1]"` a list, and other text stays text."""
        return {name: _decoded(value) for name, value in self._config("hyperparameters").items()}

    @cached_property
    def channels(self) -> Mapping[str, Path]:
        """The directory of each input channel (in Pipe mode the FIFOs are beside it: `NAME_0`, `NAME_1`, ...)."""
        return {name: self.opt_ml / "input/data" / name for name in self._config("inputdataconfig")}

    @property
    def model_dir(self) -> Path:
        """The directory that becomes model.tar.gz."""
        return self.opt_ml / "model"

    @property
    def output_data_dir(self) -> Path:
        """The directory that becomes output.tar.gz."""
        return self.opt_ml / "output/data"

    @cached_property
    def checkpoint_dir(self) -> Path | None:
        """The directory that is synced with S3 as CheckpointConfig says. None for a job without one."""
        if "CheckpointConfig" not in self.request:
            return None
        below: str = self._config("checkpointconfig")["LocalPath"].removeprefix(ROOT)
        return self.opt_ml / below.lstrip("/")

    def _config(self, name: str) -> JsonObject:
        content: JsonObject = json.loads((self.opt_ml / f"input/config/{name}.json").read_text())
        return content


class ProcessingJob(HostJob[Record]):
    """One host of a processing job."""

    @cached_property
    def inputs(self) -> Mapping[str, Path]:
        """The directory of each input, by InputName."""
        return {one.name: self.opt_ml / one.inner for one in self._record.spec.inputs}

    @cached_property
    def outputs(self) -> Mapping[str, Path]:
        """The directory of each output, by OutputName. What is in it is uploaded."""
        return {one.name: self.opt_ml / one.inner for one in self._record.spec.outputs}

    @property
    def arguments(self) -> tuple[str, ...]:
        """ContainerArguments."""
        return self._record.spec.arguments

    def leave_message(self, text: str) -> None:
        """Leaves the job's ExitMessage. Raises Terminated."""
        self._host.heed()
        (self.opt_ml / "output" / "message").write_text(text, encoding="utf-8")


def _decoded(value: str) -> Any:
    """Decodes like params.py of github.com/aws/sagemaker-training-toolkit: JSON if it is JSON."""
    try:
        return json.loads(value)
    except ValueError:
        return value
