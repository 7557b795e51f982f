"""Finds the objects of a channel: all under a prefix, or those that a manifest names."""

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sagelet_engine.base.errors import ClientFault
from sagelet_engine.model import aws_texts
from sagelet_engine.model.acting import of_job
from sagelet_engine.model.job import Job
from sagelet_engine.model.objects import ObjectDamaged, ObjectNotFound, ObjectStore, S3Uri
from sagelet_engine.model.principal import NotAuthorized
from sagelet_engine.model.spec import Channel, DataType

#: A manifest of ManifestFile is one JSON document, so it is parsed whole.
MAX_MANIFEST = 256 * 1024 * 1024


@dataclass(frozen=True)
class Source:
    """One object of a channel."""

    uri: S3Uri
    #: Its path in the channel's directory. Ends with `/` for a directory marker.
    relative: str


@dataclass(frozen=True)
class Listing:
    """All objects of a channel, in the order of their keys or of the manifest."""

    #: The common prefix of their keys, as the request or the manifest writes it.
    prefix: str
    sources: list[Source]


class JobObjects:
    """The object store as one job sees it. `attend` is called before each object; if it raises, the work ends."""

    def __init__(self, store: ObjectStore, job: Job, attend: Callable[[], None] = lambda: None) -> None:
        self._store = store
        self._job = job
        self._principal = of_job(job)
        self._attend = attend

    def under(self, uri: S3Uri) -> Iterator[Source]:
        """Yields all objects under a prefix, in key order. Empty if the bucket does not exist.

        Raises ClientFault, in AWS's words for an input without objects, if the role may not list the bucket.
        """
        try:
            for found in self._store.list(self._principal, uri.bucket, uri.key):
                yield Source(S3Uri(uri.bucket, found.key), relative_path(found.key, uri.key))
        except ObjectNotFound:
            return
        except NotAuthorized as error:
            explanation = no_objects(str(uri), self._job.key.region, self._job.spec.role)
            raise ClientFault(f"Data download failed:{explanation}") from error

    def download(self, uri: S3Uri, target: Path, *, link: bool = False) -> None:
        """Fetches an object. `link`: without a copy if possible; then nobody may write to `target`.

        Raises ClientFault if there is no such object, or if the role may not read it.
        """
        self._attend()
        try:
            fetch = self._store.link if link else self._store.download
            fetch(self._principal, uri.bucket, uri.key, target)
        except ObjectNotFound as error:
            raise ClientFault(f"Data download failed:the object {uri} does not exist") from error
        except NotAuthorized as error:
            raise ClientFault(aws_texts.download_denied(uri, str(error))) from error
        except ObjectDamaged as error:
            raise ClientFault(f"Data download failed:{error}") from error

    @contextmanager
    def opened(self, uri: S3Uri) -> Iterator[BinaryIO]:
        """Gives one object's bytes, from a copy on the disk. Raises ClientFault if there is no such object."""
        with tempfile.TemporaryDirectory(prefix="sagelet-") as directory:
            target = Path(directory, "object")
            self.download(uri, target)
            with target.open("rb") as data:
                yield data

    def none_of(self, channel: Channel) -> ClientFault:
        """Returns the error for a channel without objects, in AWS's words."""
        explanation = no_objects(channel.url, self._job.key.region, self._job.spec.role)
        return ClientFault(f"Data download failed:{explanation}")


def no_objects(uri: str, region: str, role: str) -> str:
    """Returns AWS's words for an input with nothing under its prefix."""
    return aws_texts.no_objects(uri, S3Uri.parse(uri).bucket, region, role)


def listing(objects: JobObjects, channel: Channel) -> Listing:
    """Returns the objects of a channel with data type S3Prefix or ManifestFile. Raises ClientFault if there are none,
    or for a bad manifest.
    """
    if channel.data_type is DataType.MANIFEST:
        return _from_manifest(objects, channel.uri)
    found = list(objects.under(channel.uri))
    if not found:
        raise objects.none_of(channel)
    return Listing(channel.uri.key, found)


def relative_path(key: str, prefix: str) -> str:
    """Returns the path of an object under an S3Prefix in its channel: its key without the prefix's directory."""
    if key == prefix:
        return key.rsplit("/", 1)[-1]
    if prefix.endswith("/") or key[len(prefix) :].startswith("/"):
        return key[len(prefix) :].lstrip("/")
    return key[prefix.rfind("/") + 1 :]


def _from_manifest(objects: JobObjects, uri: S3Uri) -> Listing:
    """Reads `[{"prefix": "s3://BUCKET/PREFIX"}, "relative", ...]` (API reference of S3DataSource)."""
    with objects.opened(uri) as data:
        text = data.read(MAX_MANIFEST + 1)
    if len(text) > MAX_MANIFEST:
        raise _bad_manifest(uri, f"it is larger than {MAX_MANIFEST} bytes; use several channels")
    try:
        head, *names = json.loads(text)
        prefix = S3Uri.parse(head["prefix"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _bad_manifest(uri, 'it must be a JSON list that begins with {"prefix": "s3://..."}') from error
    if not names or not all(isinstance(name, str) and name for name in names):
        raise _bad_manifest(uri, "after the prefix it must have one or more names of objects")
    return Listing(prefix.key, [Source(S3Uri(prefix.bucket, prefix.key + name), name) for name in names])


def _bad_manifest(uri: S3Uri, why: str) -> ClientFault:
    return ClientFault(f"Data download failed:the manifest {uri} is not valid: {why}")
