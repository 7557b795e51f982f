"""Compares patterns of policies with texts that may be known in part only, in time linear in the text.

A pattern has the wildcards `*` and `?`. ANYTHING in a pattern or a text stands for a text that is not known. A pattern
is a nondeterministic automaton, whose set of states is one integer: bit `i` is set if the first `i` tokens are matched.
"""

from dataclasses import dataclass
from functools import lru_cache

#: A character that no ARN has. A caller who sends it gets the benefit of no doubt.
ANYTHING = "\0"
#: A longer text counts as unknown from here on. ARNs and keys of S3 are shorter.
_LONGEST = 4096


@dataclass(frozen=True)
class _Automaton:
    #: The bits of the tokens that a character matches.
    masks: dict[str, int]
    #: The bits of the tokens `?`, which any character matches.
    any_one: int
    #: The bits of the tokens `*`. No two of them are neighbours.
    stars: int
    tokens: int
    #: False if a part of the pattern is not known.
    known: bool

    def start(self) -> int:
        return self.closed(1)

    def closed(self, states: int) -> int:
        """Adds the states that are reached without a character, because `*` may match none."""
        return states | (states & self.stars) << 1

    def after(self, states: int, char: str) -> int:
        return self.closed((states & (self.masks.get(char, 0) | self.any_one)) << 1 | states & self.stars)

    def from_least(self, states: int) -> int:
        """Returns the least state and all after it."""
        return (2 << self.tokens) - (states & -states)

    def is_end(self, states: int) -> bool:
        return bool(states >> self.tokens & 1)


def covers(pattern: str, text: str) -> bool:
    """True if the pattern matches the text whatever its unknown parts are. May be False for a pattern that does so by
    chance only: `??*` does not cover ANYTHING.
    """
    if "*" not in pattern and "?" not in pattern:
        return pattern == text and ANYTHING not in pattern
    automaton = _automaton(pattern)
    states = automaton.start() if automaton.known else 0
    for char in _bounded(text):
        # Only `*` matches every text.
        states = automaton.closed(states & automaton.stars) if char == ANYTHING else automaton.after(states, char)
        if not states:
            return False
    return automaton.is_end(states)


def meets(pattern: str, text: str) -> bool:
    """True if the pattern matches the text for some value of the unknown parts of both."""
    automaton = _automaton(pattern)
    states = automaton.start()
    for char in _bounded(text):
        # Some text leads from the least state to each of those after it.
        states = automaton.from_least(states) if char == ANYTHING else automaton.after(states, char)
        if not states:
            return False
    return automaton.is_end(states)


def _bounded(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + ANYTHING


@lru_cache(maxsize=4096)
def _automaton(pattern: str) -> _Automaton:
    masks: dict[str, int] = {}
    any_one = stars = tokens = 0
    for char in pattern:
        if char in ("*", ANYTHING):
            if tokens and stars >> (tokens - 1) & 1:
                continue
            stars |= 1 << tokens
        elif char == "?":
            any_one |= 1 << tokens
        else:
            masks[char] = masks.get(char, 0) | 1 << tokens
        tokens += 1
    return _Automaton(masks, any_one, stars, tokens, ANYTHING not in pattern)
