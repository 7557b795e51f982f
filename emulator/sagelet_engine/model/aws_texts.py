"""Every text of the training-job API that is known to be AWS's own, word for word, with its source.

Only this module separates AWS's words from sagelet's: **a message that is not here is sagelet's**, written because
AWS's was not found in public. Two families that AWS's framework makes from a pattern have modules of their own in the
API: broken constraints of the service model (`validation.py`, `shapes.py`) and values of a wrong JSON type
(`wire_types.py`).

Sources: issues of public repositories that quote an answer, DescribeTrainingJob outputs and SDK logs that people
posted, and the clients that match a text (Terraform's AWS provider, botocore's waiters).
"""

from collections.abc import Iterable

# --- StatusMessage of SecondaryStatusTransitions (logs of SDK v2, 2024) -----------------------------------------------

STARTING = "Starting the training job"
WAITING_FOR_CAPACITY = "Training job waiting for capacity"
PREPARING_INSTANCES = "Preparing the instances for training"
DOWNLOADING_INPUT = "Downloading input data"
DOWNLOADING_IMAGE = "Downloading the training image"
TRAINING = "Training image download completed. Training in progress."
UPLOADING = "Uploading generated training model"
STOPPING = "Stopping the training job"
COMPLETED = "Training job completed"
FAILED = "Training job failed"
STOPPED = "Training job stopped"

# --- FailureReason ----------------------------------------------------------------------------------------------------

#: One space between the sentences since 2024, two before. Clients compare the whole text.
INTERNAL_ERROR = "InternalServerError: We encountered an internal error. Please try again."
#: Comes after `CapacityError: `.
NO_CAPACITY = "Unable to provision requested ML compute capacity. Please retry using a different ML instance type."


def algorithm_error(text: str, exit_code: int) -> str:
    """The text for a container that failed. `text` is from its failure file."""
    return f"AlgorithmError: {text}, exit code: {exit_code}"


def partial_prefix(prefix: str, found: str) -> str:
    """The text for a FastFile channel. It follows `ClientError: Data download failed:`."""
    return (
        "Failed to download data. For FastFile mode, partial S3 prefix is not supported. "
        "S3 prefix has to end with a full file or folder. Add a trailing '/' to the S3 prefix if it ends with "
        "a folder name that is also a prefix for other folders. "
        f"Current S3 prefix: [{prefix}], found S3 object: [{found}]."
    )


def no_training_job_succeeded(attempts: int) -> str:
    """Returns the text for a tuning job all of whose training jobs failed (amazon-sagemaker-examples#2437)."""
    return (
        f"No training job succeeded after {attempts} attempts. Please take a look at the training job failures to get "
        "more details."
    )


def no_objective(jobs: int) -> str:
    """Returns the text for a tuning job whose training jobs print no objective metric. No public source was found."""
    return (
        f"No objective metrics found after running {jobs} training jobs. Please ensure that the custom algorithm is "
        "emitting the objective metric as defined by the regular expression provided."
    )


# --- FailureReason of processing jobs ---------------------------------------------------------------------------------

#: If the container left an ExitMessage (aws/sagemaker-spark-container, test/integration/sagemaker/test_spark.py).
SEE_JOB_LOGS = "See job logs for more information"
#: Quoted by many users of processing jobs.
PROCESSING_OUT_OF_MEMORY = (
    "Please use an instance type with more memory, or reduce the size of job data processed on an instance."
)


# --- errors of the operations -----------------------------------------------------------------------------------------

#: For every operation on a missing job: a ValidationException (boto/boto3#2808; Terraform matches it).
NOT_FOUND = "Requested resource not found."
#: sagify#111.
WAIT_WITHOUT_SPOT = "Invalid MaxWaitTimeInSeconds. It is only supported when EnableManagedSpotTraining is set to true"
PIPE_AND_FAST_FILE = "Cannot use both 'Pipe' and 'FastFile' TrainingInputMode on the same Training Job."
#: For List and Search (moto quotes it from AWS).
BAD_TOKEN = "Invalid pagination token"


