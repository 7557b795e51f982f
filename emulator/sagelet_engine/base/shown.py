"""Makes names that others chose safe for a log, a terminal and a database."""

import os

#: Characters of one name.
MOST = 200


def shown(name: str, most: int = MOST) -> str:
    """A file's name, with its bytes that are no UTF-8 and whatever does not print written as escapes; cut if long."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    escaped = "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
    return escaped if len(escaped) <= most else f"{escaped[:most]}..."
