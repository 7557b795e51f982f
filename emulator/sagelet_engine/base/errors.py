"""The errors of the engine. The user reads the message, so it names the remedy."""

import errno


class SageletError(Exception):
    """Base of every error that sagelet raises on purpose."""


#: Faults of the machine, whose text says all: disk, memory, open files, rights, network.
_OF_THE_MACHINE = frozenset({
    errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EACCES,
    errno.EPERM, errno.ETIMEDOUT, errno.ECONNREFUSED, errno.ECONNRESET,
})  # fmt: skip


def is_known(error: BaseException) -> bool:
    """True for an error whose text says all. A log shows it in a line; any other has its traceback."""
    return isinstance(error, SageletError) or (isinstance(error, OSError) and error.errno in _OF_THE_MACHINE)


class SettingsError(SageletError):
    """A setting is wrong. Raised at start, naming the setting."""


class DataDirectoryInUse(SageletError):
    """Another server owns the data directory."""


class JobNotFound(SageletError):
    """No training job has this name in this account and region."""


class JobNameInUse(SageletError):
    """A training job with this name (names are compared without case) exists already."""

    def __init__(self, arn: str) -> None:
        super().__init__(f"A training job with this name already exists ({arn})")
        self.arn = arn


class OrchestrationNotFound(SageletError):
    """No orchestration (for example, a tuning job) has this name in this account and region."""


class OrchestrationNameInUse(SageletError):
    """An orchestration of this kind with this name exists already."""

    def __init__(self, arn: str) -> None:
        super().__init__(f"The name is in use ({arn})")
        self.arn = arn


class OrchestrationEnded(SageletError):
    """A stop was asked of an orchestration that has ended."""

    def __init__(self, status: str) -> None:
        super().__init__(f"The orchestration is in status {status}")
        self.status = status


class OrchestrationNotDeletable(OrchestrationEnded):
    """A deletion was asked of an orchestration that has not ended."""


class PipelineNotFound(SageletError):
    """No pipeline has this ARN."""


class PipelineNameInUse(SageletError):
    """A pipeline of this name exists in the account and region."""


class PipelineInUse(SageletError):
    """The pipeline has executions that have not ended."""


class RegistryNotFound(SageletError):
    """No model, model package or group has this ARN, which is the text."""


class RegistryNameInUse(SageletError):
    """A model, model package or group has this ARN, which is the text."""


class RegistryInUse(SageletError):
    """The group has model packages. The text is its ARN."""


class AliasTaken(SageletError):
    """Another version of the pipeline has the alias."""


class AliasNotFound(SageletError):
    """The version does not have the alias."""


class JobNotStoppable(SageletError):
    """StopTrainingJob on a job that has ended."""

    def __init__(self, status: str) -> None:
        super().__init__(f"The training job is in status {status}")
        self.status = status


class JobNotInterruptible(SageletError):
    """A spot interruption was asked of a job that has no spot instances now."""


class ScheduleError(SageletError):
    """The tag that schedules spot interruptions cannot be read."""


class FaultError(SageletError):
    """The tag that gives a job faults cannot be read."""


class JobNotDeletable(SageletError):
    """DeleteTrainingJob on a job that has not ended."""

    def __init__(self, status: str) -> None:
        super().__init__(f"The training job is in status {status}")
        self.status = status


class WarmPoolAvailable(SageletError):
    """DeleteTrainingJob on a job whose warm pool waits for the next job."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The training job {name} retains a warm pool in status Available; end it with UpdateTrainingJob "
            "(ResourceConfig KeepAlivePeriodInSeconds 0), then delete the job"
        )


class TooManyTags(SageletError):
    """A resource would have more tags than one can have. No tag was added."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"A resource can have {limit} tags; delete some first")


class ClientFault(SageletError):
    """The job cannot run because of what the request asks for. Its FailureReason becomes `ClientError: ...`."""


class OutputTooLong(ClientFault):
    """A host has printed more than sagelet keeps of it."""


class RuntimeUnavailable(SageletError):
    """The engine behind a runtime (for example the Docker daemon) does not answer. The caller may try again."""
