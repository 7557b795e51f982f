"""Hypothesis strategies that break a body of CreateTrainingJob at known places, and say what the error must name."""

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from support.strategies import FILE_SYSTEM, Body, create_shape

#: The place of a value: names, keys and indices from the body down.
Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Broken:
    body: Body
    #: Texts that the message must contain.
    named: tuple[str, ...]
    code: str = "ValidationException"


# --- constraints of the model ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Violation:
    """One place, its new value (None removes it), and the path by which the error names it."""

    place: Place
    value: Any
    path: str


def broken_constraints(bodies: st.SearchStrategy[Body]) -> st.SearchStrategy[Broken]:
    """Breaks one to three constraints of the model, each at another place."""

    @st.composite
    def broken(draw: st.DrawFn) -> Broken:
        body = copy.deepcopy(draw(bodies))
        chosen: list[Violation] = []
        for _ in range(draw(st.integers(1, 3))):
            free = [one for one in violations(body) if not any(_overlap(one.place, other.place) for other in chosen)]
            chosen.append(draw(st.sampled_from(free)))
        for one in sorted(chosen, key=lambda one: one.place[-1] if isinstance(one.place[-1], int) else -1):
            _apply(body, one)
        return Broken(body, tuple(f"at '{one.path}'" for one in chosen))

    return broken()


def violations(body: Body) -> list[Violation]:
    return [*_in_structure(create_shape(), body, (), "")]


def _overlap(one: Place, other: Place) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def _apply(body: Body, one: Violation) -> None:
    holder: Any = body
    for step in one.place[:-1]:
        holder = holder[step]
    if one.value is None:
        del holder[one.place[-1]]
    else:
        holder[one.place[-1]] = one.value


def _in_structure(shape: Any, value: Body, place: Place, path: str) -> Iterator[Violation]:
    for name, member in shape.members.items():
        if name not in value:
            continue
        here = _below(path, name[:1].lower() + name[1:])
        if name in shape.required_members:
            yield Violation((*place, name), None, here)
        yield from _in(member, value[name], (*place, name), here)


def _in(shape: Any, value: Any, place: Place, path: str) -> Iterator[Violation]:
    for wrong in wrong_values(shape, value):
        yield Violation(place, wrong, path)
    if shape.type_name == "structure":
        yield from _in_structure(shape, value, place, path)
    elif shape.type_name == "list" and shape.member.type_name in ("structure", "list", "map"):
        for number, item in enumerate(value):
            yield from _in(shape.member, item, (*place, number), f"{path}.{number + 1}.member")


def wrong_values(shape: Any, value: Any) -> Iterator[Any]:
    """Yields values of the right type that break a constraint of the shape."""
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    if shape.type_name in ("integer", "long"):
        yield from ([least - 1] if least is not None else [])
        yield from ([most + 1] if most is not None else [])
    elif shape.type_name == "string":
        yield from _wrong_texts(shape)
    elif shape.type_name == "list":
        yield from ([[]] if least else [])
        yield from ([[copy.deepcopy(value[0])] * (most + 1)] if most is not None and value else [])
        yield from ([[wrong] for wrong in _wrong_texts(shape.member)] if shape.member.type_name == "string" else [])
    elif shape.type_name == "map":
        yield from ([{f"k{number}": "v" for number in range(most + 1)}] if most is not None else [])
        yield from ({wrong: "v"} for wrong in _wrong_texts(shape.key))
        yield from ({"k": wrong} for wrong in _wrong_texts(shape.value))


def _wrong_texts(shape: Any) -> list[str]:
    if shape.enum:
        return ["NoSuchValue", "", shape.enum[0].lower() + " "]
    least, most, pattern = (shape.metadata.get(name) for name in ("min", "max", "pattern"))
    texts = [] if most is None else ["x" * (most + 1)]
    texts += [""] if least else []
    # Of the model's patterns, only `[\S\s]*` matches a line feed.
    texts += ["two\nlines"] if pattern not in (None, r"[\S\s]*") else []
    return texts


def _below(path: str, member: str) -> str:
    return f"{path}.{member}" if path else member


# --- types ------------------------------------------------------------------------------------------------------------


def wrong_types(bodies: st.SearchStrategy[Body]) -> st.SearchStrategy[Broken]:
    """Replaces one value by one of a JSON type that the model does not allow there."""

    @st.composite
    def broken(draw: st.DrawFn) -> Broken:
        body = copy.deepcopy(draw(bodies))
        place, shape, path = draw(st.sampled_from([*_places(create_shape(), body, (), "")]))
        _apply(body, Violation(place, draw(st.sampled_from(_of_other_type(shape))), path))
        return Broken(body, (f"at '{path}'",), "SerializationException")

    return broken()


