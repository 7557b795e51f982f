"""CloudWatch Logs' filter patterns: which events FilterLogEvents returns.

Source: "Filter pattern syntax for metric filters, subscription filters, filter log events, and Live Tail" of the
CloudWatch Logs User Guide. Terms match anywhere in a message, also within a word, and case matters:

- `ERROR "bad request"`: all of them; `?ERROR ?WARN`: any of them; `-DEBUG`: none of them. Optional terms beside others
  are ignored, as AWS does.
- `%regular expression%`, also in place of a term.
- `{ $.field = value }`: see `logs/json_patterns.py`.
- `[time, level = ERROR*, ..., bytes > 1000]`: messages of space-delimited fields. Text in quotation marks or square
  brackets is one field; `...` stands for any number of fields. Source: "Using filter patterns to match terms in
  space-delimited log events" of the same guide.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from sagelet_api.protocol.aws_errors import LogsInvalidParameter
from sagelet_api.services.logs import json_patterns as log_json_patterns
from sagelet_api.services.logs.json_patterns import BadPattern, Condition, Field, Parser, quoted, regular_expression

Matches = Callable[[str], bool]
#: What closes a field that begins with one of these.
_CLOSING = {"[": "]", '"': '"'}
_WORD = re.compile(r"\S+")
#: The parts between commas. Commas within quotation marks or percent signs do not count.
_PART = re.compile(r'(?:"[^"]*"|%[^%]*%|[^,"%])+')
_NAME = re.compile(r"\w+")
_ANY = "..."


def compile_pattern(pattern: str) -> Matches | None:
    """Returns a test of messages, or None for a pattern that matches every message. Raises LogsInvalidParameter."""
    text = pattern.strip()
    try:
        if not text:
            return None
        if text.startswith("{"):
            return log_json_patterns.compile_pattern(text)
        if text.startswith("["):
            return _fields_pattern(text)
        return _terms(text)
    except BadPattern as error:
        raise LogsInvalidParameter(f"Invalid filter pattern: {error}") from error
    except RecursionError as error:
        raise LogsInvalidParameter("Invalid filter pattern: too many parentheses") from error


def _terms(text: str) -> Matches:
    found: dict[str, list[Matches]] = {"": [], "?": [], "-": []}
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        kind = text[place] if text[place] in "?-" else ""
        term, place = _term(text, place + len(kind))
        found[kind].append(term)
    required, optional, excluded = found[""], found["?"], found["-"]
    if required or excluded:
        return lambda message: all(_each(required, message)) and not any(_each(excluded, message))
    return lambda message: any(_each(optional, message))


def _term(text: str, place: int) -> tuple[Matches, int]:
    """Returns the term that starts here, and its end."""
    start = text[place : place + 1]
    if start == '"':
        phrase, end = quoted(text, place)
        return lambda message: phrase in message, end
    if start == "%":
        expression, end = regular_expression(text, place)
        return expression.found_in, end
    word = text[place:].split(maxsplit=1)[0] if not start.isspace() and start else ""
    if not word:
        raise BadPattern("a term is missing after '?' or '-'")
    return lambda message: word in message, place + len(word)


def _each(terms: Iterable[Matches], message: str) -> Iterable[bool]:
    return (term(message) for term in terms)


def _fields_pattern(text: str) -> Matches:
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
        fields = [Field(text.strip('"') if text[0] == '"' else _unbracketed(text)) for text in _fields(message)]
        short = len(head) + len(tail) - len(fields)
        if short > 0 or (short < 0 and not open_ended):
            return False
        return _all_hold(head, fields) and _all_hold(tail, fields[len(fields) - len(tail) :])

    return matches


def _fields(message: str) -> Iterator[str]:
    """Yields the fields of a message with their quotation marks or brackets. One that is not closed is a word."""
    place, unclosed = 0, set()
    while (word := _WORD.search(message, place)) is not None:
        place, opening = word.start(), message[word.start()]
        end = -1
        if opening in _CLOSING and opening not in unclosed:
            end = message.find(_CLOSING[opening], place + 1)
        if end >= 0:
            yield message[place : end + 1]
            place = end + 1
            continue
        # No later one is closed either, so the rest is not searched again.
        unclosed.add(opening)
        yield word[0]
        place = word.end()


def _condition(part: str) -> Condition:
    """Returns the condition of a field. A name alone accepts any field."""
    return (lambda _field: True) if _NAME.fullmatch(part) else Parser(part, named=True).whole()


def _all_hold(conditions: Sequence[Condition], fields: Sequence[Field]) -> bool:
    return all(condition(field) for condition, field in zip(conditions, fields, strict=False))


def _unbracketed(text: str) -> str:
    return text[1:-1] if text[0] == "[" and text[-1] == "]" else text
