"""Suggests commands for a mistyped one."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

#: Words of docker, kubectl, the AWS CLI and others, and the command that does the same here.
ELSEWHERE: Mapping[str, str] = {
    "build": "image build",
    "cancel": "stop",
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
    "version": "--version",
    "web": "open",
}


def did_you_mean(word: str, commands: Sequence[str]) -> list[str]:
    """Returns the likeliest commands first. Empty if none is similar."""
    lower = word.lower()
    if lower in commands:
        return [lower]
    if lower in ELSEWHERE:
        return [ELSEWHERE[lower]]
    return get_close_matches(lower, commands)