def _of_other_type(shape: Any) -> list[Any]:
    junk: list[Any] = [True, 5, 2.5, "text", ["x"], {"X": "x"}, 10**30]
    kinds: dict[str, Callable[[Any], bool]] = {
        "structure": lambda value: isinstance(value, dict),
        "map": lambda value: isinstance(value, dict),
        "list": lambda value: isinstance(value, list),
        "string": lambda value: isinstance(value, str),
        "boolean": lambda value: isinstance(value, bool),
    }
    fits = kinds.get(shape.type_name, lambda value: bool(value == 5) and not isinstance(value, bool))
    return [value for value in junk if not fits(value)]


def _places(shape: Any, value: Any, place: Place, path: str) -> Iterator[tuple[Place, Any, str]]:
    """Yields every value within a structure, list or map, with its shape and path."""
    if shape.type_name == "structure":
        items = [(n, shape.members[n], _below(path, n[:1].lower() + n[1:])) for n in value]
    elif shape.type_name == "list":
        items = [(number, shape.member, f"{path}.{number + 1}.member") for number in range(len(value))]
    elif shape.type_name == "map":
        items = [(key, shape.value, f"{path}.{key}.member") for key in value]
    else:
        return
    for step, inner, where in items:
        yield (*place, step), inner, where
        yield from _places(inner, value[step], (*place, step), where)


# --- what one member demands of another -------------------------------------------------------------------------------

Break = Callable[[Body], tuple[str, ...]]


def _twice(items: list[Body]) -> None:
    items.append(copy.deepcopy(items[0]))


def _channel(body: Body, **changes: Any) -> Body:
    source = {"S3DataType": "S3Prefix", "S3Uri": "s3://bucket/key"}
    body["InputDataConfig"] = [{"ChannelName": "c", "DataSource": {"S3DataSource": source}, **changes}]
    return source


def _duplicate_channel(body: Body) -> tuple[str, ...]:
    _channel(body)
    _twice(body["InputDataConfig"])
    return ("Duplicate channel name 'c' in InputDataConfig",)


def _two_streaming_modes(body: Body) -> tuple[str, ...]:
    _channel(body, InputMode="Pipe")
    _twice(body["InputDataConfig"])
    body["InputDataConfig"][1].update(ChannelName="d", InputMode="FastFile")
    return ("'Pipe' and 'FastFile' TrainingInputMode",)


def _attributes(body: Body) -> tuple[str, ...]:
    _channel(body)["AttributeNames"] = ["a"]
    return ("'c'", "AttributeNames")


def _augmented_file(body: Body) -> tuple[str, ...]:
    _channel(body, InputMode="File").update(S3DataType="AugmentedManifestFile", AttributeNames=["a"])
    return ("'c'", "S3DataType", "input mode Pipe")


def _unknown_group(body: Body) -> tuple[str, ...]:
    _channel(body)["InstanceGroupNames"] = ["no-such-group"]
    return ("'c'", "no-such-group")


def _no_source(body: Body) -> tuple[str, ...]:
    _channel(body, DataSource={})
    return ("'c'", "DataSource")


def _input_elsewhere(body: Body) -> tuple[str, ...]:
    _channel(body)["S3Uri"] = "https://bucket/key"
    return ("'https://bucket/key' is not an S3 URI",)


def _output_elsewhere(body: Body) -> tuple[str, ...]:
    body["OutputDataConfig"]["S3OutputPath"] = "https://bucket/key"
    return ("'https://bucket/key' is not an S3 URI",)


def _checkpoints_elsewhere(body: Body) -> tuple[str, ...]:
    body["CheckpointConfig"] = {"S3Uri": "s3://b", "LocalPath": "/tmp/x"}
    return ("CheckpointConfig.LocalPath",)


def _no_image(body: Body) -> tuple[str, ...]:
    del body["AlgorithmSpecification"]["TrainingImage"]
    return ("TrainingImage", "AlgorithmName")


def _image_and_algorithm(body: Body) -> tuple[str, ...]:
    body["AlgorithmSpecification"]["AlgorithmName"] = "an-algorithm"
    return ("TrainingImage", "AlgorithmName")


def _bad_regex(body: Body) -> tuple[str, ...]:
    body["AlgorithmSpecification"]["MetricDefinitions"] = [{"Name": "bad", "Regex": "("}]
    return ("metric definition 'bad'",)


