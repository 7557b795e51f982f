"""Clients of 2021 and 2022 at the hub: their constants, their misses, and data sets whose card has configurations."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sagelet_api.http.server import Server
from sagelet_api.hub.alone import HubAlone
from sagelet_engine.hub.names import Kind
from sagelet_engine.hub.store import HubStore
from sagelet_runtime.base import say
from sagelet_runtime.hugging_face import hub
from support.hub import GLUE, add_files, write_files

OURS = "http://127.0.0.1:1/_sagelet/hub"


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    data = tmp_path / "data"
    add_files(data, write_files(tmp_path / "glue", GLUE), "glue", Kind.DATASET)
    add_files(data, write_files(tmp_path / "script", {"squad.py": "", "a.csv": ""}), "squad", Kind.DATASET)
    add_files(data, write_files(tmp_path / "plain", {"train.csv": "a\n1\n"}), "org/plain", Kind.DATASET)
    card = json.dumps({"configs": [{"config_name": "x", "data_files": [{"split": "train", "path": "d/t*"}]}]})
    files = {"README.md": f"---\n{card}\n---\n", "d/t 1.parquet": "", "d/u.parquet": ""}
    add_files(data, write_files(tmp_path / "own", files), "org/own", Kind.DATASET)
    with Server(HubAlone(HubStore(data)), "127.0.0.1", 0) as server:
        monkeypatch.setenv("HF_ENDPOINT", f"{server.endpoint}/_sagelet/hub")
        monkeypatch.setattr(say, "_said", set())
        yield f"{server.endpoint}/_sagelet/hub"


class Datasets:
    """The patched part of `datasets.load`. `loaded` has the requests."""

    def __init__(self) -> None:
        self.loaded: list[Any] = []

    def load_dataset_builder(self, path: str, *more: Any, **others: Any) -> None:
        self.loaded = [path, *more]


def asked(path: str, *more: Any, **others: Any) -> list[Any]:
    module = Datasets()
    hub.install_datasets(module)
    module.load_dataset_builder(path, *more, **others)
    return module.loaded


def test_constants_of_old_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", OURS)
    transformers = SimpleNamespace(HUGGINGFACE_CO_RESOLVE_ENDPOINT=hub.REAL, HUGGINGFACE_CO_PREFIX="")
    hub.install_transformers(transformers)
    assert transformers.HUGGINGFACE_CO_PREFIX.format(model_id="gpt2", revision="main", filename="a") == (
        f"{OURS}/gpt2/resolve/main/a"
    )
    old = SimpleNamespace(ENDPOINT=hub.REAL)
    hub.install_huggingface_hub(old)
    assert (old.ENDPOINT, old.HUGGINGFACE_CO_URL_TEMPLATE) == (OURS, OURS + "/{repo_id}/resolve/{revision}/{filename}")


def test_those_of_today_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", OURS)
    for module in (SimpleNamespace(ENDPOINT=OURS), SimpleNamespace(ENDPOINT="http://mine"), SimpleNamespace()):
        before = dict(vars(module))
        hub.install_huggingface_hub(module)
        hub.install_transformers(module)
        assert vars(module) == before
    own = Datasets()
    own.MetadataConfigs = None  # type: ignore[attr-defined]
    hub.install_datasets(own)
    assert "load_dataset_builder" not in vars(own)


def test_a_configuration_of_a_data_set_without_a_script(endpoint: str) -> None:
    reader, name, directory, files = asked("glue", "sst2")
    assert (reader, name, directory) == ("csv", "sst2", None)
    root = files["train"][0].removesuffix("/sst2/train.csv")
    assert root.startswith(f"{endpoint}/datasets/glue/resolve/")
    assert files == {"train": [f"{root}/sst2/train.csv"], "validation": [f"{root}/sst2/validation.csv"]}
    assert asked("org/own")[0] == "parquet"
    assert [one.rsplit("/", 2)[1:] for one in asked("org/own", "x")[3]["train"]] == [["d", "t%201.parquet"]]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        # The organisation leads 2021's `datasets` from GitHub to the hub.
        ("squad", "rajpurkar/squad"),
        ("org/plain", "org/plain"),
        ("none", "none"),
        ("csv", "csv"),
    ],
)
def test_all_others_are_left_to_the_client(endpoint: str, path: str, expected: str) -> None:
    assert asked(path)[0] == expected
    assert asked(path)[3] is None


def test_what_names_its_files_is_left_alone(endpoint: str) -> None:
    assert asked("glue", "sst2", None, {"train": "x"}) == ["glue", "sst2", None, {"train": "x"}]
    assert asked("glue", "sst2", data_files="x")[:2] == ["glue", "sst2"]


def test_a_miss_is_said_in_the_log(endpoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked("org/none")
    assert "sagelet: sagelet's hub has no dataset org/none: add it with `sagelet hub add" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["_raise_for_status", "hf_raise_for_status"])
def test_a_miss_of_a_library_that_keeps_it_to_itself_too(
    endpoint: str, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """transformers before 4.22; huggingface_hub, whose words today's `datasets` drops."""
    raised: list[Any] = []
    module = SimpleNamespace(**{name: lambda *given, **named: raised.append((*given, named))})
    hub.tell_misses(module)
    response = SimpleNamespace(headers={"X-Error-Code": "RepoNotFound", "X-Error-Message": "add it so"})
    call = getattr(module, name)
    call(response, endpoint_name="x")
    call(SimpleNamespace(headers={"X-Error-Code": "EntryNotFound", "X-Error-Message": "no file"}))
    assert raised[0] == (response, {"endpoint_name": "x"})
    assert len(raised) == 2
    assert capsys.readouterr().out == "sagelet: add it so\n"


