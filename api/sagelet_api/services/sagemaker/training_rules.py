"""What CreateTrainingJob requires beyond the service model, also of the image, channels and buckets that it names.

AWS's own texts, where they are known, come from `sagelet_engine.model.aws_texts`. The others are sagelet's.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from sagelet_api.protocol.aws_errors import ResourceLimitExceeded, ValidationException
from sagelet_api.protocol.members import Request
from sagelet_api.protocol.shapes import NOT_NULL
from sagelet_api.protocol.validation import constraint_error, validation_errors
from sagelet_engine.base.errors import ClientFault, FaultError, ScheduleError
from sagelet_engine.data.channels.sources import no_objects
from sagelet_engine.images.resolve import explain_unmapped
from sagelet_engine.model import aws_texts, faults, interruptions
from sagelet_engine.model.file_systems import FileSystemSource
from sagelet_engine.model.job import JobKind
from sagelet_engine.model.objects import S3Uri
from sagelet_engine.model.spec import CheckpointSpec
from sagelet_engine.telemetry.metrics import InvalidRegex, compile_regex

#: Optional in the current service model (serverless jobs have none), but required of every job that has instances.
NEEDED = ("AlgorithmSpecification", "ResourceConfig", "StoppingCondition")
#: 28 days (shape StoppingCondition).
LONGEST_RUN = 28 * 86_400
#: Shape ProfilerConfig, ProfilingIntervalInMilliseconds.
PROFILING_INTERVALS = (100, 200, 500, 1000, 5000, 60000)


@dataclass(frozen=True)
class Site:
    """What the rules need to know of this server."""

    region: str
    #: The most hosts that one job can have.
    max_hosts: int
    #: True if there is an object under an S3 prefix.
    holds: Callable[[S3Uri], bool]
    #: Raises ClientFault if no directory stands in for a file system.
    check_file_system: Callable[[FileSystemSource], None]


def check(request: Request, site: Site) -> None:
    """Refuses a body that passed the service model but cannot become a job.

    Raises ValidationException, ResourceLimitExceeded.
    """
    refuse(_unsupported_jobs(request))
    _needed_members(request)
    refuse(_problems(request))
    refuse(_unsupported_members(request))
    _limits(request["ResourceConfig"], site.max_hosts)
    refuse(_inputs(request, site))


def refuse(problems: Iterator[str]) -> None:
    for problem in problems:
        raise ValidationException(problem)


def _needed_members(request: Request) -> None:
    """Raises ValidationException for missing members, in AWS's words from before there were serverless jobs."""
    resources = request.get("ResourceConfig", {})
    missing = [f"{name[0].lower()}{name[1:]}" for name in NEEDED if name not in request]
    if "ResourceConfig" in request:
        missing += [
            f"resourceConfig.{name[0].lower()}{name[1:]}"
            for name in ("InstanceType", "InstanceCount")
            if name not in resources and "InstanceGroups" not in resources
        ]
    if missing:
        raise validation_errors([constraint_error(path, None, NOT_NULL) for path in missing])


def _problems(request: Request) -> Iterator[str]:
    yield from _algorithm(request["AlgorithmSpecification"])
    yield from _resources(request["ResourceConfig"])
    yield from _times(request)
    yield from _warm_pool(request)
    yield from _instance_groups(request)
    yield from channel_problems(request)
    yield from _uris(request)
    yield from _checkpoints(request)
    yield from profiler_problems(request)


def _limits(resources: Request, max_hosts: int) -> None:
    """Refuses more hosts than the limit, with AWS's text and sagelet's remedy. AWS counts by instance type; here all
    hosts count together, because there is one machine.
    """
    groups = resources.get("InstanceGroups") or [resources]
    largest = max(groups, key=lambda group: int(group["InstanceCount"]))
    limit_hosts(largest["InstanceType"], sum(group["InstanceCount"] for group in groups), max_hosts, JobKind.TRAINING)


def limit_hosts(instance_type: str, count: int, max_hosts: int, kind: JobKind) -> None:
    """Raises ResourceLimitExceeded if a job asks for more hosts than the limit."""
    if count > max_hosts:
        limit = aws_texts.too_many_instances(instance_type, max_hosts, count, kind.noun)
        raise ResourceLimitExceeded(f"{limit} (sagelet: start it with a higher --max-hosts)")


