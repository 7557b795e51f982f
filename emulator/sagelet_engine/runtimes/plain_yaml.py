"""Trees of JSON as YAML that people can read: enough for manifests, and no dependency for it."""

import json
import re
from typing import Any

#: Strings that every reader of YAML takes for strings. YAML 1.1 takes `no` and `on` for booleans.
_PLAIN = re.compile(r"(?!(?:true|false|null|yes|no|on|off|y|n)$)[A-Za-z][A-Za-z0-9_./-]*", re.IGNORECASE)


def documents(trees: list[dict[str, Any]]) -> str:
    """A stream of YAML documents, each with its line end."""
    return "---\n".join("\n".join(_block(tree, 0)) + "\n" for tree in trees)


def _block(value: Any, indent: int) -> list[str]:
    space = "  " * indent
    if isinstance(value, dict) and value:
        return [line for key, below in value.items() for line in _entry(f"{space}{_scalar(key)}:", below, indent)]
    if isinstance(value, list) and value:
        return [line for item in value for line in _item(item, indent)]
    return [f"{space}{_scalar(value)}"]


def _entry(head: str, value: Any, indent: int) -> list[str]:
    if isinstance(value, (dict, list)) and value:
        # A list stands as deep as its key, as kubectl writes it.
        return [head, *_block(value, indent if isinstance(value, list) else indent + 1)]
    return [f"{head} {_scalar(value)}"]


def _item(value: Any, indent: int) -> list[str]:
    first, *rest = _block(value, indent + 1)
    return [f"{'  ' * indent}- {first.lstrip()}", *rest]


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    return re.sub(r"[^ -~]", _escaped, json.dumps(value, ensure_ascii=False))


def _escaped(character: re.Match[str]) -> str:
    """JSON's escapes of characters beyond 16 bits are pairs of surrogates, which YAML takes for two characters."""
    number = ord(character[0])
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"
