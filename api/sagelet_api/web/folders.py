"""Folders for people: objects and members of archives have names with slashes, and a page shows a level at a time."""

from collections.abc import Iterable
from dataclasses import dataclass

from sagelet_engine.base.contents import Member
from sagelet_engine.model.objects import S3Uri
from sagelet_engine.s3.catalog import Catalog

#: Letters of a name that a page shows: as many as a file's name may have.
MOST_SHOWN = 255
#: Folders above a level that a page links to: the first, and the last ones.
MOST_CRUMBS = 30
#: Names of archives whose members can be shown.
ARCHIVES = (".tar.gz", ".tgz", ".tar")


@dataclass(frozen=True)
class Entry:
    """A folder, or a file. `name` is relative to the level that is shown; a folder's ends with a slash."""

    name: str
    #: Bytes. For a folder of an archive: those of the files in it.
    size: int | None = None
    modified_ms: int | None = None
    #: The object's key (a folder's prefix), or the folder's path in an archive.
    key: str = ""
    #: Position of the member in the archive. None for a folder, and for an entry that cannot be read.
    index: int | None = None
    #: `link to ...`, `12 files`.
    note: str = ""

    @property
    def shown(self) -> str:
        """The name, cut to what a page shows of it."""
        return self.name if len(self.name) <= MOST_SHOWN else f"{self.name[:MOST_SHOWN]}…"

    @property
    def is_folder(self) -> bool:
        return self.name.endswith("/")

    @property
    def is_archive(self) -> bool:
        return self.name.lower().endswith(ARCHIVES)


@dataclass(frozen=True)
class Crumb:
    """A folder above the one that is shown."""

    name: str
    key: str


def crumbs(path: str) -> list[Crumb]:
    """Splits `a/b/c` into `a/`, `a/b/`. The part after the last slash is not a folder.

    Returns at most MOST_CRUMBS: each has the whole path to it, so all of a deep path would be as long as its square.
    """
    ends = [place + 1 for place, character in enumerate(path) if character == "/"]
    pairs = list(zip([0, *ends], ends, strict=False))
    if len(pairs) > MOST_CRUMBS:
        pairs = [pairs[0], *pairs[1 - MOST_CRUMBS :]]
    return [Crumb(_cut(path[start:end]), path[:end]) for start, end in pairs]


def _cut(name: str) -> str:
    return name if len(name) <= MOST_SHOWN else f"{name[:MOST_SHOWN]}…/"


def objects_at(catalog: Catalog, uri: S3Uri, after: str, limit: int) -> tuple[list[Entry], str]:
    """Returns a level of the objects under a prefix, and the key or folder after which to continue. That is empty at
    the end."""
    above = uri.key.rfind("/") + 1
    start, inclusive = _behind(after)
    entries: list[Entry] = []
    while True:
        wanted = limit + 1 - len(entries)
        found = catalog.under(uri.bucket, uri.key, start, inclusive=inclusive, limit=wanted)
        for one in found:
            folder = _folder(one.key, len(uri.key))
            if folder:
                entries.append(Entry(folder[above:], key=folder))
                start, inclusive = _behind(folder)
                break
            start, inclusive = _behind(one.key)
            if one.key != uri.key or not one.key.endswith("/"):
                entries.append(Entry(one.key[above:], one.size, one.modified_ms, one.key))
        else:
            if len(found) < wanted:
                return entries, ""
        if len(entries) > limit:
            return entries[:limit], entries[limit - 1].key


def _folder(key: str, after: int) -> str:
    """Returns the key up to its first slash after the prefix. Empty if it has no slash there."""
    slash = key.find("/", after)
    return key[: slash + 1] if slash >= 0 else ""


def _behind(key: str) -> tuple[bytes, bool]:
    """Returns where to go on after a key, and True if a key at that place counts. A folder's keys come before it."""
    if key.endswith("/"):
        return key[:-1].encode() + b"0", True  # The character after "/".
    return key.encode(), not key


def members_at(members: Iterable[Member], path: str) -> list[Entry]:
    """Returns a level of an archive: first the folders, with the sizes of what is in them, then the files."""
    folders: dict[str, tuple[int, int]] = {}
    files: list[Entry] = []
    for member in members:
        name = _plain(member)
        if not name.startswith(path) or name == path:
            continue
        inner, slash, _ = name[len(path) :].partition("/")
        if slash:
            count, size = folders.get(inner, (0, 0))
            is_file = member.kind != "directory"
            folders[inner] = (count + is_file, size + (member.size if is_file else 0))
            continue
        note = (
            f"link to {member.target[:MOST_SHOWN]}"
            if member.kind == "link"
            else ""
            if member.kind == "file"
            else "special file"
        )
        index = member.index if member.kind == "file" else None
        files.append(Entry(inner, member.size, member.modified_ms, index=index, note=note))
    above = [
        Entry(f"{name}/", size, key=f"{path}{name}/", note=f"{count} file{'' if count == 1 else 's'}")
        for name, (count, size) in sorted(folders.items())
    ]
    return above + sorted(files, key=lambda entry: entry.name)


def _plain(member: Member) -> str:
    """Returns a member's name in its plain form: `./a//b` -> `a/b`. A directory's name ends with a slash."""
    parts = [part for part in member.name.split("/") if part not in ("", ".")]
    return "/".join(parts) + ("/" if member.kind == "directory" else "")
