"""A Docker Engine in memory, as far as the build of images talks to one."""

import gzip
import io
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from docker.errors import APIError, ImageNotFound

from sagelet_engine.images.output import BuildEvent, EventKind


@dataclass
class EngineDouble:
    """A Docker Engine. `registry`: images to pull. `messages`: what the next build prints before it ends."""

    registry: set[str] = field(default_factory=set)
    local: dict[str, dict[str, str]] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)
    builds: list[dict[str, Any]] = field(default_factory=list)
    contexts: list[dict[str, bytes]] = field(default_factory=list)
    imports: list[dict[str, Any]] = field(default_factory=list)
    pulls: list[str] = field(default_factory=list)
    summaries: list[dict[str, Any]] = field(default_factory=list)
    architecture: str = "amd64"

    def info(self) -> dict[str, str]:
        return {"Architecture": self.architecture}

    @property
    def api(self) -> "EngineDouble":
        return self

    @property
    def images(self) -> Any:
        return _Images(self)

    def pull(
        self, repository: str, tag: str, platform: str | None, stream: bool, decode: bool
    ) -> Iterator[dict[str, Any]]:
        reference = f"{repository}:{tag}"
        self.pulls.append(reference if platform is None else f"{reference} {platform}")
        if reference not in self.registry:
            raise APIError("500 Server Error", explanation="no such host")
        yield {"id": "layer", "status": "Downloading", "progressDetail": {"current": 5, "total": 10}}
        self.local[reference] = {}

    def build(self, **arguments: Any) -> Iterator[dict[str, Any]]:
        self.builds.append(arguments)
        self.contexts.append(unpacked(arguments["fileobj"].read()))
        yield from self.messages
        if not any("error" in message for message in self.messages):
            self.local[arguments["tag"]] = arguments["labels"]

    def import_image_from_stream(self, stream: Iterable[bytes], changes: list[str]) -> str:
        self.imports.append({"content": b"".join(stream), "changes": changes})
        return '{"status":"Downloading from -"}\r\n{"status":"sha256:made"}\r\n'

    def tag(self, image: str, repository: str, tag: str) -> None:
        assert image == "sha256:made"
        self.local[f"{repository}:{tag}"] = {}


class _Images:
    def __init__(self, engine: EngineDouble) -> None:
        self._engine = engine

    def __call__(self, filters: dict[str, str]) -> list[dict[str, Any]]:
        return [summary for summary in self._engine.summaries if filters["label"] in summary["Labels"]]

    def get(self, reference: str) -> SimpleNamespace:
        if reference not in self._engine.local:
            raise ImageNotFound(reference)
        labels = self._engine.local[reference]
        architecture = labels.get("architecture", self._engine.architecture)
        return SimpleNamespace(id=f"sha256:{reference}", labels=labels, attrs={"Architecture": architecture})


def unpacked(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(archive))) as tar:
        files = ((member.name, tar.extractfile(member)) for member in tar)
        return {name: file.read() for name, file in files if file is not None}


class Recorder(list[BuildEvent]):
    def __call__(self, event: BuildEvent) -> None:
        self.append(event)

    def notes(self) -> str:
        return "\n".join(event.text for event in self if event.kind is EventKind.NOTE)
