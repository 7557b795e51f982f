"""The layers of the tests: what each one proves, and what of it `make test` runs (tests/layers.toml).

`pytest --chosen` runs that choice. Files that are not chosen are not even imported. The end of the run says what was
left out and how to run it.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TESTS = Path(__file__).parents[1]
#: `chosen` of a layer that is run as a whole.
WHOLE = "all"
_NAME = re.compile(r"(?P<file>[\w/]+\.py)(::(?P<test>\w+))?(\[(?P<parameter>[\w-]+)\])?")


@dataclass(frozen=True)
class Chosen:
    """Tests of one file: all of them, one function, those with one parameter, or both.

    Written as `test_x.py`, `test_x.py::test_y`, `test_x.py[docker]` or `test_x.py::test_y[docker]`.
    """

    file: str
    test: str | None = None
    parameter: str | None = None

    @classmethod
    def of(cls, name: str) -> "Chosen":
        if (parts := _NAME.fullmatch(name)) is None:
            raise ValueError(f"tests/layers.toml: {name!r} is not test_x.py, test_x.py::test_y or test_x.py[parameter]")
        return cls(parts["file"], parts["test"], parts["parameter"])

    def has(self, test: str) -> bool:
        """`test`: the name of a function with its parameters, such as `test_y[docker-2]`."""
        function, _, parameters = test.rstrip("]").partition("[")
        return self.test in (None, function) and (self.parameter in (None, parameters, *parameters.split("-")))


@dataclass(frozen=True)
class Layer:
    #: Below tests/, such as `unit/api`.
    directory: str
    #: One sentence, as CONTRIBUTING's table has it.
    proves: str
    #: None: all of them.
    chosen: tuple[Chosen, ...] | None
    #: Why these tests.
    because: str

    @classmethod
    def of(cls, directory: str, entry: dict[str, Any]) -> "Layer":
        names = entry["chosen"]
        chosen = None if names == WHOLE else tuple(Chosen.of(name) for name in names)
        return cls(directory, entry["proves"], chosen, entry.get("because", ""))

    def files(self) -> Iterator[Path]:
        """Yields the layer's files of tests."""
        yield from sorted((TESTS / self.directory).glob("test_*.py"))

    def is_part(self, name: str) -> bool:
        """True if only some tests of the file are chosen."""
        choices = self.of_file(name) or ()
        return bool(choices) and all(choice.test or choice.parameter for choice in choices)

    def of_file(self, name: str) -> tuple[Chosen, ...] | None:
        """Returns the choices of a file by its name. None: the layer is run as a whole."""
        return None if self.chosen is None else tuple(choice for choice in self.chosen if choice.file == name)


def entries() -> dict[str, Any]:
    """Returns what tests/layers.toml has."""
    read: dict[str, Any] = tomllib.loads((TESTS / "layers.toml").read_text(encoding="utf-8"))
    return read


def layers() -> dict[str, Layer]:
    """Returns the layers by their directories, in the order of tests/layers.toml."""
    return {directory: Layer.of(directory, entry) for directory, entry in entries()["layers"].items()}


class Choice:
    """A plugin of pytest that runs the chosen tests only."""

    def __init__(self) -> None:
        self._layers = layers()

    def is_chosen(self, path: Path, test: str) -> bool:
        choices = self._of(path)
        return choices is None or any(choice.has(test) for choice in choices)

    def _of(self, path: Path) -> tuple[Chosen, ...] | None:
        directory = path.parent.relative_to(TESTS).as_posix()
        layer = self._layers.get(directory)
        # A new directory is run until its layer says what it proves: tests/unit/docs/test_layers.py asks for that.
        return layer.of_file(path.name) if layer else None

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
        return True if is_test and self._of(collection_path) == () else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        chosen = [item for item in items if self.is_chosen(item.path, item.name)]
        kept = set(chosen)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = chosen

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(self.left_out(), yellow=True)

    def left_out(self) -> str:
        """Says which files were not run, by their layers, and how to run them."""
        counts = {}
        for layer in self._layers.values():
            files = [*layer.files()]
            if absent := [path for path in files if layer.of_file(path.name) == ()]:
                counts[layer.directory] = f"{len(absent)} of {len(files)} in tests/{layer.directory}"
        return (
            "`make test` ran one proof of each thing (CONTRIBUTING.md: What proves what). It left out these files of "
            f"tests: {', '.join(counts.values())}; and some tests of others. `make test TESTS=tests/attack` runs a "
            "directory, `make test ALL=1` everything."
        )
