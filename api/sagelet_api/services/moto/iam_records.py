"""What moto's IAM of an account holds, as records that survive the server.

An object that IAM lists by itself (a role, a policy, a key) is a record. Where another object has it, the record has a
reference. A record holds the attributes of moto's class, so a test compares these with those of the moto that is
installed. Only classes of moto's IAM are made of a record, and none of its code is run for that.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from importlib import import_module
from typing import Any

from sagelet_engine.base.errors import SageletError
from sagelet_engine.store.iam import IamKey

#: Attributes of moto's backend that are dictionaries of objects.
KINDS = (
    "access_keys",
    "certificates",
    "groups",
    "inline_policies",
    "instance_profiles",
    "managed_policies",
    "open_id_providers",
    "roles",
    "saml_providers",
    "users",
    "virtual_mfa_devices",
)
#: Attributes of the account itself.
_OF_ACCOUNT = ("account_aliases", "account_password_policy")
_ACCOUNT = "account"
_TAGS = IamKey(_ACCOUNT, "tags")
_MODELS = "moto.iam.models"
#: The class of policies that moto brings. They have no records.
_BROUGHT = "AWSManagedPolicy"


class IamUnreadable(SageletError):
    """A record that this sagelet cannot read. Its denials would be lost, so nothing is answered."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"The IAM of the data directory cannot be read ({what}): start the sagelet that wrote it, or reset it"
        )


def records_of(iam: Any) -> dict[IamKey, str]:
    """Returns what moto's backend of an account holds."""
    objects = {(kind, key): one for kind in KINDS for key, one in [*getattr(iam, kind).items()]}
    places = {id(one): place for place, one in objects.items()}
    kept = {
        IamKey(*place): _text(_attributes(one, places))
        for place, one in objects.items()
        if type(one).__name__ != _BROUGHT
    }
    account = {IamKey(_ACCOUNT, name): _text(_value(getattr(iam, name), places)) for name in _OF_ACCOUNT}
    return {**kept, **account, _TAGS: _text(_value(iam.tagger.tags, places))}


def restore(iam: Any, records: Mapping[IamKey, str]) -> None:
    """Puts records into a backend that is new. Raises IamUnreadable."""
    try:
        _Restoring(iam).run({key: json.loads(text) for key, text in records.items()})
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise IamUnreadable(f"{type(error).__name__}: {error}") from error


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _attributes(one: Any, places: Mapping[int, tuple[str, str]]) -> Any:
    if type(one).__module__ != _MODELS:
        raise TypeError(f"moto's IAM has a {type(one).__name__}, which sagelet does not know to keep")
    return {
        "$object": type(one).__name__,
        "attributes": {name: _value(value, places) for name, value in vars(one).items()},
    }


def _value(value: Any, places: Mapping[int, tuple[str, str]]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, datetime):
        return {"$time": value.isoformat()}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, (list, tuple)):
        return [_value(one, places) for one in value]
    if isinstance(value, dict):
        return {"$dict": {str(name): _value(one, places) for name, one in value.items()}}
    place = places.get(id(value))
    return _attributes(value, places) if place is None else {"$ref": [*place]}


class _Restoring:
    def __init__(self, iam: Any) -> None:
        self._iam = iam
        self._models = import_module("moto.iam.models")
        self._objects: dict[tuple[str, str], Any] = {}

    def run(self, records: Mapping[IamKey, Any]) -> None:
        objects = {key: record for key, record in records.items() if key.kind in KINDS}
        # First all of them, because they refer to each other.
        for key, record in sorted(objects.items(), key=_creation):
            self._objects[key] = object.__new__(self._class(record["$object"]))
        for key, record in objects.items():
            self._fill(self._objects[key], record)
        for (kind, name), one in self._objects.items():
            getattr(self._iam, kind)[name] = one
        for name in _OF_ACCOUNT:
            setattr(self._iam, name, self._value(records[IamKey(_ACCOUNT, name)]))
        self._iam.tagger.tags = self._value(records[_TAGS])
        self._count_attachments()

    def _class(self, name: str) -> Any:
        found = vars(self._models)[name]
        if not isinstance(found, type) or found.__module__ != _MODELS:
            raise TypeError(f"{name} is not a class in moto's IAM")
        return found

    def _fill(self, one: Any, record: Mapping[str, Any]) -> Any:
        vars(one).update({name: self._value(value) for name, value in record["attributes"].items()})
        return one

    def _value(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._value(one) for one in value]
        if not isinstance(value, dict):
            return value
        if "$object" in value:
            return self._fill(object.__new__(self._class(value["$object"])), value)
        ((form, content),) = value.items()
        if form == "$dict":
            return {name: self._value(one) for name, one in content.items()}
        if form == "$ref":
            return self._referred(*content)
        if form == "$bytes":
            return base64.b64decode(content)
        return {"$time": datetime.fromisoformat}[form](content)

    def _referred(self, kind: str, name: str) -> Any:
        known = self._objects.get((kind, name))
        return getattr(self._iam, kind)[name] if known is None else known

    def _count_attachments(self) -> None:
        """Counts the attachments of policies that moto brings. They have no records."""
        for holder in self._holders():
            for policy in holder.managed_policies.values():
                if type(policy).__name__ == _BROUGHT:
                    policy.attachment_count += 1

    def _holders(self) -> Iterator[Any]:
        for kind in ("groups", "roles", "users"):
            yield from getattr(self._iam, kind).values()


def _creation(item: tuple[IamKey, Any]) -> str:
    """Orders records as moto lists them: by their creation."""
    made = item[1]["attributes"].get("create_date")
    return str(made["$time"]) if isinstance(made, dict) else ""
