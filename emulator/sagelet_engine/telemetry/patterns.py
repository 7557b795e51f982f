"""What can be known about a regex without running it.

This saves most of the time that lines take: searching for a text takes a fiftieth of the time of a regex with a time
limit, and the limit takes two thirds of a short match. What is not understood for certain is run with the limit.
"""

import math
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


#: A count, with the least number in it. `{,5}` has none.
_COUNT = re.compile(r"\{(\d*)(?:,\d*)?\}", re.ASCII)
#: A count that may belong to a group. A group's end, its errors (`{e<=1}`) or white space may come before it.
_GROUP_COUNT = re.compile(r"[)}\s]\{(\d*)(?:,\d*)?\}", re.ASCII)
#: Flags of a pattern that may have white space and comments anywhere.
_VERBOSE = re.compile(r"\(\?[a-zA-Z0-9-]*x")


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


#: Steps (some milliseconds) that a regex may take without a time limit and without letting other threads work.
QUICK_STEPS = 1_000_000


def quick_length(pattern: str) -> int:
    """Returns the length of a text, in characters, up to which a search ends within QUICK_STEPS, whatever the text."""
    repeated = repetitions(pattern)
    return 0 if repeated is None else int(QUICK_STEPS ** (1 / (repeated + 1)))


def expanded(pattern: str) -> int:
    """Returns the most elements that a pattern may have once its counted groups are copied. A group is one of them.

    The library copies what is in a group as many times as its least count says, so a compiled pattern may need much
    more memory than its text.
    """
    sizes = [0]
    try:
        for element, _ in _elements(pattern):
            if element["open"]:
                sizes.append(1)
                continue
            size = sizes.pop() if element["close"] else 1
            size *= _copies(_COUNT, element["quantified"])
            sizes[-1] += size
    except _NotUnderstood:
        return _bound(pattern)
    return sum(sizes)


def _bound(pattern: str) -> int:
    """Returns a bound of `expanded` that holds wherever groups begin and end: as if each were within all others."""
    counts = _COUNT if _VERBOSE.search(pattern) else _GROUP_COUNT
    return (len(pattern) + sum(map(_least, _COUNT.findall(pattern)))) * _copies(counts, pattern)


def elements(pattern: str) -> "list[re.Match[str]] | None":
    """Returns the elements of a pattern, in order. None if it is not understood."""
    try:
        return [element for element, _ in _elements(pattern)]
    except _NotUnderstood:
        return None


def _copies(counts: "re.Pattern[str]", text: str) -> int:
    return math.prod(_least(count) for count in counts.findall(text))


def _least(count: str) -> int:
    return max(1, int(count or 0))


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
