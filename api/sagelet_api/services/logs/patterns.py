"""CloudWatch Logs' filter patterns: which events FilterLogEvents returns.

Source: "Filter pattern syntax for metric filters, subscription filters, filter log events, and Live Tail" of the
CloudWatch Logs User Guide. Terms match anywhere in a message, also within a word, and case matters:

- `ERROR "bad request"`: all of them; `?ERROR ?WARN`: any of them; `-DEBUG`: none of them. Optional terms beside others
  are ignored, as AWS does.
- `%regular expression%`, also in place of a term.
- `{ $.field = value }`: see `logs/json_patterns.py`; `[ip, user, ...]`: see `logs/space_patterns.py`.
"""

from collections.abc import Callable, Iterable

from sagelet_api.protocol.aws_errors import LogsInvalidParameter
from sagelet_api.services.logs import json_patterns as log_json_patterns
from sagelet_api.services.logs import space_patterns as log_space_patterns
from sagelet_api.services.logs.json_patterns import BadPattern, quoted, regular_expression

Matches = Callable[[str], bool]


def compile_pattern(pattern: str) -> Matches | None:
    """Returns a test of messages, or None for a pattern that matches every message. Raises LogsInvalidParameter."""
    text = pattern.strip()
    try:
        if not text:
            return None
        if text.startswith("{"):
            return log_json_patterns.compile_pattern(text)
        if text.startswith("["):
            return log_space_patterns.compile_pattern(text)
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
