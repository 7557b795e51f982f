"""UpdateTrainingJob: which members may change when, and how they change the job's request.

AWS documents when: shapes UpdateTrainingJobRequest and RemoteDebugConfigForUpdate.
"""

from sagelet_api.protocol.aws_errors import ValidationException
from sagelet_api.protocol.members import Parameters, Request
from sagelet_api.services.sagemaker import training_rules
from sagelet_engine.model import aws_texts
from sagelet_engine.model.job import JobStatus, SecondaryStatus
from sagelet_engine.model.training import TrainingJob

_REMOTE_DEBUG_IN = (SecondaryStatus.DOWNLOADING, SecondaryStatus.TRAINING)


def changes(job: TrainingJob, update: Request) -> Parameters:
    """Returns the members of the job's request that the update replaces. Raises ValidationException."""
    if job.status is not JobStatus.IN_PROGRESS and set(update) - {"TrainingJobName"} != {"ResourceConfig"}:
        raise ValidationException(aws_texts.has_ended(job.status.value))
    made: Parameters = {}
    if "ProfilerConfig" in update:
        made["ProfilerConfig"] = {**job.request.get("ProfilerConfig", {}), **update["ProfilerConfig"]}
    if "ProfilerRuleConfigurations" in update:
        made["ProfilerRuleConfigurations"] = _rules(job, update["ProfilerRuleConfigurations"])
    for problem in training_rules.profiler_problems({**job.request, **made}):
        raise ValidationException(problem)
    if "RemoteDebugConfig" in update:
        made["RemoteDebugConfig"] = _remote_debug(job, update["RemoteDebugConfig"])
    if "ResourceConfig" in update:
        made["ResourceConfig"] = _resources(job, update["ResourceConfig"])
    return made


def _rules(job: TrainingJob, rules: list[Request]) -> list[Request]:
    """Returns the job's rules after the update. A rule with a known name replaces the old one; another is added."""
    names = [rule["RuleConfigurationName"] for rule in rules]
    if len(set(names)) < len(names):
        raise ValidationException("RuleConfigurationName must be unique in ProfilerRuleConfigurations")
    old = {rule["RuleConfigurationName"]: rule for rule in job.request.get("ProfilerRuleConfigurations", [])}
    return [*{**old, **dict(zip(names, rules, strict=True))}.values()]


def _remote_debug(job: TrainingJob, config: Request) -> Parameters:
    if job.secondary not in _REMOTE_DEBUG_IN:
        raise ValidationException(
            "RemoteDebugConfig can be updated while the SecondaryStatus of the training job is Downloading or "
            f"Training; it is {job.secondary.value}"
        )
    return {**job.request.get("RemoteDebugConfig", {}), **config}


def _resources(job: TrainingJob, config: Request) -> Parameters:
    """Returns ResourceConfig after the update. The developer guide says when: the job is complete and its warm pool is
    Available.
    """
    resources = job.request["ResourceConfig"]
    if job.cluster is None:
        raise ValidationException(
            "KeepAlivePeriodInSeconds can be updated for a training job that was created with one, "
            "so that it has a warm pool"
        )
    if not job.pool_available:
        state = f"its warm pool is {job.warm_pool.status.value}" if job.warm_pool else "it has no warm pool yet"
        raise ValidationException(
            "KeepAlivePeriodInSeconds can be updated when the training job has ended and its warm pool is Available; "
            f"the training job is in status {job.status.value}, {state}"
        )
    return {**resources, "KeepAlivePeriodInSeconds": config["KeepAlivePeriodInSeconds"]}
