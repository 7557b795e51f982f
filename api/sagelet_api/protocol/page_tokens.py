"""Tokens for the next page. They are opaque to clients, so a token that comes back is checked like any other input."""

import base64
import hashlib
import json
from typing import Any

from sagelet_api.protocol.members import Request
from sagelet_api.protocol.operations import Context

#: The members that say where a page begins and how long it is.
_PLACES = frozenset({"NextToken", "MaxResults", "nextToken", "limit"})
Value = str | int | float | None
Kind = type[str] | type[int] | tuple[type, ...]


def fingerprint(context: Context, request: Request) -> str:
    """Returns a digest of the operation, its account and region, and the request without the size and place of the
    page. A token only continues what it came from.
    """
    asked = {name: value for name, value in request.items() if name not in _PLACES}
    whose = [context.operation, context.account, context.region, asked]
    return hashlib.sha256(json.dumps(whose, sort_keys=True).encode()).hexdigest()[:16]


def encode(*values: Value) -> str:
    return base64.urlsafe_b64encode(json.dumps(values, separators=(",", ":")).encode()).decode()


def decode(token: str, *kinds: Kind) -> tuple[Any, ...] | None:
    """Returns the values that `encode` was given, one of each of `kinds`. None for a text that `encode` did not
    make.
    """
    try:
        values = json.loads(base64.b64decode(token.encode(), altchars=b"-_", validate=True))
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, list) or len(values) != len(kinds):
        return None
    return tuple(values) if all(map(_is_a, values, kinds)) else None


def _is_a(value: Any, kind: Kind) -> bool:
    """True if the value has the type and the store could compare with it: 64 bits, no lone surrogates."""
    if type(value) not in (kind if isinstance(kind, tuple) else (kind,)):
        return False
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return not isinstance(value, str) or not any("\ud800" <= char <= "\udfff" for char in value)
