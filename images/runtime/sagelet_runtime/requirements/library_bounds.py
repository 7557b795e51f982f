"""What the installed Transformers can be used with, as constraints for the installation of requirements.txt.

A `datasets` without a version brings the newest huggingface_hub, with which Transformers 4.57 cannot be imported. pip
resolves what requirements.txt names, and nothing there names Transformers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

LIBRARY = "transformers"
_NAME = re.compile(r"[\w.-]*\w")
#: `-r other.txt` in a requirements file (pip.pypa.io, "Requirements File Format").
_NESTED = re.compile(r"^\s*(?:-r|--requirement)[\s=]*(\S+)", re.MULTILINE)
_COMMENT = re.compile(r"(?:^|\s+)#.*$", re.MULTILINE)
#: Bytes of the byte order marks of UTF-8 and UTF-16.
_MARKS = b"\xef\xbb\xbf\xff\xfe"


def bounds() -> list[str]:
    """Returns the requirements of the installed Transformers that exclude newer versions (`huggingface-hub<1.0`)."""
    try:
        required = metadata.requires(LIBRARY) or ()
    except metadata.PackageNotFoundError:
        return []
    # Those of an extra have a marker.
    return [text for text in required if "<" in text and ";" not in text]


def names() -> list[str]:
    """Returns the names of `bounds()`, as `canonical` gives them."""
    return [canonical(text) for text in bounds()]


def canonical(requirement: str) -> str:
    """Returns the name of a requirement, with underscores and in lower case."""
    name = _NAME.match(requirement)
    return re.sub("[-_.]+", "_", name[0]).lower() if name else ""


def comparable(requirement: str) -> tuple[str, frozenset[str]]:
    """Returns the name and the specifiers of a requirement. pip prints specifiers in an order of its own."""
    specifiers = _NAME.sub("", requirement, count=1)
    return canonical(requirement), frozenset(filter(None, specifiers.split(",")))


def chosen_by(file: Path) -> bool:
    """True if a requirements file asks for Transformers, or for what it is bound to. Then the file's versions count.

    A URL that ends with such a name counts, too (`git+https://.../transformers`).
    """
    wanted = "|".join(name.replace("_", "[-_.]") for name in (LIBRARY, *names()))
    asked = re.compile(rf"(?<![\w.-])(?:{wanted})(?![\w-])", re.IGNORECASE)
    return any(asked.search(text) for text in _texts(file, set()))


def _texts(file: Path, read: set[Path]) -> Iterator[str]:
    """Yields the texts of a requirements file and of those that it includes. Skips missing ones: pip reports them."""
    if file in read or not file.is_file():
        return
    read.add(file)
    # All that is looked for is ASCII, also in UTF-16.
    marked = file.read_bytes().replace(b"\0", b"")
    text = _COMMENT.sub("", marked.lstrip(_MARKS).decode("utf-8", "replace"))
    yield text
    for name in _NESTED.findall(text):
        yield from _texts(file.parent / name, read)
