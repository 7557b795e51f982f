"""Brings Hugging Face clients of 2021 and 2022 to the hub that HF_ENDPOINT names.

Current clients read HF_ENDPOINT themselves. For them only the log line about a missing repository is added.

- transformers before 4.18 and huggingface_hub before 0.6 have the Hub's address in a constant.
- datasets of 2021 looks on GitHub for a name without an organisation. datasets before 2.14 knows configurations only
  from scripts, so `load_dataset("glue", "sst2")` takes all files of a data set without a script. Both get the files
  that the data set's card lists for the configuration, and the matching reader of `datasets`.
- If something is missing, the log names the command that adds it. Clients before huggingface_hub 0.10 do not show the
  hub's answer. Libraries on top of current clients (datasets, transformers) raise errors that point to the real Hub.
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

from sagelet_runtime.base.say import say_once

ENDPOINT = "HF_ENDPOINT"
REAL = "https://huggingface.co"
_TIMEOUT = 60
#: The reader for files, by their suffix.
_READERS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet", ".txt": "text"}


def activate() -> None:
    """Installs the hooks in this process. Nothing else happens until a script imports one of the modules."""
    from sagelet_runtime.base.import_hook import PostImport

    for name, after in (
        ("transformers.file_utils", install_transformers),
        ("transformers.utils.hub", tell_misses),
        # The module of the function today, and its module in 2022.
        ("huggingface_hub.utils._http", tell_misses),
        ("huggingface_hub.utils._errors", tell_misses),
        ("huggingface_hub.constants", install_huggingface_hub),
        ("datasets.load", install_datasets),
        ("evaluate.utils.file_utils", install_evaluate),
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
    """Prints what the hub has answered when huggingface_hub, or transformers before 4.22, raises an error."""
    for name in ("hf_raise_for_status", "_raise_for_status"):
        own = getattr(module, name, None)
        if own is not None:
            setattr(module, name, _telling(own))


def _telling(own: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(own)
    def raise_for_status(response: Any, *more: Any, **others: Any) -> None:
        _tell(response.headers)
        own(response, *more, **others)

    return raise_for_status


def _tell(headers: Mapping[str, str]) -> None:
    """Prints the hub's message if a repository is missing. A missing file may be optional, so it is not printed."""
    if headers.get("X-Error-Code") in ("RepoNotFound", "RevisionNotFound"):
        say_once(headers.get("X-Error-Message", ""))


def install_evaluate(module: Any) -> None:
    """Prints what the hub has answered to `evaluate`, which asks it without huggingface_hub."""
    own = module._request_with_retry

    @functools.wraps(own)
    def request(*given: Any, **named: Any) -> Any:
        response = own(*given, **named)
        # The script did not ask for a missing revision: evaluate asks for that of its own version, and then for main.
        if response.headers.get("X-Error-Code") == "RepoNotFound":
            _tell(response.headers)
        return response

    module._request_with_retry = request


def install_huggingface_hub(module: Any) -> None:
    endpoint = os.environ.get(ENDPOINT, REAL)
    if getattr(module, "ENDPOINT", endpoint) != REAL:
        return
    module.ENDPOINT = endpoint
    module.HUGGINGFACE_CO_URL_HOME = f"{endpoint}/"
    module.HUGGINGFACE_CO_URL_TEMPLATE = endpoint + "/{repo_id}/resolve/{revision}/{filename}"


def install_datasets(module: Any) -> None:
    if hasattr(module, "MetadataConfigs"):
        return  # datasets 2.14 and later read the card themselves.
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
    """Returns what to load in place of a data set: a reader and its files by split, or the data set's full name.

    A data set that the hub does not have is left to the client, which reports it.
    """
    # `path` may be any text of a script, such as a directory that does not exist.
    quoted = quote(str(path))
    base = f"{endpoint}/api/datasets/{quoted}"
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
    chosen = _configuration(f"{endpoint}/datasets/{quoted}/resolve/{known['sha']}", files, name)
    if chosen is None:
        return known["id"], None
    reader = next((_READERS[os.path.splitext(one)[1]] for found in chosen.values() for one in found), None)
    root = f"{endpoint}/datasets/{quoted}/resolve/{known['sha']}"
    return reader or path, {split: [f"{root}/{quote(one)}" for one in found] for split, found in chosen.items()}


def _configuration(root: str, files: list[str], name: str | None) -> dict[str, list[str]] | None:
    """Returns the files by split from the data set's card, or None if it has nothing usable on this configuration."""
    if "README.md" not in files:
        return None
    import yaml  # type: ignore[import-untyped]  # huggingface_hub needs it, too

    text = _read(f"{root}/README.md").decode("utf-8", "replace")
    if not text.startswith("---"):
        return None
    try:
        told = _told(yaml.safe_load(text[3:].split("\n---", 1)[0]), name)
    except (yaml.YAMLError, AttributeError, KeyError, TypeError):
        return None  # The current `datasets` would not accept this card either.
    found = {split: _matching(patterns, files) for split, patterns in told.items()}
    readable = all(os.path.splitext(one)[1] in _READERS for several in found.values() for one in several)
    return found if found and readable and all(found.values()) else None


def _told(card: Any, name: str | None) -> dict[str, list[str]]:
    """Returns patterns by split from any form that a card may have. Empty if the card says nothing.

    Raises AttributeError, KeyError or TypeError for YAML of another form.
    """
    configurations = {one.get("config_name", "default"): one.get("data_files") for one in card.get("configs") or ()}
    if name is None and len(configurations) == 1:
        name = next(iter(configurations))
    told = configurations.get(name or "default")
    if told is None:
        return {}
    if isinstance(told, dict):
        told = [{"split": split, "path": patterns} for split, patterns in told.items()]
    if isinstance(told, str) or not any(isinstance(one, dict) for one in told):
        told = [{"split": "train", "path": told}]
    return {str(one["split"]): [one["path"]] if isinstance(one["path"], str) else [*one["path"]] for one in told}


def _matching(patterns: list[str], files: list[str]) -> list[str]:
    return [one for one in files if any(fnmatch.fnmatchcase(one, pattern) for pattern in patterns)]


def _read(url: str) -> bytes:
    with urlopen(url, timeout=_TIMEOUT) as answer:
        content: bytes = answer.read()
    return content