def _hosts(body: Body, **resources: Any) -> None:
    """Gives the body other hosts."""
    for name in ("InstanceType", "InstanceCount", "InstanceGroups", "KeepAlivePeriodInSeconds"):
        body["ResourceConfig"].pop(name, None)
    for channel in body.get("InputDataConfig", []):
        channel["DataSource"].get("S3DataSource", {}).pop("InstanceGroupNames", None)
    body["ResourceConfig"].update(resources)


def _groups(*names: str, count: int = 1) -> list[Body]:
    return [{"InstanceGroupName": name, "InstanceType": "ml.m5.large", "InstanceCount": count} for name in names]


def _no_instances(body: Body) -> tuple[str, ...]:
    _hosts(body, InstanceType="ml.m5.large", InstanceCount=0)
    return ("ResourceConfig.InstanceCount",)


def _half_of_the_hosts(body: Body) -> tuple[str, ...]:
    _hosts(body, InstanceType="ml.m5.large")
    return ("Value null at 'resourceConfig.instanceCount' failed",)


def _groups_and_count(body: Body) -> tuple[str, ...]:
    _hosts(body, InstanceGroups=_groups("a"), InstanceCount=1)
    return ("InstanceGroups", "InstanceCount")


def _no_groups(body: Body) -> tuple[str, ...]:
    _hosts(body, InstanceGroups=[])
    return ("ResourceConfig.InstanceGroups",)


def _duplicate_group(body: Body) -> tuple[str, ...]:
    _hosts(body, InstanceGroups=_groups("a", "b", "a"))
    return ("Duplicate InstanceGroupName 'a'",)


def _empty_group(body: Body) -> tuple[str, ...]:
    _hosts(body, InstanceGroups=_groups("a", count=0))
    return ("InstanceCount of the instance group 'a'",)


def _some_channels_without_groups(body: Body) -> tuple[str, ...]:
    _hosts(body, InstanceGroups=_groups("a"))
    _channel(body)["InstanceGroupNames"] = ["a"]
    _twice(body["InputDataConfig"])
    body["InputDataConfig"][1]["ChannelName"] = "without"
    del body["InputDataConfig"][1]["DataSource"]["S3DataSource"]["InstanceGroupNames"]
    return ("without",)


def _warm_groups(body: Body) -> tuple[str, ...]:
    _hosts(body, InstanceGroups=_groups("a"), KeepAlivePeriodInSeconds=1)
    body.pop("EnableManagedSpotTraining", None)
    body["StoppingCondition"].pop("MaxWaitTimeInSeconds", None)
    return ("KeepAlivePeriodInSeconds", "InstanceGroups")


def _warm_spot(body: Body) -> tuple[str, ...]:
    _hosts(body, InstanceType="ml.m5.large", InstanceCount=1, KeepAlivePeriodInSeconds=1)
    body["EnableManagedSpotTraining"] = True
    body["StoppingCondition"] = {"MaxWaitTimeInSeconds": 86_400}
    return ("KeepAlivePeriodInSeconds", "EnableManagedSpotTraining")


def _file_system(body: Body, mode: str = "File", **changes: Any) -> None:
    source = {
        "FileSystemId": FILE_SYSTEM,
        "FileSystemAccessMode": "ro",
        "FileSystemType": "EFS",
        "DirectoryPath": "/",
        **changes,
    }
    _hosts(body, InstanceType="ml.m5.large", InstanceCount=1)
    _channel(body, InputMode=mode, DataSource={"FileSystemDataSource": source})


def _unknown_file_system(body: Body) -> tuple[str, ...]:
    _file_system(body, FileSystemId="fs-00000000")
    return ("'c'", "fs-00000000", "--file-system")


def _out_of_the_file_system(body: Body) -> tuple[str, ...]:
    _file_system(body, DirectoryPath="/a/../../b")
    return ("'c'", "'/a/../../b'")


def _file_system_in_a_pipe(body: Body) -> tuple[str, ...]:
    _file_system(body, mode="Pipe")
    return ("'c'", "FileSystemDataSource", "not Pipe")


def _bad_faults(body: Body) -> tuple[str, ...]:
    body["Tags"] = [{"Key": "sagelet:fault", "Value": "capacity"}]
    return ("sagelet:fault", "'capacity'")


def _too_long(body: Body) -> tuple[str, ...]:
    body["StoppingCondition"]["MaxRuntimeInSeconds"] = 28 * 86_400 + 1
    return ("MaxRuntimeInSeconds",)


def _wait_without_spot(body: Body) -> tuple[str, ...]:
    body["EnableManagedSpotTraining"] = False
    body["StoppingCondition"]["MaxWaitTimeInSeconds"] = 2**31 - 1
    return ("MaxWaitTimeInSeconds", "EnableManagedSpotTraining")


