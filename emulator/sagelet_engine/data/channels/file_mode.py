"""Channels in File and FastFile mode: objects become files before the hosts start.

FastFile is read-only for the training code. Its files are links to those of the object store, so nothing is copied and
a job keeps the objects that it began with; they are copies if the runtime cannot keep the code from writing.
"""

import errno
import os
from collections.abc import Iterable
from pathlib import Path

from sagelet_engine.base.errors import ClientFault
from sagelet_engine.data.channels.dealing import dealt, shuffled
from sagelet_engine.data.channels.sources import JobObjects, Listing, Source, listing
from sagelet_engine.model import aws_texts
from sagelet_engine.model.objects import S3Uri
from sagelet_engine.model.spec import Channel, InputMode

#: Errors of the file system for keys that clash, or for a key with a part longer than a file name may be.
NO_PLACE = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)


def stage(
    objects: JobObjects, channel: Channel, directory: Path, host: int, hosts: int, *, protected: bool = False
) -> None:
    """Fills `directory/CHANNEL` with the share of one host, which counts from 0. Raises ClientFault.

    `protected`: the runtime keeps the training code from writing to a FastFile channel, so the channel may consist of
    links.
    """
    target, fast = directory / channel.name, channel.mode is InputMode.FAST_FILE
    everything = fill(objects, channel, target, host, hosts, link=fast and protected)
    if not fast:
        write_manifest(directory, channel.name, everything)
    elif not protected:
        _make_read_only(target)


def fill(objects: JobObjects, channel: Channel, target: Path, host: int, hosts: int, *, link: bool = False) -> Listing:
    """Fills a directory with the share of one host, which counts from 0. Returns all objects of the channel, in order.

    `link`: the files may be links. Raises ClientFault.
    """
    found = listing(objects, channel)
    if channel.mode is InputMode.FAST_FILE:
        _refuse_partial_prefix(channel.uri, found.sources)
    everything = shuffled(found.sources, channel.seed, epoch=0)
    share = dealt(everything, host, hosts) if channel.sharded else everything
    target.mkdir(parents=True, exist_ok=True)
    place(objects, channel.uri, share, target, link=link)
    return Listing(found.prefix, list(everything))


def place(objects: JobObjects, uri: S3Uri, sources: Iterable[Source], target: Path, *, link: bool = False) -> None:
    """Puts objects into a directory, as copies or as links. Raises ClientFault if their keys do not make file names."""
    try:
        for source in sources:
            path = inside(target, source.relative)
            if source.uri.key.endswith("/"):
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                raise FileExistsError(errno.EEXIST, "File exists", str(path))
            objects.download(source.uri, path, link=link)
    except OSError as error:
        if error.errno not in NO_PLACE:
            raise
        why = "a name is too long" if error.errno == errno.ENAMETOOLONG else "two objects need the same path"
        raise ClientFault(f"Data download failed:under {uri} {why}: {error}") from error


def inside(directory: Path, relative: str) -> Path:
    """Returns `directory/relative`. Raises ClientFault if the key would leave the directory (`..`)."""
    if "\0" in relative or any(part == ".." for part in relative.split("/")):
        raise ClientFault(f"Data download failed:the key part {relative!r} does not make a file name")
    return directory / relative.lstrip("/")


def write_manifest(directory: Path, name: str, found: Listing) -> None:
    """Writes `NAME-manifest` as in real containers: the prefix, then every object of the channel, whichever host has
    it.
    """
    with (directory / f"{name}-manifest").open("w", encoding="utf-8") as manifest:
        manifest.write(f"{found.prefix}\n")
        manifest.writelines(f"{source.uri}\n" for source in found.sources)


def _refuse_partial_prefix(uri: S3Uri, sources: Iterable[Source]) -> None:
    """Raises ClientFault for a partial prefix. The rule and the words are AWS's for FastFile."""
    if not uri.key or uri.key.endswith("/"):
        return
    for source in sources:
        key = source.uri.key
        if key != uri.key and not key.startswith(f"{uri.key}/"):
            raise ClientFault(f"Data download failed:{aws_texts.partial_prefix(uri.key, key)}")


def _make_read_only(directory: Path) -> None:
    """Makes files read-only. Directories must stay removable for a server that is not root; runtimes bind them
    read-only.
    """
    for place, _, names in os.walk(directory):
        for name in names:
            os.chmod(os.path.join(place, name), 0o444)
