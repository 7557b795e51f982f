"""The reference pages are what the program says of itself, and nothing of it is left out."""

import re
import subprocess
import sys
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import click
import command_line
import pytest
import settings_page

import sagelet_api.cli
from sagelet_api.cli.main import main
from sagelet_api.cli.up_options import OPTIONS, settings_of
from sagelet_api.control import health
from sagelet_api.serve import Sagelet
from sagelet_engine.settings import RuntimeChoice, Settings

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("made", [command_line, settings_page])
def test_the_pages_are_made_of_the_program(made: "command_line | settings_page") -> None:  # type: ignore[valid-type]
    assert made.PAGE.read_text(encoding="utf-8") == made.page(), "run `make docs`"


def every_command(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    found = [(path, command)]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            assert inner.name == name
            found += every_command(inner, (*path, name))
    return found


@pytest.mark.parametrize(("path", "command"), every_command(main)[1:], ids=lambda one: str(one))
def test_a_command_says_what_it_and_its_options_do(path: tuple[str, ...], command: click.Command) -> None:
    assert command.help, path
    assert not command.get_short_help_str(66).endswith("..."), (
        "the first sentence is what `sagelet --help` has room for"
    )
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, f"{path} {option.opts}"


def test_every_command_of_the_package_is_in_a_section() -> None:
    listed = {command for _, command in every_command(main)}
    for module in iter_modules(sagelet_api.cli.__path__):
        members = vars(import_module(f"sagelet_api.cli.{module.name}")).values()
        own = {one for one in members if isinstance(one, click.Command) and one is not main}
        assert own <= listed, module.name


def test_a_command_loads_no_other() -> None:
    """All of them together take as long as the rest of a server's start."""
    program = (
        "import sys, click; from sagelet_api.cli.main import main; main.get_command(click.Context(main), 'up');"
        "print(*(name for name in sys.modules if name.startswith('sagelet_api.cli.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name.rpartition(".")[2] for name in done.stdout.split()}
    assert loaded & {str(command.name) for path, command in every_command(main) if len(path) == 1} == {"up"}


def test_every_setting_is_an_option() -> None:
    """An option sets each field of Settings. No field keeps its default by oversight."""
    names = {field.name for field in fields(Settings)}
    renamed = {
        "allow_host": "allowed_hosts",
        "stop_grace": "stop_grace_seconds",
        "compile_cache_size": "compile_cache_bytes",
        "keep_files": "keep_files_seconds",
        "keep_files_size": "keep_files_bytes",
        "keep_jobs": "keep_jobs_seconds",
        "writable_image": "writable_images",
        "root_image": "root_images",
        "log_size": "log_bytes",
        "no_hub": "hub",
    }

    def command() -> None: ...

    for option in OPTIONS:
        option(command)
    options = [one.name for one in command.__click_params__]  # type: ignore[attr-defined]
    assert {renamed.get(name, name) for name in options} - {"file_system"} | {"file_systems"} == names
    assert settings_of.__kwdefaults__ is None


def test_every_environment_variable_is_documented() -> None:
    sources = [path for name in ("api", "emulator", "images") for path in (ROOT / name).rglob("*") if path.is_file()]
    texts = (path.read_text(encoding="utf-8") for path in sources if path.suffix in (".py", ".c", ".sh"))
    used = {name for text in texts for name in re.findall(r"\bSAGELET_[A-Z_]*[A-Z]\b", text)}
    documented = (settings_page.CLIENTS, settings_page.JOBS, settings_page.TESTS, settings_page.INTERNAL)
    known = {*settings_page.server_options(), *(name for names in documented for name in names)}
    assert used <= known


def test_every_control_endpoint_is_documented(tmp_path: Path) -> None:
    server = Sagelet(Settings(data=tmp_path, port=0, runtime=RuntimeChoice.PROCESS))
    server.stop()
    there = {
        f"{method} {rule.rule}"
        for rule in server.control.flask().url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
        if rule.rule.startswith("/_sagelet/")
    }
    page = (ROOT / "docs" / "reference" / "control-api.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([A-Z]+ /_sagelet/\S+)`", page, re.MULTILINE)) == there | {f"GET {health.PATH}"}
