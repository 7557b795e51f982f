"""Objects of S3 for people: what is under a prefix, folder by folder, and each of them as text or as a download."""

import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote

from sagelet_api.auth.objects_origin import objects_host, presigned
from sagelet_api.protocol.file_body import FileBody
from sagelet_api.web import PREFIX
from sagelet_api.web.folders import crumbs, objects_at
from sagelet_api.web.site import Site, account_region
from sagelet_engine.model.objects import S3Uri
from sagelet_engine.s3.errors import DamagedObject, NoSuchBucket, NoSuchKey

if TYPE_CHECKING:
    from flask import Blueprint, Response
    from werkzeug.wrappers import Response as WerkzeugResponse

#: Objects of a page.
LIMIT = 200
#: Letters of a name that a browser is asked to save a file by, and that a page's title has.
MOST_NAME = 255
#: Bytes of a text that a page shows, and the share of them that may be invalid UTF-8.
MOST_SHOWN, MOST_STRANGE = 256 * 1024, 0.02


def blueprint(site: Site) -> "Blueprint":
    from flask import Blueprint, redirect, render_template, request, url_for

    routes = Blueprint("objects", __name__, url_prefix=PREFIX)

    @routes.get("/objects")
    def listed() -> str:
        """Shows one level under a prefix. `?uri=s3://BUCKET/PREFIX&after=KEY`."""
        with asked_for(site, request.args.get("uri", "")) as uri:
            entries, more = objects_at(site.objects.catalog, uri, request.args.get("after", ""), LIMIT)
        return render_template("objects.html", uri=uri, crumbs=crumbs(uri.key), entries=entries, more=more)

    @routes.get("/object")
    def download() -> "Response":
        """Returns an object. `?uri=s3://BUCKET/KEY`. It is always saved as a file: nothing of it is shown in the pages'
        own origin."""
        with asked_for(site, request.args.get("uri", "")) as uri:
            stored, data = site.objects.open(uri.bucket, uri.key)
        body = FileBody(data, 0, stored.size)
        answer = attached(body, uri.key, stored.size)
        answer.call_on_close(body.close)
        return answer

    @routes.get("/text")
    def preview() -> str:
        """Returns the beginning of an object as text. `?uri=s3://BUCKET/KEY`."""
        with asked_for(site, request.args.get("uri", "")) as uri:
            _, data = site.objects.open(uri.bucket, uri.key)
        with data:
            text, cut = text_of(data)
        return render_template("preview.html", uri=uri, name=uri.key, member=None, text=text, cut=cut)

    @routes.get("/show")
    def shown() -> "WerkzeugResponse":
        """Shows an object in the browser, on the objects' own origin. `?uri=s3://BUCKET/KEY`. Saves it as a file if
        there is no such origin."""
        with asked_for(site, request.args.get("uri", "")) as uri:
            site.objects.head(uri.bucket, uri.key)
        host = objects_host(request.host)
        here = account_region()
        if host is None:
            return redirect(url_for("objects.download", **{**here.query, "uri": str(uri)}))
        origin = f"{request.scheme}://{host}"
        return redirect(presigned(site.engine.keys, origin, here.account, here.region, uri.bucket, uri.key))

    return routes


def attached(body: Any, name: str, size: int) -> "Response":
    """Returns an answer that a browser saves and never shows."""
    from flask import Response

    answer = Response(body, mimetype="application/octet-stream", direct_passthrough=True)
    answer.content_length = size
    answer.headers.set("Content-Disposition", "attachment", **_named(name.rstrip("/").rpartition("/")[2]))
    answer.headers["Content-Security-Policy"] = "sandbox"
    return answer


def _named(name: str) -> dict[str, str]:
    """Returns the parameters that name a file (RFC 6266): the name in ASCII, and the name itself without invisible
    characters."""
    seen = "".join(character if character.isprintable() else "_" for character in name[:MOST_NAME])
    plain = unicodedata.normalize("NFKD", seen).encode("ascii", "ignore").decode()
    named = {"filename": plain}
    if plain != seen:
        named["filename*"] = f"UTF-8''{quote(seen, safe='')}"
    return named


def text_of(content: BinaryIO) -> tuple[str | None, bool]:
    """Returns the beginning of a file as text (None if it is not text), and True if the file goes on."""
    data = content.read(MOST_SHOWN + 1)
    if b"\0" in data:
        return None, False
    text = data[:MOST_SHOWN].decode("utf-8", "replace")
    if text.count("\ufffd") > len(text) * MOST_STRANGE + 1:
        return None, False
    return text, len(data) > MOST_SHOWN


@contextmanager
def asked_for(site: Site, text: str) -> Iterator[S3Uri]:
    """Gives the URI that the request names. A bucket of another account counts as missing, as it does for a job."""
    from werkzeug.exceptions import BadRequest, NotFound

    try:
        uri = S3Uri.parse(text)
    except ValueError as error:
        raise BadRequest(str(error)) from error
    try:
        if not is_accounts(site, account_region().account, uri.bucket):
            raise NoSuchBucket(uri.bucket)
        yield uri
    except (NoSuchBucket, NoSuchKey, DamagedObject) as error:
        raise NotFound(f"{text}: {error}") from error


def size_of(site: Site, account: str, uri: str) -> int | None:
    """Returns the size of an existing object in bytes."""
    parsed: Any = S3Uri.parse(uri)
    try:
        return site.objects.head(parsed.bucket, parsed.key).size if is_accounts(site, account, parsed.bucket) else None
    except NoSuchKey:
        return None


def is_accounts(site: Site, account: str, bucket: str) -> bool:
    """True if the account has a bucket of this name."""
    try:
        return bool(site.objects.catalog.bucket(bucket).account == account)
    except NoSuchBucket:
        return False
