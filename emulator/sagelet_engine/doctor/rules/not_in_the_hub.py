"""A script that asks for something that the offline hub does not have."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity
from sagelet_engine.doctor.rules.failures import failed_at, last_error, last_match, quoted
from sagelet_engine.hub import families

_KIND = r"(?P<kind>model|dataset|space)"
_NAME = r"(?P<name>[\w][\w./-]*)"
#: The hub's messages: sagelet_api.hub.errors.
_MISSES = (
    re.compile(rf"sagelet's hub has no {_KIND} {_NAME}:"),
    re.compile(rf"sagelet's hub has the {_KIND} {_NAME}, but no revision (?P<revision>[\w][\w./-]*):"),
    re.compile(rf"The {_KIND} {_NAME} in sagelet's hub has no file (?P<file>[\w][\w./-]*):"),
)
_SAID = (r"sagelet's hub has (no|the) (model|dataset|space) ", r"\bin sagelet's hub has no file ")
#: Errors that name no repository, or a different one.
_TYPES = re.compile(
    r"^[\w.]*\b(RepositoryNotFound|RevisionNotFound|EntryNotFound|HfHubHTTP|HTTP|DatasetNotFound)Error\b"
)
_REAL = re.compile(r"https?://(datasets-server\.)?huggingface\.co\b")
_UNREACHED = re.compile(r"couldn't connect to|Max retries exceeded|Couldn't reach|Connection ?Error|Failed to resolve")
#: sagelet_api.serve.
_OFFLINE = re.compile(r"was not asked, because the server runs with --offline\b")
_KINDS = {"model": "model", "dataset": "data set", "space": "space"}
_FLAGS = {"model": "", "dataset": " --dataset", "space": " --space"}
_ELSE = (
    "A job with a network asks the real Hub by Environment={'HF_ENDPOINT': 'https://huggingface.co'} "
    "(`sagelet docs hub`)."
)
_ISOLATED = (
    "Bring the files in a channel, and give from_pretrained or load_dataset that directory in place of the name; or "
    "leave EnableNetworkIsolation out (`sagelet docs hub`)."
)
_ELSE_OFFLINE = "A server without --offline asks the real Hub (`sagelet docs hub`)."


class Miss(NamedTuple):
    """A request to the hub; `what` is missing. `offline`: the real one was not asked because of --offline."""

    kind: str
    name: str
    what: str
    revision: str
    offline: bool


def check(case: Case) -> Iterator[Seen]:
    error = last_error(case)
    if error is None:
        return
    miss, place = _miss(case), failed_at(case)
    if miss is not None and (miss.name.rpartition("/")[2] in error or _TYPES.match(error)):
        asked = ", and the server runs with --offline, so the real Hub was not asked" if miss.offline else ""
        text = f"sagelet's hub does not have {miss.what}{asked}: {quoted(error)}{case.sources.quoted(place)}"
        yield Seen(Severity.ERROR, text, place, instead=_instead(miss))
    elif _REAL.search(error) and _UNREACHED.search(error):
        isolated = case.setup.isolated and case.processing is None
        why = "which a job with EnableNetworkIsolation does not reach" if isolated else "and did not reach it"
        text = f"The script asked the real Hub, {why}: {quoted(error)}{case.sources.quoted(place)}"
        yield Seen(Severity.ERROR, text, place, instead=_ISOLATED if isolated else None)


def _miss(case: Case) -> Miss | None:
    """Returns the last miss. Scripts survive earlier ones, of files that are optional."""
    line = last_match(case, _SAID)
    found = next((found for pattern in _MISSES if (found := pattern.search(line))), None) if line else None
    if line is None or found is None:
        return None
    told = found.groupdict()
    what = f"the {_KINDS[told['kind']]} {told['name']}"
    parts = [f"{part} of " for part in (told.get("file"), told.get("revision")) if part]
    # The last line may be the toolkit's, which repeats the error and cuts it.
    offline = last_match(case, (_OFFLINE.pattern,)) is not None
    return Miss(told["kind"], told["name"], "".join(parts) + what, told.get("revision") or "", offline)


def _instead(miss: Miss) -> str:
    revision = f" --revision {miss.revision}" if miss.revision else ""
    add = f"Add it: `sagelet hub add DIR --as {miss.name}{_FLAGS[miss.kind]}{revision}`"
    tiny = "" if miss.kind != "model" or revision else f", or for a test `{families.command(miss.name)}`"
    return f"{add}{tiny}. {_ELSE_OFFLINE if miss.offline else _ELSE}"


RULE = Rule(
    name="not-in-the-hub",
    why="from_pretrained and load_dataset ask the hub of the data directory, which has what was added to it. For the "
    "rest it asks the real one, unless the server has no network or runs with --offline.",
    instead="Add it to the hub of the data directory: `sagelet hub add DIR --as NAME`. Jobs find that hub in "
    "HF_ENDPOINT, unless the server has --no-hub or their Environment sets HF_ENDPOINT. A job with "
    "EnableNetworkIsolation reaches no hub: bring the files in a channel (`sagelet docs hub`).",
    section=Section.HUB,
    check=check,
)
