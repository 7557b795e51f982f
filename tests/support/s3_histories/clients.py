"""Clients of the store. Each does random operations, mostly on what others are using, and notes the answers."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sagelet_api.protocol.s3.errors import no_such_bucket
from sagelet_engine.s3.errors import NoSuchBucket
from sagelet_engine.s3.importing import import_directory
from sagelet_engine.state.exporting import _Snapshot
from support.histories.schedule import Life
from support.s3_histories.face import Face
from support.s3_histories.operations import Operation
from support.s3_histories.world import Known, World

BUCKETS = ("bucket", "second")
#: `a` and `a/b` cannot both be at their natural path. The last key has no natural path.
KEYS = ("a", "a/b", "k//")
#: The size of a part in bytes that fits other parts' slots.
WIDTH = 8


class Client:
    def __init__(self, world: World, name: str, calls: int) -> None:
        self._world = world
        self._chance = world.chance
        self._name = name
        self._calls = calls

    def run(self) -> None:
        for _ in range(self._calls):
            while self._world.face is None:
                self._world.schedule.sleep(0.01)
            kinds, weights = zip(*self._likely(), strict=True)
            self._chance.choices(kinds, weights)[0]()

    def _likely(self) -> list[tuple[Callable[[], None], int]]:
        """Returns operations and their weights. A third of all histories is about one key, a third about one upload."""
        if self._world.theme == "key":
            return [
                (self._put, 6), (self._get, 8), (self._delete, 8), (self._list, 2), (self._copy, 3), (self._tag, 2),
                (self._import, 1),
            ]  # fmt: skip
        if self._world.theme == "upload":
            others = [(self._get, 4), (self._delete, 2), (self._delete_bucket, 1), (self._create_bucket, 2)]
            if not self._world.uploads or self._chance.random() < 0.2:
                return [(self._begin, 12), *others]
            return [
                (self._upload_part, 16), (self._complete, 16), (self._abort, 4), (self._list_parts, 2),
                (self._export, 2), *others,
            ]  # fmt: skip
        busy = 12 if self._world.uploads else 0
        return [
            (self._put, 8), (self._get, 8), (self._delete, 6), (self._list, 3), (self._copy, 5), (self._tag, 2),
            (self._get_tags, 1), (self._begin, 6), (self._upload_part, busy), (self._copy_part, busy // 4),
            (self._complete, busy), (self._abort, busy // 4), (self._list_parts, busy // 4), (self._list_uploads, 2),
            (self._create_bucket, 1), (self._delete_bucket, 1), (self._import, 1), (self._export, 1),
        ]  # fmt: skip

    # --- what it knows ----------------------------------------------------------------------------------------

    def _place(self) -> dict[str, Any]:
        if self._world.theme != "all":
            return {"bucket": BUCKETS[0], "key": KEYS[0]}
        return {"bucket": self._chance.choices(BUCKETS, (9, 1))[0], "key": self._chance.choices(KEYS, (5, 2, 1))[0]}

    def _content(self, size: int) -> bytes:
        """Makes content that differs from all before."""
        return f"{self._world.log.count:x}-".encode().ljust(size, self._name.encode())[:size]

    def _etags(self, place: dict[str, str]) -> list[str]:
        """Returns ETags that some client believed the object to have."""
        return [
            one.value
            for one in self._world.log.operations
            if one.known and one.error is None and one.kind in ("put", "get", "complete")
            and one.arguments.get("key") == place["key"]
        ]  # fmt: skip

    def _conditions(self, place: dict[str, str]) -> dict[str, Any]:
        kind = self._chance.random()
        if kind < 0.15:
            return {"if_none_match": "*"}
        if kind < 0.3 and (seen := self._etags(place)):
            return {"if_match": seen[-1]}
        return {}

    def _known(self) -> Known:
        """Chooses a known upload. Later ones are more likely."""
        uploads = self._world.uploads
        if self._world.theme == "upload":
            return uploads[-1]
        return self._chance.choice(uploads[-3:]) if self._chance.random() < 0.9 else self._chance.choice(uploads)

    def _simple(self, kind: str, work: Callable[[Face], Any], **arguments: Any) -> tuple[Operation, Any]:
        operation = self._world.log.call(kind, **arguments)
        return operation, self._world.ask([operation], work)

    # --- objects ----------------------------------------------------------------------------------------------

    def _put(self) -> None:
        place = self._place()
        data = self._content(self._chance.choice([3, 9, 30]))
        etag, conditions = self._world.contents.add(data), self._conditions(place)

        def put(face: Face) -> Any:
            return _etag(face.call("PutObject", **place, body=data, **_named(conditions)))

        self._simple("put", put, **place, etag=etag, **conditions)

    def _get(self) -> None:
        self.get(**self._place())

    def get(self, bucket: str, key: str) -> None:
        def get(face: Face) -> str:
            answer = face.call("GetObject", bucket, key)
            # The answer is being sent. Changes to the key meanwhile must not change it.
            self._world.schedule.step()
            data, etag = b"".join(answer["Body"]), _etag(answer)
            answer["Body"].close()
            wanted = self._world.contents[etag]
            assert data == wanted, f"{key} with ETag {etag} has {data!r} instead of {wanted!r}"
            return etag

        self._simple("get", get, bucket=bucket, key=key)

    def _delete(self) -> None:
        place = self._place()
        if self._chance.random() < 0.2:
            self._delete_several(place["bucket"])
            return
        match = {name: value for name, value in self._conditions(place).items() if name == "if_match"}
        self._simple("delete", lambda face: face.call("DeleteObject", **place, **_named(match)), **place, **match)

    def _delete_several(self, bucket: str) -> None:
        """Deletes several keys, as an operation each, because S3 promises nothing for all of them together."""
        calls = [self._world.log.call("delete", bucket=bucket, key=key) for key in KEYS]
        entries = {"Objects": [{"Key": key} for key in KEYS]}
        self._world.ask(calls, lambda face: face.call("DeleteObjects", bucket, Delete=entries))

    def _list(self) -> None:
        self.list_objects(self._place()["bucket"])

    def list_objects(self, bucket: str) -> list[tuple[str, str]]:
        def page(face: Face) -> list[tuple[str, str]]:
            return [(one["Key"], _etag(one)) for one in face.call("ListObjectsV2", bucket)["Contents"]]

        return self._simple("list_objects", page, bucket=bucket)[1] or []

    def _tag(self) -> None:
        place, text = self._place(), f"{self._world.log.count}"
        tagging = {"TagSet": [{"Key": "t", "Value": text}]}
        self._simple("tag", lambda face: face.call("PutObjectTagging", **place, Tagging=tagging), **place, tag=text)

    def _get_tags(self) -> None:
        place = self._place()

        def tags(face: Face) -> str:
            return "".join(one["Value"] for one in face.call("GetObjectTagging", **place)["TagSet"])

        self._simple("tags", tags, **place)

    def _copy(self) -> None:
        place, source = self._place(), self._chance.choice(KEYS)
        conditions = self._conditions(place)
        more: dict[str, Any] = {"MetadataDirective": "REPLACE"} if source == place["key"] else {}

        def copy(face: Face) -> str:
            name = f"{place['bucket']}/{source}"
            return _etag(
                face.call("CopyObject", **place, CopySource=name, **_named(conditions), **more)["CopyObjectResult"]
            )

        self._in_halves("copy_write", "copy_refused", source, {**place, **conditions}, copy)

    def _in_halves(
        self, kind: str, refused: str, source: str, arguments: dict[str, Any], work: Callable[[Face], str]
    ) -> str | None:
        """Copies in two operations: it reads the source and writes later. On AWS a copy is not atomic, either."""
        log = self._world.log
        number = log.count
        first = log.call("copy_read", bucket=arguments["bucket"], source=source, copy=number)
        second = log.call(
            kind, first.number, **arguments, source=source, copy=number, contents=self._world.contents
        )  # fmt: skip
        # Both halves have the time of the call.
        second.called = first.called
        answer = self._world.ask([first, second], work)
        if second.known and second.error is not None:
            # Either half refused it, at one moment.
            log.operations.remove(first)
            second.kind, second.after = refused, None
        return answer

    # --- uploads ----------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        place = self._place()
        self._world.begun()
        operation = self._world.log.call("begin", **place, id=None)
        begun = self._world.ask([operation], lambda face: face.call("CreateMultipartUpload", **place)["UploadId"])
        operation.arguments["id"] = self._world.begun()
        if begun is not None:
            self._world.uploads.append(Known(begun, **place))

    def _upload_part(self) -> None:
        upload, number = self._known(), self._chance.choice([1, 1, 2, 2, 3])
        data = self._content(self._chance.choices([WIDTH, 3, 12], (7, 2, 1))[0])
        etag = self._world.contents.add(data)
        place: dict[str, Any] = {"bucket": upload.bucket, "key": upload.key}

        def send(face: Face) -> str:
            return _etag(face.call("UploadPart", **place, body=data, UploadId=upload.id, PartNumber=number))

        _, sent = self._simple("upload_part", send, **place, id=upload.id, part=number, etag=etag)
        assert sent in (None, etag)
        if sent is not None or self._chance.random() < 0.2:
            # This also holds without an answer, because the sender knows the ETag.
            upload.parts.setdefault(number, []).append(etag)

    def _copy_part(self) -> None:
        upload, number, source = self._known(), self._chance.choice([1, 2, 3]), self._chance.choice(KEYS)
        place: dict[str, Any] = {"bucket": upload.bucket, "key": upload.key}

        def copy(face: Face) -> str:
            name = f"{upload.bucket}/{source}"
            answer = face.call("UploadPartCopy", **place, CopySource=name, UploadId=upload.id, PartNumber=number)
            return _etag(answer["CopyPartResult"])

        arguments = {**place, "id": upload.id, "part": number}
        etag = self._in_halves("part_copy_write", "part_copy_refused", source, arguments, copy)
        if etag is not None:
            upload.parts.setdefault(number, []).append(etag)

    def _complete(self) -> None:
        upload = self._known()
        careless = self._chance.random() < 0.4
        numbers = [number for number in sorted(upload.parts) if not careless or self._chance.random() < 0.6]
        named = [(number, self._chance.choice(upload.parts[number][-2 if careless else -1 :])) for number in numbers]
        if named:
            self.complete(upload, named, self._conditions({"bucket": upload.bucket, "key": upload.key}))

    def complete(self, upload: Known, named: list[tuple[int, str]], conditions: dict[str, Any]) -> None:
        place: dict[str, Any] = {"bucket": upload.bucket, "key": upload.key}
        etag = self._world.contents.join([etag for _, etag in named])
        parts = {"Parts": [{"PartNumber": number, "ETag": f'"{tag}"'} for number, tag in named]}

        def complete(face: Face) -> str:
            return _etag(
                face.call(
                    "CompleteMultipartUpload", **place, UploadId=upload.id, MultipartUpload=parts, **_named(conditions)
                )
            )

        self._simple("complete", complete, **place, id=upload.id, named=tuple(named), etag=etag, **conditions)

    def _abort(self) -> None:
        upload = self._known()
        place: dict[str, Any] = {"bucket": upload.bucket, "key": upload.key}

        def abort(face: Face) -> None:
            face.call("AbortMultipartUpload", **place, UploadId=upload.id)

        def collect(face: Face) -> None:
            face.abort_as_garbage(upload.bucket, upload.key, upload.id)

        self._simple("abort", self._chance.choice([abort, collect]), **place, id=upload.id)

    def _list_parts(self) -> None:
        self.list_parts(self._known())

    def list_parts(self, upload: Known) -> list[tuple[int, str]]:
        place: dict[str, Any] = {"bucket": upload.bucket, "key": upload.key}

        def parts(face: Face) -> list[tuple[int, str]]:
            found = face.call("ListParts", **place, UploadId=upload.id)["Parts"]
            return [(one["PartNumber"], _etag(one)) for one in found]

        return self._simple("list_parts", parts, **place, id=upload.id)[1] or []

    def _list_uploads(self) -> None:
        self.list_uploads(self._place()["bucket"])

    def list_uploads(self, bucket: str) -> list[Known]:
        found: list[Known] = []

        def uploads(face: Face) -> list[str]:
            for one in face.call("ListMultipartUploads", bucket)["Uploads"]:
                found.append(Known(one["UploadId"], bucket, one["Key"]))
            return sorted(one.id for one in found)

        self._simple("list_uploads", uploads, bucket=bucket)
        return found

    # --- buckets, and other processes -------------------------------------------------------------------------

    def _create_bucket(self) -> None:
        self.create_bucket(self._place()["bucket"])

    def create_bucket(self, bucket: str) -> None:
        self._simple("create_bucket", lambda face: face.call("CreateBucket", bucket), bucket=bucket)

    def _delete_bucket(self) -> None:
        bucket = self._place()["bucket"]
        self._simple("delete_bucket", lambda face: face.call("DeleteBucket", bucket), bucket=bucket)

    def _import(self) -> None:
        """Runs `sagelet s3 import`: another process, with its own locks, which may die by itself."""
        place = self._place()
        if place["key"].endswith("/"):
            return
        world = self._world
        data = self._content(20)
        operation = world.log.call("put", **place, etag=world.contents.add(data))
        life = world.process(int(2 ** self._chance.uniform(1, 8)) if self._chance.random() < 0.3 else 0)
        with tempfile.TemporaryDirectory() as source:
            file = Path(source, place["key"])
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)

            def run() -> str:
                store = world.open_store()
                (done,) = import_directory(store, Path(source), place["bucket"], "", copy=self._chance.random() < 0.5)
                assert done.key == place["key"]
                return world.contents.add(data)

            world.others += 1
            try:
                self._imported(operation, life, run)
            finally:
                world.others -= 1

    def _export(self) -> None:
        """Runs `sagelet export`: another process, which must see a consistent directory at every moment."""
        world = self._world
        life = world.process(0)
        with tempfile.TemporaryDirectory(dir=world.root.parent) as directory:
            place = Path(directory)

            def run() -> None:
                snapshot = _Snapshot(world.root.parent, place)
                snapshot.close()

            world.others += 1
            try:
                world.attempt([], life, run)
            finally:
                world.others -= 1
                world.leave(life)
            world.check_export(place)

    def _imported(self, operation: Operation, life: Life, run: Callable[[], str]) -> None:
        def refused() -> str:
            try:
                return run()
            except NoSuchBucket as error:
                raise no_such_bucket(error.bucket) from error

        self._world.attempt([operation], life, refused)
        if not life.dead:
            self._world.leave(life)


def _etag(members: Any) -> str:
    return str(members["ETag"]).strip('"')


def _named(conditions: dict[str, Any]) -> dict[str, Any]:
    return {"IfMatch": conditions.get("if_match"), "IfNoneMatch": conditions.get("if_none_match")}
