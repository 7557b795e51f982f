"""What Search finds: the tables of training jobs and tuning jobs, and their properties as SQL.

A property that is not here is a member of the request in the record's JSON.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sagelet_engine.model.arns import sql_partition
from sagelet_engine.model.job import JobKind

Path = tuple[str, ...]


@dataclass(frozen=True)
class Searched:
    """Records of one kind. All texts are SQL."""

    table: str
    #: A condition that the records of the table satisfy.
    where: str
    #: Properties that are not members of the request.
    own: Mapping[Path, str]
    #: Maps that are not members of the request, or have tables: the row of a key, with its `value`.
    maps: Mapping[Path, str]
    #: Lists that are not members of the request: their rows, and the expression of each member of an item.
    lists: Mapping[Path, str]


TRAINING_JOBS = Searched(
    table="jobs",
    where=f"kind = '{JobKind.TRAINING.value}'",
    own={
        ("TrainingJobName",): "name",
        ("TrainingJobArn",): "arn",
        ("TrainingJobStatus",): "status",
        ("CreationTime",): "created_ms",
        ("LastModifiedTime",): "modified_ms",
        ("SecondaryStatus",): "json_extract(record, '$.secondary')",
        ("TuningJobArn",): "json_extract(record, '$.parent.arn')",
        ("FailureReason",): "json_extract(record, '$.failure_reason')",
        ("TrainingStartTime",): "json_extract(record, '$.training_start_ms')",
        ("TrainingEndTime",): "json_extract(record, '$.training_end_ms')",
        ("TrainingTimeInSeconds",): "json_extract(record, '$.facts.training_seconds')",
        ("BillableTimeInSeconds",): "json_extract(record, '$.facts.billable_seconds')",
        ("WarmPoolStatus",): "json_extract(record, '$.warm_pool.status')",
        ("WarmPoolStatus", "Status"): "json_extract(record, '$.warm_pool.status')",
        ("WarmPoolStatus", "ReusedByJob"): "json_extract(record, '$.warm_pool.reused_by')",
        ("WarmPoolStatus", "ResourceRetainedBillableTimeInSeconds"): "json_extract(record, '$.facts.retained_seconds')",
        ("ModelArtifacts",): "arn",
        ("ModelArtifacts", "S3ModelArtifacts"): (
            "rtrim(json_extract(record, '$.request.OutputDataConfig.S3OutputPath'), '/')"
            " || '/' || name || '/output/model'"
            " || CASE json_extract(record, '$.request.OutputDataConfig.CompressionType') WHEN 'NONE' THEN '/'"
            " ELSE '.tar.gz' END"
        ),
        ("SecondaryStatusTransitions",): "arn",
        ("Tags",): "(SELECT max(key) FROM tags WHERE job_id = jobs.id)",
        ("FinalMetricDataList",): "(SELECT max(name) FROM metric_points WHERE job_id = jobs.id)",
    },
    maps={
        ("HyperParameters",): "hyperparameters WHERE job_id = jobs.id AND name = ?",
        ("Tags",): "tags WHERE job_id = jobs.id AND key = ?",
        ("Metrics",): "metric_points WHERE job_id = jobs.id AND name = ? ORDER BY seq DESC LIMIT 1",
    },
    lists={
        ("SecondaryStatusTransitions",): (
            "(SELECT json_extract(value, '$.status') AS Status, json_extract(value, '$.message') AS StatusMessage,"
            " json_extract(value, '$.start_ms') AS StartTime, json_extract(value, '$.end_ms') AS EndTime"
            " FROM json_each(record, '$.transitions'))"
        ),
        ("FinalMetricDataList",): (
            "(SELECT name AS MetricName, value AS Value, time_ms AS Timestamp FROM metric_points"
            " WHERE seq IN (SELECT max(seq) FROM metric_points WHERE job_id = jobs.id GROUP BY name))"
        ),
    },
)


# --- tuning jobs ------------------------------------------------------------------------------------------------------


def _trial(member: str, place: str, tuning_job: str) -> dict[Path, str]:
    """Returns the members of a HyperParameterTrainingJobSummary. `place` of its trial in the record's JSON."""

    def held(name: str) -> str:
        return f"json_extract(record, '{place}.{name}')"

    metric = (
        "coalesce(json_extract(record,"
        " '$.request.HyperParameterTuningJobConfig.HyperParameterTuningJobObjective.MetricName'),"
        " json_extract(record, '$.request.TrainingJobDefinition.TuningObjective.MetricName'),"
        " (SELECT json_extract(value, '$.TuningObjective.MetricName')"
        " FROM json_each(record, '$.request.TrainingJobDefinitions')"
        f" WHERE json_extract(value, '$.DefinitionName') = {held('definition')}))"
    )
    final = "FinalHyperParameterTuningJobObjectiveMetric"
    members = {
        ("TrainingJobName",): held("name"),
        ("TrainingJobArn",): (
            f"'arn:' || {sql_partition('region')} || ':sagemaker:' || region || ':' || account"
            f" || ':training-job/' || lower({held('name')})"
        ),
        ("TuningJobName",): f"CASE WHEN {held('name')} IS NOT NULL THEN {tuning_job} END",
        ("TrainingJobDefinitionName",): f"nullif({held('definition')}, '')",
        ("CreationTime",): held("created_ms"),
        ("TrainingStartTime",): held("start_ms"),
        ("TrainingEndTime",): held("end_ms"),
        ("TrainingJobStatus",): held("status"),
        ("FailureReason",): held("failure_reason"),
        ("ObjectiveStatus",): f"CASE WHEN {held('name')} IS NOT NULL THEN 'Succeeded' END",
        (final,): held("objective"),
        (final, "Value"): held("objective"),
        (final, "MetricName"): f"CASE WHEN {held('name')} IS NOT NULL THEN {metric} END",
        ("TunedHyperParameters",): held("values"),
        (): f"json_extract(record, '{place}')",
    }
    return {(member, *path): text for path, text in members.items()}


