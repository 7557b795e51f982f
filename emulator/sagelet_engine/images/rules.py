"""The rules that map image URIs, read from TOML. `rules.toml` beside this file explains their shape.

`sagelet image map` makes rules, too: `image-rules.toml` in the data directory, one URI a rule. They come before all
others, because each names exactly one URI. They are read for every job, so a running server uses them at once.
"""

import json
import re
import string
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sagelet_engine
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.base.keys import make_private, write_private

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

BUILT_IN = Path(__file__).with_name("rules.toml")
_KEYS = frozenset({"name", "match", "image", "gpu_image", "inductor_image", "dated", "dated_image", "refuse"})


@dataclass(frozen=True)
class Rule:
    name: str
    pattern: re.Pattern[str]
    #: The template of a local image's reference. None for a rule that refuses.
    image: str | None
    refusal: str | None
    #: Like `image`, for a job that has GPUs: several, separated by blanks. None if such a job gets `image`, too.
    gpu_image: str | None = None
    #: Like `image`, for a URI in which `dated` is found.
    dated_image: str | None = None
    dated: re.Pattern[str] | None = None
    #: Like `image`, for a job that asks for Inductor.
    inductor_image: str | None = None

    def image_for(self, match: re.Match[str]) -> str | None:
        return _filled(self.image, match)

    def gpu_images_for(self, match: re.Match[str]) -> tuple[str, ...]:
        return tuple((_filled(self.gpu_image, match) or "").split())

    def dated_image_for(self, match: re.Match[str]) -> str | None:
        found = self.dated is not None and self.dated.search(match.string)
        return _filled(self.dated_image, match) if found else None

    def inductor_image_for(self, match: re.Match[str]) -> str | None:
        return _filled(self.inductor_image, match)


def load_rules(path: Path) -> list[Rule]:
    """Returns the rules of a file, in order. Raises SettingsError, which names the file and the rule."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"The image rules {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"The image rules {path} are not TOML: {error}") from error
    entries = document.pop("rule", [])
    if document or not isinstance(entries, list):
        raise SettingsError(f"The image rules {path} may hold [[rule]] tables only{_found(document)}")
    return [_rule(path, number, entry) for number, entry in enumerate(entries, start=1)]


def _rule(path: Path, number: int, entry: Any) -> Rule:
    where = f"Rule {number} of the image rules {path}"
    if not isinstance(entry, dict) or not all(isinstance(value, str) for value in entry.values()):
        raise SettingsError(f"{where} must be a table of strings")
    name = entry.get("name", f"rule {number}")
    where = f"{where} ({name})" if "name" in entry else where
    if unknown := entry.keys() - _KEYS:
        raise SettingsError(
            f"{where} has unknown keys: {', '.join(sorted(unknown))}; known: {', '.join(sorted(_KEYS))}"
        )
    if "match" not in entry:
        raise SettingsError(f"{where} lacks `match`, a regular expression over the image URI")
    if ("image" in entry) == ("refuse" in entry):
        raise SettingsError(f"{where} must have either `image`, a local image, or `refuse`, a reason")
    for key in entry.keys() & {"gpu_image", "inductor_image"} if "image" not in entry else ():
        raise SettingsError(f"{where} has `{key}` without `image`, which other jobs get")
    if ("dated" in entry) != ("dated_image" in entry) or ("dated" in entry and "image" not in entry):
        raise SettingsError(f"{where}: `dated` and `dated_image` go together, beside `image`, which other jobs get")
    pattern = _pattern(where, "match", entry["match"])
    for key in entry.keys() & {"image", "gpu_image", "inductor_image", "dated_image"}:
        _check_image(where, key, entry[key], pattern)
    dated = _pattern(where, "dated", entry["dated"]) if "dated" in entry else None
    return Rule(
        name=name,
        pattern=pattern,
        image=entry.get("image"),
        refusal=entry.get("refuse"),
        gpu_image=entry.get("gpu_image"),
        dated_image=entry.get("dated_image"),
        dated=dated,
        inductor_image=entry.get("inductor_image"),
    )


def _pattern(where: str, key: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise SettingsError(f"{where}: `{key}` is not a regular expression: {error}") from error


def _check_image(where: str, key: str, template: str, pattern: re.Pattern[str]) -> None:
    known = _placeholders("", dict.fromkeys(pattern.groupindex, ""))
    try:
        fields = [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
        template.format_map(known)
    except (KeyError, ValueError, IndexError, AttributeError) as error:
        names = ", ".join(f"{{{name}}}" for name in known)
        raise SettingsError(f"{where}: `{key}` has a bad placeholder ({error}); known: {names}") from error
    if not template.strip() or not all(name in known for name in fields):
        raise SettingsError(f"{where}: `{key}` is not the name of an image: {template!r}")


def _filled(template: str | None, match: re.Match[str]) -> str | None:
    return None if template is None else template.format_map(_placeholders(match.string, match.groupdict()))


def _placeholders(uri: str, groups: Mapping[str, str | None]) -> dict[str, str]:
    return {**{name: value or "" for name, value in groups.items()}, "version": sagelet_engine.__version__, "uri": uri}


def _found(document: Mapping[str, object]) -> str:
    return f"; found: {', '.join(sorted(document))}" if document else ""


# --- the data directory's own rules: `sagelet image map` --------------------------------------------------------------

FILE = "image-rules.toml"
#: Prefix of the rules' names.
NAME = "mapped"


def mapped_rules(data: Path) -> list[Rule]:
    """Returns the rules; empty if there are none. Raises SettingsError, which names the file."""
    path = data / FILE
    return load_rules(path) if path.exists() else []


def mappings(data: Path) -> dict[str, str]:
    """Returns local images by URI. Raises SettingsError, also for a rule that this module did not make."""
    found = {}
    for rule in mapped_rules(data):
        uri = re.sub(r"\\(.)", r"\1", rule.pattern.pattern)
        more = any((rule.gpu_image, rule.dated_image, rule.inductor_image))
        if rule.image is None or more or re.escape(uri) != rule.pattern.pattern:
            raise SettingsError(
                f"{data / FILE} has a rule of another kind ({rule.name}): put rules of your own into a file for "
                "`sagelet up --image-rules`"
            )
        found[uri] = rule.image.replace("{{", "{").replace("}}", "}")
    return found


def put_mapping(data: Path, uri: str, image: str) -> None:
    """Makes `image` stand in for `uri` from now on. Raises SettingsError."""
    for what, text in (("image URI", uri), ("local image", image)):
        if not re.fullmatch(r"[!-~]+", text):
            raise SettingsError(
                f"{text!r} cannot be a {what}: it has a space, or a character that is not printable ASCII"
            )
    _write(data, {**mappings(data), uri: image})


def remove_mapping(data: Path, uri: str) -> None:
    """Removes a rule. Raises SettingsError if the URI has none."""
    found = mappings(data)
    if uri not in found:
        raise SettingsError(f"Nothing is mapped for {uri}: `sagelet image map` lists what is")
    del found[uri]
    _write(data, found)


def _write(data: Path, found: dict[str, str]) -> None:
    make_private(data)
    parts = ["# Made by `sagelet image map`.\n"]
    for uri, image in found.items():
        template = image.replace("{", "{{").replace("}", "}}")
        values = {"name": f"{NAME}: {uri}", "match": re.escape(uri), "image": template}
        # A JSON string whose only escapes are those of ASCII is a TOML string.
        parts.append("[[rule]]\n" + "".join(f"{key} = {_quoted(value)}\n" for key, value in values.items()))
    write_private(data / FILE, "\n".join(parts).encode())


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