#: CreateHyperParameterTuningJob (amazon-sagemaker-examples#1207, sagemaker-python-sdk#3932).
NO_OBJECTIVE_METRIC = (
    "A metric is required for this hyperparameter tuning job objective. Provide a metric in the metric definitions."
)


#: CreateHyperParameterTuningJob with WarmStartConfig (amazon-sagemaker-examples#861).
OTHER_HYPERPARAMETERS = (
    "The set of tunable plus static HyperParameter names is not the same across current and parent tuning jobs. "
    "Please ensure this set is constant when warm starting. Note that previously static HyperParameters can be tuned "
    "in warm start jobs and vice versa."
)


def fixed_members(free: Iterable[str]) -> str:
    """Returns the text for a definition that differs from the parent's in another member (sagemaker-python-sdk#3693).
    `free` may change.
    """
    return f"Only the following fields in TrainingJobDefinition are allowed to change: [{', '.join(free)}]."


def no_tuning_job(name: str) -> str:
    """Returns the text of ResourceNotFound for a tuning job. Only the part up to the name is known to be AWS's."""
    return f"Amazon SageMaker can't find a tuning job with the name {name}"


def tuning_name_taken(arn: str) -> str:
    """Returns the text of CreateHyperParameterTuningJob's ResourceInUse, after CreateTrainingJob's."""
    return (
        "Hyperparameter tuning job names must be unique within an AWS account and region, and a hyperparameter tuning "
        f"job with this name already exists ({arn})"
    )


def name_taken(arn: str, noun: str = "training job") -> str:
    """Returns the text of CreateTrainingJob's ResourceInUse (amazon-sagemaker-examples#3108). For a processing job it
    is inferred.
    """
    return (
        f"{noun.capitalize()} names must be unique within an AWS account and region, and a {noun} with this "
        f"name already exists ({arn})"
    )


def role_not_assumable(role: str) -> str:
    """Returns the text for a role that cannot be assumed. Terraform's AWS provider retries while it sees this text
    (internal/service/sagemaker).
    """
    return (
        f"Could not assume role {role}. Please ensure that the role exists and allows principal "
        "'sagemaker.amazonaws.com' to assume the role."
    )


def failed_to_invoke(action: str, details: str) -> str:
    """Returns the text of a step's FailureReason, after `ClientError: `, for a call that AWS refused (quoted by users
    of pipelines, for example for `sagemaker:CreateTrainingJob`).
    """
    return f"Failed to invoke {action}. Error Details: {details}"


def download_denied(uri: object, why: str) -> str:
    """Returns the text of FailureReason for an object that the role may not read (amazon-sagemaker-examples#4384)."""
    return f"Data download failed:Unable to download object {uri} (AccessDenied: {why})"


def upload_denied(uri: object, why: str) -> str:
    """Returns the text for an object that the role may not write. It is inferred from that of `download_denied`."""
    return f"Data upload failed:Unable to upload object {uri} (AccessDenied: {why})"


def few_combinations(combinations: int, trials: int) -> str:
    """Returns the text for more training jobs than there are values to try (amazon-sagemaker-operator-for-k8s#123)."""
    return (
        "You don't have enough combinations of hyperparameter ranges. The total number of hyperparameter combinations "
        f"for the provided ranges [{float(combinations)}] must be equal or greater than the value of MaxNumberOfJobs, "
        f"[{trials}]. Provide additional ranges."
    )


def no_objects(uri: str, bucket: str, region: str, role: str) -> str:
    """Returns the text for an input with nothing under its prefix. Seen at creation (amazon-sagemaker-examples#2489)
    and in FailureReason.
    """
    return (
        f'No S3 objects found under S3 URL "{uri}" given in input data source. Please ensure that the bucket exists in '
        f"the selected region ({region}), that objects exist under that S3 prefix, and that the role "
        f'"{role}" has "s3:ListBucket" permissions on bucket "{bucket}".'
    )


#: For an image in a registry other than ECR (aws/aws-sdk#117).
PRIVATE_REGISTRY = (
    "TrainingImageConfig with TrainingRepositoryAccessMode set to VPC must be provided when using a training image "
    "from a private Docker registry. Please provide TrainingImageConfig and TrainingRepositoryAccessMode set to VPC "
    "when using a training image from a private Docker registry."
)


