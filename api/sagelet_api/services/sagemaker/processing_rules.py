"""What CreateProcessingJob requires beyond the service model. AWS's own texts come from `aws_texts`; the others are
sagelet's.
"""

from collections.abc import Iterator

from sagelet_api.protocol.members import Request
from sagelet_api.protocol.shapes import NOT_NULL
from sagelet_api.protocol.validation import constraint_error, validation_errors
from sagelet_api.services.sagemaker.training_rules import Images, duplicates, refuse, uri_problem
from sagelet_engine.base.errors import ClientFault
from sagelet_engine.model import aws_texts
from sagelet_engine.model.objects import S3Uri
from sagelet_engine.model.processing import below_opt_ml


def check(request: Request) -> None:
    """Refuses a body that passed the service model but cannot become a job. Raises ValidationException."""
    cluster = request["ProcessingResources"]["ClusterConfig"]
    refuse(_unsupported_instances(cluster))
    if "InstanceType" not in cluster:
        path = "processingResources.clusterConfig.instanceType"
        raise validation_errors([constraint_error(path, None, NOT_NULL)])
    refuse(_problems(request))


def image_problem(request: Request, images: Images) -> str | None:
    """Returns why AWS would refuse the image. A name without a registry, as local images have, is left to the job."""
    uri = request["AppSpecification"]["ImageUri"]
    return uri_problem(uri, request["RoleArn"], images, aws_texts.invalid_image(uri))


def places(request: Request) -> dict[str, str]:
    """Returns the URIs that the platform uploads to, by what names them."""
    return {
        f"ProcessingOutputConfig.Outputs {output['OutputName']!r}": output["S3Output"]["S3Uri"]
        for output in _outputs(request)
        if "S3Output" in output and not output.get("AppManaged")
    }


def _problems(request: Request) -> Iterator[str]:
    inputs, outputs = request.get("ProcessingInputs", []), _outputs(request)
    for member, names in (
        ("InputName", [entry["InputName"] for entry in inputs]),
        ("OutputName", [entry["OutputName"] for entry in outputs]),
    ):
        for name in duplicates(names):
            yield f"Duplicate {member} {name!r}"
    for entry in inputs:
        yield from _input(entry)
    for entry in outputs:
        yield from _output(entry)
    yield from _local_paths(inputs, outputs)


def _outputs(request: Request) -> list[Request]:
    outputs: list[Request] = request.get("ProcessingOutputConfig", {}).get("Outputs", [])
    return outputs


def _input(entry: Request) -> Iterator[str]:
    name = entry["InputName"]
    if "DatasetDefinition" in entry:
        yield (
            f"Processing input {name!r}: DatasetDefinition is not supported by sagelet, which has neither Athena nor "
            "Redshift; put the data into S3 and use S3Input"
        )
    if "S3Input" not in entry:
        yield f"Processing input {name!r} must have exactly one of S3Input and DatasetDefinition"
        return
    source = entry["S3Input"]
    mode = source.get("S3InputMode", "File")
    if mode == "Pipe":
        yield (
            f"Processing input {name!r}: the S3InputMode Pipe is not supported by sagelet for processing jobs; use File"
        )
    if source.get("S3CompressionType", "None") != "None":
        # The rule is documented (shape ProcessingS3Input).
        yield f"Processing input {name!r}: the S3CompressionType Gzip needs the S3InputMode Pipe, not {mode}"
    yield from _uri(source["S3Uri"])
    if not entry.get("AppManaged"):
        yield from _local_path(f"Processing input {name!r}", source)


def _output(entry: Request) -> Iterator[str]:
    name = entry["OutputName"]
    if "FeatureStoreOutput" in entry:
        yield (
            f"Processing output {name!r}: FeatureStoreOutput is not supported by sagelet, which has no feature store; "
            "use S3Output"
        )
    if "S3Output" not in entry:
        yield f"Processing output {name!r} must have exactly one of S3Output and FeatureStoreOutput"
        return
    yield from _uri(entry["S3Output"]["S3Uri"])
    if not entry.get("AppManaged"):
        yield from _local_path(f"Processing output {name!r}", entry["S3Output"])


def _uri(uri: str) -> Iterator[str]:
    try:
        S3Uri.parse(uri)
    except ValueError as error:
        yield str(error)


def _local_path(whose: str, source: Request) -> Iterator[str]:
    """Yields the problems of a LocalPath. The rules are documented (shape ProcessingS3Input)."""
    if not source.get("LocalPath"):
        yield f"{whose}: LocalPath is required unless AppManaged is true"
        return
    try:
        below_opt_ml(source["LocalPath"])
    except ClientFault as fault:
        yield f"{whose}: {fault}"


def _local_paths(inputs: list[Request], outputs: list[Request]) -> Iterator[str]:
    """Yields paths that are used twice, which AWS refuses, too (sagemaker-python-sdk#4939, #1950)."""
    sources = [entry["S3Input"] for entry in inputs] + [entry["S3Output"] for entry in outputs]
    for path in duplicates(source["LocalPath"].rstrip("/") for source in sources if source.get("LocalPath")):
        yield f"LocalPath {path!r} is used twice: each input and each output needs a path of its own"


def _unsupported_instances(cluster: Request) -> Iterator[str]:
    for name in ("SelectedInstanceType", "SelectedInstanceCount"):
        if name in cluster:
            # The rule is documented (shape ProcessingClusterConfig).
            yield f"ClusterConfig.{name} is read-only and isn't accepted in CreateProcessingJob requests"
    if "InstancePreferences" in cluster:
        yield "ClusterConfig.InstancePreferences is not supported by sagelet yet; use InstanceType and InstanceCount"
