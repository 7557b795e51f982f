"""The words for a value of the wrong JSON type.

They are Coral's, the framework behind AWS's JSON services, as DynamoDB publishes them through its open-source test
suites; SageMaker runs on the same framework, but its own answers were not seen. Three decisions are ours:
a fraction where the model wants an integer is refused (Coral cuts it off, and Describe would then not echo what was
sent); so is a number that does not fit the type; and members that the model does not have are refused by
`shapes.StructureRule` (Coral ignores them, but a typo that trains for an hour with the default is worse here).
"""

from typing import Any, NoReturn

from sagelet_api.aws_errors import SerializationException

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


def refuse_scalar(value: Any, wanted: str) -> NoReturn:
    """Raises SerializationException for a JSON `value` where the model has the scalar `wanted`."""
    java = JAVA_NAMES[wanted]
    if isinstance(value, dict):
        raise SerializationException("Start of structure or map found where not expected")
    if isinstance(value, list):
        raise SerializationException(f"Unrecognized collection type class java.lang.{java}")
    raise SerializationException(f"{_token(value)} cannot be converted to {java}")


def refuse_collection(value: Any, wanted: str) -> NoReturn:
    """Raises SerializationException for a JSON `value` where the model has a list, map or structure."""
    if isinstance(value, dict):
        raise SerializationException("Start of structure or map found where not expected")
    if isinstance(value, list):
        raise SerializationException(f"Unrecognized collection type class {wanted}")
    raise SerializationException("Unexpected field type")


def _token(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE_VALUE" if value else "FALSE_VALUE"
    if isinstance(value, str):
        return "STRING_VALUE"
    return "DECIMAL_VALUE" if isinstance(value, float) else "NUMBER_VALUE"
