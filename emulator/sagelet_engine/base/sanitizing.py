"""Makes names that others chose safe for a log, a terminal and a database."""

import os

#: Characters of one name.
MOST = 200


def shown(name: str, most: int = MOST) -> str:
    """Returns a file's name with escapes for bytes that are not UTF-8 and for unprintable characters. A long name is
    cut.
    """
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    escaped = "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)
    return escaped if len(escaped) <= most else f"{escaped[:most]}..."
