"""The instance metrics of a job: which hosts are looked at, and where the points go."""

import threading
from collections.abc import Sequence

from sagelet_engine.clock import Clock
from sagelet_engine.data.channels.channel import InputMode, channels_of
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.data.volume import Volume
from sagelet_engine.instances.gpu_gauge import GpuGauge
from sagelet_engine.instances.gpus import gpus_of
from sagelet_engine.jobs.record import TrainingJob
from sagelet_engine.jobs.store import Store
from sagelet_engine.runtimes.port import Handle, Runtime
from sagelet_engine.telemetry.metrics import float32
from sagelet_engine.telemetry.output import publish
from sagelet_engine.telemetry.sink import MetricPoint, MetricSink
from sagelet_engine.telemetry.usage import Gauges, UsageSampler


def usage_sampler(
    job: TrainingJob,
    directories: JobDirectories,
    handles: Sequence[Handle],
    *,
    runtime: Runtime,
    store: Store,
    sink: MetricSink,
    clock: Clock,
    closing: threading.Event,
) -> UsageSampler:
    """Looks at a job's hosts; what it sees is durable first, then goes on to CloudWatch."""

    def keep(points: list[MetricPoint]) -> None:
        rounded = [point._replace(value=float32(point.value)) for point in points]
        store.points.put_host(job.id, rounded)
        publish(sink, job.key, rounded)

    hosts = [
        Gauges(handle, _volume(job, directories, handle.host), GpuGauge(gpus_of(job, handle.host)))
        for handle in handles
    ]
    return UsageSampler(runtime, clock, hosts, keep, closing)


def _volume(job: TrainingJob, directories: JobDirectories, host: str) -> Volume:
    streamed = [f"input/data/{channel.name}" for channel in channels_of(job) if channel.mode is InputMode.FAST_FILE]
    size = int(job.request.get("ResourceConfig", {}).get("VolumeSizeInGB") or 0)
    return Volume(directories.host(host).opt_ml, size, tuple(streamed))
