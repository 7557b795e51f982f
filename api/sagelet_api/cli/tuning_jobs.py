"""What commands know of tuning jobs."""

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.kinds import PAGE, Job, Kind
from sagelet_api.cli.output import Column, age, status_text
from sagelet_api.cli.text import iso
from sagelet_api.servers.server import Server


def trials_in_words(job: Job) -> str:
    """Returns `3 completed, 1 running`."""
    counters = job["TrainingJobStatusCounters"]
    failed = counters["RetryableError"] + counters["NonRetryableError"]
    words = [f"{counters['Completed']} completed"]
    for count, word in ((counters["InProgress"], "running"), (failed, "failed"), (counters["Stopped"], "stopped")):
        if count:
            words.append(f"{count} {word}")
    return ", ".join(words)


def trials_of(aws: Aws, server: Server, name: str) -> list[Job]:
    """Returns its HyperParameterTrainingJobSummaries, the oldest first. Raises NoSuchJob, ServerRefused, NoServer."""
    with TUNING.known(server, name):
        pages = aws.pages(
            "sagemaker",
            "list_training_jobs_for_hyper_parameter_tuning_job",
            HyperParameterTuningJobName=name,
            SortBy="CreationTime",
            MaxResults=PAGE,
        )
        return [trial for page in pages for trial in page["TrainingJobSummaries"]]


TUNING = Kind(
    noun="HyperParameterTuningJob",
    operations="hyper_parameter_tuning_job",
    words="tuning job",
    command="sagelet tune",
    lists="sagelet tune list",
    path="tuning",
    columns=(
        Column("NAME", lambda job: job["HyperParameterTuningJobName"]),
        Column("STATUS", lambda job: status_text(job["HyperParameterTuningJobStatus"])),
        Column("CREATED", lambda job: age(job["CreationTime"]), plain=lambda job: iso(job["CreationTime"]), optional=1),
        Column("STRATEGY", lambda job: job["Strategy"], optional=2),
        Column("TRAINING JOBS", trials_in_words),
    ),
    outcome=lambda _aws, job: [trials_in_words(job)],
    metavar="TUNING-JOB",
    offers="list, describe, best, wait, stop and delete",
    doing=lambda _server, job: f"{job['HyperParameterTuningJobName']}: {trials_in_words(job)}",
)
