"""The words for a value of the wrong JSON type.

They are Coral's, the framework behind AWS's JSON services, as DynamoDB publishes them through its open-source test
suites. SageMaker runs on the same framework, but its own answers were not seen. Coral does not say where the value is;
sagelet adds that after Coral's words. sagelet differs in three more points. It refuses a fraction where the model wants
an integer (Coral cuts it off, and Describe would then not echo what was sent). It refuses a number that does not fit
the type. And `shapes.StructureRule` refuses members that the model does not have (Coral ignores them, but here it is
worse if a job trains for an hour with a default because of a typo).
"""

from typing import Any, NoReturn

from sagelet_api.protocol.aws_errors import SerializationException

#: The Java name of each scalar of the service model.
JAVA_NAMES = {
    "string": "String",
    "integer": "Integer",
    "long": "Long",
    "float": "Float",
    "double": "Double",
    "boolean": "Boolean",
    "timestamp": "Date",
    "blob": "ByteBuffer",
}


def refuse_scalar(value: Any, wanted: str, path: str) -> NoReturn:
    """Raises SerializationException for a JSON `value` at `path`, where the model has the scalar `wanted`."""
    java = JAVA_NAMES[wanted]
    if isinstance(value, dict):
        raise _refusal("Start of structure or map found where not expected", path)
    if isinstance(value, list):
        raise _refusal(f"Unrecognized collection type class java.lang.{java}", path)
    raise _refusal(f"{_token(value)} cannot be converted to {java}", path)


def refuse_collection(value: Any, wanted: str, path: str) -> NoReturn:
    """Raises SerializationException for a JSON `value` at `path`, where the model has a list, map or structure."""
    if isinstance(value, dict):
        raise _refusal("Start of structure or map found where not expected", path)
    if isinstance(value, list):
        raise _refusal(f"Unrecognized collection type class {wanted}", path)
    raise _refusal("Unexpected field type", path)


def _refusal(words: str, path: str) -> SerializationException:
    return SerializationException(f"{words} at '{path}'")


def _token(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE_VALUE" if value else "FALSE_VALUE"
    if isinstance(value, str):
        return "STRING_VALUE"
    return "DECIMAL_VALUE" if isinstance(value, float) else "NUMBER_VALUE"
