"""Verdicts on PJRT plugins as entries of the compile cache, so that a job need not try a plugin that works.

A host writes `KEY.trial` (images/runtime, gpu/trial.py). Its key covers the plugin's file, the driver, the GPUs'
models, the versions of torch and torch_xla, sagelet's own code and the variables that matter.

What a host writes is hostile, and the server cannot check it: it has no GPU driver of its own, and the key is a digest.
So a verdict never leaves the account and the image of the jobs that wrote it. There a false one does no harm that the
account's jobs cannot do anyway, since they load what the others compiled: at worst a job uses a plugin that fails, or
leaves a good one unused for an hour. A job that fails takes back the verdicts that it used, so a wrong one costs one
job.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

from sagelet_engine.base import nofollow
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.compile_cache.store import CacheStore

SUFFIX = ".trial"
#: The mtime in s of a copy that no host has used.
UNREAD = 1
#: The most verdicts that are kept of one host: it has one driver and one plugin.
MOST = 4
#: Bytes of a verdict, and characters of its texts, at most.
LIMIT, REASON, API = 4096, 1000, re.compile(r"(\d{1,3}\.\d{1,4})?")
_NAME = re.compile(rf"[0-9a-f]{{64}}{re.escape(SUFFIX)}")


def take(store: CacheStore, account: str, image: str, opt_ml: Path, inner: str, now_ms: int) -> None:
    """Keeps the verdicts of a host, and notes which of the kept ones it used. No link is followed."""
    for name in _changed(opt_ml, inner)[:MOST]:
        verdict = _read(opt_ml, f"{inner}/{name}", now_ms)
        if verdict is None:
            continue
        body = json.dumps(verdict, sort_keys=True).encode()
        if store.body(account, image, name) != body:
            store.replace(account, image, name, body, now_ms)
        else:
            store.use(account, image, name, now_ms)


def take_back(store: CacheStore, account: str, image: str, opt_ml: Path, inner: str) -> None:
    """Drops the verdicts that a host of a failed job used or replaced: the next job tries the plugin again."""
    for name in _changed(opt_ml, inner):
        store.remove(account, image, name)


def lay_out(store: CacheStore, account: str, image: str, place: Path) -> None:
    """Copies an account's verdicts for an image into the directory `place`, before any host uses it."""
    for entry in sorted(store.directory(account, image).glob(f"*{SUFFIX}")):
        if _NAME.fullmatch(entry.name) and (body := store.body(account, image, entry.name)) is not None:
            copy = place / entry.name
            copy.write_bytes(body)
            os.utime(copy, (UNREAD, UNREAD))


def _changed(opt_ml: Path, inner: str) -> list[str]:
    """Returns the names of verdicts that the host wrote, or that it used, which sets their time."""
    try:
        with nofollow.directory(opt_ml, inner, listing=True) as opened:
            names = sorted(name for name in os.listdir(opened) if _NAME.fullmatch(name))
            return [name for name in names if os.stat(name, dir_fd=opened, follow_symlinks=False).st_mtime != UNREAD]
    except FileNotFoundError:
        return []


def _read(opt_ml: Path, file: str, now_ms: int) -> JsonObject | None:
    """Returns the verdict in a host's file. None if it has another shape."""
    try:
        content: Any = nofollow.read_json(opt_ml, file, LIMIT)
        works, reason, api, tried_s = (content[name] for name in ("works", "reason", "api", "tried_s"))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not isinstance(works, bool) or not isinstance(reason, str) or not isinstance(api, str):
        return None
    if type(tried_s) is not int or not API.fullmatch(api) or works == bool(reason):
        return None
    shown = "".join(character if character.isprintable() else "\ufffd" for character in reason[:REASON])
    # A time to come would let a failed trial count for ever.
    return {"works": works, "reason": shown, "api": api, "tried_s": max(0, min(tried_s, now_ms // 1000))}
