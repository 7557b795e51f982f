"""Objects of S3 for people: what is under a prefix, and each of them as a download."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sagelet_api.auth.objects_origin import objects_host, presigned
from sagelet_api.protocol.file_body import FileBody
from sagelet_api.web import PREFIX
from sagelet_api.web.site import Site, place
from sagelet_engine.model.objects import S3Uri
from sagelet_engine.s3.errors import DamagedObject, NoSuchBucket, NoSuchKey

if TYPE_CHECKING:
    from flask import Blueprint, Response
    from werkzeug.wrappers import Response as WerkzeugResponse

#: Objects of a page.
LIMIT = 200


def blueprint(site: Site) -> "Blueprint":
    from flask import Blueprint, Response, redirect, render_template, request, url_for

    routes = Blueprint("objects", __name__, url_prefix=PREFIX)

    @routes.get("/objects")
    def listed() -> str:
        """`?uri=s3://BUCKET/PREFIX&after=KEY`."""
        with _asked(site, request.args.get("uri", "")) as uri:
            after = request.args.get("after", "")
            found = site.objects.catalog.under(
                uri.bucket, uri.key, after.encode(), inclusive=not after, limit=LIMIT + 1
            )
        more = found[LIMIT - 1].key if len(found) > LIMIT else ""
        return render_template("objects.html", uri=uri, objects=found[:LIMIT], more=more)

    @routes.get("/object")
    def download() -> "Response":
        """`?uri=s3://BUCKET/KEY`. Always as a file: nothing of it is shown in the pages' own origin."""
        with _asked(site, request.args.get("uri", "")) as uri:
            stored, data = site.objects.open(uri.bucket, uri.key)
        body = FileBody(data, 0, stored.size)
        answer = Response(body, mimetype="application/octet-stream", direct_passthrough=True)
        answer.content_length = stored.size
        answer.call_on_close(body.close)
        name = uri.key.rstrip("/").rpartition("/")[2]
        answer.headers.set("Content-Disposition", "attachment", filename=name)
        answer.headers["Content-Security-Policy"] = "sandbox"
        return answer

    @routes.get("/show")
    def shown() -> "WerkzeugResponse":
        """`?uri=s3://BUCKET/KEY`. In the browser, on the objects' own origin; as a file where there is none."""
        with _asked(site, request.args.get("uri", "")) as uri:
            site.objects.head(uri.bucket, uri.key)
        host = objects_host(request.host)
        here = place()
        if host is None:
            return redirect(url_for("objects.download", **{**here.query, "uri": str(uri)}))
        origin = f"{request.scheme}://{host}"
        return redirect(presigned(site.engine.keys, origin, here.account, here.region, uri.bucket, uri.key))

    return routes


@contextmanager
def _asked(site: Site, text: str) -> Iterator[S3Uri]:
    """The URI; a bucket of another account is not there, as for a job."""
    from werkzeug.exceptions import BadRequest, NotFound

    try:
        uri = S3Uri.parse(text)
    except ValueError as error:
        raise BadRequest(str(error)) from error
    try:
        if site.objects.catalog.bucket(uri.bucket).account != place().account:
            raise NoSuchBucket(uri.bucket)
        yield uri
    except (NoSuchBucket, NoSuchKey, DamagedObject) as error:
        raise NotFound(f"{text}: {error}") from error


def size_of(site: Site, account: str, uri: str) -> int | None:
    """Bytes of an object that is there."""
    parsed: Any = S3Uri.parse(uri)
    try:
        if site.objects.catalog.bucket(parsed.bucket).account != account:
            return None
        return site.objects.head(parsed.bucket, parsed.key).size
    except (NoSuchBucket, NoSuchKey):
        return None
