"""Tokens for the next page: opaque to clients, so what comes back is checked like any other input."""

import base64
import hashlib
import json
from typing import Any

from sagelet_api.protocol.members import Request

Value = str | int | float | None
Kind = type[str] | type[int] | tuple[type, ...]


def fingerprint(request: Request) -> str:
    """A digest of the request except the size and place of the page: a token continues its own question only."""
    asked = {name: value for name, value in request.items() if name not in ("NextToken", "MaxResults")}
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


def encode(*values: Value) -> str:
    return base64.urlsafe_b64encode(json.dumps(values, separators=(",", ":")).encode()).decode()


def decode(token: str, *kinds: Kind) -> tuple[Any, ...] | None:
    """The values that `encode` was given, one of each of `kinds`, or None for anything that it did not make."""
    try:
        values = json.loads(base64.b64decode(token.encode(), altchars=b"-_", validate=True))
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, list) or len(values) != len(kinds):
        return None
    return tuple(values) if all(map(_is_a, values, kinds)) else None


def _is_a(value: Any, kind: Kind) -> bool:
    """Whether the value has the type and the store could compare with it: 64 bits, no lone surrogates."""
    if type(value) not in (kind if isinstance(kind, tuple) else (kind,)):
        return False
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return not isinstance(value, str) or not any("\ud800" <= char <= "\udfff" for char in value)
