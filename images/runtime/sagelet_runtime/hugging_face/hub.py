"""Clients of 2021 and 2022 at the hub that HF_ENDPOINT names. Those of today find it by themselves, and get no patch.

- transformers before 4.18 and huggingface_hub before 0.6 have the address of the Hub in a constant of theirs.
- datasets of 2021 looks for a name without an organisation on GitHub, and datasets before 2.14 knows no configurations
  but those of a script, so that `load_dataset("glue", "sst2")` of a data set without one takes all files. Both get the
  files of the configuration, as its card says, and the reader that `datasets` has for them.
- Clients before huggingface_hub 0.10 keep to themselves what the hub answers to a miss: its command is said in the log.
"""

from __future__ import annotations

import fnmatch
import functools
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import urlopen

from sagelet_runtime.say import say_once

ENDPOINT = "HF_ENDPOINT"
REAL = "https://huggingface.co"
_TIMEOUT = 60
#: The reader for files, by how they end.
_READERS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet", ".txt": "text"}


def activate() -> None:
    """Installs the hooks in this process; without those imports nothing happens."""
    from sagelet_runtime.hook import PostImport

    for name, after in (
        ("transformers.file_utils", install_transformers),
        ("transformers.utils.hub", tell_misses),
        ("huggingface_hub.constants", install_huggingface_hub),
        ("datasets.load", install_datasets),
    ):
        sys.meta_path.insert(0, PostImport(name, after))


def install_transformers(module: Any) -> None:
    tell_misses(module)
    endpoint = os.environ.get(ENDPOINT, REAL)
    if getattr(module, "HUGGINGFACE_CO_RESOLVE_ENDPOINT", endpoint) != REAL:
        return
    module.HUGGINGFACE_CO_RESOLVE_ENDPOINT = endpoint
    module.HUGGINGFACE_CO_PREFIX = endpoint + "/{model_id}/resolve/{revision}/{filename}"


def tell_misses(module: Any) -> None:
    own = getattr(module, "_raise_for_status", None)
    if own is None:
        return  # 4.22 and later leave that to huggingface_hub.

    @functools.wraps(own)
    def raise_for_status(response: Any) -> None:
        _tell(response.headers)
        own(response)

    module._raise_for_status = raise_for_status


def _tell(headers: Mapping[str, str]) -> None:
    """A missing file may be one that need not be there; a missing repository never is."""
    if headers.get("X-Error-Code") in ("RepoNotFound", "RevisionNotFound"):
        say_once(headers.get("X-Error-Message", ""))


def install_huggingface_hub(module: Any) -> None:
    endpoint = os.environ.get(ENDPOINT, REAL)
    if getattr(module, "ENDPOINT", endpoint) != REAL:
        return
    module.ENDPOINT = endpoint
    module.HUGGINGFACE_CO_URL_HOME = f"{endpoint}/"
    module.HUGGINGFACE_CO_URL_TEMPLATE = endpoint + "/{repo_id}/resolve/{revision}/{filename}"


def install_datasets(module: Any) -> None:
    if hasattr(module, "MetadataConfigs"):
        return  # 2.14 and later read the card.
    module.load_dataset_builder = _at_the_hub(module.load_dataset_builder)


def _at_the_hub(own: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(own)
    def load_dataset_builder(
        path: str, name: str | None = None, data_dir: Any = None, data_files: Any = None, *more: Any, **others: Any
    ) -> Any:
        endpoint = os.environ.get(ENDPOINT)
        if endpoint and data_dir is None and data_files is None and not os.path.exists(path):
            revision = others.get("revision") or others.get("script_version") or "main"
            path, data_files = find(endpoint, path, name, str(revision))
        return own(path, name, data_dir, data_files, *more, **others)

    return load_dataset_builder


def find(endpoint: str, path: str, name: str | None, revision: str) -> tuple[str, dict[str, list[str]] | None]:
    """What to load in place of a data set: a reader and its files by split, or the data set under its full name.

    One that the hub has not is left to the client, which says so.
    """
    base = f"{endpoint}/api/datasets/{path}"
    try:
        known = json.loads(_read(f"{base}/revision/{quote(revision, safe='')}"))
    except HTTPError as error:
        _tell(dict(error.headers.items()))
        return path, None
    except URLError:
        return path, None
    files = [one["rfilename"] for one in known["siblings"]]
    if f"{path.split('/')[-1]}.py" in files:
        return known["id"], None
    chosen = _configuration(endpoint, path, known["sha"], files, name)
    if chosen is None:
        return known["id"], None
    reader = next((_READERS[os.path.splitext(one)[1]] for found in chosen.values() for one in found), None)
    root = f"{endpoint}/datasets/{path}/resolve/{known['sha']}"
    return reader or path, {split: [f"{root}/{quote(one)}" for one in found] for split, found in chosen.items()}


def _configuration(
    endpoint: str, path: str, commit: str, files: list[str], name: str | None
) -> dict[str, list[str]] | None:
    """Files by split, as the data set's card has them; None: it says nothing of this configuration."""
    if "README.md" not in files:
        return None
    import yaml  # type: ignore[import-untyped]  # huggingface_hub needs it, too

    text = _read(f"{endpoint}/datasets/{path}/resolve/{commit}/README.md").decode("utf-8", "replace")
    if not text.startswith("---"):
        return None
    card = yaml.safe_load(text[3:].split("\n---", 1)[0]) or {}
    configurations = {one["config_name"]: one.get("data_files") for one in card.get("configs", ())}
    if name is None and len(configurations) == 1:
        name = next(iter(configurations))
    told = configurations.get(name or "default")
    if not isinstance(told, list):
        return None
    found = {str(one["split"]): _matching(one, files) for one in told}
    readable = all(os.path.splitext(one)[1] in _READERS for several in found.values() for one in several)
    return found if readable and all(found.values()) else None


def _matching(told: Mapping[str, Any], files: list[str]) -> list[str]:
    patterns = [told["path"]] if isinstance(told["path"], str) else told["path"]
    return [one for one in files if any(fnmatch.fnmatchcase(one, pattern) for pattern in patterns)]


def _read(url: str) -> bytes:
    with urlopen(url, timeout=_TIMEOUT) as answer:
        content: bytes = answer.read()
    return content