def _spot_without_wait(body: Body) -> tuple[str, ...]:
    body["EnableManagedSpotTraining"] = True
    body["ResourceConfig"].pop("KeepAlivePeriodInSeconds", None)
    body["StoppingCondition"].pop("MaxWaitTimeInSeconds", None)
    return ("MaxWaitTimeInSeconds", "EnableManagedSpotTraining")


def _wait_too_short(body: Body) -> tuple[str, ...]:
    body["EnableManagedSpotTraining"] = True
    body["ResourceConfig"].pop("KeepAlivePeriodInSeconds", None)
    body["StoppingCondition"] = {"MaxRuntimeInSeconds": 10, "MaxWaitTimeInSeconds": 9}
    return ("MaxWaitTimeInSeconds", "MaxRuntimeInSeconds")


def _profiling(body: Body) -> tuple[str, ...]:
    body["ProfilerConfig"] = {"ProfilingIntervalInMilliseconds": 7}
    return ("ProfilingIntervalInMilliseconds 7",)


def _reserved_tag(body: Body) -> tuple[str, ...]:
    body["Tags"] = [{"Key": "aWs:mine", "Value": ""}]
    return ("'aWs:mine'",)


def _duplicate_tag(body: Body) -> tuple[str, ...]:
    body["Tags"] = [{"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}]
    return ("Duplicate tag key 'a'",)


def _bad_schedule(body: Body) -> tuple[str, ...]:
    body["EnableManagedSpotTraining"] = True
    body["ResourceConfig"].pop("KeepAlivePeriodInSeconds", None)
    body["StoppingCondition"] = {"MaxWaitTimeInSeconds": 86_400}
    body["Tags"] = [{"Key": "sagelet:interrupt-after", "Value": "soon"}]
    return ("sagelet:interrupt-after",)


def _without(member: str) -> Break:
    def take_out(body: Body) -> tuple[str, ...]:
        del body[member]
        return (f"Value null at '{member[:1].lower() + member[1:]}' failed",)

    return take_out


RULES: tuple[Break, ...] = (
    _duplicate_channel,
    _two_streaming_modes,
    _attributes,
    _augmented_file,
    _unknown_group,
    _no_source,
    _input_elsewhere,
    _output_elsewhere,
    _checkpoints_elsewhere,
    _no_image,
    _image_and_algorithm,
    _bad_regex,
    _no_instances,
    _half_of_the_hosts,
    _groups_and_count,
    _no_groups,
    _duplicate_group,
    _empty_group,
    _some_channels_without_groups,
    _warm_groups,
    _warm_spot,
    _unknown_file_system,
    _out_of_the_file_system,
    _file_system_in_a_pipe,
    _bad_faults,
    _too_long,
    _wait_without_spot,
    _spot_without_wait,
    _wait_too_short,
    _profiling,
    _reserved_tag,
    _duplicate_tag,
    _bad_schedule,
    *map(_without, ("AlgorithmSpecification", "ResourceConfig", "StoppingCondition")),
)


def broken_rules(bodies: st.SearchStrategy[Body]) -> st.SearchStrategy[Broken]:
    """Breaks one rule that the model cannot express."""

    @st.composite
    def broken(draw: st.DrawFn) -> Broken:
        body = copy.deepcopy(draw(bodies))
        return Broken(body, draw(st.sampled_from(RULES))(body))

    return broken()


def too_many_hosts(bodies: st.SearchStrategy[Body]) -> st.SearchStrategy[Broken]:
    """Asks for more hosts than the server's 8, in one group or over several."""
    groups: list[Body] = [
        {"InstanceGroups": _groups("a", "b", "c", count=3)},
        {"InstanceType": "ml.m5.large", "InstanceCount": 9},
    ]

    @st.composite
    def broken(draw: st.DrawFn) -> Broken:
        body = copy.deepcopy(draw(bodies))
        _hosts(body, **copy.deepcopy(draw(st.sampled_from(groups))))
        return Broken(body, ("is 8 Instances", "request delta of 9 Instances"), "ResourceLimitExceeded")

    return broken()


def broken_bodies(bodies: st.SearchStrategy[Body]) -> st.SearchStrategy[Broken]:
    constraints = broken_constraints(bodies)
    others = (wrong_types(bodies), broken_rules(bodies), broken_rules(bodies), too_many_hosts(bodies))
    return st.one_of(constraints, constraints, *others)


def shown(body: Body) -> str:
    return json.dumps(body, ensure_ascii=False)[:2000]
