"""The words for a value of the wrong JSON type.

They are Coral's, the framework behind AWS's JSON services, as DynamoDB publishes them through its open-source test
suites. SageMaker runs on the same framework, but its own answers were not seen. Coral does not say where the value is;
sagelet adds that after Coral's words. sagelet differs in three more points. It refuses a fraction where the model wants
an integer (Coral cuts it off, and Describe would then not echo what was sent). It refuses a number that does not fit
the type. And `shapes.StructureRule` refuses members that the model does not have (Coral ignores them, but here it is
worse if a job trains for an hour with a default because of a typo).
"""

from typing import Any, NoReturn

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


#: Letters of the path to a value in an error. A path may have keys of the request in it.
MOST_PATH = 1024


class WrongType(Exception):
    """A JSON value of another type than the model has. `words` are Coral's."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words
        #: From the value that was taken, such as `.stoppingCondition.maxRuntimeInSeconds`.
        self.path = ""

    def within(self, step: str) -> "WrongType":
        """Puts a step before the path."""
        self.path = f"{step}{self.path}"[:MOST_PATH]
        return self


def refuse_scalar(value: Any, wanted: str) -> NoReturn:
    """Raises WrongType for a JSON value, where the model has the scalar `wanted`."""
    java = JAVA_NAMES[wanted]
    if isinstance(value, dict):
        raise WrongType("Start of structure or map found where not expected")
    if isinstance(value, list):
        raise WrongType(f"Unrecognized collection type class java.lang.{java}")
    raise WrongType(f"{_token(value)} cannot be converted to {java}")


def refuse_collection(value: Any, wanted: str) -> NoReturn:
    """Raises WrongType for a JSON value, where the model has a list, map or structure."""
    if isinstance(value, dict):
        raise WrongType("Start of structure or map found where not expected")
    if isinstance(value, list):
        raise WrongType(f"Unrecognized collection type class {wanted}")
    raise WrongType("Unexpected field type")


def _token(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE_VALUE" if value else "FALSE_VALUE"
    if isinstance(value, str):
        return "STRING_VALUE"
    return "DECIMAL_VALUE" if isinstance(value, float) else "NUMBER_VALUE"
