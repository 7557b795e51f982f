"""The page of what a job left in S3: its output and checkpoints, and what is in their archives."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sagelet_api.web import PREFIX
from sagelet_api.web.archives import LIMIT, Archives
from sagelet_api.web.folders import Entry, members_at, objects_at
from sagelet_api.web.objects import is_accounts
from sagelet_api.web.site import Site
from sagelet_engine.base.contents import Contents
from sagelet_engine.model.objects import S3Uri
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.s3.errors import DamagedObject, NoSuchKey

if TYPE_CHECKING:
    from flask import Blueprint

#: Entries of each place that the page shows. The folder's own page has all.
MOST = 100
#: Archives that a page opens without being asked for, and bytes that it unpacks of all of them together. The page links
#: to what is in the others.
MOST_ARCHIVES = 4
MOST_UNPACKED = 256 * 1024 * 1024


@dataclass(frozen=True)
class OpenedArchive:
    name: str
    uri: str
    #: None if the page has opened enough others.
    found: Contents | None
    entries: list[Entry]


@dataclass(frozen=True)
class S3Location:
    """Where a job leaves files."""

    title: str
    uri: str
    bucket: str
    entries: list[Entry]
    more: bool
    archives: list[OpenedArchive]


def blueprint(site: Site) -> "Blueprint":
    from flask import Blueprint, render_template

    routes = Blueprint("artifacts", __name__, url_prefix=f"{PREFIX}/jobs/<name>")
    archives = Archives(site)

    @routes.get("/artifacts")
    def page(name: str) -> str:
        job = site.job(name)
        opening = _Opening(archives)
        places = [_place(site, opening, job, title, uri) for title, uri in _uris(job)]
        return render_template("artifacts.html", job=job, places=places, tab="artifacts")

    return routes


def _uris(job: TrainingJob) -> list[tuple[str, S3Uri]]:
    found = [("Output", S3Uri.parse(f"{job.output_uri}/"))]
    if job.spec.checkpoint is not None:
        found.append(("Checkpoints", job.spec.checkpoint.target))
    return found


def _place(site: Site, opening: "_Opening", job: TrainingJob, title: str, uri: S3Uri) -> S3Location:
    if not is_accounts(site, job.key.account, uri.bucket):
        return S3Location(title, str(uri), uri.bucket, [], False, [])
    entries, more = objects_at(site.objects.catalog, uri, "", MOST)
    opened = [found for entry in entries if (found := opening.of(uri.bucket, entry)) is not None]
    return S3Location(title, str(uri), uri.bucket, entries, bool(more), opened)


class _Opening:
    """The archives that one request opens, within its bounds."""

    def __init__(self, archives: Archives) -> None:
        self._archives = archives
        self._opened = 0
        self._left = MOST_UNPACKED

    def of(self, bucket: str, entry: Entry) -> OpenedArchive | None:
        """Returns None if it is not an archive, or gone meanwhile."""
        if entry.is_folder or not entry.is_archive:
            return None
        uri = S3Uri(bucket, entry.key)
        if self._opened == MOST_ARCHIVES or self._left <= 0 or (entry.size or 0) > MOST_UNPACKED:
            return OpenedArchive(entry.name, str(uri), None, [])
        # Counts before it opens: to learn that an object is damaged may take as long as to read a whole one.
        self._opened += 1
        try:
            found = self._archives.contents(uri, most_bytes=self._left)
        except (NoSuchKey, DamagedObject):
            return None
        self._left -= found.unpacked
        return OpenedArchive(entry.name, str(uri), found, members_at(found.members, "")[:LIMIT])
