"""The copy of a Pipe channel on the disk: its objects, numbered, and `units.jsonl`, which lists the units.

Units are shuffled and dealt to hosts. A unit is one object, or one line of an augmented manifest. It is a list of
parts. A part is the name of a file and its size (`{"file": "7", "size": 120}`), or a text (`{"text": "..."}`).
"""

import gzip
import json
import shutil
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sagelet_engine.base.errors import ClientFault
from sagelet_engine.data.channels import recordio
from sagelet_engine.data.channels.sources import JobObjects, listing
from sagelet_engine.data.channels.stream_plan import UNITS, Part
from sagelet_engine.model.objects import S3Uri
from sagelet_engine.model.spec import Channel, DataType

#: Attributes with this ending hold the S3 URI of an object, and the object is streamed in their place.
REFERENCE = "-ref"
_CHUNK = 1024 * 1024


class Spool:
    """Fills one channel's directory. Memory does not grow with the size of the objects or of a manifest."""

    def __init__(self, objects: JobObjects, channel: Channel, directory: Path) -> None:
        self._objects = objects
        self._channel = channel
        self._directory = directory
        #: Each object is fetched once, even if several lines refer to it.
        self._known: dict[S3Uri, Part] = {}

    def fill(self) -> None:
        """Fills the directory. Raises ClientFault if an object is missing, is not a gzip file, or does not fit into a
        record.
        """
        self._directory.mkdir(parents=True)
        augmented = self._channel.data_type is DataType.AUGMENTED_MANIFEST
        count = 0
        with (self._directory / UNITS).open("w", encoding="ascii") as units:
            for parts in self._lines() if augmented else self._single_objects():
                units.write(f"{json.dumps(parts)}\n")
                count += 1
        if not count:
            raise self._objects.none_of(self._channel)

    def _single_objects(self) -> Iterator[list[Part]]:
        for source in listing(self._objects, self._channel).sources:
            if not source.uri.key.endswith("/"):
                yield [self._fetched(source.uri)]

    def _lines(self) -> Iterator[list[Part]]:
        with self._objects.opened(self._channel.uri) as manifest:
            yield from self._parsed(manifest)

    def _parsed(self, manifest: Iterable[bytes]) -> Iterator[list[Part]]:
        for number, line in enumerate(manifest, 1):
            if not line.strip():
                continue
            try:
                entry = json.loads(line)
                values = [(name, entry[name]) for name in self._channel.attributes]
            except (ValueError, TypeError, RecursionError) as error:
                raise self._bad_line(number, "it is not a JSON object") from error
            except KeyError as error:
                raise self._bad_line(number, f"it has no attribute {error}") from error
            yield [self._part(name, value, number) for name, value in values]

    def _part(self, name: str, value: Any, number: int) -> Part:
        """Returns a part. A text stays as it is and any other value becomes JSON; AWS does not document how it writes a
        text.
        """
        if not name.endswith(REFERENCE):
            return {"text": value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}
        try:
            uri = S3Uri.parse(value)
        except (ValueError, AttributeError) as error:
            raise self._bad_line(number, f"its {name} is not the S3 URI of an object: {value!r}") from error
        return self._fetched(uri)

    def _fetched(self, uri: S3Uri) -> Part:
        if uri not in self._known:
            target = self._directory / str(len(self._known))
            # The feeder only reads. Unpacking makes another file.
            self._objects.download(uri, target, link=True)
            if self._channel.gzip:
                _decompress(target, uri)
            size = target.stat().st_size
            if self._channel.record_io and size > recordio.MAX_LENGTH:
                raise ClientFault(
                    f"Data download failed:{uri} ({size} bytes) does not fit into a RecordIO record of at most "
                    f"{recordio.MAX_LENGTH} bytes: split it, or stream it without RecordWrapperType"
                )
            self._known[uri] = {"file": target.name, "size": size}
        return self._known[uri]

    def _bad_line(self, number: int, why: str) -> ClientFault:
        return ClientFault(f"Data download failed:line {number} of the manifest {self._channel.uri}: {why}")


def _decompress(path: Path, uri: S3Uri) -> None:
    plain = path.with_suffix(".plain")
    try:
        with gzip.open(path) as packed, plain.open("wb") as out:
            shutil.copyfileobj(packed, out, _CHUNK)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ClientFault(f"Data download failed:{uri} is not a gzip file, as CompressionType says: {error}") from error
    plain.replace(path)
