"""Jobs that are a line of shell, for any runtime, and a neighbour that they must not disturb."""

import uuid
from typing import Any

import psutil

from support.jobs import Jobs
from support.programs import use
from support.server import NATIVE, ROLE, until

#: The line that the neighbour prints over and over.
BEAT = "beat"
#: Prints until /opt/ml/input/config is gone, which never happens. The neighbour is stopped.
_NEIGHBOUR = "while true; do echo beat; /bin/busybox usleep 200000; done"


class ShellJobs(Jobs):
    """Jobs of shell scripts. `image`: an image with /bin/sh and /bin/busybox."""

    def __init__(self, server: Any, image: str) -> None:
        super().__init__(server)
        self._image = image
        self.s3.create_bucket(Bucket="tests")

    def start(self, script: str, **options: Any) -> str:
        """Starts a job. `$B` is busybox in the script, which has 512 characters at most."""
        if "$B" in script or "busybox" in script:
            use("busybox")
        name = f"hostile-{uuid.uuid4().hex[:12]}"
        metrics = options.pop("metrics", None)
        resources = options.pop("resources", {})
        self.sagemaker.create_training_job(
            TrainingJobName=name,
            AlgorithmSpecification={
                "TrainingImage": self._image,
                "TrainingInputMode": "File",
                "ContainerEntrypoint": ["/bin/sh", "-c", 'B=/bin/busybox; eval "$SCRIPT"'],
                **({"MetricDefinitions": metrics} if metrics else {}),
            },
            RoleArn=ROLE,
            OutputDataConfig={"S3OutputPath": "s3://tests/out"},
            ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1, **resources},
            StoppingCondition={"MaxRuntimeInSeconds": options.pop("max_runtime", 600)},
            Environment={"SCRIPT": script, **options.pop("environment", {})},
            **options,
        )
        return name

    def stopped(self, name: str) -> dict[str, Any]:
        self.sagemaker.stop_training_job(TrainingJobName=name)
        return self.ended(name)


class Neighbour:
    """Used as `with Neighbour(jobs)`. At the end it checks that the neighbour still prints and can be stopped as usual.

    It also checks that the server is still the same process.
    """

    def __init__(self, jobs: ShellJobs) -> None:
        self._jobs = jobs
        self._process = psutil.Process(jobs.server.pid)

    def __enter__(self) -> "Neighbour":
        self._name = self._jobs.start(_NEIGHBOUR)
        until(self.beats)
        self._before = self._process.memory_info().rss
        return self

    def beats(self) -> int:
        streams = self._jobs.streams(self._name)
        return int(self._count(streams[0]["logStreamName"])) if streams else 0

    def _count(self, stream: str) -> int:
        page = self._jobs.logs.get_log_events(
            logGroupName="/aws/sagemaker/TrainingJobs", logStreamName=stream, startFromHead=False, limit=1
        )
        return int(page["nextForwardToken"].partition("/")[2])

    def grown_mib(self) -> float:
        """Returns by how many MiB the server's memory has grown since the neighbour began."""
        return float(self._process.memory_info().rss - self._before) / 1024**2

    def lives(self) -> None:
        """Checks that its lines still come."""
        now = self.beats()
        until(lambda: self.beats() > now)

    def __exit__(self, kind: object, _error: object, _trace: object) -> None:
        if kind is None:
            self.lives()
            assert self._process.is_running()
        ended = self._jobs.stopped(self._name)
        if kind is None:
            assert ended["TrainingJobStatus"] == "Stopped", ended


IMAGES = {"process": NATIVE}
