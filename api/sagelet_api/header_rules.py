"""What a header's name and value may be made of, whichever way it goes.

Source: RFC 9110, 5.1 (names are tokens) and 5.5 (values: no controls but tabs; octets above 127 are opaque).
"""

import re

TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
VALUE = r"[\t\x20-\x7e\x80-\xff]*"

_NAME = re.compile(TOKEN)
_VALUE = re.compile(VALUE)
#: RFC 9112, 4: three digits, and a phrase that nobody reads.
_STATUS = re.compile(rf"[1-5][0-9]{{2}} {VALUE}")


class IllegalHeader(ValueError):
    """A handler's mistake: what it would write could be read as more than one answer."""


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def is_value(text: str) -> bool:
    """Octets as text: each character stands for one."""
    return _VALUE.fullmatch(text) is not None


def check_head(status: str, headers: list[tuple[str, str]]) -> None:
    """The head of an answer, before it is written. Raises IllegalHeader."""
    if not _STATUS.fullmatch(status):
        raise IllegalHeader(f"{status!r} is no status line.")
    for name, value in headers:
        if not is_name(name):
            raise IllegalHeader(f"{name!r} is no name of a header.")
        if not is_value(value):
            raise IllegalHeader(f"{value!r} cannot be the header {name}.")
