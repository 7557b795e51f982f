"""The Hub's read API, to the letter: what clients of 2021 to 2026 ask, and the headers that they read."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sagelet_api.http.server import Server
from sagelet_api.hub.alone import HubAlone
from sagelet_api.hub.documents import entries_at
from sagelet_api.hub.routes import Asked, Route, find_route
from sagelet_engine.hub.names import Kind
from sagelet_engine.hub.records import LARGE, Commit, HubFile
from sagelet_engine.hub.store import HubStore
from support.hub import GLUE, Answer, add_files, ask, write_files

BIG = bytes(range(256)) * 64
CONFIG = '{"model_type": "gpt2"}'


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hub")
    files = {"config.json": CONFIG, "model.safetensors": BIG, "onnx/deep/a.txt": "a", "ü b.txt": "u"}
    add_files(root / "data", write_files(root / "gpt2", files), "gpt2", now_ms=1_700_000_000_123)
    add_files(root / "data", root / "gpt2", "gpt2", revision="refs/pr/1", now_ms=1_700_000_000_123)
    add_files(root / "data", write_files(root / "glue", GLUE), "glue", Kind.DATASET)
    add_files(root / "data", write_files(root / "acc", {"accuracy.py": "1"}), "evaluate-metric/accuracy", Kind.SPACE)
    return root / "data"


@pytest.fixture(scope="module")
def endpoint(data: Path) -> Iterator[str]:
    with Server(HubAlone(HubStore(data)), "127.0.0.1", 0) as server:
        yield f"{server.endpoint}/_sagelet/hub"


def sha(endpoint: str) -> str:
    found: str = ask(endpoint, "api/models/gpt2").json["sha"]
    return found


def test_what_a_repository_is(endpoint: str) -> None:
    found = ask(endpoint, "api/models/gpt2").json
    assert found["id"] == found["modelId"] == "openai-community/gpt2"
    assert found["lastModified"] == "2023-11-14T22:13:20.123Z"
    assert [one["rfilename"] for one in found["siblings"]] == [
        "config.json", "model.safetensors", "onnx/deep/a.txt", "ü b.txt",
    ]  # fmt: skip
    for revision in ("main", found["sha"], "refs%2Fpr%2F1"):
        assert ask(endpoint, f"api/models/openai-community/gpt2/revision/{revision}").json["sha"] == found["sha"]
    sized = ask(endpoint, "api/models/gpt2?blobs=true").json["siblings"]
    assert sized[0] == {"rfilename": "config.json", "size": len(CONFIG), "blobId": git(CONFIG.encode())}
    assert sized[1]["lfs"]["sha256"] == hashlib.sha256(BIG).hexdigest()


def git(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_heads_of_files(endpoint: str, method: str) -> None:
    """A small file's ETag is git's name of it; a large one's is its SHA-256, in large file storage's headers, too."""
    small = ask(endpoint, "gpt2/resolve/main/config.json", method)
    assert (small.status, small.headers["content-length"]) == (200, str(len(CONFIG)))
    assert small.headers["etag"] == f'"{git(CONFIG.encode())}"'
    assert small.headers["x-repo-commit"] == sha(endpoint)
    assert "x-linked-etag" not in small.headers
    large = ask(endpoint, "openai-community/gpt2/resolve/main/model.safetensors", method)
    assert large.headers["etag"] == large.headers["x-linked-etag"] == f'"{hashlib.sha256(BIG).hexdigest()}"'
    assert large.headers["x-linked-size"] == large.headers["content-length"] == str(len(BIG))
    assert large.body == (BIG if method == "GET" else b"")
    for answer in (small, large):
        assert not [name for name in answer.headers if "xet" in name]
        assert "location" not in answer.headers
        assert "link" not in answer.headers


def test_files_are_found_by_kind_revision_and_quoted_path(endpoint: str) -> None:
    assert ask(endpoint, "gpt2/resolve/refs%2Fpr%2F1/config.json").body == CONFIG.encode()
    assert ask(endpoint, f"gpt2/resolve/{sha(endpoint)}/%C3%BC%20b.txt").body == b"u"
    assert ask(endpoint, "gpt2/raw/main/onnx/deep/a.txt").body == b"a"
    assert ask(endpoint, "datasets/glue/resolve/main/sst2/train.csv").body == GLUE["sst2/train.csv"].encode()
    assert ask(endpoint, "spaces/evaluate-metric/accuracy/resolve/main/accuracy.py").body == b"1"
    assert ask(endpoint, "glue/resolve/main/sst2/train.csv").headers["x-error-code"] == "RepoNotFound"


@pytest.mark.parametrize(
    ("asked", "first", "length"),
    [("bytes=0-0", 0, 1), ("bytes=100-", 100, len(BIG) - 100), ("bytes=-10", len(BIG) - 10, 10)],
)
def test_a_download_goes_on_where_it_was(endpoint: str, asked: str, first: int, length: int) -> None:
    answer = ask(endpoint, "gpt2/resolve/main/model.safetensors", headers={"Range": asked})
    assert (answer.status, answer.body) == (206, BIG[first : first + length])
    assert answer.headers["content-range"] == f"bytes {first}-{first + length - 1}/{len(BIG)}"


def test_a_range_behind_the_end(endpoint: str) -> None:
    answer = ask(endpoint, "gpt2/resolve/main/model.safetensors", headers={"Range": f"bytes={len(BIG)}-"})
    assert (answer.status, answer.headers["content-range"]) == (416, f"bytes */{len(BIG)}")


@pytest.mark.parametrize("same", [True, False])
def test_the_rest_of_a_file_is_given_to_who_has_its_beginning(endpoint: str, same: bool) -> None:
    """A client that resumes an older revision's file would put two together."""
    path = "gpt2/resolve/main/model.safetensors"
    etag = ask(endpoint, path, method="HEAD").headers["etag"] if same else f'"{"0" * 64}"'
    answer = ask(endpoint, path, headers={"Range": "bytes=4-", "If-Range": etag})
    assert (answer.status, answer.body) == ((206, BIG[4:]) if same else (200, BIG))


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("api/models/org/none", "RepoNotFound", "no model org/none: add it with `sagelet hub add DIR --as org/none`,"),
        ("none/resolve/main/a", "RepoNotFound", "no model none: add it with `sagelet hub add DIR --as none`,"),
        (
            "api/datasets/imdb",
            "RepoNotFound",
            "no dataset imdb: add it with `sagelet hub add DIR --as imdb --dataset`,",
        ),
        ("api/spaces/a/b/tree/main", "RepoNotFound", "`sagelet hub add DIR --as a/b --space`,"),
        ("api/models/gpt2/revision/v9", "RevisionNotFound", "`sagelet hub add DIR --as gpt2 --revision v9`"),
        ("gpt2/resolve/v9/config.json", "RevisionNotFound", "no revision v9: add it with"),
        ("gpt2/resolve/main/none.json", "EntryNotFound", "has no file none.json"),
        ("api/models/gpt2/tree/main/none", "EntryNotFound", "has no file none"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_miss_names_the_command_that_adds_it(endpoint: str, method: str, path: str, code: str, said: str) -> None:
    answer = ask(endpoint, path, method)
    assert (answer.status, answer.headers["x-error-code"]) == (404, code)
    # Where clients of each year show it.
    assert said in answer.headers["x-error-message"]
    assert answer.reason == answer.headers["x-error-message"]
    assert answer.body == b"" if method == "HEAD" else said in answer.json["error"]


def test_a_commit_of_the_real_hub_is_called_so_everywhere(data: Path, tmp_path: Path, endpoint: str) -> None:
    """huggingface_hub looks for its snapshot by the number that it asked for."""
    number = "e7da7f221d5bf496a48136c0cd264e630fe9fcc8"
    add_files(data, write_files(tmp_path, {"config.json": CONFIG}), "org/pinned", revision=number)
    assert ask(endpoint, f"org/pinned/resolve/{number}/config.json").headers["x-repo-commit"] == number
    assert ask(endpoint, f"api/models/org/pinned/revision/{number}").json["sha"] == number
    assert [one["id"] for one in ask(endpoint, f"api/models/org/pinned/commits/{number}").json] == [number]
    HubStore(data).remove(Kind.MODEL, "org/pinned")


def test_a_revision_that_none_can_be_called_gets_no_command(endpoint: str) -> None:
    answer = ask(endpoint, "gpt2/resolve/%24%28curl%20evil%29/config.json")
    assert answer.headers["x-error-code"] == "RevisionNotFound"
    assert "sagelet hub add" not in answer.headers["x-error-message"]
    pinned = ask(endpoint, f"gpt2/resolve/{'0' * 40}/config.json").headers["x-error-message"]
    assert f"`sagelet hub add DIR --as gpt2 --revision {'0' * 40}`" in pinned


def test_a_missing_file_says_of_which_commit(endpoint: str) -> None:
    """huggingface_hub remembers by it that there is none."""
    assert ask(endpoint, "gpt2/resolve/main/none.json", "HEAD").headers["x-repo-commit"] == sha(endpoint)


def paths(answer: Answer) -> list[tuple[str, str]]:
    return [(one["type"], one["path"]) for one in answer.json]


def test_trees(endpoint: str) -> None:
    assert paths(ask(endpoint, "api/models/gpt2/tree/main")) == [
        ("file", "config.json"), ("file", "model.safetensors"), ("directory", "onnx"), ("file", "ü b.txt"),
    ]  # fmt: skip
    assert paths(ask(endpoint, "api/models/gpt2/tree/main/onnx")) == [("directory", "onnx/deep")]
    assert paths(ask(endpoint, "api/models/gpt2/tree/main/onnx?recursive=True")) == [
        ("directory", "onnx/deep"), ("file", "onnx/deep/a.txt"),
    ]  # fmt: skip
    (found,) = ask(endpoint, "api/models/gpt2/tree/main/onnx/deep?expand=true").json
    assert found["lastCommit"]["id"] == sha(endpoint)
    weights = ask(endpoint, "api/models/gpt2/tree/main").json[1]
    assert weights["oid"] == git(BIG)
    assert weights["lfs"] == {"oid": hashlib.sha256(BIG).hexdigest(), "size": len(BIG), "pointerSize": 130}


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"paths=onnx&paths=config.json&paths=none&expand=False", "application/x-www-form-urlencoded"),
        (json.dumps({"paths": ["onnx", "config.json", "none"], "expand": False}).encode(), "application/json"),
    ],
)
def test_entries_by_their_paths(endpoint: str, body: bytes, content_type: str) -> None:
    answer = ask(endpoint, "api/models/gpt2/paths-info/main", "POST", body, {"Content-Type": content_type})
    assert paths(answer) == [("directory", "onnx"), ("file", "config.json")]


