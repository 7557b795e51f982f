"""Hypothesis strategies from botocore's shapes: bodies of CreateTrainingJob that AWS would accept."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from botocore.loaders import Loader
from botocore.model import ServiceModel
from hypothesis import strategies as st

from sagelet_api.protocol.java_patterns import compile_pattern
from sagelet_api.services.sagemaker.training_rules import LONGEST_RUN, NEEDED, PROFILING_INTERVALS

Body = dict[str, Any]
Strategy = st.SearchStrategy[Any]

#: Characters that Java's `.` does not match.
LINE_ENDS = "\n\r\u0085\u2028\u2029"
#: Optional members that a structure gets, at most, at every level. So most bodies stay small and quick.
MOST_OPTIONAL = 4
#: Items of a list or map, at most, unless its shape needs more.
MOST_ITEMS = 2


@cache
def create_shape() -> Any:
    return model().operation_model("CreateTrainingJob").input_shape


@cache
def model() -> ServiceModel:
    return ServiceModel(Loader().load_service_model("sagemaker", "service-2"))


class ShapeStrategies:
    """Values that satisfy every constraint of a shape.

    Keys are paths such as `InputDataConfig[].ChannelName`. `special` gives a strategy in place of the shape's own.
    `omitted` members are never there, `needed` ones always.
    """

    def __init__(
        self,
        special: Mapping[str, Strategy] | None = None,
        omitted: frozenset[str] = frozenset(),
        needed: frozenset[str] = frozenset(),
    ) -> None:
        self._special = special or {}
        self._omitted = omitted
        self._needed = needed

    def of(self, shape: Any, path: str = "") -> Strategy:
        if (special := self._special.get(path)) is not None:
            return special
        kinds: dict[str, Callable[[Any, str], Strategy]] = {
            "structure": self._structure,
            "list": self._list,
            "map": self._map,
            "string": lambda shape, _path: text(shape),
            "boolean": lambda _shape, _path: st.booleans(),
        }
        return kinds.get(shape.type_name, number)(shape, path)

    def _structure(self, shape: Any, path: str) -> Strategy:
        inner = {name: f"{path}.{name}".lstrip(".") for name in shape.members}
        wanted = {
            name: self.of(member, inner[name])
            for name, member in shape.members.items()
            if inner[name] not in self._omitted
        }
        always = {name for name in wanted if name in shape.required_members or inner[name] in self._needed}
        optional = sorted(wanted.keys() - always)

        @st.composite
        def structure(draw: st.DrawFn) -> Body:
            chosen = draw(st.sets(st.sampled_from(optional), max_size=MOST_OPTIONAL)) if optional else set()
            return {name: draw(wanted[name]) for name in wanted if name in always or name in chosen}

        return structure()

    def _list(self, shape: Any, path: str) -> Strategy:
        return st.lists(self.of(shape.member, f"{path}[]"), **_sizes(shape))

    def _map(self, shape: Any, path: str) -> Strategy:
        return st.dictionaries(self.of(shape.key, path), self.of(shape.value, path), **_sizes(shape))


def number(shape: Any, _path: str = "") -> Strategy:
    bits = 63 if shape.type_name == "long" else 31
    return st.integers(shape.metadata.get("min", -(2**bits)), shape.metadata.get("max", 2**bits - 1))


_WORDS = st.text("abcXYZ019", min_size=1, max_size=6)
_NAMES = st.sampled_from(["a-b", "A--9", "0"]) | _WORDS
_S3_KEYS = st.sampled_from(["", "/", "/a/b/", "/ü x", "/a//b"])
S3_URIS = st.builds("s3://{}{}".format, st.sampled_from(["bucket", "b.c-d", "0"]), _S3_KEYS)
#: Quicker strategies than the pattern, for shapes that are drawn often.
_QUICK: dict[str, Strategy] = {
    "TrainingJobName": _NAMES | st.just("x" * 63),
    "ExperimentEntityName": _NAMES | st.just("x" * 120),
    "RoleArn": st.builds("arn:aws{}:iam::123456789012:role/{}".format, st.sampled_from(["", "-cn", "-us-gov"]), _WORDS),
    "S3Uri": S3_URIS | st.builds("https://s3.amazonaws.com/b{}".format, _S3_KEYS),
}


def text(shape: Any) -> Strategy:
    if shape.enum:
        return st.sampled_from(shape.enum)
    if shape.name in _QUICK:
        return _QUICK[shape.name]
    least, most = shape.metadata.get("min", 0), shape.metadata.get("max", 4096)
    pattern = shape.metadata.get("pattern")
    if pattern in (None, ".*", ".+", r"[\S\s]*"):
        least = max(least, 1) if pattern == ".+" else least
        letters = st.characters(codec="utf-8", exclude_characters=LINE_ENDS if pattern in (".*", ".+") else "")
        return st.text(letters, min_size=least, max_size=min(most, least + 6)) | st.just("x" * most)
    if r"\p{L}" in pattern:
        letters = st.characters(categories=["L", "Z", "N"], include_characters="_.:/=+-@")
        return st.text(letters, min_size=least, max_size=min(most, 6))
    return st.from_regex(compile_pattern(pattern), fullmatch=True).filter(lambda value: least <= len(value) <= most)


def _sizes(shape: Any) -> dict[str, Any]:
    least = shape.metadata.get("min", 0)
    return {"min_size": least, "max_size": max(least, min(shape.metadata.get("max", MOST_ITEMS), MOST_ITEMS))}


# --- bodies of CreateTrainingJob --------------------------------------------------------------------------------------

REGEXES = st.sampled_from([r"loss=(\S+)", "x", "'loss': ([0-9.]*)", "(?P<name>a|b)+", "ü{1,3}", "^$"])
CHECKPOINT_PATHS = st.sampled_from(["/opt/ml/checkpoints", "/opt/ml/checkpoints/", "/opt/ml/a/b", "/opt/ml/ü"])
#: An id that must be mapped to a directory of the server.
FILE_SYSTEM = "fs-0123456789abcdef0"
#: Input modes that one job may mix.
MODES = st.sampled_from([("File", "Pipe"), ("File", "FastFile")])

_SPECIAL: dict[str, Strategy] = {
    "AlgorithmSpecification.TrainingImage": text(
        create_shape().members["AlgorithmSpecification"].members["TrainingImage"]
    ).filter(bool),
    "AlgorithmSpecification.MetricDefinitions[].Regex": REGEXES,
    "CheckpointConfig.S3Uri": S3_URIS,
    "CheckpointConfig.LocalPath": CHECKPOINT_PATHS,
    "InputDataConfig[].DataSource.S3DataSource.S3Uri": S3_URIS,
    "OutputDataConfig.S3OutputPath": S3_URIS,
    "ProfilerConfig.ProfilingIntervalInMilliseconds": st.sampled_from(PROFILING_INTERVALS),
    "ResourceConfig.InstanceCount": st.integers(1, 8),
    "StoppingCondition.MaxRuntimeInSeconds": st.integers(1, LONGEST_RUN),
}
_NEEDED = frozenset(
    {
        *NEEDED,
        "AlgorithmSpecification.TrainingImage",
        "InputDataConfig[].DataSource.S3DataSource",
        "ResourceConfig.InstanceCount",
        "ResourceConfig.InstanceType",
    }
)


def bodies(refused: frozenset[str]) -> st.SearchStrategy[Body]:
    """Bodies that are accepted by a server with 8 hosts and FILE_SYSTEM.

    `refused`: paths of members that sagelet does not take; they are left out.
    """
    source = "InputDataConfig[].DataSource"
    # They exclude or demand others; `_fitting` adds them.
    groups = {"ResourceConfig.InstanceGroups", f"{source}.S3DataSource.InstanceGroupNames"}
    omitted = refused | groups | {"StoppingCondition.MaxWaitTimeInSeconds", f"{source}.FileSystemDataSource"}
    return _fitting(ShapeStrategies(_SPECIAL, omitted, _NEEDED).of(create_shape()))


def _instance_groups() -> Strategy:
    """Draws instance groups of 6 hosts at most."""
    group = create_shape().members["ResourceConfig"].members["InstanceGroups"].member
    every = frozenset(group.members)
    drawn = ShapeStrategies({"InstanceCount": st.integers(1, 2)}, needed=every).of(group)
    return st.lists(drawn, min_size=1, max_size=3, unique_by=lambda one: one["InstanceGroupName"])


INSTANCE_GROUPS = _instance_groups()
FILE_SYSTEMS = st.fixed_dictionaries(
    {
        "FileSystemId": st.just(FILE_SYSTEM),
        "FileSystemAccessMode": st.sampled_from(["ro", "rw"]),
        "FileSystemType": st.sampled_from(["EFS", "FSxLustre"]),
        "DirectoryPath": st.sampled_from(["", "/", "//.", "/./"]),
    }
)


@st.composite
def _fitting(draw: st.DrawFn, drawn: Strategy) -> Body:
    """Draws a body and corrects what one member requires of another."""
    body: Body = draw(drawn)
    _fit_channels(draw, body)
    _fit_groups(draw, body)
    if body.get("EnableManagedSpotTraining"):
        limits = body["StoppingCondition"]
        limits["MaxWaitTimeInSeconds"] = draw(st.integers(limits.get("MaxRuntimeInSeconds", 86_400), 2**31 - 1))
        # Spot instances cannot have a warm pool.
        body["ResourceConfig"].pop("KeepAlivePeriodInSeconds", None)
    if "Tags" in body:
        by_key = {tag["Key"]: tag for tag in body["Tags"]}
        body["Tags"] = [tag for key, tag in by_key.items() if not key.lower().startswith("aws:")]
    return body


def _fit_channels(draw: st.DrawFn, body: Body) -> None:
    modes = draw(MODES)
    default = body["AlgorithmSpecification"]["TrainingInputMode"] = draw(st.sampled_from(modes))
    for number, channel in enumerate(body.get("InputDataConfig", [])):
        # All names differ, and none is the name of another channel's manifest or FIFO.
        channel["ChannelName"] = f"{channel['ChannelName'][:50]}.{number}x"
        if draw(st.integers(0, 7)) == 0:
            channel.update(InputMode="File", DataSource={"FileSystemDataSource": draw(FILE_SYSTEMS)})
        elif "InputMode" in channel:
            channel["InputMode"] = draw(st.sampled_from(modes))
        mode = channel.get("InputMode", default)
        if "CompressionType" in channel and mode != "Pipe":
            channel["CompressionType"] = "None"
        if (source := channel["DataSource"].get("S3DataSource")) is not None:
            _fit_source(draw, source, mode)


def _fit_groups(draw: st.DrawFn, body: Body) -> None:
    """Gives a third of the jobs instance groups. Either all of their channels name some, or none does."""
    if draw(st.integers(0, 2)):
        return
    resources = body["ResourceConfig"]
    for name in ("InstanceType", "InstanceCount", "KeepAlivePeriodInSeconds"):
        resources.pop(name, None)
    resources["InstanceGroups"] = draw(INSTANCE_GROUPS)
    names = [group["InstanceGroupName"] for group in resources["InstanceGroups"]]
    sources = [channel["DataSource"].get("S3DataSource") for channel in body.get("InputDataConfig", [])]
    if all(sources) and draw(st.booleans()):
        for source in sources:
            source["InstanceGroupNames"] = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))


def _fit_source(draw: st.DrawFn, source: Body, mode: str) -> None:
    kinds = {
        "File": ["S3Prefix", "ManifestFile"],
        "FastFile": ["S3Prefix"],
        "Pipe": ["S3Prefix", "ManifestFile", "AugmentedManifestFile"],
    }
    source["S3DataType"] = draw(st.sampled_from(kinds[mode]))
    source.pop("AttributeNames", None)
    if source["S3DataType"] == "AugmentedManifestFile":
        source["AttributeNames"] = ["image-ref", "label"]
    elif draw(st.booleans()):
        source["AttributeNames"] = []
