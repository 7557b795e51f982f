"""`POST /_sagelet/reset`: the server lets go of its data directory, empties it and starts anew.

Whoever asks shows that the directory is theirs by a file that they made in it: a job's container reaches this endpoint,
too, but not the directory.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sagelet_engine.state.contents import SCOPES

if TYPE_CHECKING:
    from flask import Blueprint

#: Takes the scope of the reset, of SCOPES, and returns at once.
OnReset = Callable[[str], None]
PROOF = re.compile(r"\.reset-[0-9a-f]{32}")


def blueprint(data: Path, on_reset: OnReset | None) -> "Blueprint":
    """`on_reset`: None for a server that lives in somebody else's program."""
    from flask import Blueprint, request
    from werkzeug.exceptions import BadRequest, Conflict, Forbidden

    state = Blueprint("state", __name__)

    @state.post("/_sagelet/reset")
    def reset() -> tuple[dict[str, Any], int]:
        body = request.get_json(silent=True)
        scope, proof = (body.get("scope"), body.get("proof")) if isinstance(body, dict) else (None, None)
        if not isinstance(scope, str) or scope not in SCOPES:
            raise BadRequest(f"scope: must be one of {', '.join(SCOPES)}")
        if on_reset is None:
            raise Conflict("This server is part of another program: stop that, then reset the data directory")
        if not isinstance(proof, str) or not PROOF.fullmatch(proof) or not (data / proof).is_file():
            raise Forbidden(f"The server's data directory is {data}: name that with --data, on the server's machine")
        (data / proof).unlink()
        on_reset(scope)
        return {"scope": scope}, 202

    return state
