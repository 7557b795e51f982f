"""`sagelet context`, and what commands make of the server that is meant."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sagelet_api.cli.main import main
from sagelet_api.cli.up import _pinned
from sagelet_engine.hub.store import HubStore
from sagelet_engine.images.rules import mappings
from sagelet_engine.state.notice import Notice, post_notice
from support.api_world import ApiWorld

Run = Callable[..., Result]
GONE = "http://127.0.0.1:1"
#: In place of the default endpoint, where the machine may have a server, such as that of whoever runs the tests.
NOBODY = "http://127.0.0.1:2"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command of a user who has nothing but what the test gives."""
    for name in ("SAGELET_DATA", "SAGELET_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SAGELET_CONTEXTS", str(tmp_path / "contexts.json"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setattr("sagelet_api.servers.rule.DEFAULT_ENDPOINT", NOBODY)
    return lambda *words, **variables: CliRunner().invoke(main, words, env=variables)


@pytest.fixture
def endpoint(world: ApiWorld) -> str:
    """That of a server that runs on its data directory, as `sagelet up` does."""
    found = f"http://127.0.0.1:{world.port}"
    post_notice(world.settings.data, Notice(os.getpid(), found, 0, instance=world.engine.instance))
    return found


def error(result: Result, code: int = 1) -> str:
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    return result.stderr


def test_contexts_are_made_used_shown_and_removed(run: Run, tmp_path: Path) -> None:
    assert run("context", "create", "ci", "--endpoint", "http://ci:4599/", "--region", "eu-west-1").stdout == (
        "ci: http://ci:4599\n"
    )
    assert "where none runs now" in run("context", "create", "mine", "--data", str(tmp_path / "d"), "--use").stdout
    rows = [line.split("\t")[:4] for line in run("context", "ls").stdout.splitlines()]
    assert rows == [
        ["default", "", NOBODY, str(tmp_path / "share/sagelet")],
        ["ci", "", "http://ci:4599", ""],
        ["mine", "*", "", str(tmp_path / "d")],
    ]
    assert [one["current"] for one in json.loads(run("context", "ls", "--json").stdout)] == [False, False, True]
    assert json.loads(run("context", "show", "ci", "--json").stdout) == {
        "name": "ci", "endpoint": "http://ci:4599", "region": "eu-west-1",
    }  # fmt: skip
    assert json.loads(run("context", "show", "--json").stdout)["named_by"] == "context mine"
    assert "Named by\tcontext ci, SAGELET_CONTEXT\n" in run("context", "show", SAGELET_CONTEXT="ci").stdout
    assert "mine is the current context: `sagelet context use default` first" in error(run("context", "rm", "mine"))
    assert run("context", "use", "default").stdout == f"Commands mean {NOBODY} from now on\n"
    assert run("context", "rm", "mine", "ci").stdout == "mine: removed\nci: removed\n"
    assert len(run("context", "ls").stdout.splitlines()) == 1


def test_what_cannot_be_a_context_is_refused(run: Run, tmp_path: Path) -> None:
    run("context", "create", "ci", "--endpoint", "http://ci:4599")
    assert "--replace it" in error(run("context", "create", "ci", "--data", "/x"))
    assert run("context", "create", "ci", "--data", "/x", "--replace").exit_code == 0
    assert "take another name" in error(run("context", "create", "default", "--data", "/x"))
    # Which server is meant now is not asked: it would be another one tomorrow.
    assert "Name the server" in error(run("context", "create", "new", SAGELET_ENDPOINT="http://ci:4599"), 2)
    for wrong in ("ci:4599", "ftp://ci", "http://me:secret@ci", "http://ci:99999", "http://ci?x=1", "http://c i"):
        assert "--endpoint" in error(run("context", "create", "new", "--endpoint", wrong), 2), wrong
    assert "no such file" in error(run("context", "create", "new", "--data", "/x", "--ca", str(tmp_path / "none")))
    assert "is not a name" in error(run("context", "create", "a/b", "--data", "/x"), 2)
    for command in (("use", "cii"), ("show", "cii"), ("rm", "cii")):
        assert "Did you mean ci?" in error(run("context", *command))
    assert "Did you mean ci?" in error(run("jobs", "--context", "cii"))
    assert "default is always there" in error(run("context", "rm", "default"))


def test_using_a_context_tells_what_comes_before_it(run: Run) -> None:
    run("context", "create", "ci", "--endpoint", "http://ci:4599")
    used = run("context", "use", "ci", SAGELET_ENDPOINT="http://other:4599", AWS_ENDPOINT_URL="http://aws:4599")
    assert used.stderr == "Set here, and before the current context: SAGELET_ENDPOINT, AWS_ENDPOINT_URL\n"
    assert run("context", "use", "ci").stderr == ""


def test_commands_say_which_server_they_mean(run: Run, world: ApiWorld, endpoint: str) -> None:
    run("context", "create", "mine", "--data", str(world.settings.data), "--use")
    world.waiting_job("one")
    said = run("jobs")
    assert said.stderr == f"Server: {endpoint} (context mine)\n"
    assert said.stdout.startswith("one\t")
    assert run("jobs", SAGELET_ENDPOINT=endpoint).stderr == f"Server: {endpoint} (SAGELET_ENDPOINT)\n"
    for words in (("jobs", "--json"), ("jobs", "--context", "mine"), ("jobs", "--endpoint", endpoint)):
        assert run(*words).stderr == "", words
    # Errors say it, too.
    missing = error(run("describe", "two", "--context", "mine"))
    assert f"has no training job two in us-east-1 on {endpoint} (context mine): " in missing
    refused = error(run("throttle", "NoSuchThing", "1", "--json"))
    assert refused.splitlines()[-1] == f"Server: {endpoint} (context mine)"
    assert f"answers at {GONE} (SAGELET_ENDPOINT): " in error(run("jobs", "--json", SAGELET_ENDPOINT=GONE))


def test_names_of_contexts_are_completed(run: Run) -> None:
    run("context", "create", "staging", "--endpoint", "http://staging:4599")
    for words in ("sagelet context use st", "sagelet jobs --context st"):
        variables = {"_SAGELET_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "3"}
        result = CliRunner().invoke(main, [], env=variables, prog_name="sagelet")
        assert result.stdout == "plain,staging\n", words


# --- data directories -------------------------------------------------------------------------------------------------


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a.txt").write_text("a")
    return str(tmp_path / "source")


def test_objects_are_imported_into_the_directory_of_the_server(
    run: Run, world: ApiWorld, endpoint: str, source: str
) -> None:
    run("context", "create", "mine", "--data", str(world.settings.data), "--use")
    done = run("s3", "import", source, "s3://bucket/here")
    assert done.exit_code == 0, done.output
    assert done.stderr == f"Server: {endpoint} (context mine)\n"
    assert (world.settings.data / "s3/bucket/here/a.txt").read_text() == "a"


@pytest.mark.parametrize(
    ("words", "variables", "why"),
    [
        ((), {}, "No server runs on {share}/sagelet"),
        (("--data", "{idle}"), {"SAGELET_ENDPOINT": "{endpoint}"}, "No server runs on {idle}"),
        ((), {"SAGELET_DATA": "{idle}"}, "No server runs on {idle}"),
        (("--endpoint", "{endpoint}", "--data", "{idle}"), {}, "{endpoint} does not serve {idle}"),
        ((), {"SAGELET_ENDPOINT": "{endpoint}", "SAGELET_DATA": "{idle}"}, "does not serve {idle}"),
        (("--endpoint", "{endpoint}"), {}, "nothing says which data directory it has"),
        ((), {"AWS_ENDPOINT_URL": "{endpoint}"}, "nothing says which data directory it has"),
        (("--endpoint", GONE, "--data", "{data}"), {}, f"{{endpoint}} serves {{data}}, and {GONE} does not answer"),
    ],
)
def test_nothing_is_imported_into_another_directory(
    run: Run, world: ApiWorld, endpoint: str, source: str, tmp_path: Path,
    words: tuple[str, ...], variables: dict[str, str], why: str,
) -> None:  # fmt: skip
    names = {
        "share": str(tmp_path / "share"), "idle": str(tmp_path / "idle"), "endpoint": endpoint,
        "data": str(world.settings.data),
    }  # fmt: skip
    given = {name: value.format(**names) for name, value in variables.items()}
    refused = run("s3", "import", source, "s3://bucket", *(word.format(**names) for word in words), **given)
    assert why.format(**names) in error(refused)
    assert not (tmp_path / "idle").exists()
    assert not (tmp_path / "share").exists()
    assert not (world.settings.data / "s3/bucket").exists()


def test_no_command_writes_beside_the_server_that_is_meant(
    run: Run, world: ApiWorld, endpoint: str, tmp_path: Path
) -> None:
    idle = tmp_path / "idle"
    variables = {"SAGELET_ENDPOINT": endpoint, "SAGELET_DATA": str(idle)}
    commands = (
        ("image", "map", "uri", "local"), ("hub", "make-tiny", "gpt2"), ("hub", "remove", "gpt2"), ("cache", "clear"),
        ("gc",), ("check", "--repair"), ("reset", "--yes"), ("import", str(tmp_path / "export.tar")),
        ("hub", "add", str(tmp_path), "--as", "x"),
    )  # fmt: skip
    for command in commands:
        assert f"does not serve {idle}: its jobs would not see" in error(run(*command, **variables)), command
        assert "nothing says which data directory" in error(run(*command, SAGELET_ENDPOINT=GONE)), command
    assert not idle.exists()
    assert not (tmp_path / "share").exists()


def test_a_directory_that_is_named_alone_may_be_written_before_its_server_starts(
    run: Run, world: ApiWorld, endpoint: str, tmp_path: Path
) -> None:
    idle = tmp_path / "idle"
    variables = {"SAGELET_ENDPOINT": endpoint}
    assert run("image", "map", "uri", "local", "--data", str(idle), **variables).exit_code == 0
    assert mappings(idle) == {"uri": "local"}
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    assert run("hub", "add", str(model), "--as", "gpt2", "--data", str(idle), **variables).exit_code == 0
    assert [one.id for one in HubStore(idle).repositories()] == ["gpt2"]
    assert mappings(world.settings.data) == {}


def test_a_server_that_starts_anew_means_the_directory_that_it_had() -> None:
    words = ["python", "-m", "sagelet", "up", "--context", "mine", "--port", "0", "--context=mine"]
    assert _pinned(words, Path("/d")) == ["python", "-m", "sagelet", "up", "--port", "0", "--data", "/d"]