def test_what_the_hub_says_to_evaluate(capsys: pytest.CaptureFixture[str]) -> None:
    """It asks without huggingface_hub, and first for the revision of its own version."""
    codes = iter(["RevisionNotFound", "RepoNotFound"])

    def own(method: str, url: str, max_retries: int = 0) -> Any:
        code = next(codes)
        return SimpleNamespace(headers={"X-Error-Code": code, "X-Error-Message": f"{method} {url}: {code}"})

    module = SimpleNamespace(_request_with_retry=own)
    hub.install_evaluate(module)
    for _ in range(2):
        assert module._request_with_retry("HEAD", "/glue", max_retries=1).headers["X-Error-Message"]
    assert capsys.readouterr().out == "sagelet: HEAD /glue: RepoNotFound\n"


def test_without_a_hub_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    assert asked("glue", "sst2")[0] == "glue"
    monkeypatch.setenv("HF_ENDPOINT", OURS)
    assert asked("glue", "sst2")[0] == "glue"


@pytest.mark.parametrize("path", ["no such/directory here", "a?b#c", "../x", "ü", "%41"])
def test_any_text_is_left_to_the_client(endpoint: str, path: str) -> None:
    """As of a directory that is not there, of which the client has an error of its own."""
    assert asked(path)[0] == path


@pytest.mark.parametrize(
    "data_files",
    ['"*.csv"', '["*.csv"]', '{"train": "*.csv"}', '{"train": ["*.csv"]}', '[{"split": "train", "path": ["*.csv"]}]'],
)
def test_a_card_in_each_of_its_forms(endpoint: str, tmp_path: Path, data_files: str) -> None:
    files = {"README.md": f"---\nconfigs:\n- data_files: {data_files}\n---\n", "a.csv": "a\n1\n"}
    add_files(tmp_path / "data", write_files(tmp_path / "card", files), "org/card", Kind.DATASET)
    path, _, _, data = asked("org/card")
    assert path == "csv"
    assert [split for split, (url,) in data.items() if url.endswith("/a.csv")] == ["train"]


@pytest.mark.parametrize(
    "card", ["configs:", "configs: [1]", "configs: 7", "[a", "a\tb: [", "7", "configs: [{config_name: x}]",
             "configs: [{data_files: [{path: a.csv}]}]", "configs: [{data_files: 7}]", "configs: [{data_files: []}]"]
)  # fmt: skip
def test_a_card_that_says_nothing_of_files_is_left_to_the_client(endpoint: str, tmp_path: Path, card: str) -> None:
    files = {"README.md": f"---\n{card}\n---\n", "a.csv": "a\n1\n"}
    add_files(tmp_path / "data", write_files(tmp_path / "card", files), "org/card", Kind.DATASET)
    assert asked("org/card")[0] == "org/card"
