"""docs/how-to/troubleshooting.md quotes messages as the program has them."""

import ast
import re
from functools import cache
from pathlib import Path

import click
import pytest

from sagelet_api.cli.main import main

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/how-to/troubleshooting.md").read_text(encoding="utf-8")
#: The first column of the tables: a message is in backquotes.
MESSAGES = sorted(
    message
    for row in re.findall(r"^\| ([^|]*) \|", PAGE, re.MULTILINE)
    for message in re.findall(r"`([^`]+)`", row)
    if message != "requirements.txt"
)


@cache
def texts() -> str:
    """All text literals of the program, in the order of the source: parts of one message follow each other."""
    found = []
    for path in sorted([*(ROOT / "api").rglob("*.py"), *(ROOT / "emulator").rglob("*.py")]):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        literals = [node for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        found += [str(node.value) for node in sorted(literals, key=lambda node: (node.lineno, node.col_offset))]
    return "".join(found)


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_the_programs(message: str) -> None:
    parts = [part.strip() for part in message.split("...") if part.strip(" ,")]
    assert parts
    for part in parts:
        assert part in texts(), f"{part!r} is not a text of the program any more"


def test_options_and_commands_exist() -> None:
    context = click.Context(main)
    commands = {name: main.get_command(context, name) for name in main.list_commands(context)}
    assert set(re.findall(r"`sagelet ([a-z]\w*)", PAGE)) <= commands.keys()
    known = {option for command in commands.values() if command for one in command.params for option in one.opts}
    groups = [command for command in commands.values() if isinstance(command, click.Group)]
    known |= {o for group in groups for sub in group.commands.values() for one in sub.params for o in one.opts}
    assert set(re.findall(r"`(--[a-z-]+)", PAGE)) <= known