def invalid_image(uri: str) -> str:
    """Returns the text of CreateProcessingJob for an image that is not in ECR (quoted by users of Clarify)."""
    return (
        f"Invalid image URI {uri}. Please provide a valid Amazon Elastic Container Registry path of the Docker image "
        "to run."
    )


def no_repository(name: str, registry: str, role: str) -> str:
    """Returns the text for a missing image at creation (amazon-sagemaker-examples#2534), with AWS's punctuation."""
    return (
        f"Cannot find repository: {name} in registry ID: {registry} Please check if your ECR repository exists and "
        f"role {role} has proper pull permissions for SageMaker: ecr:BatchCheckLayerAvailability, ecr:BatchGetImage, "
        "ecr:GetDownloadUrlForLayer"
    )


def too_many_instances(instance_type: str, limit: int, count: int, noun: str = "training job") -> str:
    """ResourceLimitExceeded."""
    return (
        f"The account-level service limit '{instance_type} for {noun} usage' is {limit} Instances, "
        f"with current utilization of 0 Instances and a request delta of {count} Instances. Please use AWS Service "
        "Quotas to request an increase for this quota. If AWS Service Quotas is not available, contact AWS support to "
        "request an increase for this quota."
    )


def some_channels_without_groups(with_groups: list[str], without: list[str]) -> str:
    """sagemaker-python-sdk#6089."""
    return (
        f"Some channels have assigned instance groups: [{', '.join(with_groups)}] "
        f"while others not: [{', '.join(without)}]"
    )


def has_ended(status: str, noun: str = "training job") -> str:
    """Returns the text of StopTrainingJob for a job that has ended (awslabs/benchmark-ai#928). For a processing job it
    is inferred.
    """
    return f"The request was rejected because the {noun} is in status {status}."


def unknown_property(name: str) -> str:
    """Returns the text of Search for an unknown property, as moto quotes it from AWS."""
    return f"Unknown property name: {name}"


def compressed(channel: str, mode: str, kind: str) -> str:
    """Returns the text for a CompressionType outside of Pipe mode (sagemaker-python-sdk#716)."""
    return f"Invalid compression type for channel {channel}: {mode} mode only supports NONE, got {kind} instead"


def depends_on_fail(step: str, fail_step: str) -> str:
    """Returns the text of CreatePipeline for a step that would run after a Fail step (sagemaker-python-sdk,
    test_fail_steps.py). The part up to the second name is AWS's.
    """
    return f"{step} can not depends on {fail_step}: nothing runs after a Fail step"


# --- the model registry -----------------------------------------------------------------------------------------------

#: CreateModelPackage with two names, and without any (moto#7165, which quotes AWS's answers).
TWO_PACKAGE_NAMES = (
    "Both ModelPackageName and ModelPackageGroupName are provided in the input. Cannot determine which one to use."
)
NO_PACKAGE_NAME = "Missing ARN."


def model_taken(arn: str) -> str:
    """Returns the text of CreateModel (astronomer-providers#1055). SDK v2 looks for its beginning."""
    return f'Cannot create already existing model "{arn}".'


def package_taken(arn: str) -> str:
    """Returns the text of CreateModelPackage. SDK v2 looks for its beginning; the rest is inferred."""
    return f"ModelPackage already exists: {arn}"


def group_taken(arn: str) -> str:
    """Returns the text of CreateModelPackageGroup. Airflow looks for its beginning; the rest is inferred."""
    return f"Model Package Group already exists: {arn}"


def not_registered(arn: str) -> str:
    """Returns the text for what the registry does not have. For a model it is AWS's ("Could not find model"). For the
    others Terraform looks for "does not exist".
    """
    kind = arn.split(":", 5)[-1].partition("/")[0]
    if kind == "model":
        return f'Could not find model "{arn}".'
    return f"{'ModelPackageGroup' if kind == 'model-package-group' else 'ModelPackage'} {arn} does not exist."
