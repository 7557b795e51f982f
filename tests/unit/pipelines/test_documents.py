"""Property files that a job wrote to do harm: the step fails with a plain reason, and memory stays bounded."""

import json
from pathlib import Path

import pytest

from sagelet_engine.model.principal import owner
from sagelet_engine.pipelines import documents
from sagelet_engine.pipelines.documents import read_json
from sagelet_engine.pipelines.expressions import Unresolved, at_path
from support.fakes import FakeObjects

HOSTILE = {
    "NaN": (b'{"mse": NaN}', "is not JSON: it has NaN, which is not a number of JSON"),
    "infinity": (b'{"mse": -Infinity}', "it has -Infinity"),
    "deep": (b"[" * 200_000 + b"]" * 200_000, "is nested too deep"),
    "digits": (b"9" * 10_000, "its numbers has too many digits"),
    "not JSON": (b"{'mse': 1}", "is not JSON (line 1, column 2)"),
    "empty": (b"", "is not JSON (line 1, column 1)"),
    "bytes": (bytes(range(256)), "is not JSON"),
}


@pytest.fixture
def objects(tmp_path: Path) -> FakeObjects:
    return FakeObjects(tmp_path)


def read(objects: FakeObjects, uri: str = "s3://b/out/evaluation.json") -> object:
    return read_json(objects, owner("123456789012"), uri)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_document_is_refused_in_plain_words(objects: FakeObjects, name: str) -> None:
    content, says = HOSTILE[name]
    objects.put("b", "out/evaluation.json", content)
    with pytest.raises(Unresolved) as refused:
        read(objects)
    assert says in str(refused.value)
    assert str(refused.value).startswith("s3://b/out/evaluation.json ")


def test_a_huge_document_is_not_even_downloaded(objects: FakeObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    objects.put("b", "out/evaluation.json", b'"' + b"x" * documents.LARGEST + b'"')
    monkeypatch.setattr(FakeObjects, "download", lambda *_: pytest.fail("it was downloaded"))
    with pytest.raises(Unresolved, match="has 8388610 bytes, and sagelet reads at most 8388608 of a document"):
        read(objects)


def test_a_document_that_grew_meanwhile_is_not_read(objects: FakeObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    objects.put("b", "out/evaluation.json", b'"long"')
    monkeypatch.setattr(FakeObjects, "size", lambda *_: None)
    monkeypatch.setattr(documents, "LARGEST", 3)
    with pytest.raises(Unresolved, match="has 6 bytes"):
        read(objects)


@pytest.mark.parametrize("uri", ["s3://b/none.json", "s3://none/x.json"])
def test_what_is_not_there_cannot_be_read(objects: FakeObjects, uri: str) -> None:
    objects.put("b", "none.json.more", b"1")
    with pytest.raises(Unresolved, match=f"^{uri} cannot be read"):
        read(objects, uri)


def test_a_document_of_the_largest_size_with_a_mark_of_its_encoding(objects: FakeObjects) -> None:
    text = json.dumps({"a": [{"b c": 4.5}], "pad": "x" * (documents.LARGEST - 100)})
    objects.put("b", "out/evaluation.json", b"\xef\xbb\xbf" + text.encode())
    assert at_path(read(objects), "a[0]['b c']", "it") == 4.5
    assert at_path(read(objects), "$.a[0].b c", "it") == 4.5
