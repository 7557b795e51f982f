"""Who is logged in, if signatures are checked, because a browser cannot sign.

A login is a random name in a cookie. Logins are in memory: they end with the server, and after HOURS.
"""

import hmac
import secrets
import threading
import time
from collections.abc import Callable

from sagelet_engine.base.keys import KeyPair

HOURS = 12
#: Tokens of links that `sagelet up` has printed, unused.
LINK_HOURS = 1
#: Logins and links that exist at the same time. The oldest are dropped first.
MOST = 100


class Sessions:
    """Logins of one server. `now` returns seconds that only grow."""

    def __init__(self, keys: KeyPair, now: Callable[[], float] = time.monotonic) -> None:
        self._keys = keys
        self._now = now
        self._guard = threading.Lock()
        #: Names, and when they end.
        self._open: dict[str, float] = {}
        self._links: dict[str, float] = {}

    def link(self) -> str:
        """Returns a token for one login."""
        return self._made(self._links, LINK_HOURS)

    def by_link(self, token: str) -> str | None:
        """Returns a new login for an unused token, or None for any other."""
        with self._guard:
            end = self._links.pop(token, 0.0)
        return self._made(self._open, HOURS) if end > self._now() else None

    def by_keys(self, access_key: str, secret: str) -> str | None:
        """Returns a new login for the data directory's key pair, or None for any other."""
        known = hmac.compare_digest(access_key.encode(), self._keys.access_key.encode())
        proved = hmac.compare_digest(secret.encode(), self._keys.secret.encode())
        return self._made(self._open, HOURS) if known and proved else None

    def holds(self, session: str) -> bool:
        with self._guard:
            return self._open.get(session, 0.0) > self._now()

    def end(self, session: str) -> None:
        with self._guard:
            self._open.pop(session, None)

    def _made(self, kept: dict[str, float], hours: int) -> str:
        made = secrets.token_urlsafe(32)
        with self._guard:
            kept[made] = self._now() + hours * 3600
            while len(kept) > MOST:
                kept.pop(next(iter(kept)))
        return made
