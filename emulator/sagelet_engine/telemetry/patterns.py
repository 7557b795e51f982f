"""What can be known about a regex without running it.

This saves most of the time that lines take: searching for a text takes a fiftieth of the time of a regex with a time
limit, and the limit takes two thirds of a short match. What is not understood for certain is run with the limit.
"""

import re
from collections.abc import Iterator

#: One element of a pattern and its quantifiers. Flags, lookarounds and other groups with `(?` are not included.
_ELEMENT = re.compile(
    r"""(?: (?P<plain> [^\\^$.|?*+()\[\]{}] )
    |   \\(?P<escaped> [-!"$%&'()*+,./:;=?@\[\\\]^{|}~] )
    |   (?P<open> \( (?: \?: | \?P<\w+> | (?![?*]) ) )
    |   (?P<close> \) )
    |   (?P<either> \| )
    |   (?: [.^$] | \\[dDsSwWbB] | \[ \^? \]? (?: [^]\\[] | \\. )* \] )
    ) (?P<quantified> (?: [*+?] | \{ [0-9,]* \} )* )""",
    re.VERBOSE | re.DOTALL,
)


class _NotUnderstood(Exception):
    pass


def needed_text(pattern: str) -> str:
    """Returns the longest text outside of groups that every match contains. Empty if none is known."""
    runs = [""]
    try:
        for element, depth in _elements(pattern):
            if depth == 0 and element["either"]:
                return ""
            character = element["plain"] or element["escaped"]
            if character and depth == 0 and not element["quantified"]:
                runs[-1] += character
            else:
                runs.append("")
    except _NotUnderstood:
        return ""
    return max(runs, key=len)


def repetitions(pattern: str) -> int | None:
    """Returns how many repeated single characters a pattern has. None if it repeats more, or has alternatives.

    With k of them a search takes at most about n ** (k + 1) steps for a line of n characters. None means that no such
    bound is known.
    """
    count = 0
    try:
        for element, _ in _elements(pattern):
            if element["either"] or (element["close"] and element["quantified"]):
                return None
            count += bool(element["quantified"])
    except _NotUnderstood:
        return None
    return count


def _elements(pattern: str) -> Iterator[tuple["re.Match[str]", int]]:
    """Yields each element, and the number of groups around what follows it. Raises _NotUnderstood."""
    depth = place = 0
    while place < len(pattern):
        element = _ELEMENT.match(pattern, place)
        if element is None:
            raise _NotUnderstood
        place = element.end()
        depth += (element["open"] is not None) - (element["close"] is not None)
        if depth < 0:
            raise _NotUnderstood
        yield element, depth
