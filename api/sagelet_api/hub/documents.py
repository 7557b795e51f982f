"""The documents of the Hub's API about a repository.

Source: recorded answers of huggingface.co, and what huggingface_hub 0.4 to 2.4 and datasets 1.18 to 5.2 read of them.
"""

import hashlib
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone

from sagelet_engine.base.wire import JsonObject
from sagelet_engine.hub.canonical import newest_name
from sagelet_engine.hub.names import Kind
from sagelet_engine.hub.records import Commit, HubFile, Repository, is_large

_AUTHOR = "sagelet"


def described(repository: Repository, commit: Commit, *, blobs: bool) -> JsonObject:
    """Returns the answer of `/api/models/ID`. `blobs`: with sizes and digests of the files."""
    # Clients use the name in the answer from then on, and those of 2026 take no data set without an organization.
    name = newest_name(repository.kind, repository.id)
    files = commit.files.items()
    return {
        "_id": hashlib.sha1(f"{repository.kind.value}/{name}".encode(), usedforsecurity=False).hexdigest()[:24],
        "id": name,
        **({"modelId": name} if repository.kind is Kind.MODEL else {}),
        "author": name.rpartition("/")[0] or None,
        "sha": commit.id,
        "createdAt": _time(min(one.created_ms for one in repository.commits.values())),
        "lastModified": _time(commit.created_ms),
        "private": False,
        "gated": False,
        "disabled": False,
        "downloads": 0,
        "likes": 0,
        "tags": [],
        "siblings": [{"rfilename": path, **(_blob(path, file) if blobs else {})} for path, file in files],
    }


def _blob(path: str, file: HubFile) -> JsonObject:
    found: JsonObject = {"size": file.size, "blobId": file.blob}
    if is_large(path, file):
        found["lfs"] = {"sha256": file.sha256, "size": file.size, "pointerSize": pointer_size(file)}
    return found


def tree(commit: Commit, above: str, *, recursive: bool, expand: bool) -> list[JsonObject] | None:
    """Returns the entries of a directory, or None if there is no such directory. `expand`: each with the commit that
    brought it.
    """
    prefix = f"{above}/" if above else ""
    below = {path: file for path, file in commit.files.items() if path.startswith(prefix)}
    if above and not below:
        return None
    seen: dict[str, JsonObject] = {}
    for path, file in below.items():
        for entry in _entries(commit, path.removeprefix(prefix), prefix, file, recursive=recursive):
            seen.setdefault(entry["path"], entry)
    return [_expanded(entry, commit) if expand else entry for entry in seen.values()]


def _entries(commit: Commit, inner: str, prefix: str, file: HubFile, *, recursive: bool) -> Iterator[JsonObject]:
    """Yields a file and the directories above it, as far as they are requested."""
    parts = inner.split("/")
    for depth in range(1, len(parts)):
        yield _directory(commit, prefix + "/".join(parts[:depth]))
        if not recursive:
            return
    yield _file(prefix + inner, file)


def entries_at(commit: Commit, paths: list[str], *, expand: bool) -> list[JsonObject]:
    """Returns entries of files and directories by their paths. Missing ones are left out."""
    found = []
    directories = _directories(commit)
    for path in dict.fromkeys(paths):
        file = commit.files.get(path)
        if file is not None:
            found.append(_file(path, file))
        elif path in directories:
            found.append(_directory(commit, path))
    return [_expanded(entry, commit) if expand else entry for entry in found]


def _directories(commit: Commit) -> set[str]:
    found: set[str] = set()
    for path in commit.files:
        while (path := path.rpartition("/")[0]) and path not in found:
            found.add(path)
    return found


def _file(path: str, file: HubFile) -> JsonObject:
    entry: JsonObject = {"type": "file", "oid": file.blob, "size": file.size, "path": path}
    if is_large(path, file):
        entry["lfs"] = {"oid": file.sha256, "size": file.size, "pointerSize": pointer_size(file)}
    return entry


def _directory(commit: Commit, path: str) -> JsonObject:
    number = hashlib.sha1(f"{commit.id} {path}".encode(), usedforsecurity=False).hexdigest()
    return {"type": "directory", "oid": number, "size": 0, "path": path}


def _expanded(entry: JsonObject, commit: Commit) -> JsonObject:
    last = {"id": commit.id, "title": "Add files", "date": _time(commit.created_ms)}
    return {**entry, "lastCommit": last}


def refs(repository: Repository) -> JsonObject:
    """Returns the branches: every name of a revision is a branch here."""
    branches = [{"name": name, "ref": f"refs/heads/{name}", "targetCommit": to} for name, to in repository.refs.items()]
    return {"branches": branches, "tags": [], "converts": []}


def commits(repository: Repository, commit: Commit) -> list[JsonObject]:
    """Returns the commit and its predecessors, the latest first."""
    before = [
        one
        for one in repository.commits.values()
        if one.created_ms <= commit.created_ms and one.files is not commit.files
    ]
    return [
        {
            "id": one.id,
            "title": "Add files",
            "message": "",
            "authors": [{"user": _AUTHOR}],
            "date": _time(one.created_ms),
        }
        for one in [commit, *sorted(before, key=lambda one: -one.created_ms)]
    ]


def pointer_size(file: HubFile) -> int:
    """Returns the size in bytes of the text that stands for a large file in git."""
    return len(f"version https://git-lfs.github.com/spec/v1\noid sha256:{file.sha256}\nsize {file.size}\n")


def matches(repository: Repository, query: Mapping[str, str]) -> bool:
    """True if a search of `/api/models` finds the repository."""
    word, author = query.get("search", "").lower(), query.get("author", "")
    return word in repository.id.lower() and (not author or repository.id.startswith(f"{author}/"))


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03}Z"
