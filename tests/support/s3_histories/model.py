"""S3 with a single thread: what an operation does to a state, and what its client gets.

A state maps names to what is there:

    ("bucket", BUCKET)            True
    ("object", BUCKET, KEY)       its content's ETag and its tag
    ("upload", ID)                bucket, key, and (number, ETag) of its parts
    ("done", ID)                  bucket, key, (number, ETag) as they were named, the object's ETag: for a repeated call
    ("copied", NUMBER)            what a copy has read of its source

A rule returns the codes of possible refusals (the operation happens if there are none), the answer to the client, and
the changes.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from support.s3_histories.operations import Operation

Name = tuple[Any, ...]
State = Mapping[Name, Any]
#: Changes to a state. None means that the name is removed.
Changes = Mapping[Name, Any]
Rule = Callable[[State, Mapping[str, Any]], tuple[set[str], Any, Changes]]
#: An answer that is not compared.
ANYTHING = object()


class Contents:
    """Every content that a history may see, by its ETag."""

    def __init__(self) -> None:
        self._bytes: dict[str, bytes] = {}

    def __getitem__(self, etag: str) -> bytes:
        return self._bytes[etag]

    def add(self, data: bytes) -> str:
        etag = hashlib.md5(data).hexdigest()
        self._bytes[etag] = data
        return etag

    def join(self, etags: list[str]) -> str:
        """Makes an object of parts. Returns its ETag."""
        digests = b"".join(bytes.fromhex(etag) for etag in etags)
        etag = f"{hashlib.md5(digests).hexdigest()}-{len(etags)}"
        self._bytes[etag] = b"".join(self._bytes[each] for each in etags)
        self.copied(etag)
        return etag

    def copied(self, etag: str) -> str:
        """Returns the ETag of a copy, which is written in one piece."""
        return self.add(self._bytes[etag])


def after(state: State, operation: Operation) -> State | None:
    """Returns the state after the operation, or None if its client would have got another answer."""
    refused, told, changes = RULES[operation.kind](state, operation.arguments)
    if operation.known and operation.error is not None:
        return state if operation.error in refused else None
    if refused:
        return None
    if operation.known and told is not ANYTHING and told != operation.value:
        return None
    if not changes:
        return state
    changed = {**state, **changes}
    return {name: value for name, value in changed.items() if value is not None}


# --- buckets --------------------------------------------------------------------------------------------------


def _bucket(state: State, bucket: str) -> set[str]:
    return set() if ("bucket", bucket) in state else {"NoSuchBucket"}


def create_bucket(state: State, given: Mapping[str, Any]) -> tuple[set[str], Any, Changes]:
    return set(), ANYTHING, {("bucket", given["bucket"]): True}


def delete_bucket(state: State, given: Mapping[str, Any]) -> tuple[set[str], Any, Changes]:
    bucket = given["bucket"]
    refused = _bucket(state, bucket)
    if any(name[:2] == ("object", bucket) for name in state):
        refused.add("BucketNotEmpty")
    changes: dict[Name, Any] = {("bucket", bucket): None}
    changes |= {name: None for name, value in state.items() if name[0] in ("upload", "done") and value[0] == bucket}
    return refused, ANYTHING, changes


# --- objects --------------------------------------------------------------------------------------------------


def _found(state: State, given: Mapping[str, Any]) -> tuple[set[str], Any]:
    refused = _bucket(state, given["bucket"])
    found = state.get(("object", given["bucket"], given["key"]))
    return (refused | {"NoSuchKey"} if found is None else refused), found


def _conditions(state: State, given: Mapping[str, Any]) -> set[str]:
    """Returns the codes with which the conditions refuse a write."""
    refused = _bucket(state, given["bucket"])
    current = state.get(("object", given["bucket"], given["key"]))
    if given.get("if_none_match") and current is not None:
        refused.add("PreconditionFailed")
    if given.get("if_match") and current is None:
        refused.add("NoSuchKey")
    if given.get("if_match") and current is not None and current[0] != given["if_match"]:
        refused.add("PreconditionFailed")
    return refused


def _write(given: Mapping[str, Any], value: Any) -> Changes:
    return {("object", given["bucket"], given["key"]): value}


def put(state: State, given: Mapping[str, Any]) -> tuple[set[str], Any, Changes]:
    return _conditions(state, given), given["etag"], _write(given, (given["etag"], ""))


def get(state: State, given: Mapping[str, Any]) -> tuple[set[str], Any, Changes]:
    refused, found = _found(state, given)
    return refused, found and found[0], {}


def tags(state: State, given: Mapping[str, Any]) -> tuple[set[str], Any, Changes]:
    refused, found = _found(state, given)
    return refused, found and found[1], {}


def tag(state: State, given: Mapping[str, Any]) -> tuple[set[str], Any, Changes]:
    refused, found = _found(state, given)
    return refused, ANYTHING, {} if found is None else _write(given, (found[0], given["tag"]))


def delete(state: State, given: Mapping[str, Any]) -> tuple[set[str], Any, Changes]:
    return _conditions(state, given), ANYTHING, _write(given, None)


def list_objects(state: State, given: Mapping[str, Any]) -> tuple[set[str], Any, Changes]:
    found = sorted((name[2], value[0]) for name, value in state.items() if name[:2] == ("object", given["bucket"]))
    return _bucket(state, given["bucket"]), found, {}


def copy_read(state: State, given: Mapping[str, Any]) -> tuple[set[str], Any, Changes]:
    """The first half of a copy. The client of the second half gets what this one has read."""
    refused, found = _found(state, {"bucket": given["bucket"], "key": given["source"]})
    return refused, ANYTHING, {} if found is None else {("copied", given["copy"]): found}


def copy_write(state: State, given: Mapping[str, Any]) -> tuple[set[str], Any, Changes]:
    read = state.get(("copied", given["copy"]))
    if read is None:
        return {"nothing was read"}, None, {}
    etag = given["contents"].copied(read[0])
    changes = {**_write(given, (etag, read[1])), ("copied", given["copy"]): None}
    return _conditions(state, given), etag, changes


def copy_refused(state: State, given: Mapping[str, Any]) -> tuple[set[str], Any, Changes]:
    refused, _ = _found(state, {"bucket": given["bucket"], "key": given["source"]})
    return refused | _conditions(state, given), None, {}


# --- multipart uploads ----------------------------------------------------------------------------------------


def _upload(state: State, given: Mapping[str, Any]) -> tuple[set[str], Any]:
    refused = _bucket(state, given["bucket"])
    found = state.get(("upload", given["id"]))
    return (refused | {"NoSuchUpload"} if found is None else refused), found


def begin(state: State, given: Mapping[str, Any]) -> tuple[set[str], Any, Changes]:
    changes: dict[Name, Any] = {("upload", given["id"]): (given["bucket"], given["key"], frozenset())}
    return _bucket(state, given["bucket"]), ANYTHING, changes


def _with_part(given: Mapping[str, Any], upload: Any, etag: str) -> Changes:
    if upload is None:
        return {}
    parts = frozenset([*(part for part in upload[2] if part[0] != given["part"]), (given["part"], etag)])
    return {("upload", given["id"]): (upload[0], upload[1], parts)}


def upload_part(state: State, given: Mapping[str, Any]) -> tuple[set[str], Any, Changes]:
    refused, upload = _upload(state, given)
    return refused, given["etag"], _with_part(given, upload, given["etag"])


def part_copy_write(state: State, given: Mapping[str, Any]) -> tuple[set[str], Any, Changes]:
    read = state.get(("copied", given["copy"]))
    if read is None:
        return {"nothing was read"}, None, {}
    refused, upload = _upload(state, given)
    etag = given["contents"].copied(read[0])
    return refused, etag, {**_with_part(given, upload, etag), ("copied", given["copy"]): None}


def part_copy_refused(state: State, given: Mapping[str, Any]) -> tuple[set[str], Any, Changes]:
    refused, _ = _found(state, {"bucket": given["bucket"], "key": given["source"]})
    return refused | _upload(state, given)[0], None, {}


def complete(state: State, given: Mapping[str, Any]) -> tuple[set[str], Any, Changes]:
    refused, upload = _upload(state, given)
    if upload is None:
        done = state.get(("done", given["id"]))
        if done is not None and done[2] == given["named"]:
            return _bucket(state, given["bucket"]), given["etag"], {}
        return refused, None, {}
    refused |= _conditions(state, given)
    if not set(given["named"]) <= upload[2]:
        refused.add("InvalidPart")
    changes: dict[Name, Any] = {
        ("upload", given["id"]): None,
        ("done", given["id"]): (given["bucket"], given["key"], given["named"], given["etag"]),
        **_write(given, (given["etag"], "")),
    }
    return refused, given["etag"], changes


def abort(state: State, given: Mapping[str, Any]) -> tuple[set[str], Any, Changes]:
    return _upload(state, given)[0], ANYTHING, {("upload", given["id"]): None}


def list_parts(state: State, given: Mapping[str, Any]) -> tuple[set[str], Any, Changes]:
    refused, upload = _upload(state, given)
    return refused, upload and sorted(upload[2]), {}


def list_uploads(state: State, given: Mapping[str, Any]) -> tuple[set[str], Any, Changes]:
    found = sorted(name[1] for name, value in state.items() if name[0] == "upload" and value[0] == given["bucket"])
    return _bucket(state, given["bucket"]), found, {}


RULES: dict[str, Rule] = {
    rule.__name__: rule
    for rule in (
        create_bucket, delete_bucket, put, get, tag, tags, delete, list_objects, copy_read, copy_write, copy_refused,
        begin, upload_part, part_copy_write, part_copy_refused, complete, abort, list_parts, list_uploads,
    )
}  # fmt: skip
