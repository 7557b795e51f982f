"""SageMaker Metrics (`sagemaker-metrics`, rest-json): metrics put to a trial component, and read back.

A trial component is moto's (CreateTrialComponent), or belongs to a training job: AWS makes `JOB-aws-training-job` for
every job, and with EnableSageMakerMetricsTimeSeries puts the metrics of the metric definitions into it. The values are
durable here, although moto forgets the component itself when the server ends.

AWS documents neither its error for an unknown component, nor the unit of Start, End and the x-axis in time, nor which
periods go with which x-axis. Here the error is ResourceNotFound, the unit is epoch seconds, and IterationNumber goes
with IterationNumber only.
"""

from collections.abc import Callable

from sagelet_api.protocol.aws_errors import ResourceNotFound
from sagelet_api.protocol.members import Output, Request
from sagelet_api.protocol.operations import Context, RestOperation
from sagelet_engine.base.errors import JobNotFound
from sagelet_engine.engine import Engine
from sagelet_engine.model.job import JobKey
from sagelet_engine.model.series import STATISTICS, Sample, by_step, by_time
from sagelet_engine.model.training import TrainingJob

#: Account, region and name -> True if moto has the trial component.
HasComponent = Callable[[str, str, str], bool]

JOB_SUFFIX = "-aws-training-job"
PERIOD_SECONDS = {"OneMinute": 60, "FiveMinute": 300, "OneHour": 3600}
BY_STEP = "IterationNumber"


class SageMakerMetrics:
    """Handlers. Each takes the call and its validated request, and returns the members of the answer."""

    def __init__(self, engine: Engine, has_component: HasComponent) -> None:
        self._engine = engine
        self._has_component = has_component

    def batch_put_metrics(self, context: Context, request: Request) -> Output:
        """Stores all samples or none. `Errors` is never returned, because everything that the model allows can be
        stored.
        """
        component = request["TrialComponentName"]
        job = self._job_of(context, component)
        if job is None and not self._has_component(context.account, context.region, component):
            raise ResourceNotFound(
                f"Trial component '{component}' does not exist. Make it with CreateTrialComponent, or name the one of "
                f"a training job: its name in lower case and {JOB_SUFFIX}"
            )
        named = [
            (entry["MetricName"], Sample(round(entry["Timestamp"] * 1000), entry["Value"], entry.get("Step")))
            for entry in request["MetricData"]
        ]
        self._engine.metrics.put_component(context.account, context.region, component, job, named)
        return {}

    def batch_get_metrics(self, context: Context, request: Request) -> Output:
        return {"MetricQueryResults": [self._answer(context, query) for query in request["MetricQueries"]]}

    def operations(self) -> list[RestOperation]:
        """Returns the operations for the application."""
        model = "sagemaker-metrics"
        return [
            RestOperation(
                signing_name="sagemaker",
                method="PUT",
                path="/BatchPutMetrics",
                model=model,
                operation="BatchPutMetrics",
                handler=self.batch_put_metrics,
            ),
            RestOperation(
                signing_name="sagemaker",
                method="POST",
                path="/BatchGetMetrics",
                model=model,
                operation="BatchGetMetrics",
                handler=self.batch_get_metrics,
            ),
        ]

    def _answer(self, context: Context, query: Request) -> Output:
        steps = query["XAxisType"] == BY_STEP
        if steps != (query["Period"] == BY_STEP):
            return _invalid(f"Period {query['Period']} does not go with XAxisType {query['XAxisType']}")
        samples = self._samples(context, query)
        if samples is None:
            return _invalid(f"There is no trial component or training job {query['ResourceArn']}")
        reduce, start, end = STATISTICS[query["MetricStat"]], query.get("Start"), query.get("End")
        if steps:
            found = by_step(samples, start, end, reduce)
        else:
            found = by_time(samples, PERIOD_SECONDS[query["Period"]], start, end, reduce)
        return {"Status": "Complete", "XAxisValues": [x for x, _ in found], "MetricValues": [y for _, y in found]}

    def _samples(self, context: Context, query: Request) -> list[Sample] | None:
        """Returns the samples of a resource's metric, or None if the caller has no such resource."""
        _, _, _, region, account, resource = query["ResourceArn"].split(":", 5)
        kind, _, name = resource.partition("/")
        if (account, region) != (context.account, context.region):
            return None
        if kind == "training-job":
            component = f"{name.lower()}{JOB_SUFFIX}"
        elif kind == "experiment-trial-component":
            component = name.lower()
        else:
            return None
        job = self._job_of(context, component)
        if job is None and (kind == "training-job" or not self._has_component(account, region, component)):
            return None
        put = self._engine.metrics.of_component(account, region, component, query["MetricName"])
        if job is None or not job.spec.metrics_time_series:
            return put
        return [*self._engine.metrics.of_job(job, query["MetricName"]), *put]

    def _job_of(self, context: Context, component: str) -> TrainingJob | None:
        """Returns the training job of a trial component. The case of its name does not matter."""
        if not component.endswith(JOB_SUFFIX):
            return None
        try:
            return self._engine.jobs.get(JobKey(context.account, context.region, component.removesuffix(JOB_SUFFIX)))
        except JobNotFound:
            return None


def _invalid(message: str) -> Output:
    return {"Status": "ValidationError", "Message": message, "XAxisValues": [], "MetricValues": []}
