"""What the hub knows of a repository, and the format in which it is stored."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sagelet_engine.base.errors import SageletError
from sagelet_engine.hub.names import COMMIT, MAIN, Kind, is_path, is_repository_id, is_revision

FORMAT = 1
#: The end of the year 9999.
_LATEST_MS = 253_402_300_799_999
#: From this size on, the Hub keeps a file in its large file storage, and names it by its SHA-256.
LARGE = 10 * 1024 * 1024
#: The Hub does the same with files of these names (the `.gitattributes` of a new repository there).
_LARGE_NAMES = re.compile(
    r".*\.(7z|arrow|bin|bz2|ckpt|ftz|gz|h5|joblib|mlmodel|model|msgpack|npy|npz|onnx|ot|parquet|pb|pickle|pkl|pt|pth"
    r"|rar|safetensors|tar|tflite|tgz|wasm|xz|zip|zst)"
)
_SHA256 = re.compile("[0-9a-f]{64}")


class DamagedRepository(SageletError):
    """The hub's record of a repository, or a file of one, is not what the hub wrote."""


@dataclass(frozen=True)
class HubFile:
    """A file of a repository, by its content."""

    #: Bytes.
    size: int
    #: In hexadecimal. It is also the file's name in the data directory.
    sha256: str
    #: Git's name of a blob with this content.
    blob: str


@dataclass(frozen=True)
class Commit:
    """The files of a repository at one time. A repository with the same files has the same commit."""

    id: str
    created_ms: int
    #: By path, in order.
    files: Mapping[str, HubFile]


@dataclass(frozen=True)
class Repository:
    kind: Kind
    id: str
    #: Names of revisions and their commits. MAIN need not be among them.
    refs: Mapping[str, str]
    commits: Mapping[str, Commit]

    def commit(self, revision: str) -> Commit | None:
        """Returns a commit by the name of a revision or by its number."""
        return self.commits.get(self.refs.get(revision, revision))

    @property
    def newest(self) -> Commit:
        """Returns MAIN's commit. Without MAIN, the commit that was added last."""
        return self.commit(MAIN) or max(self.commits.values(), key=lambda one: one.created_ms)

    @property
    def size(self) -> int:
        """Returns the bytes of all revisions. A file that several revisions have counts once."""
        return sum({file.sha256: file.size for one in self.commits.values() for file in one.files.values()}.values())


def files_of(repositories: Iterable[Repository]) -> list[HubFile]:
    """Returns the files of all revisions, each once."""
    found = [file for one in repositories for commit in one.commits.values() for file in commit.files.values()]
    return list({file.sha256: file for file in found}.values())


def is_large(path: str, file: HubFile) -> bool:
    """True if the Hub would keep the file in its large file storage."""
    return file.size >= LARGE or _LARGE_NAMES.fullmatch(path) is not None


def etag(path: str, file: HubFile) -> str:
    """Returns the Hub's ETag: the name of the content in large file storage, or in git."""
    return file.sha256 if is_large(path, file) else file.blob


def commit_of(kind: Kind, repository: str, files: Mapping[str, HubFile], now_ms: int) -> Commit:
    content = [kind.value, repository, sorted((path, file.size, file.sha256) for path, file in files.items())]
    number = hashlib.sha1(json.dumps(content).encode(), usedforsecurity=False).hexdigest()
    return Commit(number, now_ms, dict(sorted(files.items())))


def encoded(repository: Repository) -> bytes:
    return json.dumps(
        {
            "format": FORMAT,
            "kind": repository.kind.value,
            "id": repository.id,
            "refs": dict(repository.refs),
            "commits": {
                commit.id: {
                    "created_ms": commit.created_ms,
                    "files": {path: [file.size, file.sha256, file.blob] for path, file in commit.files.items()},
                }
                for commit in repository.commits.values()
            },
        }
    ).encode()


def decoded(data: bytes) -> Repository:
    """Returns a repository. Raises DamagedRepository. A record may come from an import, so it is checked like any
    input.
    """
    try:
        found = json.loads(data)
        if found["format"] != FORMAT:
            raise ValueError(f"format {found['format']!r}")
        commits = {number: _commit(number, one) for number, one in found["commits"].items()}
        repository = Repository(Kind(found["kind"]), found["id"], dict(found["refs"]), commits)
        fine = is_repository_id(repository.id) and commits and set(repository.refs.values()) <= set(commits)
        if not fine or not all(map(is_revision, repository.refs)):
            raise ValueError("names")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedRepository(f"it cannot be read: {error!r}") from error
    return repository


def _commit(number: str, found: Any) -> Commit:
    files = {path: _file(*entry) for path, entry in found["files"].items()}
    if not COMMIT.fullmatch(number) or not all(is_path(path) for path in files):
        raise ValueError(number)
    created_ms = int(found["created_ms"])
    if not 0 <= created_ms <= _LATEST_MS:
        raise ValueError(f"created_ms {created_ms}")
    return Commit(number, created_ms, files)


def _file(size: int, sha256: str, blob: str) -> HubFile:
    if size < 0 or not _SHA256.fullmatch(sha256) or not COMMIT.fullmatch(blob):
        raise ValueError(f"{size!r} {sha256!r} {blob!r}")
    return HubFile(size, sha256, blob)
