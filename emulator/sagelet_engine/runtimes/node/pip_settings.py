"""The settings of pip beside its command line: variables, and files of configuration. Standard library only.

Source: pip.pypa.io, "Configuration".
"""

import os
import sys
from collections.abc import Iterator, Mapping
from configparser import Error, RawConfigParser
from contextlib import suppress
from pathlib import Path

PREFIX = "PIP_"
#: Sections that `pip install` reads. The last is what `pip config` writes for variables.
_SECTIONS = ("global", "install", ":env:")


def settings(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields names (as in `--find-links`, but with `_`) and values, of all files and of the variables."""
    for file in _files(environ):
        yield from _of_file(file)
    for name, value in sorted(environ.items()):
        if name.startswith(PREFIX):
            yield name.removeprefix(PREFIX).lower(), value


def _of_file(file: Path) -> Iterator[tuple[str, str]]:
    parser = RawConfigParser()
    # A file that cannot be read ends pip, or pip skips it, too.
    with suppress(OSError, UnicodeDecodeError, Error):
        parser.read_string(file.read_text())
    for section in _SECTIONS:
        if parser.has_section(section):
            yield from ((name.replace("-", "_"), value) for name, value in parser.items(section))


def _files(environ: Mapping[str, str]) -> Iterator[Path]:
    chosen = environ.get("PIP_CONFIG_FILE", "")
    if chosen == os.devnull:
        return
    home = Path(environ.get("HOME") or "~").expanduser()
    support = "Library/Application Support"
    for directory in environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(os.pathsep):
        yield Path(directory, "pip", "pip.conf")
    yield from (Path("/", support, "pip", "pip.conf"), Path("/etc/pip.conf"))
    yield from (home / ".pip" / "pip.conf", home / support / "pip" / "pip.conf")
    yield Path(environ.get("XDG_CONFIG_HOME") or home / ".config", "pip", "pip.conf")
    yield Path(sys.prefix, "pip.conf")
    if chosen:
        yield Path(chosen)
