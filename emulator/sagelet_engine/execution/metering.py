"""Measures the instance metrics of a job: chooses the hosts to measure and the place where the points go."""

import threading
from collections.abc import Sequence

from sagelet_engine.base.clock import Clock
from sagelet_engine.base.volume import Volume
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.execution.job_notes import Note
from sagelet_engine.instances.gpu_gauge import GpuGauge
from sagelet_engine.instances.gpus import gpus_of
from sagelet_engine.model.job import Job
from sagelet_engine.model.runtime import Handle, Runtime
from sagelet_engine.model.sinks import MetricPoint, MetricSink, publish
from sagelet_engine.store.jobs import Store
from sagelet_engine.telemetry.metrics import float32
from sagelet_engine.telemetry.usage import Gauges, UsageSampler


def usage_sampler(
    job: Job,
    directories: JobDirectories,
    handles: Sequence[Handle],
    streamed: tuple[str, ...],
    *,
    runtime: Runtime,
    store: Store,
    sink: MetricSink,
    clock: Clock,
    closing: threading.Event,
    note: Note,
) -> UsageSampler:
    """Makes the sampler of a job's hosts. It makes its points durable first and then sends them to CloudWatch.

    `streamed`: directories below /opt/ml that are not on the job's volume. `note` takes lines about what it could not
    measure.
    """

    def keep(points: list[MetricPoint]) -> None:
        rounded = [point._replace(value=float32(point.value)) for point in points]
        store.points.put_host(job.id, rounded)
        publish(sink, job.key, rounded, note)

    hosts = [
        Gauges(
            handle,
            Volume(directories.host(handle.host).opt_ml, job.spec.volume_gib, streamed),
            GpuGauge(gpus_of(job, handle.host)),
        )
        for handle in handles
    ]
    return UsageSampler(runtime, clock, hosts, keep, closing, note)
