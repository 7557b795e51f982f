import warnings

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel

from sagelet_api.protocol.java_patterns import UnsupportedPattern, compile_pattern

TRAINING_JOB_OPERATIONS = [
    "CreateTrainingJob",
    "DescribeTrainingJob",
    "ListTrainingJobs",
    "StopTrainingJob",
    "UpdateTrainingJob",
    "DeleteTrainingJob",
    "ListTrainingJobsForHyperParameterTuningJob",
    "Search",
    "AddTags",
    "ListTags",
    "DeleteTags",
]


def matches(pattern: str, text: str) -> bool:
    return compile_pattern(pattern).fullmatch(text) is not None


def test_dot_stops_at_every_line_end() -> None:
    assert matches(".*", "a b\tc é")
    for end in "\n\r\u0085\u2028\u2029":
        assert not matches(".*", f"a{end}b")
        assert matches("[.\\s\\S]*", f"a{end}b")


def test_classes_are_ascii() -> None:
    assert not matches("\\d", "\u0663")
    assert not matches("\\w", "é")


def test_unicode_properties_in_and_out_of_classes() -> None:
    tag = "([\\p{L}\\p{Z}\\p{N}_.:/=+\\-@]*)"
    assert matches(tag, "Größe 項目 \u0663 a_b.c:/=+-@")
    assert not matches(tag, "a€")
    assert not matches(tag, "a;b")
    assert matches("\\p{Lu}\\p{Alnum}+", "Éa9")
    assert matches("[^\\p{L}]", "1")
    assert not matches("[^\\p{L}]", "é")


def test_brackets_and_escapes_stay() -> None:
    assert matches("a\\.b[\\]\\.]", "a.b]")
    assert not matches("a\\.b", "axb")


def test_unknown_property_is_no_crash() -> None:
    with pytest.raises(UnsupportedPattern, match="IsGreek"):
        compile_pattern("\\p{IsGreek}")


def patterns_below(shape: object, seen: dict[str, str]) -> dict[str, str]:
    if shape is None or shape.name in seen:  # type: ignore[attr-defined]
        return seen
    seen[shape.name] = shape.metadata.get("pattern", "")  # type: ignore[attr-defined]
    for member in getattr(shape, "members", {}).values():
        patterns_below(member, seen)
    for child in ("member", "key", "value"):
        patterns_below(getattr(shape, child, None), seen)
    return seen


def test_every_pattern_of_the_training_job_api_and_of_logs_compiles() -> None:
    model = ServiceModel(Loader().load_service_model("sagemaker", "service-2"))
    seen: dict[str, str] = {}
    for name in TRAINING_JOB_OPERATIONS:
        patterns_below(model.operation_model(name).input_shape, seen)
    logs = ServiceModel(Loader().load_service_model("logs", "service-2"))
    for name in ("DescribeLogStreams", "GetLogEvents", "FilterLogEvents", "DescribeLogGroups"):
        patterns_below(logs.operation_model(name).input_shape, seen)
    patterns = {name: pattern for name, pattern in seen.items() if pattern}
    assert len(patterns) > 50
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for pattern in patterns.values():
            compile_pattern(pattern)
