"""Lets HfArgumentParser take the old names, on the command line and from a dict or JSON file."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields
from types import ModuleType
from typing import Any

from sagelet_runtime.base.wire import Arguments
from sagelet_runtime.hugging_face import arguments

#: A field that only TrainingArguments has. Other dataclasses are left alone.
_OURS = "eval_strategy"


def new_words(words: Sequence[str], options: Iterable[str]) -> list[str]:
    """Turns `--evaluation_strategy no` into `--eval_strategy no`. A dropped option is removed with its value.

    `options` are those that the parser knows (`--eval_strategy`). They stay, whatever their names.
    """
    known = {option.removeprefix("--") for option in options if option.startswith("--")}
    found: list[str] = []
    name: str | None = ""
    for word in words:
        if not word.startswith("--"):
            if name is not None:
                found.append(arguments.new_value(name, word))
            continue
        option, equals, value = word.removeprefix("--").partition("=")
        plain = option if option in known else option.replace("-", "_")
        name = arguments.new_name(plain, known)
        if name is not None:
            shown = option if name == plain else name
            found.append(f"--{shown}{equals}{arguments.new_value(name, value)}")
    return found


def install(module: ModuleType) -> None:
    parser = module.HfArgumentParser
    parse_known_args, parse_dict = parser.parse_known_args, parser.parse_dict

    @functools.wraps(parse_known_args)
    def with_old_options(self: Any, args: Sequence[str] | None = None, *rest: Any, **more: Any) -> Any:
        options = self._option_string_actions
        if f"--{_OURS}" in options:
            args = new_words(sys.argv[1:] if args is None else args, options)
        return parse_known_args(self, args, *rest, **more)

    @functools.wraps(parse_dict)
    def with_old_keys(self: Any, args: Arguments, *rest: Any, **more: Any) -> Any:
        known = {field.name for kind in self.dataclass_types for field in fields(kind)}
        return parse_dict(self, arguments.translated(args, known) if _OURS in known else args, *rest, **more)

    parser.parse_known_args = with_old_options
    parser.parse_dict = with_old_keys
