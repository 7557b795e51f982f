"""Writes the request with the Estimator of the SageMaker SDK v2, and lists the members that it has no argument for."""

from collections.abc import Mapping
from typing import Any

from sagelet_api.web.snippets.python import call, literal

Path = tuple[str, ...]

#: Members of the request and the Estimator's arguments for them.
ARGUMENTS: dict[Path, str] = {
    ("AlgorithmSpecification", "TrainingImage"): "image_uri",
    ("RoleArn",): "role",
    ("ResourceConfig", "InstanceCount"): "instance_count",
    ("ResourceConfig", "InstanceType"): "instance_type",
    ("ResourceConfig", "VolumeSizeInGB"): "volume_size",
    ("ResourceConfig", "VolumeKmsKeyId"): "volume_kms_key",
    ("ResourceConfig", "KeepAlivePeriodInSeconds"): "keep_alive_period_in_seconds",
    ("ResourceConfig", "TrainingPlanArn"): "training_plan",
    ("StoppingCondition", "MaxRuntimeInSeconds"): "max_run",
    ("StoppingCondition", "MaxWaitTimeInSeconds"): "max_wait",
    ("AlgorithmSpecification", "TrainingInputMode"): "input_mode",
    ("AlgorithmSpecification", "ContainerEntrypoint"): "container_entry_point",
    ("AlgorithmSpecification", "ContainerArguments"): "container_arguments",
    ("AlgorithmSpecification", "MetricDefinitions"): "metric_definitions",
    ("AlgorithmSpecification", "EnableSageMakerMetricsTimeSeries"): "enable_sagemaker_metrics",
    ("OutputDataConfig", "S3OutputPath"): "output_path",
    ("OutputDataConfig", "KmsKeyId"): "output_kms_key",
    ("HyperParameters",): "hyperparameters",
    ("Environment",): "environment",
    ("Tags",): "tags",
    ("VpcConfig", "Subnets"): "subnets",
    ("VpcConfig", "SecurityGroupIds"): "security_group_ids",
    ("EnableInterContainerTrafficEncryption",): "encrypt_inter_container_traffic",
    ("EnableNetworkIsolation",): "enable_network_isolation",
    ("EnableManagedSpotTraining",): "use_spot_instances",
    ("CheckpointConfig", "S3Uri"): "checkpoint_s3_uri",
    ("CheckpointConfig", "LocalPath"): "checkpoint_local_path",
    ("RetryStrategy", "MaximumRetryAttempts"): "max_retry_attempts",
    ("RemoteDebugConfig", "EnableRemoteDebug"): "enable_remote_debug",
    ("InfraCheckConfig", "EnableInfraCheck"): "enable_infra_check",
    ("SessionChainingConfig", "EnableSessionTagChaining"): "enable_session_tag_chaining",
    ("ProfilerConfig", "DisableProfiler"): "disable_profiler",
}
#: Members of a channel and the arguments of TrainingInput for them.
CHANNEL: dict[Path, str] = {
    ("DataSource", "S3DataSource", "S3Uri"): "s3_data",
    ("DataSource", "S3DataSource", "S3DataDistributionType"): "distribution",
    ("DataSource", "S3DataSource", "S3DataType"): "s3_data_type",
    ("DataSource", "S3DataSource", "InstanceGroupNames"): "instance_groups",
    ("DataSource", "S3DataSource", "AttributeNames"): "attribute_names",
    ("CompressionType",): "compression",
    ("ContentType",): "content_type",
    ("RecordWrapperType",): "record_wrapping",
    ("InputMode",): "input_mode",
}


def sdk_v2_code(request: Mapping[str, Any]) -> str:
    channels = request.get("InputDataConfig", [])
    taken, left = _arguments({**request, "InputDataConfig": None, "TrainingJobName": None}, ARGUMENTS, "    ")
    inputs: dict[str, str] = {}
    for channel in channels:
        given, rest = _arguments({**channel, "ChannelName": None}, CHANNEL, "        ")
        left += [f"InputDataConfig.{name}" for name in rest]
        inputs[channel["ChannelName"]] = call("TrainingInput", given, "        ")
    lines = ["from sagemaker.estimator import Estimator"]
    lines += ["from sagemaker.inputs import TrainingInput"] if inputs else []
    lines += ["", "# Run it with `sagelet run -- python ...`; otherwise it goes to AWS."]
    if left:
        lines.append(f"# The Estimator has no argument for {', '.join(dict.fromkeys(left))}: boto3 has.")
    lines.append(f"estimator = {call('Estimator', taken)}")
    fit = {"job_name": literal(request["TrainingJobName"])}
    if inputs:
        items = "".join(f"        {literal(name)}: {source},\n" for name, source in inputs.items())
        fit = {"inputs": f"{{\n{items}    }}", **fit}
    return "\n".join([*lines, call("estimator.fit", fit)]) + "\n"


def _arguments(value: Mapping[str, Any], known: Mapping[Path, str], indent: str) -> tuple[dict[str, str], list[str]]:
    """Returns the arguments as source, and the names of the members without an argument."""
    found = dict(_leaves(value, known, ()))
    taken = {argument: literal(found.pop(path), indent) for path, argument in known.items() if path in found}
    return taken, [".".join(path) for path in found]


def _leaves(value: Mapping[str, Any], known: Mapping[Path, str], path: Path) -> list[tuple[Path, Any]]:
    """Returns the members that are known as a whole, and those in which nothing is known."""
    found: list[tuple[Path, Any]] = []
    for name, one in value.items():
        inner = (*path, name)
        if one is None:
            continue
        if isinstance(one, Mapping) and any(other[: len(inner)] == inner and other != inner for other in known):
            found += _leaves(one, known, inner)
        else:
            found.append((inner, one))
    return found
