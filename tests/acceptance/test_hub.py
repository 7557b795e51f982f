"""The offline hub: jobs that begin at it, the commands, and what a `kill -9` of them leaves."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.base.failpoints import VARIABLE, Failpoint
from sagelet_engine.hub.names import Kind
from sagelet_engine.hub.store import HubStore
from support.clients import ROOT
from support.hub import GLUE, add_files, ask, put_gpt2, write_files
from support.jobs import Jobs
from support.on_runtimes import in_docker, own_by_processes, own_in_docker
from support.server import COMPILED, SageletProcess

#: Code of scripts of 2021 to 2026. It names nothing of sagelet's.
SCRIPT = """
    import os
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("gpt2")
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    batch = tokenizer("hello the world", return_tensors="pt")
    print("loss", float(model(**batch, labels=batch["input_ids"]).loss))
    print("at", os.environ["HF_ENDPOINT"])
    try:
        AutoTokenizer.from_pretrained("org/missing")
    except OSError as error:
        print("miss:", error.__cause__)
"""


def sagelet(server: SageletProcess | None, *words: str, data: Path | None = None, **variables: str) -> Any:
    """Runs `sagelet hub ...` with --json. Returns what it printed."""
    done = run(server, *words, "--json", data=data, **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run(server: SageletProcess | None, *words: str, data: Path | None = None, **variables: str) -> Any:
    place = data or (server.data if server else None)
    program = server.program if server else SageletProcess(place or Path()).program
    return subprocess.run(
        [str(program), "hub", *words, "--data", str(place)],
        env={**os.environ, **variables}, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


@in_docker
def test_a_job_begins_at_the_hub(server: SageletProcess, jobs: Jobs) -> None:
    """In each runtime, natively; a miss says what adds it; the way in ends with the job."""
    put_gpt2(server.data)
    name = jobs.submit(SCRIPT)
    job = jobs.ended(name)
    log = jobs.log(name)
    assert job["TrainingJobStatus"] == "Completed", log
    (loss,) = (line for line in log if line.startswith("loss "))
    assert 6 < float(loss.split()[1]) < 8
    text = "\n".join(log)
    assert "sagelet's hub has no model org/missing: add it with `sagelet hub add DIR --as org/missing`" in text
    assert any(f"job {name}: sagelet's hub has no model org/missing" in line for line in server.output)
    (endpoint,) = (line.split()[1] for line in log if line.startswith("at "))
    way_in = server.endpoint + endpoint[endpoint.index("/_sagelet") :]
    assert ask(way_in, "gpt2/resolve/main/config.json").status == 403


@pytest.mark.xla
def test_a_compiled_job_does_so_too(servers: Callable[[str], SageletProcess]) -> None:
    server = servers("process")
    jobs = Jobs(server)
    put_gpt2(server.data)
    name = jobs.submit(SCRIPT, image=COMPILED, hyperparameters={"sagemaker_training_compiler_enabled": "true"})
    assert jobs.ended(name)["TrainingJobStatus"] == "Completed", jobs.log(name)


@pytest.mark.xla
def test_the_requests_own_endpoint_is_left_alone(servers: Callable[[str], SageletProcess]) -> None:
    jobs = Jobs(servers("process"))
    name = jobs.submit(
        "import os; print(os.environ['HF_ENDPOINT'])", Environment={"HF_ENDPOINT": "http://mine.example"}
    )
    jobs.ended(name)
    assert "http://mine.example" in jobs.log(name)


@own_by_processes
def test_from_a_bucket_while_the_server_runs_and_while_it_does_not(own_server: SageletProcess, tmp_path: Path) -> None:
    jobs = Jobs(own_server)
    jobs.s3.create_bucket(Bucket="models")
    for path, content in {"gpt2/config.json": "{}", "gpt2/a/b.bin": "b", "gpt2/": "", "other": "x"}.items():
        jobs.s3.put_object(Bucket="models", Key=path, Body=content.encode())
    found = sagelet(own_server, "add", "s3://models/gpt2", "--as", "org/gpt")
    assert (found["id"], found["files"], found["bytes"]) == ("org/gpt", 2, 3)
    endpoint = f"{own_server.endpoint}/_sagelet/hub"
    assert ask(endpoint, "org/gpt/resolve/main/a/b.bin").body == b"b"
    jobs.s3.put_object(Bucket="models", Key="gpt2/config.json", Body=b"[]")
    own_server.stop()
    assert sagelet(own_server, "add", "s3://models/gpt2/", "--as", "org/gpt")["commit"] != found["commit"]
    own_server.start()
    endpoint = f"{own_server.endpoint}/_sagelet/hub"
    assert ask(endpoint, "org/gpt/resolve/main/config.json").body == b"[]"
    assert ask(endpoint, f"org/gpt/resolve/{found['commit']}/config.json").body == b"{}"


@own_in_docker
def test_the_commands_of_the_page(own_server: SageletProcess, tmp_path: Path) -> None:
    """As they are printed, one after another; but for the one that downloads."""
    s3 = own_server.client("s3")
    s3.create_bucket(Bucket="my-bucket")
    s3.put_object(Bucket="my-bucket", Key="models/bert/config.json", Body=b"{}")
    cached = ".cache/huggingface/hub/models--bert-base-uncased"
    home = tmp_path / "home"
    write_files(home, {
        "models/gpt2/config.json": "{}",
        f"{cached}/refs/main": "0" * 40, f"{cached}/snapshots/{'0' * 40}/config.json": "{}",
        "metrics/accuracy/accuracy.py": "",
        **{f"data/glue/{path}": text for path, text in GLUE.items()},
    })  # fmt: skip
    page = (ROOT / "docs" / "how-to" / "hub.md").read_text(encoding="utf-8")
    block = page.partition("```console\n")[2].partition("```")[0]
    commands = [line.removeprefix("$ ") for line in block.splitlines() if not line.startswith("$ hf download")]
    assert len(commands) == 7
    programs = f"{own_server.program.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "HOME": str(home), "SAGELET_DATA": str(own_server.data), "PATH": programs}
    for command in commands:
        done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (command, done.stderr)
    listed = {(one["kind"], one["id"]) for one in sagelet(own_server, "ls")}
    assert listed == {
        ("model", "gpt2"), ("model", "bert-base-uncased"), ("model", "my-org/bert"), ("dataset", "nyu-mll/glue"),
        ("space", "evaluate-metric/accuracy"),
    }  # fmt: skip


def test_the_commands(tmp_path: Path) -> None:
    """Of a data directory that no server ever had."""
    data, glue = tmp_path / "data", write_files(tmp_path / "glue", GLUE)
    added = run(None, "add", str(glue), "--as", "glue", "--dataset", data=data)
    assert "README.md was made: the configurations are mrpc, sst2\n" in added.stdout
    sagelet(None, "make-tiny", "org/distilgpt2", data=data)
    listed = sagelet(None, "ls", data=data)
    assert [(one["kind"], one["id"], one["files"]) for one in listed] == [
        ("model", "org/distilgpt2", 8), ("dataset", "glue", 4),
    ]  # fmt: skip
    removed = sagelet(None, "remove", "glue", "--dataset", data=data)
    assert removed["files"] == 4
    assert run(None, "remove", "glue", "--dataset", data=data).returncode == 1
    assert data.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "nowhere", "--as", "a"), "nowhere: no such directory"),
        # It looks like a name of the real Hub.
        (("add", "org/gpt2", "--as", "org/gpt2"), "`sagelet hub add` adds files that are here"),
        (("add", "org/gpt2", "--as", "org/gpt2"), "`sagelet hub make-tiny org/gpt2`"),
        (("add", "imdb", "--as", "imdb", "--dataset"), "`hf download imdb --repo-type dataset` where"),
        (("add", "https://huggingface.co/gpt2", "--as", "gpt2"), "`sagelet hub add` adds files that are here"),
        (("add", __file__, "--as", "a"), "is a file: name the directory it is in"),
        (("add", ".",), "say what scripts call it"),
        (("add", ".", "gpt2"), "`sagelet hub add . --as gpt2`"),
        (("add", ".", "gpt2", "more", "--as", "a"), "one directory"),
        (("add", ".", "--as", "../a"), "is not the name of a repository"),
        (("add", ".", "--as", "a", "--revision", "a b"), "is not the name of a revision"),
        (("add", ".", "--as", "org/tree"), "nobody would find it"),
        (("add", ".", "--as", "a", "--dataset", "--space"), "name one"),
        (("add", "s3://none/x", "--as", "a"), "holds no bucket none"),
        (("add", "s3://none/x", "--as", "a"), "Buckets on AWS are not read"),
        (("make-tiny", "llama"), "name one with --like"),
        (("remove", "a"), "has no model a"),
        (("serve",), "has no hub yet"),
        (("serve", "--port", "65536"), "is not in the range 0<=x<=65535"),
    ],
)  # fmt: skip
def test_mistakes_are_a_line_that_says_what_helps(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    done = run(None, *words, data=tmp_path / "data")
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_removed_is_said_of_another_kind(tmp_path: Path) -> None:
    data = tmp_path / "data"
    run(None, "add", str(write_files(tmp_path / "glue", GLUE)), "--as", "glue", "--dataset", data=data)
    done = run(None, "remove", "glue", data=data)
    assert done.returncode == 1
    assert "has no model glue, but a dataset: `sagelet hub remove glue --dataset`" in done.stderr


def test_the_hub_without_a_server(tmp_path: Path) -> None:
    data = tmp_path / "data"
    put_gpt2(data)
    command = [str(SageletProcess(data).program), "hub", "serve", "--port", "0", "--data", str(data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            endpoint = process.stdout.readline().strip().removeprefix("HF_ENDPOINT=")
            assert ask(endpoint, "gpt2/resolve/main/config.json").json["model_type"] == "gpt2"
        finally:
            process.terminate()
    assert process.returncode == 0


def test_programs_of_the_owner_find_it(tmp_path: Path) -> None:
    """`sagelet run --hub`, also where signatures are checked; without the flag the real Hub is left alone."""
    server = SageletProcess(tmp_path / "data", "--runtime", "process", "--auth").start()
    try:
        put_gpt2(server.data)
        asked = [str(server.program), "env", "--json", "--data", str(server.data)]
        assert "HF_ENDPOINT" not in json.loads(subprocess.check_output(asked, timeout=60))
        told = json.loads(subprocess.check_output([*asked, "--hub"], timeout=60))["HF_ENDPOINT"]
        assert ask(told, "gpt2/resolve/main/config.json").status == 200
        printed = run(server, "serve").stdout.strip()
        assert printed == f"HF_ENDPOINT={told}"
    finally:
        server.stop()


def left_of(data: Path) -> tuple[list[str], int]:
    store = HubStore(data)
    return [one.id for one in store.repositories()], len(store.blobs())


def test_a_killed_command_leaves_all_or_nothing(tmp_path: Path) -> None:
    data, source = tmp_path / "data", write_files(tmp_path / "s", {"a": "1", "b": "2"})
    words = ("add", str(source), "--as", "m")
    for point, left in (
        (Failpoint.AFTER_HUB_BLOBS, ([], 2)),
        (Failpoint.AFTER_HUB_RECORD, (["m"], 2)),
    ):
        assert run(None, *words, data=data, **{VARIABLE: f"{point.value}=kill"}).returncode == -9
        assert left_of(data) == left
    assert (
        run(None, "remove", "m", data=data, **{VARIABLE: f"{Failpoint.AFTER_HUB_REMOVAL.value}=kill"}).returncode == -9
    )
    assert left_of(data) == ([], 2)
    program = str(SageletProcess(data).program)
    freed = json.loads(subprocess.check_output([program, "gc", "--json", "--data", str(data)], timeout=60))
    assert (freed["hub_files"], freed["hub_bytes"]) == (4, 4)
    assert left_of(data) == ([], 0)
    assert run(None, *words, data=data).returncode == 0
    assert left_of(data) == (["m"], 2)


@own_by_processes
def test_a_repository_is_replaced_while_it_is_read(own_server: SageletProcess, tmp_path: Path) -> None:
    """Whoever asks sees the former files or the new ones, and all files of a commit for ever."""
    source = tmp_path / "s"
    endpoint = f"{own_server.endpoint}/_sagelet/hub"
    for number in range(20):
        write_files(source, {"a": str(number), "b": str(number)})
        commit = add_files(own_server.data, source, "m", Kind.MODEL, now_ms=number).commit.id
        assert ask(endpoint, "m/resolve/main/a").body == str(number).encode()
        assert ask(endpoint, f"m/resolve/{commit}/b").body == str(number).encode()


def test_what_a_process_downloads_is_kept_from_its_users_cache(
    servers: Callable[[str], SageletProcess], tmp_path: Path
) -> None:
    """A tiny model here has the name of a real one there. The cache that the request names is the one."""
    server = servers("process")
    put_gpt2(server.data)
    script = "from huggingface_hub import hf_hub_download\nprint('cached', hf_hub_download('gpt2', 'config.json'))\n"
    jobs = Jobs(server)
    own, given = (
        jobs.submit({"train.py": script}),
        jobs.submit({"train.py": script}, Environment={"HF_HOME": str(tmp_path / "mine")}),
    )
    places = []
    for name in (own, given):
        job = jobs.ended(name)
        assert job["TrainingJobStatus"] == "Completed", job
        places += [Path(line.split()[1]) for line in jobs.log(name) if line.startswith("cached ")]
    assert server.data in places[0].parents
    assert tmp_path / "mine" in places[1].parents
    # It ends with the host.
    assert not places[0].exists()
    assert places[1].exists()


def test_a_job_that_fails_of_a_miss_has_a_finding(servers: Callable[[str], SageletProcess]) -> None:
    jobs = Jobs(servers("process"))
    script = "from huggingface_hub import hf_hub_download\nhf_hub_download('org/missing', 'config.json')\n"
    name = jobs.submit({"train.py": script})
    assert jobs.ended(name)["TrainingJobStatus"] == "Failed"
    finding = jobs.finding(name, "not-in-the-hub")
    assert "does not have the model org/missing" in finding["seen"]
    assert "`sagelet hub add DIR --as org/missing`" in finding["instead"]