def _algorithm(algorithm: Request) -> Iterator[str]:
    if bool(algorithm.get("TrainingImage")) == bool(algorithm.get("AlgorithmName")):
        yield "AlgorithmSpecification must have exactly one of TrainingImage and AlgorithmName"
    for definition in algorithm.get("MetricDefinitions", []):
        try:
            compile_regex(definition["Regex"])
        except InvalidRegex as error:
            yield f"The regex of the metric definition {definition['Name']!r} is not valid: {error}"


def _resources(resources: Request) -> Iterator[str]:
    if "InstanceGroups" in resources:
        if "InstanceType" in resources or "InstanceCount" in resources:
            yield "ResourceConfig must have either InstanceGroups or InstanceType and InstanceCount, not both"
        names = [group["InstanceGroupName"] for group in resources["InstanceGroups"]]
        if not names:
            yield "ResourceConfig.InstanceGroups must have at least one instance group"
        for name in duplicates(names):
            yield f"Duplicate InstanceGroupName {name!r} in ResourceConfig.InstanceGroups"
        for group in resources["InstanceGroups"]:
            if group["InstanceCount"] < 1:
                yield f"InstanceCount of the instance group {group['InstanceGroupName']!r} must be at least 1"
    elif resources["InstanceCount"] < 1:
        # The model's minimum is 0, for instance groups.
        yield "ResourceConfig.InstanceCount must be at least 1"


def _warm_pool(request: Request) -> Iterator[str]:
    """Checks the rules of the developer guide; the texts are sagelet's. The guide's maximum of one hour is older than
    the model's of six.
    """
    resources = request["ResourceConfig"]
    if not resources.get("KeepAlivePeriodInSeconds"):
        return
    if request.get("EnableManagedSpotTraining"):
        yield "KeepAlivePeriodInSeconds cannot be used with EnableManagedSpotTraining: spot instances make no warm pool"
    if "InstanceGroups" in resources:
        yield "KeepAlivePeriodInSeconds cannot be used with InstanceGroups: use InstanceType and InstanceCount"


def _times(request: Request) -> Iterator[str]:
    condition = request["StoppingCondition"]
    runtime, wait = condition.get("MaxRuntimeInSeconds", 86_400), condition.get("MaxWaitTimeInSeconds")
    if runtime > LONGEST_RUN:
        yield f"Invalid MaxRuntimeInSeconds. It must be less than or equal to {LONGEST_RUN}"
    if not request.get("EnableManagedSpotTraining"):
        if wait is not None:
            yield aws_texts.WAIT_WITHOUT_SPOT
    elif wait is None or wait < runtime:
        # The rule is documented (shape StoppingCondition).
        yield (
            "Invalid MaxWaitTimeInSeconds. It must be present and be greater than or equal to MaxRuntimeInSeconds "
            "when EnableManagedSpotTraining is set to true"
        )


def check_tags(tags: Mapping[str, str], *, spot: bool) -> None:
    """Raises ValidationException for a tag that sagelet obeys and that this job cannot have."""
    if interruptions.TAG in tags and not spot:
        raise ValidationException(f"The tag {interruptions.TAG} needs EnableManagedSpotTraining")
    for tag, read in ((interruptions.TAG, interruptions.schedule), (faults.TAG, faults.parse)):
        try:
            if tag in tags:
                read(tags[tag])
        except (ScheduleError, FaultError) as error:
            raise ValidationException(str(error)) from error


def _instance_groups(request: Request) -> Iterator[str]:
    """Yields problems of the instance groups that the channels name."""
    channels = request.get("InputDataConfig", [])
    wanted = {
        channel["ChannelName"]: channel["DataSource"].get("S3DataSource", {}).get("InstanceGroupNames", [])
        for channel in channels
    }
    with_groups = [name for name, groups in wanted.items() if groups]
    without = [name for name, groups in wanted.items() if not groups]
    if with_groups and without:
        yield aws_texts.some_channels_without_groups(with_groups, without)
    known = {group["InstanceGroupName"] for group in request["ResourceConfig"].get("InstanceGroups", [])}
    for channel, groups in wanted.items():
        for group in groups:
            if group not in known:
                yield f"Channel {channel!r}: ResourceConfig.InstanceGroups has no instance group {group!r}"