def _counters(member: str, names: Mapping[str, str]) -> dict[Path, str]:
    return {(member,): "arn"} | {
        (member, name): f"json_extract(record, '$.counters.{field}')" for name, field in names.items()
    }


def tuning_jobs(now_ms: int) -> Searched:
    """Returns the tuning jobs. `now_ms`: the time until which one that runs has consumed resources."""
    consumed = f"(coalesce(json_extract(record, '$.ended_ms'), {now_ms:d}) - created_ms) / 1000"
    return Searched(
        table="orchestrations",
        where="kind = 'hyper-parameter-tuning-job'",
        own={
            ("HyperParameterTuningJobName",): "name",
            ("HyperParameterTuningJobArn",): "arn",
            ("HyperParameterTuningJobStatus",): "status",
            ("CreationTime",): "created_ms",
            ("LastModifiedTime",): "modified_ms",
            ("HyperParameterTuningEndTime",): "json_extract(record, '$.ended_ms')",
            ("FailureReason",): "json_extract(record, '$.failure_reason')",
            ("TuningJobCompletionDetails",): "arn",
            ("TuningJobCompletionDetails", "NumberOfTrainingJobsObjectiveNotImproving"): (
                "json_extract(record, '$.not_improving')"
            ),
            ("TuningJobCompletionDetails", "ConvergenceDetectedTime"): "json_extract(record, '$.converged_ms')",
            ("ConsumedResources",): "arn",
            ("ConsumedResources", "RuntimeInSeconds"): consumed,
            **_counters(
                "TrainingJobStatusCounters",
                {
                    "Completed": "completed",
                    "InProgress": "in_progress",
                    "RetryableError": "retryable",
                    "NonRetryableError": "non_retryable",
                    "Stopped": "stopped",
                },
            ),
            **_counters(
                "ObjectiveStatusCounters", {"Succeeded": "succeeded", "Pending": "pending", "Failed": "failed"}
            ),
            **_trial("BestTrainingJob", "$.best", "name"),
            **_trial(
                "OverallBestTrainingJob", "$.facts.overall_best", "json_extract(record, '$.facts.overall_best_of')"
            ),
            ("Tags",): "(SELECT max(key) FROM orchestration_tags WHERE orchestration_id = orchestrations.id)",
        },
        maps={
            ("Tags",): "orchestration_tags WHERE orchestration_id = orchestrations.id AND key = ?",
            ("BestTrainingJob", "TunedHyperParameters"): "json_each(record, '$.best.values') WHERE key = ?",
            ("OverallBestTrainingJob", "TunedHyperParameters"): (
                "json_each(record, '$.facts.overall_best.values') WHERE key = ?"
            ),
        },
        lists={},
    )
