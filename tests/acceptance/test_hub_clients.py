"""Clients of the Hugging Face Hub as they were released, 2021 to today, with a server's hub; nothing else is asked."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.hub.access import HERE_ALONE
from sagelet_engine.hub.names import Kind
from support.clients import ENVIRONMENT_HUB, ROOT, answer_of, run_client
from support.hub import GLUE, add_files, left_for_others, put_gpt2, write_files
from support.proxy import RecordingProxy
from support.real_hub import RealHub
from support.server import SageletProcess

pytestmark = pytest.mark.hubclients
CLIENTS = Path(__file__).parent / "clients"
PYTHON = str(ENVIRONMENT_HUB / "bin" / "python")
HOOK = {"HOOK": str(ROOT / "images" / "runtime")}
MISS = "add it with `sagelet hub add DIR --as org/none`"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SageletProcess]:
    process = SageletProcess(tmp_path_factory.mktemp("data"), "--runtime", "process").start()
    put_gpt2(process.data)
    add_files(process.data, write_files(tmp_path_factory.mktemp("glue"), GLUE), "glue", Kind.DATASET)
    yield process
    process.stop()


def answer(server: SageletProcess, home: Path, script: str, *more: str, **variables: str) -> dict[str, Any]:
    cleared = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "PYTHON"))}
    with RecordingProxy() as proxy:
        environment = {**cleared, **proxy.environment, "HF_HOME": str(home), **variables}
        # As a job has it.
        environment |= {"HF_ENDPOINT": f"{server.endpoint}/_sagelet/hub", **HERE_ALONE}
        environment |= dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1")
        found = answer_of(run_client([PYTHON, str(CLIENTS / script), *more], home, environment))
        assert left_for_others(proxy) == []
    return found


@pytest.mark.parametrize("year", ["2021", "2022", "today"])
def test_huggingface_hub(server: SageletProcess, tmp_path: Path, year: str) -> None:
    of_year = [] if year == "today" else [str(ENVIRONMENT_HUB / year)]
    found = answer(server, tmp_path, "hub_client.py", *of_year, **(HOOK if year == "2021" else {}))
    assert found["version"].startswith({"2021": "0.4.", "2022": "0.10.", "today": "2."}[year])
    assert found["listed"] == [
        "config.json", "generation_config.json", "merges.txt", "model.safetensors", "pytorch_model.bin",
        "tokenizer.json", "tokenizer_config.json", "vocab.json",
    ]  # fmt: skip
    assert len(found["sha"]) == 40
    assert found["weights"] > 300_000
    assert found["again"]
    if year == "2021":
        # It caches files by their URLs.
        assert MISS in found["misses"][1]
    else:
        assert found["files"] == found["listed"]
        assert "RepositoryNotFoundError" in found["misses"][0]
    if year == "today":
        assert all(MISS in miss for miss in found["misses"])


@pytest.mark.parametrize("year", ["2021", "2022", "today"])
def test_clients_get_what_only_the_real_hub_has(tmp_path: Path, year: str) -> None:
    """With a stand-in of it: an old name, a redirect to a storage of another host, a miss."""
    of_year = [] if year == "today" else [str(ENVIRONMENT_HUB / year)]
    theirs, home = tmp_path / "theirs", tmp_path / "home"
    home.mkdir()
    process = SageletProcess(tmp_path / "ours", "--runtime", "process")
    put_gpt2(theirs)
    with RealHub(theirs) as real:
        process.environment |= {"SAGELET_OFFLINE": "0", "SAGELET_HUB_UPSTREAM": real.endpoint}
        with process:
            found = answer(process, home, "hub_client.py", *of_year, **(HOOK if year == "2021" else {}))
        assert found["weights"] > 300_000
        assert found["again"]
        assert {path.rpartition("/")[2] for _, path, _ in real.stored} >= {"pytorch_model.bin"}
        assert any(path.startswith("/gpt2/resolve/") for _, path, _ in real.seen)
        if year == "today":
            assert "RepositoryNotFoundError" in found["misses"][0]


def test_datasets_of_today(server: SageletProcess, tmp_path: Path) -> None:
    first = {"sentence": "bad movie", "label": 0, "idx": 0}
    found = answer(server, tmp_path, "hub_datasets.py", **HOOK)
    log = found.pop("log")
    assert found == {
        "rows": {"train": 3, "validation": 1}, "first": first, "streamed": first, "configurations": ["mrpc", "sst2"],
        "miss": "DatasetNotFoundError",
    }  # fmt: skip
    # It keeps to itself what the hub answers.
    assert any(line.startswith("sagelet: ") and f"{MISS[:-1]} --dataset`" in line for line in log), log


def test_transformers_of_2021(server: SageletProcess, tmp_path: Path) -> None:
    found = answer(server, tmp_path, "hub_datasets.py", str(ENVIRONMENT_HUB / "2021"), **HOOK)
    assert (found["layers"], found["tokens"][-2:]) == (2, ["Ġthe", "Ġworld"])
    assert found["weights"] > 300_000
    assert "org/none" in found["miss"]