def _uris(request: Request) -> Iterator[str]:
    uris = [request["OutputDataConfig"]["S3OutputPath"], request.get("CheckpointConfig", {}).get("S3Uri")]
    for channel in request.get("InputDataConfig", []):
        uris.append(channel["DataSource"].get("S3DataSource", {}).get("S3Uri"))
    for uri in uris:
        if uri is None:
            continue
        try:
            S3Uri.parse(uri)
        except ValueError as error:
            yield str(error)


def _checkpoints(request: Request) -> Iterator[str]:
    if "CheckpointConfig" not in request:
        return
    try:
        CheckpointSpec.of(request["CheckpointConfig"]).path()
    except ClientFault as error:
        yield str(error)


def profiler_problems(request: Request) -> Iterator[str]:
    """Yields the problems of ProfilerConfig. The values are documented."""
    interval = request.get("ProfilerConfig", {}).get("ProfilingIntervalInMilliseconds")
    if interval is not None and interval not in PROFILING_INTERVALS:
        yield f"ProfilerConfig.ProfilingIntervalInMilliseconds {interval} must be one of {list(PROFILING_INTERVALS)}"


def _inputs(request: Request, site: Site) -> Iterator[str]:
    for channel in request.get("InputDataConfig", []):
        source = channel["DataSource"]
        if "FileSystemDataSource" in source:
            try:
                site.check_file_system(FileSystemSource.of(source["FileSystemDataSource"]))
            except ClientFault as fault:
                yield f"Channel {channel['ChannelName']!r}: {fault}"
            continue
        uri = source["S3DataSource"]["S3Uri"]
        if not site.holds(S3Uri.parse(uri)):
            yield no_objects(uri, site.region, request["RoleArn"])


