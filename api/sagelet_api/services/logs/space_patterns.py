"""Filter patterns over messages of space-delimited fields: `[time, level = ERROR*, ..., bytes > 1000]`.

Source: "Using filter patterns to match terms in space-delimited log events" of the CloudWatch Logs User Guide. Text in
quotation marks or square brackets is one field; `...` stands for any number of fields.
"""

import re
from collections.abc import Callable, Sequence

from sagelet_api.services.logs.json_patterns import BadPattern, Condition, Field, Parser

_FIELD = re.compile(r'\[[^\]]*\]|"[^"]*"|\S+')
#: The parts between commas. Commas within quotation marks or percent signs do not count.
_PART = re.compile(r'(?:"[^"]*"|%[^%]*%|[^,"%])+')
_NAME = re.compile(r"\w+")
_ANY = "..."


def compile_pattern(text: str) -> Callable[[str], bool]:
    """Compiles a pattern that begins with a bracket. Raises BadPattern."""
    if not text.endswith("]"):
        raise BadPattern("']' is missing at its end")
    parts = [part.strip() for part in _PART.findall(text[1:-1])]
    if not parts or not all(parts) or ",".join(_PART.findall(text[1:-1])) != text[1:-1]:
        raise BadPattern("a field is empty or a quotation mark is not closed")
    if parts.count(_ANY) > 1:
        raise BadPattern("'...' occurs twice")
    head = [_condition(part) for part in parts[: parts.index(_ANY)]] if _ANY in parts else list(map(_condition, parts))
    tail = [_condition(part) for part in parts[parts.index(_ANY) + 1 :]] if _ANY in parts else []
    open_ended = _ANY in parts

    def matches(message: str) -> bool:
        fields = [
            Field(found.strip('"') if found[0] == '"' else _unbracketed(found)) for found in _FIELD.findall(message)
        ]
        short = len(head) + len(tail) - len(fields)
        if short > 0 or (short < 0 and not open_ended):
            return False
        return _all(head, fields) and _all(tail, fields[len(fields) - len(tail) :])

    return matches


def _condition(part: str) -> Condition:
    """Returns the condition of a field. A name alone accepts any field."""
    return (lambda _field: True) if _NAME.fullmatch(part) else Parser(part, named=True).whole()


def _all(conditions: Sequence[Condition], fields: Sequence[Field]) -> bool:
    return all(condition(field) for condition, field in zip(conditions, fields, strict=False))


def _unbracketed(text: str) -> str:
    return text[1:-1] if text[0] == "[" and text[-1] == "]" else text
