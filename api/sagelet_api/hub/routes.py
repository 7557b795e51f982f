"""Finds what a path of the hub asks for.

The name of a repository has one part or two, and the path does not say which: a part that is a word of the API ends the
name. A revision is one part, quoted if it has slashes, so the path is split before it is unquoted.
"""

from dataclasses import dataclass
from enum import Enum
from urllib.parse import unquote

from sagelet_engine.hub.names import FILES, MAIN, WORDS, Kind, is_repository_id


class Asked(Enum):
    LIST = "list"
    INFO = "info"
    TREE = "tree"
    PATHS = "paths-info"
    REFS = "refs"
    COMMITS = "commits"
    FILE = "file"


@dataclass(frozen=True)
class Route:
    asked: Asked
    kind: Kind
    #: Empty for LIST.
    repository: str = ""
    revision: str = MAIN
    #: A file, or a directory for TREE. Empty for the repository itself.
    path: str = ""


def find_route(path: str) -> Route | None:
    """Returns the route, or None if the hub has none. `path` is quoted and begins after the hub's own path and its
    slash.
    """
    parts = path.split("/")
    return _api(parts[1:]) if parts[0] == "api" else _file(parts)


def _api(parts: list[str]) -> Route | None:
    kind = _kind(parts[0]) if parts else None
    if kind is None:
        return None
    if parts[1:] in ([], [""]):
        return Route(Asked.LIST, kind)
    cut = next((place for place in (2, 3) if len(parts) > place and parts[place] in WORDS), len(parts))
    repository = _repository(parts[1:cut])
    if repository is None:
        return None
    word, rest = (parts[cut], [unquote(part) for part in parts[cut + 1 :]]) if cut < len(parts) else ("", [])
    if not word:
        return Route(Asked.INFO, kind, repository)
    if word == "refs":
        return Route(Asked.REFS, kind, repository) if not rest else None
    if not rest:
        return None
    revision, inner = rest[0], "/".join(rest[1:]).strip("/")
    if word == "tree":
        return Route(Asked.TREE, kind, repository, revision, inner)
    asked = {"revision": Asked.INFO, "paths-info": Asked.PATHS, "commits": Asked.COMMITS}[word]
    return Route(asked, kind, repository, revision) if not inner else None


def _file(parts: list[str]) -> Route | None:
    """Parses `ID/resolve/REVISION/PATH`, with the kind in front of ID unless it is a model."""
    kind = _kind(parts[0])
    rest = parts if kind in (None, Kind.MODEL) else parts[1:]
    cut = next((place for place in (1, 2) if len(rest) > place and rest[place] in FILES), None)
    repository = None if cut is None else _repository(rest[:cut])
    if cut is None or repository is None or len(rest) < cut + 3:
        return None
    inner = "/".join(unquote(part) for part in rest[cut + 2 :])
    return Route(Asked.FILE, kind or Kind.MODEL, repository, unquote(rest[cut + 1]), inner)


def _kind(part: str) -> Kind | None:
    return next((kind for kind in Kind if kind.value == part), None)


def _repository(parts: list[str]) -> str | None:
    name = "/".join(unquote(part) for part in parts)
    return name if len(parts) in (1, 2) and is_repository_id(name) else None
