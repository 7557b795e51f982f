"""A job record as DescribeTrainingJob and ListTrainingJobs show it (botocore shapes of those names)."""

from collections.abc import Sequence

from sagelet_api.protocol.members import Output
from sagelet_engine.model.job import JobStatus, Transition, WarmPool
from sagelet_engine.model.listing import ListedJob
from sagelet_engine.model.sinks import MetricPoint
from sagelet_engine.model.training import TrainingJob

#: What AWS answers for fields that the request leaves out (from public Describe outputs).
DEFAULTS: Output = {
    "EnableNetworkIsolation": False,
    "EnableInterContainerTrafficEncryption": False,
    "EnableManagedSpotTraining": False,
}
#: Members of the request that the shape DescribeTrainingJobResponse does not have.
NOT_DESCRIBED = frozenset({"SessionChainingConfig"})
CHANNEL_DEFAULTS = {"CompressionType": "None", "RecordWrapperType": "None"}
#: Members of the request with rules, and the members of the answer with a status for each rule.
RULES = {
    "DebugRuleConfigurations": "DebugRuleEvaluationStatuses",
    "ProfilerRuleConfigurations": "ProfilerRuleEvaluationStatuses",
}
NOT_EVALUATED = "sagelet does not run rules: nobody looked for issues"
OUTPUT_DEFAULTS = {"KmsKeyId": "", "CompressionType": "GZIP"}


def describe(job: TrainingJob, metrics: Sequence[MetricPoint]) -> Output:
    """Returns the answer of DescribeTrainingJob: every accepted field as it came, and the job's state and results."""
    answer = {
        **DEFAULTS,
        **{name: value for name, value in job.request.items() if name not in NOT_DESCRIBED},
        "TrainingJobArn": job.key.arn,
        "ModelArtifacts": {"S3ModelArtifacts": _model(job)},
        "TrainingJobStatus": job.status.value,
        "SecondaryStatus": job.secondary.value,
        "OutputDataConfig": {**OUTPUT_DEFAULTS, **job.request["OutputDataConfig"]},
        "CreationTime": seconds(job.created_ms),
        "LastModifiedTime": seconds(job.modified_ms),
        "SecondaryStatusTransitions": [_transition(entry) for entry in job.transitions],
        "ProfilingStatus": _profiling(job),
        **_clock(job),
    }
    if "InputDataConfig" in job.request:
        answer["InputDataConfig"] = [{**CHANNEL_DEFAULTS, **channel} for channel in job.request["InputDataConfig"]]
    for rules, evaluations in RULES.items():
        if job.request.get(rules):
            answer[evaluations] = [_evaluation(job, rule["RuleConfigurationName"]) for rule in job.request[rules]]
    if job.warm_pool is not None:
        answer["WarmPoolStatus"] = _warm_pool(job.warm_pool)
    if job.parent is not None:
        answer["TuningJobArn"] = job.parent.arn
    if job.failure_reason is not None:
        answer["FailureReason"] = job.failure_reason
    if metrics:
        answer["FinalMetricDataList"] = [_metric(point) for point in metrics]
    return answer


def summary(job: TrainingJob | ListedJob) -> Output:
    """Returns one TrainingJobSummary of ListTrainingJobs."""
    answer = {
        "TrainingJobName": job.key.name,
        "TrainingJobArn": job.key.arn,
        "CreationTime": seconds(job.created_ms),
        "LastModifiedTime": seconds(job.modified_ms),
        "TrainingJobStatus": job.status.value,
        "SecondaryStatus": job.secondary.value,
    }
    if job.training_end_ms is not None:
        answer["TrainingEndTime"] = seconds(job.training_end_ms)
    if job.warm_pool is not None:
        answer["WarmPoolStatus"] = _warm_pool(job.warm_pool)
    return answer


def seconds(time_ms: int) -> float:
    """Returns a timestamp of AWS JSON: seconds since the epoch, with milliseconds."""
    return time_ms / 1000


def _clock(job: TrainingJob) -> Output:
    """Returns the times in seconds of wall clock. They are not multiplied by instances."""
    times: Output = {}
    if job.training_start_ms is not None:
        times["TrainingStartTime"] = seconds(job.training_start_ms)
    if job.training_end_ms is not None:
        times["TrainingEndTime"] = seconds(job.training_end_ms)
        times["TrainingTimeInSeconds"] = job.training_seconds
        times["BillableTimeInSeconds"] = job.billable_seconds
    return times


def _evaluation(job: TrainingJob, rule: str) -> Output:
    """Returns the shapes DebugRuleEvaluationStatus and ProfilerRuleEvaluationStatus. No processing job evaluates, so
    there is no ARN.
    """
    status = "InProgress"
    if job.terminal:
        status = "NoIssuesFound" if job.status is JobStatus.COMPLETED else "Stopped"
    return {
        "RuleConfigurationName": rule,
        "RuleEvaluationStatus": status,
        "StatusDetails": NOT_EVALUATED,
        "LastModifiedTime": seconds(job.transitions[-1].start_ms if job.terminal else job.created_ms),
    }


def _warm_pool(pool: WarmPool) -> Output:
    answer: Output = {"Status": pool.status.value}
    if pool.retained_seconds is not None:
        answer["ResourceRetainedBillableTimeInSeconds"] = pool.retained_seconds
    if pool.reused_by is not None:
        answer["ReusedByJob"] = pool.reused_by
    return answer


def _model(job: TrainingJob) -> str:
    return job.model_uri if job.output.compressed else f"{job.output_uri}/model/"


def _transition(entry: Transition) -> Output:
    answer = {"Status": entry.status.value, "StartTime": seconds(entry.start_ms), "StatusMessage": entry.message}
    if entry.end_ms is not None:
        answer["EndTime"] = seconds(entry.end_ms)
    return answer


def _metric(point: MetricPoint) -> Output:
    """Returns MetricData. AWS gives whole seconds here."""
    return {"MetricName": point.name, "Value": point.value, "Timestamp": point.time_ms // 1000}


def _profiling(job: TrainingJob) -> str:
    config = job.request.get("ProfilerConfig")
    return "Disabled" if not config or config.get("DisableProfiler") else "Enabled"
