"""A mistyped command or option gets a suggestion."""

import click
import pytest
from click.testing import CliRunner

from sagelet_api.cli.main import main
from sagelet_api.cli.suggestions import ELSEWHERE


def last_line(*words: str) -> str:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["jbos"], "Did you mean `sagelet jobs`?"),
        (["Up"], "Did you mean `sagelet up`?"),
        (["ps", "-a"], "Did you mean `sagelet jobs`?"),
        (["image", "buidl"], "Did you mean `sagelet image build`?"),
        (["image", "ls"], "Did you mean `sagelet image list`?"),
        (["hub", "list"], "Did you mean `sagelet hub ls`?"),
        (["context", "add"], "Did you mean `sagelet context create`?"),
        (["context", "delete", "x"], "Did you mean `sagelet context rm`?"),
        (["context", "set", "x"], "Did you mean `sagelet context use`?"),
        (["artifacts", "download", "x"], "Did you mean `sagelet artifacts get`?"),
        (["jobs", "--statsu", "Failed"], "Did you mean '--status'?"),
        (["up", "--log_level", "info"], "Did you mean '--log-level'?"),
        (["--data", "x", "up"], "Options of a command stand behind its name: sagelet COMMAND --data"),
        (
            ["--json", "jobs"],
            "Error: No such option '--json'. Options of a command stand behind its name: sagelet COMMAND --json",
        ),
        (["hub", "--json", "ls"], "Options of a command stand behind its name: sagelet hub COMMAND --json"),
        (["--versio"], "Did you mean '--version'?"),
    ],
)
def test_what_was_meant(typed: list[str], meant: str) -> None:
    assert last_line(*typed).endswith(meant)


def test_what_is_like_nothing_gets_no_guess() -> None:
    assert last_line("xyzzy") == "Error: No such command 'xyzzy'."


@pytest.mark.parametrize(("word", "command"), ELSEWHERE.items())
def test_what_other_programs_call_it_is_a_command_here(word: str, command: str) -> None:
    context = click.Context(main)
    assert main.get_command(context, word) is None
    found: click.Command | None = main
    for part in command.split():
        if part.startswith("--"):
            assert found is not None
            assert any(part in option.opts for option in found.get_params(context)), command
        else:
            assert isinstance(found, click.Group)
            found = found.get_command(context, part)
    assert found is not None, command
