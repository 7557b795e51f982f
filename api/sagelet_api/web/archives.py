"""What is in an archive, a model.tar.gz for example: its folders, and its files as text or as downloads."""

import tarfile
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, BinaryIO

from sagelet_api.web import PREFIX
from sagelet_api.web.folders import MOST_SHOWN, crumbs, members_at
from sagelet_api.web.objects import asked_for, attached, text_of
from sagelet_api.web.site import Site
from sagelet_engine.base.contents import MOST_BYTES, Contents, Member, contents, member_at
from sagelet_engine.base.extraction import MOST_NAME
from sagelet_engine.model.objects import S3Uri

if TYPE_CHECKING:
    from flask import Blueprint, Response

#: Entries of a level that a page shows.
LIMIT = 500
#: Number of archives whose members are remembered. An object's file never changes, so they stay true.
MOST_REMEMBERED = 32
_CHUNK = 256 * 1024


class Archives:
    """Lists members of archives. It remembers the last lists, because listing a large archive takes seconds."""

    def __init__(self, site: Site) -> None:
        self._objects = site.objects
        self._known: OrderedDict[str, Contents] = OrderedDict()

    def contents(self, uri: S3Uri, *, most_bytes: int = MOST_BYTES) -> Contents:
        """Returns what is in an archive, as far as unpacking at most so many bytes shows it.

        Only an answer that more bytes would not change is remembered. Raises NoSuchKey, DamagedObject.
        """
        stored, data = self._objects.open(uri.bucket, uri.key)
        with data:
            known = self._known.get(stored.file_id)
            if known is None:
                known = contents(data, most_bytes=most_bytes)
                if known.unpacked <= most_bytes or most_bytes == MOST_BYTES:
                    self._known[stored.file_id] = known
                while len(self._known) > MOST_REMEMBERED:
                    self._known.popitem(last=False)
        return known


def blueprint(site: Site) -> "Blueprint":
    from flask import Blueprint, render_template, request

    routes = Blueprint("archives", __name__, url_prefix=f"{PREFIX}/inside")
    archives = Archives(site)

    @routes.get("")
    def page() -> str:
        """Shows one level of an archive. `?uri=s3://BUCKET/KEY&path=`."""
        path = request.args.get("path", "")[:MOST_NAME]
        with asked_for(site, request.args.get("uri", "")) as uri:
            found = archives.contents(uri)
        entries = members_at(found.members, path)
        return render_template(
            "archive.html", uri=uri, path=path, crumbs=crumbs(path), entries=entries[:LIMIT],
            left_out=len(entries) - LIMIT, found=found,
        )  # fmt: skip

    @routes.get("/file")
    def download() -> "Response":
        """Returns a member of an archive. `?uri=&member=INDEX`. It is always saved as a file, as an object is."""
        stack = ExitStack()
        with asked_for(site, request.args.get("uri", "")) as uri:
            member, content = stack.enter_context(_member(site, uri))
        return attached(_chunks(content, stack), member.name, member.size)

    @routes.get("/text")
    def preview() -> str:
        """Returns the beginning of a member as text. `?uri=&member=INDEX`."""
        with asked_for(site, request.args.get("uri", "")) as uri, _member(site, uri) as (member, content):
            text, cut = text_of(content)
        return render_template(
            "preview.html", uri=uri, name=member.name[:MOST_SHOWN], member=member, text=text, cut=cut
        )

    return routes


@contextmanager
def _member(site: Site, uri: S3Uri) -> Iterator[tuple[Member, BinaryIO]]:
    """Returns the member that the request asks for. Raises werkzeug's NotFound."""
    from flask import request
    from werkzeug.exceptions import NotFound

    index = request.args.get("member", -1, type=int)
    _, data = site.objects.open(uri.bucket, uri.key)
    with data:
        try:
            with member_at(data, index) as found:
                yield found
        except (KeyError, tarfile.TarError) as error:
            raise NotFound(f"{uri} has no file {index} that can be read.") from error


def _chunks(content: BinaryIO, opened: ExitStack) -> Iterator[bytes]:
    """Closes what is opened at its end: the answer that it is the body of may be gone by then."""
    with opened:
        while chunk := content.read(_CHUNK):
            yield chunk