@pytest.mark.parametrize("body", [b"{", b"[1]", b'{"paths": 1}', b'{"paths": [1]}', b"[" * 100_000])
def test_bodies_that_say_nothing(endpoint: str, body: bytes) -> None:
    answer = ask(endpoint, "api/models/gpt2/paths-info/main", "POST", body, {"Content-Type": "application/json"})
    assert answer.status == 400


class Walked(dict[str, HubFile]):
    """Files that count how often somebody goes through all of them."""

    walks = 0

    def __iter__(self) -> Iterator[str]:
        self.walks += 1
        return super().__iter__()


def test_any_number_of_paths_is_little_work() -> None:
    """A job sends them: 8 MiB of paths kept the server busy for a minute, for 500 files."""
    files = Walked({f"a/b{number}/c": HubFile(0, "0" * 64, "0" * 40) for number in range(10)})
    asked = ["a/b7", *(f"none{number}" for number in range(1000)), "a", "a/b7/c", "a", "a/b"]
    found = entries_at(Commit("0" * 40, 0, files), asked, expand=False)
    assert [(one["type"], one["path"]) for one in found] == [
        ("directory", "a/b7"), ("directory", "a"), ("file", "a/b7/c"),
    ]  # fmt: skip
    assert files.walks == 1


def test_revisions_and_commits(endpoint: str) -> None:
    refs = ask(endpoint, "api/models/gpt2/refs").json
    assert {one["name"]: one["targetCommit"] for one in refs["branches"]} == {
        "main": sha(endpoint), "refs/pr/1": sha(endpoint),
    }  # fmt: skip
    (commit,) = ask(endpoint, "api/models/gpt2/commits/main").json
    assert commit["id"] == sha(endpoint)
    assert ask(endpoint, "api/models/gpt2/commits/main?p=1").json == []


