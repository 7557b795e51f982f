"""The control endpoints of the data directory.

`POST /_sagelet/reset`: the server releases its data directory, empties it and starts anew. `/_sagelet/gc`: it removes
files that are not needed any more. `/_sagelet/empty-account`: it stops what runs in an account, and removes its
buckets and its IAM.

The caller proves with a file in the directory that the directory is theirs. A job's container reaches this endpoint,
too, but not the directory.
"""

import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from sagelet_engine.base.wire import JsonObject
from sagelet_engine.retention.gc import Keep
from sagelet_engine.state.contents import SCOPES
from sagelet_engine.state.garbage import Garbage, Rules

if TYPE_CHECKING:
    from flask import Blueprint

#: Takes the scope of the reset, one of SCOPES, and returns at once.
OnReset = Callable[[str], None]
#: Collects garbage by rules. The second argument is True for a dry run.
OnGarbage = Callable[[Rules, bool], Garbage]
#: Empties an account. Returns the number of jobs and orchestrations that were asked to stop, and of removed buckets.
OnEmpty = Callable[[str], tuple[int, int]]
ACCOUNT = re.compile(r"\d{12}", re.ASCII)
#: A file in the data directory.
PROOF = re.compile(r"\.proof-[0-9a-f]{32}")
#: What a body of `gc` may say, as Keep and Rules have it: seconds or bytes, or null for no limit.
LIMITS = ("files_seconds", "files_bytes", "jobs_seconds", "uploads_seconds")
#: The most of them: JSON's readers know no larger whole number, and SQLite counts ms with 63 bits.
MOST_LIMIT = 2**53


def blueprint(data: Path, on_reset: OnReset | None, on_garbage: OnGarbage, on_empty: OnEmpty) -> "Blueprint":
    """Returns the control endpoints of a data directory. `on_reset` is None for a server inside another program."""
    from flask import Blueprint, request
    from werkzeug.exceptions import BadRequest, Conflict, Forbidden

    state = Blueprint("state", __name__)

    def said() -> JsonObject:
        body = request.get_json(silent=True)
        return body if isinstance(body, dict) else {}

    def check_proof(body: JsonObject) -> None:
        proof = body.get("proof")
        if not isinstance(proof, str) or not PROOF.fullmatch(proof) or not (data / proof).is_file():
            raise Forbidden(f"The server's data directory is {data}: name that with --data, on the server's machine")
        (data / proof).unlink()

    @state.post("/_sagelet/gc")
    def collect() -> JsonObject:
        body = said()
        limits = [body.get(name) for name in LIMITS]
        for name, limit in zip(LIMITS, limits, strict=True):
            if limit is not None and not _is_limit(limit):
                raise BadRequest(f"{name}: must be a whole number from 0 to {MOST_LIMIT}, or null")
        check_proof(body)
        *keep, uploads = limits
        return asdict(on_garbage(Rules(Keep(*keep), uploads), body.get("dry_run") is True))

    @state.post("/_sagelet/empty-account")
    def empty() -> JsonObject:
        body = said()
        account = body.get("account")
        if not isinstance(account, str) or not ACCOUNT.fullmatch(account):
            raise BadRequest("account: must be an account number of 12 digits")
        check_proof(body)
        stopped, buckets = on_empty(account)
        return {"stopped": stopped, "buckets": buckets}

    @state.post("/_sagelet/reset")
    def reset() -> tuple[JsonObject, int]:
        body = said()
        scope = body.get("scope")
        if not isinstance(scope, str) or scope not in SCOPES:
            raise BadRequest(f"scope: must be one of {', '.join(SCOPES)}")
        if on_reset is None:
            raise Conflict("This server is part of another program: stop that program, then reset the data directory")
        check_proof(body)
        on_reset(scope)
        return {"scope": scope}, 202

    return state


def _is_limit(limit: object) -> bool:
    return isinstance(limit, int) and not isinstance(limit, bool) and 0 <= limit <= MOST_LIMIT
