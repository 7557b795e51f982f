"""The image rules that `sagelet image map` makes: `image-rules.toml` in the data directory, one URI a rule.

They come before all others, since whoever made one named just that URI. They are read for every job, so a server that
runs heeds them at once.
"""

import json
import re
from pathlib import Path

from sagelet_engine.errors import SettingsError
from sagelet_engine.images.rules import Rule, load_rules
from sagelet_engine.keys import make_private, write_private

FILE = "image-rules.toml"
#: Prefix of the rules' names.
NAME = "mapped"


def mapped_rules(data: Path) -> list[Rule]:
    """Empty where there are none. Raises SettingsError, naming the file."""
    path = data / FILE
    return load_rules(path) if path.exists() else []


def mappings(data: Path) -> dict[str, str]:
    """Local images by URI. Raises SettingsError, also for a rule that is not of this module's making."""
    found = {}
    for rule in mapped_rules(data):
        uri = re.sub(r"\\(.)", r"\1", rule.pattern.pattern)
        more = rule.gpu_image is not None or rule.dated_image is not None
        if rule.image is None or more or re.escape(uri) != rule.pattern.pattern:
            raise SettingsError(
                f"{data / FILE} has a rule of another kind ({rule.name}): put rules of your own into a file for "
                "`sagelet up --image-rules`"
            )
        found[uri] = rule.image.replace("{{", "{").replace("}}", "}")
    return found


def put_mapping(data: Path, uri: str, image: str) -> None:
    """Lets `image` stand in for `uri` from now on. Raises SettingsError."""
    for what, text in (("image URI", uri), ("local image", image)):
        if not re.fullmatch(r"[!-~]+", text):
            raise SettingsError(f"{text!r} is no {what}: it has a space, or a character that is no printable ASCII")
    _write(data, {**mappings(data), uri: image})


def remove_mapping(data: Path, uri: str) -> None:
    """Raises SettingsError where there is none."""
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
        # A JSON string without escapes beyond ASCII is a TOML string.
        parts.append("[[rule]]\n" + "".join(f"{key} = {_quoted(value)}\n" for key, value in values.items()))
    write_private(data / FILE, "\n".join(parts).encode())


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
