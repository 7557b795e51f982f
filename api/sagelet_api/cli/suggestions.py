"""Suggests commands for a mistyped one."""

from collections.abc import Mapping, Sequence

import click

#: Words of docker, kubectl, the AWS CLI and others, and the command that does the same here.
ELSEWHERE: Mapping[str, str] = {
    "build": "image build",
    "cancel": "stop",
    "config": "context",
    "download": "artifacts get",
    "get": "describe",
    "health": "status",
    "help": "--help",
    "images": "image list",
    "info": "status",
    "inspect": "describe",
    "kill": "stop",
    "list": "jobs",
    "ls": "jobs",
    "ps": "jobs",
    "remove": "delete",
    "rm": "delete",
    "serve": "up",
    "server": "up",
    "show": "describe",
    "shutdown": "down",
    "start": "up",
    "tail": "logs --follow",
    "train": "submit",
    "use": "context use",
    "version": "--version",
    "web": "open",
}
#: Words for one thing, of which a group of commands has one.
_SAME = (
    frozenset({"ls", "list", "ps"}),
    frozenset({"rm", "remove", "delete", "clear", "del"}),
    frozenset({"add", "create", "new", "set", "import", "make-tiny"}),
    frozenset({"show", "inspect", "describe", "current", "get"}),
    frozenset({"use", "switch", "select", "set"}),
    frozenset({"get", "download", "pull"}),
)

#: The least likeness of a mistyped option, as of difflib. --json is 0.67 like --version.
_TYPO = 0.8


def did_you_mean(word: str, commands: Sequence[str], elsewhere: Mapping[str, str]) -> list[str]:
    """Returns the likeliest commands first. Empty if none is similar. `elsewhere`: words of other programs."""
    lower = word.lower()
    if lower in commands:
        return [lower]
    if lower in elsewhere:
        return [elsewhere[lower]]
    from difflib import get_close_matches  # Loaded late: for a mistyped command only.

    return get_close_matches(lower, commands)


class Suggesting(click.Group):
    """A group of commands that says which one was probably meant."""

    def elsewhere(self, context: click.Context) -> Mapping[str, str]:
        """What other programs call its commands."""
        own = self.list_commands(context)
        return {word: name for words in _SAME for name in own if name in words for word in words - {name}}

    def parse_args(self, context: click.Context, words: list[str]) -> list[str]:
        try:
            return super().parse_args(context, words)
        except click.NoSuchOption as error:
            from difflib import get_close_matches

            if get_close_matches(error.option_name, error.possibilities or (), cutoff=_TYPO):
                raise
            behind = f"Options of a command stand behind its name: {_path(context)} COMMAND {error.option_name}"
            raise click.UsageError(f"{error.message} {behind}", context) from error

    def resolve_command(
        self, context: click.Context, words: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(context, words)
        except click.exceptions.NoSuchCommand as error:
            meant = did_you_mean(error.command_name, self.list_commands(context), self.elsewhere(context))
            if not meant:
                raise
            likely = " or ".join(f"`{_path(context)} {one}`" for one in meant)
            raise click.UsageError(f"{error.message} Did you mean {likely}?", context) from error


def _path(context: click.Context) -> str:
    """`sagelet hub`, however the program was started."""
    if context.parent is None:
        return "sagelet"
    return f"{_path(context.parent)} {context.info_name}"
