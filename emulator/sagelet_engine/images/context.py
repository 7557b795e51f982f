"""The build context of the training image: found in a checkout or in the wheel, written as a tar, hashed."""

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from tempfile import SpooledTemporaryFile
from typing import IO

import sagelet_engine
from sagelet_engine.images.output import BuildContextMissing

DOCKERFILE = "training/Dockerfile"
CA_BUNDLE = "training/ca-bundle.crt"
#: The whole context. Nothing else under `images/` is sent to the Docker daemon.
_PARTS = ("training", "runtime")
_IGNORED_DIRECTORIES = frozenset({"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"})
_IGNORED_SUFFIXES = frozenset({".pyc", ".pyo"})


def find_root() -> Path:
    """Returns the directory that holds `training/` and `runtime/`.

    An installed wheel has it as `sagelet/_images`. In a checkout it is `images/` beside `emulator/`.
    """
    package = Path(sagelet_engine.__file__).resolve().parent
    candidates = (package / "_images", package.parents[1] / "images")
    for candidate in candidates:
        if (candidate / DOCKERFILE).is_file():
            return candidate
    places = " nor ".join(str(candidate) for candidate in candidates)
    raise BuildContextMissing(f"No build context of the training image in {places}: install sagelet again")


@dataclass(frozen=True)
class BuildContext:
    """The files that a build sees.

    Owner, times and exact permissions of the files are ignored, so a clone, a wheel and a copy of one version have the
    same digest.
    """

    root: Path
    #: Files that replace those of `root`, by their paths inside the context.
    replaced: Mapping[str, bytes] = field(default_factory=dict)

    def files(self) -> Iterator[tuple[str, bytes, bool]]:
        """Yields path, content and executability of every file, in the order of their paths."""
        paths = [path for part in _PARTS for path in (self.root / part).rglob("*") if _belongs(path, self.root)]
        names = {path.relative_to(self.root).as_posix(): path for path in paths}
        for name in sorted(names.keys() | self.replaced.keys()):
            if name in self.replaced:
                yield name, self.replaced[name], False
                continue
            yield name, names[name].read_bytes(), _is_executable(name, names[name])

    @property
    def dockerfile(self) -> str:
        return (self.root / DOCKERFILE).read_text(encoding="utf-8")

    def digest(self, arguments: Mapping[str, str]) -> str:
        """Returns the SHA-256 of the files and the build arguments, in hexadecimal."""
        digest = hashlib.sha256()
        for name, content, executable in self.files():
            _feed(digest, "file", name, str(executable), hashlib.sha256(content).hexdigest())
        for key in sorted(arguments):
            _feed(digest, "argument", key, arguments[key])
        return digest.hexdigest()

    def tar(self) -> IO[bytes]:
        """Returns the context as a gzipped tar, at its start. Everything in it belongs to root."""
        stream: IO[bytes] = SpooledTemporaryFile(max_size=16 * 1024 * 1024)  # noqa: SIM115 (the caller closes it)
        with (
            gzip.GzipFile(fileobj=stream, mode="wb", mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for directory in sorted(self._directories()):
                archive.addfile(_member(directory, 0o755, tarfile.DIRTYPE))
            for name, content, executable in self.files():
                member = _member(name, 0o755 if executable else 0o644, tarfile.REGTYPE)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        stream.seek(0)
        return stream

    def _directories(self) -> set[str]:
        names = (PurePosixPath(name) for name, _, _ in self.files())
        return {parent.as_posix() for name in names for parent in name.parents if parent.name}


def _belongs(path: Path, root: Path) -> bool:
    inside = path.relative_to(root)
    if path.suffix in _IGNORED_SUFFIXES or _IGNORED_DIRECTORIES.intersection(inside.parts):
        return False
    return path.is_file()


def _is_executable(name: str, path: Path) -> bool:
    # A wheel does not always keep this permission. Files in runtime/bin are always commands.
    return name.startswith("runtime/bin/") or os.access(path, os.X_OK)


def _member(name: str, mode: int, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.mode, member.type = mode, kind
    member.uname = member.gname = "root"
    return member


def _feed(digest: "hashlib._Hash", *parts: str) -> None:
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "big"))
        digest.update(encoded)
