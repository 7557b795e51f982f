"""The principals of what acts with a role: jobs and executions of pipelines."""

from sagelet_engine.model.job import Job
from sagelet_engine.model.pipeline import PipelineExecution
from sagelet_engine.model.principal import JOB_SESSION, Principal, PrincipalKind, session_arn

#: Letters of a session's name (API reference of AssumeRole, RoleSessionName).
_LONGEST = 64


def of_job(job: Job) -> Principal:
    arn = session_arn(job.key.account, job.spec.role, JOB_SESSION)
    return Principal(PrincipalKind.JOB, job.key.account, arn, job.spec.role, job.launch_id, jobs=(job.id,))


def of_execution(execution: PipelineExecution, step: str = "") -> Principal:
    """Returns the principal of an execution, or of one of its steps. AWS names its sessions so."""
    name = "-".join(("sagemaker-pipeline", execution.execution_id, *([step] if step else [])))
    account, role = execution.key.account, execution.role
    return Principal(PrincipalKind.EXECUTION, account, session_arn(account, role, name[:_LONGEST]), role)
