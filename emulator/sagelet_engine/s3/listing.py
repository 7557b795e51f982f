"""Pages of a bucket's keys, with those that share a prefix up to a delimiter rolled into one entry."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from sagelet_engine.s3.catalog import Catalog
from sagelet_engine.s3.records import StoredObject

_FIRST, _MOST = 64, 1024
#: This character sorts after every key that begins with the text before it.
_END = b"\xff"


@dataclass
class Page:
    objects: list[StoredObject] = field(default_factory=list)
    common_prefixes: list[str] = field(default_factory=list)
    truncated: bool = False
    #: The last key or common prefix of the page. The next page begins after it.
    last: str = ""


def page(catalog: Catalog, bucket: str, prefix: str, delimiter: str, after: str, limit: int) -> Page:
    """Returns the next `limit` keys and common prefixes after `after`, in the order of their UTF-8 bytes."""
    found = Page()
    if not limit:
        return found
    # Without a delimiter each row is an entry, and one more row tells whether the page is the last.
    for entry in _entries(catalog, bucket, prefix, delimiter, after, _FIRST if delimiter else limit + 1):
        if len(found.objects) + len(found.common_prefixes) == limit:
            found.truncated = True
            break
        if isinstance(entry, StoredObject):
            found.objects.append(entry)
            found.last = entry.key
        else:
            found.common_prefixes.append(entry)
            found.last = entry
    return found


def _entries(
    catalog: Catalog, bucket: str, prefix: str, delimiter: str, after: str, size: int
) -> Iterator[StoredObject | str]:
    """Yields keys and common prefixes. `size`: rows that are read at first."""
    position = after.encode()
    while rows := catalog.under(bucket, prefix, position, inclusive=False, limit=size):
        size = min(size * 2, _MOST)
        for row in rows:
            group = _group(row.key, prefix, delimiter)
            if group is None:
                yield row
                position = row.key.encode()
                continue
            if group.encode() > after.encode():
                yield group
            position, size = group.encode() + _END, _FIRST
            break


def _group(key: str, prefix: str, delimiter: str) -> str | None:
    """Returns the common prefix that a key belongs to, or None if the key is listed by itself."""
    if not delimiter:
        return None
    cut = key.find(delimiter, len(prefix))
    return None if cut < 0 else key[: cut + len(delimiter)]
