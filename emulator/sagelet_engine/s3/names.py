"""Turns a key into a file name, and back.

A key whose parts are good file names is stored under them, so that people find the bytes: `BUCKET/KEY`. Every other key
is stored under `.escaped/BUCKET/`, as its UTF-8 bytes, with all but `a-z 0-9 . _ -` written `%XX`. Names longer than
PIECE are cut into directories whose names end with `%`; no escape ends so. `unescaped` gives the key back.

Such keys have an empty part (also a key that ends with `/`), `.` or `..`, a part of more than 255 bytes, a NUL, or, on
a file system that takes `A` for `a`, a character that it could take for another. A key whose place is taken, as `a`
beside `a/b`, is stored there, too. The key alone does not show that, so the catalogue records where each object is.
"""

import re
from urllib.parse import unquote_to_bytes

ESCAPED = ".escaped"
#: Bytes of a file name that every file system known to us takes.
MAX_NAME = 255
PIECE = 200
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}", re.ASCII)
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789._-")


def is_bucket_name(name: str) -> bool:
    """True if a name can be a directory of the store's root. AWS's stricter rules are checked by the API."""
    return _BUCKET.fullmatch(name) is not None


def natural(bucket: str, key: str, *, folded: bool) -> str | None:
    """Returns the path of a key that makes good file names, or None for any other key. `folded`: the file system
    ignores case.
    """
    if "\0" in key or (folded and (key.lower() != key or not key.isascii())):
        return None
    if all(_is_name(part) for part in key.split("/")):
        return f"{bucket}/{key}"
    return None


def escaped(bucket: str, key: str) -> str:
    """Returns an escaped path that is unique for each key."""
    name = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in key.encode())
    # A dot in front would hide the file, and `.` and `..` are taken.
    name = f"%2E{name[1:]}" if name.startswith(".") else name
    pieces = []
    while len(name) > PIECE:
        cut = name.rfind("%", PIECE - 2, PIECE)
        end = cut if cut > 0 else PIECE
        pieces.append(f"{name[:end]}%")
        name = name[end:]
    return "/".join((ESCAPED, bucket, *pieces, name))


def unescaped(path: str) -> tuple[str, str]:
    """Returns the bucket and the key of a path that `escaped` made."""
    _, bucket, *pieces = path.split("/")
    name = "".join(piece.removesuffix("%") for piece in pieces)
    return bucket, unquote_to_bytes(name).decode()


def _is_name(part: str) -> bool:
    return part not in ("", ".", "..") and len(part.encode()) <= MAX_NAME
