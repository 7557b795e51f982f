"""What can be said of a regex without running it.

That saves most of the time that lines take: to look for a text takes a fiftieth of the time of a regex that is run with
a time limit, and that limit takes two thirds of a short match. What is not understood for certain is run with care.
"""

import re
from collections.abc import Iterator

#: One element of a pattern and its quantifiers. Flags, looks around and other groups with `(?` are not among them.
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
    """The longest text outside of all groups that every match holds; empty: none is known."""
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
    """How many single characters of the pattern are repeated, where nothing else is and nothing has alternatives.

    With k of them a search takes at most about n ** (k + 1) steps for a line of n characters. None: there is no such
    bound, or none is known.
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
    """Each element, and in how many groups what follows it is. Raises _NotUnderstood."""
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