def test_lists(endpoint: str) -> None:
    assert [one["id"] for one in ask(endpoint, "api/models").json] == ["openai-community/gpt2"]
    assert [one["id"] for one in ask(endpoint, "api/datasets?search=GL").json] == ["nyu-mll/glue"]
    assert ask(endpoint, "api/datasets?search=none").json == []
    assert ask(endpoint, "api/spaces?author=other").json == []
    assert ask(endpoint, "api/spaces?limit=0").json == []
    assert len(ask(endpoint, "api/models?limit=" + "9" * 5000).json) == len(ask(endpoint, "api/models").json)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", ["api/repos/create", "api/models/gpt2", "gpt2/resolve/main/config.json"])
def test_it_is_read_only(endpoint: str, method: str, path: str) -> None:
    answer = ask(endpoint, path, method, b"{}")
    assert answer.status == 405
    assert "sagelet hub add" in answer.json["error"]


@pytest.mark.parametrize(
    "path",
    [
        "", "api", "api/", "api/whoami-v2", "api/models/", "api/models/a/b/c/d", "api/telemetry/x", "gpt2",
        "gpt2/resolve", "gpt2/resolve/main", "..%2f..%2fcredentials",
        "%2e%2e/credentials", "api/models/..%2f..%2f/revision/main",
        "gpt2/resolve/main/..%2f..%2f..%2fcredentials", "gpt2/resolve/main/%2e%2e/%2e%2e/credentials",
        "gpt2/resolve/main//etc/passwd", "gpt2/resolve/..%2f..%2f/credentials", "api/models/%00",
        "%ff%fe/resolve/main/a", "api/models/gpt2/xet-read-token/main", "x" * 5000,
    ],
)  # fmt: skip
def test_whatever_else_is_asked_gets_a_refusal(endpoint: str, path: str) -> None:
    answer = ask(endpoint, path)
    assert answer.status in (200, 403, 404)
    if answer.status == 200:
        assert path == "api/models/"
    assert b"aws_secret" not in answer.body


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("a/resolve/main/f", Route(Asked.FILE, Kind.MODEL, "a", "main", "f")),
        ("a/b/resolve/x%2Fy/d/f", Route(Asked.FILE, Kind.MODEL, "a/b", "x/y", "d/f")),
        ("datasets/b/resolve/main/f", Route(Asked.FILE, Kind.DATASET, "b", "main", "f")),
        ("resolve/resolve/resolve/resolve", Route(Asked.FILE, Kind.MODEL, "resolve", "resolve", "resolve")),
        ("api/models/tree/tree/main", Route(Asked.TREE, Kind.MODEL, "tree", "main", "")),
        ("api/models/a/refs", Route(Asked.REFS, Kind.MODEL, "a")),
        ("api/models/a/b/commits/main", Route(Asked.COMMITS, Kind.MODEL, "a/b")),
    ],
)
def test_paths(path: str, route: Route) -> None:
    assert find_route(path) == route


def test_pages_of_others_get_nothing(endpoint: str) -> None:
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Host": "evil.example"}):
        answer = ask(endpoint, "gpt2/resolve/main/config.json", headers=headers)
        assert answer.status == 403
        assert CONFIG.encode() not in answer.body


def test_a_browser_runs_nothing_of_it(endpoint: str) -> None:
    answer = ask(endpoint, "gpt2/resolve/main/config.json", headers={"Accept": "text/html"})
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["content-type"].startswith("text/plain")


def test_a_file_that_is_large_by_its_size_alone(data: Path, tmp_path: Path, endpoint: str) -> None:
    (tmp_path / "s").mkdir()
    with (tmp_path / "s/words.txt").open("wb") as file:
        file.truncate(LARGE)
    add_files(data, tmp_path / "s", "large")
    answer = ask(endpoint, "large/resolve/main/words.txt", "HEAD")
    assert answer.headers["x-linked-size"] == str(LARGE)
