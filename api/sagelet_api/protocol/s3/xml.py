"""Reads and writes XML by the shapes of botocore's S3 model.

Input is checked against the model as S3 checks it against its schema: required members are present, and members that
are not lists occur once. So code that gets such a structure, or a document made from one, finds what it expects.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from sagelet_api.protocol.members import Parameters
from sagelet_api.protocol.s3.errors import malformed_xml
from sagelet_engine.base.number_text import whole_number_in

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
#: Members for which an empty text has a meaning: a tag's value, and every prefix.
_MAY_BE_EMPTY = re.compile("Value|.*Prefix.*")
_XSI = "http://www.w3.org/2001/XMLSchema-instance"
#: Bytes that are parsed at once.
_PIECE = 64 * 1024
#: Characters that XML 1.0 cannot hold unchanged.
_REFERENCED = re.compile("[\x00-\x1f\x7f-\x9f\ufffe\uffff]")


def document(root: str, shape: Any, value: Mapping[str, Any]) -> bytes:
    """Returns the members of `shape` that `value` has and that belong into a body."""
    inner = "".join(_members(shape, value))
    return f'{_DECLARATION}<{root} xmlns="{NAMESPACE}">{inner}</{root}>'.encode()


def text(value: str) -> str:
    return _REFERENCED.sub(lambda found: f"&#x{ord(found[0]):X};", escape(value, {'"': "&quot;"}))


def parse(body: bytes, shape: Any) -> Parameters:
    """Returns a structure from its document, whatever the root's name. Raises S3Error MalformedXML."""
    try:
        value = _read(shape, _root(body))
    except (ElementTree.ParseError, ValueError, TypeError, LookupError, OverflowError) as error:
        raise malformed_xml() from error
    return dict(value)


def _root(body: bytes) -> Any:
    """Parses a body in pieces, because expat goes on to the end of a piece whatever the builder says of it.

    Raises ParseError, ValueError.
    """
    parser = ElementTree.XMLParser(target=_Plain())
    for start in range(0, len(body), _PIECE):
        parser.feed(body[start : start + _PIECE])
    return parser.close()


class _Plain(ElementTree.TreeBuilder):
    """Builds the tree of a document without declarations, whose entities could expand it to a hundred times its
    size.
    """

    def doctype(self, *_declared: object) -> None:
        raise ValueError("S3's documents have no document type")


def iso(milliseconds: int) -> str:
    """Returns the time as S3 writes it: S3 knows whole seconds, and still writes .000."""
    return datetime.fromtimestamp(milliseconds // 1000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _members(shape: Any, value: Mapping[str, Any]) -> Iterator[str]:
    for name, member in shape.members.items():
        elsewhere = "location" in member.serialization or "xmlAttribute" in member.serialization
        if value.get(name) is not None and not elsewhere:
            yield from _elements(member.serialization.get("name", name), member, value[name])


def _elements(name: str, shape: Any, value: Any) -> Iterator[str]:
    if shape.type_name == "list":
        inner = shape.member.serialization.get("name", "member")
        if shape.serialization.get("flattened"):
            for entry in value:
                yield from _elements(name, shape.member, entry)
        else:
            content = "".join("".join(_elements(inner, shape.member, entry)) for entry in value)
            yield f"<{name}>{content}</{name}>"
    elif shape.type_name == "structure":
        yield f"<{name}{_attributes(shape, value)}>{''.join(_members(shape, value))}</{name}>"
    else:
        yield f"<{name}>{text(_scalar(shape, value))}</{name}>"


def _attributes(shape: Any, value: Mapping[str, Any]) -> str:
    """Returns the attributes of a grantee: its type, and the namespace of that attribute."""
    found = [
        f' {member.serialization["name"]}="{text(value[name])}"'
        for name, member in shape.members.items()
        if "xmlAttribute" in member.serialization and value.get(name) is not None
    ]
    namespace = shape.serialization.get("xmlNamespace")
    if found and namespace:
        found.insert(0, f' xmlns:{namespace["prefix"]}="{namespace["uri"]}"')
    return "".join(found)


def _scalar(shape: Any, value: Any) -> str:
    if shape.type_name == "boolean":
        return "true" if value else "false"
    if shape.type_name == "timestamp":
        return iso(value)
    if shape.type_name == "blob":
        return b64encode(value).decode()
    return str(value)


def checked(shape: Any, value: Any) -> Any:
    """Returns the value without empty texts, after checking enumerated values against the model. Raises S3Error
    MalformedXML.

    Code that needs a text or an entry of a list would fail on an empty one.
    """
    if shape.type_name == "structure":
        return _checked_members(shape, value)
    if shape.type_name == "list":
        if not all(value):
            raise malformed_xml()
        return [checked(shape.member, inner) for inner in value]
    if getattr(shape, "enum", None) and value not in shape.enum:
        raise malformed_xml()
    return value


def _checked_members(shape: Any, value: Mapping[str, Any]) -> Parameters:
    empty = {name for name, inner in value.items() if inner == "" and not _MAY_BE_EMPTY.fullmatch(name)}
    if empty & set(shape.required_members):
        raise malformed_xml()
    return {name: checked(shape.members[name], inner) for name, inner in value.items() if name not in empty}


def _read(shape: Any, element: ElementTree.Element) -> Any:
    if shape.type_name == "structure":
        found = {
            name: value
            for name, member in shape.members.items()
            if (value := _member(name, member, element)) is not None
        }
        if missing := [name for name in shape.required_members if name not in found]:
            raise LookupError(f"{element.tag} has no {missing}")
        return found
    if shape.type_name == "list":
        return [_read(shape.member, child) for child in element]
    content = element.text or ""
    if shape.type_name in ("integer", "long"):
        if (number := whole_number_in(content)) is None:
            raise ValueError(f"{element.tag} is not a whole number")
        return number
    if shape.type_name == "boolean":
        return content.strip() == "true"
    if shape.type_name == "blob":
        return b64decode(content)
    if shape.type_name == "timestamp":
        return _milliseconds(content.strip())
    return content


def _milliseconds(text: str) -> int:
    """Returns the time in ms, from either form that SDKs write. Raises ValueError."""
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        time = parsedate_to_datetime(text)
    if time.tzinfo is None:
        time = time.replace(tzinfo=timezone.utc)
    return int(time.timestamp() * 1000)


def _member(name: str, shape: Any, parent: ElementTree.Element) -> Any:
    wire = shape.serialization.get("name", name)
    if shape.serialization.get("xmlAttribute"):
        return parent.get(f"{{{_XSI}}}{wire.rpartition(':')[2]}")
    found = [child for child in parent if child.tag.rpartition("}")[2] == wire]
    if not found:
        return None
    if shape.type_name == "list" and shape.serialization.get("flattened"):
        return [_read(shape.member, child) for child in found]
    if len(found) > 1:
        raise LookupError(f"{parent.tag} has {wire} {len(found)} times")
    return _read(shape, found[0])
