"""What spares a line its regex, or the regex its limit: whatever users write, a line without the text never matches."""

import tracemalloc
from contextlib import suppress

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from sagelet_engine.telemetry.metrics import MOST_ELEMENTS, InvalidRegex, compile_regex
from sagelet_engine.telemetry.patterns import expanded, needed_text, repetitions

#: What patterns are made of, well-formed or not.
PIECES = st.sampled_from(
    ["a", "b", "ab", "=", ".", "^", "$", "|", "?", "*", "+", "*?", "(", ")", "(?:", "(?P<n>", "(?i)", "(?=", "(?!a)",
     "[ab]", "[^a]", "[]a]", "[", "]", "{2}", "{0,1}", "{", "}", "{e<=1}", "{a|b}", r"\.", r"\d", r"\|", r"\(", r"\b",
     r"\1", r"\n", "\\", " ", "é"]
)  # fmt: skip
PATTERNS = st.lists(PIECES, min_size=1, max_size=8).map("".join)
LINES = st.text(alphabet="ab=.|(){} e1é\n", max_size=12)


@pytest.mark.parametrize(
    ("pattern", "needed"),
    [
        ("loss=([0-9.]+)", "loss="),
        (r"'loss': ([0-9]+(.|e\-)[0-9]+),?", "'loss': "),
        (r"^.*Epoch \d+ valid_acc=(.*?);", " valid_acc="),
        (r"took \(([0-9]+) s\)", "took ("),
        ("loss?=([0-9]+)", "los"),
        ("(loss=)([0-9]+)", ""),
        ("(a)|loss=([0-9]+)", ""),
        ("(?i)loss=([0-9]+)", ""),
        ("(?:loss){e<=1}=([0-9]+)", ""),
        ("a{x|b}c", ""),
        ("[[:alpha:]]loss", ""),
        (r"a\x62c", ""),
        ("", ""),
    ],
)
def test_the_longest_text_outside_of_groups(pattern: str, needed: str) -> None:
    assert needed_text(pattern) == needed


@given(PATTERNS, st.lists(LINES, max_size=20))
def test_a_line_without_it_does_not_match(pattern: str, lines: list[str]) -> None:
    try:
        compiled = regex.compile(pattern)
    except regex.error:
        return
    needed = needed_text(pattern)
    # The pattern's own text, too: with what stands around quantifiers it often matches.
    for line in (*lines, pattern, pattern.replace("\\", "")):
        assert needed in line or not compiled.search(line), (needed, line)


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("loss", 0),
        ("loss=([0-9.]+)", 1),
        (r"'loss': ([0-9]+\.[0-9]*),?", 3),
        ("(a{2})b", 1),
        ("(a+)+$", None),
        ("(a|aa)+$", None),
        ("a|b", None),
        ("(?i)loss=([0-9]+)", None),
        (r"(a)\1*", None),
        ("(?:loss){e<=1}", None),
    ],
)
def test_repeated_characters(pattern: str, count: int | None) -> None:
    assert repetitions(pattern) == count


#: Nested counted groups, some of them in disguise.
COUNTED = st.recursive(
    st.sampled_from(["a", "ab", r"\d", "[(]", "[)]", r"\)", "[[)]]", "a{3}", "(?#)"]),
    lambda inner: st.builds(
        "{}{}{}{}".format,
        st.sampled_from(["(", "(?:", "(?=", "(?i:", "(?x)( ", "(?V1)("]),
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.just(")"),
        st.sampled_from(["", "{9}", "{30}", "{200}", "{7,}", "{0,90}", " {40}", "+", "{50}+", "{20}?"]),
    ),
    max_leaves=12,
)
#: What a compiled regex of MOST_ELEMENTS takes at most: about twice the 300 bytes for each of them.
MOST_BYTES = 600 * MOST_ELEMENTS


@given(pattern=COUNTED | PATTERNS)
def test_what_compiles_takes_little_memory(pattern: str) -> None:
    tracemalloc.start()
    try:
        with suppress(InvalidRegex):
            compile_regex(pattern)
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES + 2_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("pattern", "elements"),
    [
        ("a", 1),
        ("(ab{3}){5}", 25),
        ("(?:a{2}){0,3}", 3),
        (r"(?:\d{1,3}\.){3}\d{1,3}", 10),
        ("(" * 13 + "a" + "{2})" * 13, 2**14 - 1),
    ],
)
def test_counted_groups_are_copied(pattern: str, elements: int) -> None:
    assert expanded(pattern) == elements


@pytest.mark.parametrize(
    "pattern", ["(" * 13 + "a" + "{2})" * 13, "(a{1000}){1000}", "a{1000000}", "(?x)( a ) {3000}", "[)](a{99}[)]){99}"]
)
def test_a_regex_that_takes_much_memory_is_refused_before_it_is_compiled(pattern: str) -> None:
    with pytest.raises(InvalidRegex, match="elements of it, and it may have 2,000"):
        compile_regex(pattern)
