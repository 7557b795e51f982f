"""From keys to file names and back."""

import random

import pytest

from sagelet_engine.s3 import names


@pytest.mark.parametrize(
    "key", ["a", "a/b.txt", ".hidden", "Ünï côdé", "x" * 255, "a b+c%&", "..a", "a..", "-", "~", "\n"]
)
def test_keys_that_make_file_names(key: str) -> None:
    assert names.natural("b", key, folded=False) == f"b/{key}"


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", "x" * 256, "é" * 128, "a\0b"])
def test_keys_that_do_not(key: str) -> None:
    assert names.natural("b", key, folded=False) is None


@pytest.mark.parametrize("key", ["A", "a/B", "é", "straße"])
def test_where_case_is_ignored_only_small_ascii_is_safe(key: str) -> None:
    assert names.natural("b", key, folded=True) is None
    assert names.natural("b", "a/b-1_2.txt", folded=True) == "b/a/b-1_2.txt"


def test_escaping_is_reversible_and_tells_all_keys_apart() -> None:
    generator = random.Random(7)
    alphabet = "aA.%/\0é🎉 _~\\"
    keys = {"".join(generator.choices(alphabet, k=generator.randint(1, 60))) for _ in range(3000)}
    keys |= {"é" * 512, "%" * 1024, "a" * 1024, "/" * 1024, ".", "..", "...", "a" * 200, "a" * 201, "a" * 198 + "éé"}
    paths = {}
    for key in keys:
        path = names.escaped("bucket", key)
        assert names.unescaped(path) == ("bucket", key)
        parts = path.split("/")
        assert all(part not in ("", ".", "..") and len(part) <= names.MAX_NAME for part in parts)
        assert path.lower() not in paths, "two keys have one file name where case is ignored"
        paths[path.lower()] = key
    # No file is where another key needs a directory.
    directories = {path[:end] for path in paths for end in range(len(path)) if path[end] == "/"}
    assert directories.isdisjoint(paths)