def duplicates(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


# Members that AWS takes and sagelet refuses. If they were ignored, it would be another job. Each problem names the
# remedy.


def _unsupported_jobs(request: Request) -> Iterator[str]:
    """Yields problems of members that make other members optional. It runs before those are required, and needs what
    the model has checked.
    """
    if "ServerlessJobConfig" in request:
        yield (
            "ServerlessJobConfig is not supported by sagelet, which has no models of AWS's to customize; "
            "use AlgorithmSpecification and ResourceConfig"
        )
    resources = request.get("ResourceConfig", {})
    for name in ("SelectedInstanceType", "SelectedInstanceCount"):
        if name in resources:
            # The rule is documented (shape ResourceConfig).
            yield f"ResourceConfig.{name} is read-only and isn't accepted in CreateTrainingJob requests"
    if "InstancePreferences" in resources:
        yield "ResourceConfig.InstancePreferences is not supported by sagelet yet; use InstanceType and InstanceCount"


def _unsupported_members(request: Request) -> Iterator[str]:
    """Yields problems of the other members, in a request that AWS would take."""
    if "AlgorithmName" in request["AlgorithmSpecification"]:
        yield "AlgorithmSpecification.AlgorithmName is not supported: sagelet has no algorithms; use TrainingImage"


_ECR = re.compile(
    r"(?P<account>\d{12})\.dkr[.-]ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|on\.aws)"
    r"/(?P<name>[^:@]+)(?:[:@].*)?"
)


def channel_problems(request: Request) -> Iterator[str]:
    """Yields the problems of InputDataConfig, each as a sentence."""
    default = request["AlgorithmSpecification"].get("TrainingInputMode", "File")
    channels = request.get("InputDataConfig", [])
    modes = {channel["ChannelName"]: channel.get("InputMode", default) for channel in channels}
    yield from _names(channels, modes)
    if {"Pipe", "FastFile"} <= set(modes.values()):
        yield aws_texts.PIPE_AND_FAST_FILE
    for channel in channels:
        mode = modes[channel["ChannelName"]]
        if mode != "Pipe" and channel.get("CompressionType", "None") != "None":
            yield aws_texts.compressed(channel["ChannelName"], mode, channel["CompressionType"])
        yield from _source(channel, channel.get("InputMode", default))


def _names(channels: list[Request], modes: Mapping[str, str]) -> Iterator[str]:
    seen: set[str] = set()
    for name in (channel["ChannelName"] for channel in channels):
        if name in seen:
            yield f"Duplicate channel name {name!r} in InputDataConfig"
        seen.add(name)
        if name in (".", ".."):
            # The model's pattern allows these names, but no directory can have them.
            yield f"Channel name {name!r} cannot be a directory name"
    for name, mode in modes.items():
        taken = rf"{re.escape(name)}_\d+" if mode == "Pipe" else rf"{re.escape(name)}-manifest"
        for other in seen:
            if re.fullmatch(taken, other):
                yield f"Channel name {other!r} is the name of a file that belongs to channel {name!r}: rename one"


def _source(channel: Request, mode: str) -> Iterator[str]:
    name = channel["ChannelName"]
    if len(channel["DataSource"]) > 1:
        yield f"Channel {name!r}: DataSource must have one kind of source, not several"
    if "FileSystemDataSource" in channel["DataSource"]:
        if mode != "File":
            yield f"Channel {name!r}: FileSystemDataSource takes the input mode File only, not {mode}"
        return
    source = channel["DataSource"].get("S3DataSource")
    if source is None:
        yield (
            f"Channel {name!r}: sagelet supports S3DataSource and FileSystemDataSource only as yet; "
            "put the data into S3 (`aws s3 sync`)"
        )
        return
    kind = source["S3DataType"]
    if kind == "Converse":
        yield f"Channel {name!r}: sagelet does not support the S3DataType Converse yet; use S3Prefix"
    if kind != "S3Prefix" and mode == "FastFile":
        yield f"Channel {name!r}: the input mode FastFile takes the S3DataType S3Prefix only, not {kind}"
    if kind == "AugmentedManifestFile" and mode != "Pipe":
        yield f"Channel {name!r}: the S3DataType AugmentedManifestFile needs the input mode Pipe, not {mode}"
    if (kind == "AugmentedManifestFile") != bool(source.get("AttributeNames")):
        yield f"Channel {name!r}: AugmentedManifestFile needs AttributeNames, and no other S3DataType takes them"


@dataclass(frozen=True)
class Images:
    #: True if a rule decides about the image, or a local image has this name.
    is_known: Callable[[str], bool]
    #: True if ECR has a repository. Takes account, region and name.
    has_repository: Callable[[str, str, str], bool]


def image_problem(request: Request, images: Images) -> str | None:
    """Returns why AWS would refuse the image. A name without a registry, as local images have, is left to the job."""
    algorithm = request["AlgorithmSpecification"]
    uri = algorithm.get("TrainingImage")
    elsewhere = None if "TrainingImageConfig" in algorithm else aws_texts.PRIVATE_REGISTRY
    return uri_problem(uri, request["RoleArn"], images, elsewhere) if uri else None


def uri_problem(uri: str, role: str, images: Images, elsewhere: str | None) -> str | None:
    """Returns why AWS would refuse an image. `elsewhere`: its words for a registry other than ECR; None: it takes
    those.
    """
    if images.is_known(uri):
        return None
    ecr = _ECR.fullmatch(uri)
    if ecr is not None:
        if images.has_repository(ecr["account"], ecr["region"], ecr["name"]):
            return None
        said = aws_texts.no_repository(ecr["name"], ecr["account"], role)
    elif elsewhere is not None and _names_registry(uri):
        said = elsewhere
    else:
        return None
    return f"{said} (sagelet: {explain_unmapped(uri)})"


def _names_registry(uri: str) -> bool:
    """True if the name has a registry. As in Docker, the part before the first slash is a host if it has a dot or a
    port.
    """
    host, slash, _ = uri.partition("/")
    return bool(slash) and ("." in host or ":" in host or host == "localhost")


def check_buckets(request: Request, has_bucket: Callable[[S3Uri], bool]) -> None:
    """Refuses a job whose results would have no place. Raises ValidationException; the text is sagelet's."""
    places = {
        "OutputDataConfig.S3OutputPath": request["OutputDataConfig"]["S3OutputPath"],
        "CheckpointConfig.S3Uri": request.get("CheckpointConfig", {}).get("S3Uri"),
    }
    check_places(places, has_bucket)


def check_places(places: Mapping[str, str | None], has_bucket: Callable[[S3Uri], bool]) -> None:
    """Refuses results that would have no place: URIs by the member that names them. Raises ValidationException."""
    for member, uri in places.items():
        if uri is not None and not has_bucket(S3Uri.parse(uri)):
            raise ValidationException(
                f"{member}: the S3 bucket {S3Uri.parse(uri).bucket} does not exist, or it is another account's: "
                "create it first"
            )
