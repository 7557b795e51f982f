"""What changed in this checkout, and the tests that it concerns, nearest first."""

import re
import subprocess
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from support.import_graph import ROOT, TESTS, Imports

#: Where the product's packages are.
SOURCES = ("emulator", "api", "images/runtime")
#: More than a shared word, less than two.
OF_DIRECTORY = 1.5
#: Tests of the pages, which a change of anything may concern. They take seconds.
PAGES = ("unit/docs/test_contributing.py", "unit/docs/test_pages.py", "unit/docs/test_plain_words.py")


def changed_files(root: Path = ROOT) -> list[Path]:
    """Returns files that differ from the merge base with main, committed or not, without those that are gone."""
    known = _git(root, "branch", "--all", "--format=%(refname:short)")
    main = next((name for name in ("main", "origin/main") if name in known), "HEAD")
    names = _git(root, "diff", "--name-only", "--no-renames", _git(root, "merge-base", main, "HEAD")[0])
    names += _git(root, "ls-files", "--others", "--exclude-standard")
    return [path for name in sorted(set(names)) if (path := root / name).is_file()]


def _git(root: Path, *words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def module_of(path: Path) -> str | None:
    """Returns the module of the product that a file is, or the package that a template or a table lies in."""
    for source in SOURCES:
        if not path.is_relative_to(ROOT / source):
            continue
        package = path.parent
        while not (package / "__init__.py").exists() and package != ROOT / source:
            package = package.parent
        parts = package.relative_to(ROOT / source).parts
        own = path.suffix == ".py" and path.parent == package and path.stem != "__init__"
        return ".".join([*parts, path.stem] if own else parts) or None
    return None


def nearness(path: Path, changed: str) -> float:
    """Counts the words that a file of tests shares with a changed module: `sagelet_api.web.job` and
    `unit/api/test_web_job.py` have three. A directory named as one of the module's packages counts for more.
    """
    of_module = _words(changed)
    shared = len(of_module & _words(str(path.relative_to(TESTS))))
    # unit/api is the directory of most packages of the API: it tells nothing.
    return shared + (OF_DIRECTORY if path.parent.name in of_module - {"api"} else 0)


def _words(name: str) -> set[str]:
    return set(re.split(r"[./_]", name)) - {"sagelet", "test", "tests", "unit", "py", ""}


class Concerned:
    """The unit tests that a change concerns.

    They import a changed file, also through others. Tests that start programs import nothing of these: so those of
    the directory that is named as one of the module's packages belong to it, too.
    """

    def __init__(self, changed: Iterable[Path], imports: Imports) -> None:
        self._changed = list(changed)
        self._imports = imports

    @cached_property
    def names(self) -> set[str]:
        """Changed modules of the product and of the tests."""
        tests = {path: name for name, path in self._imports.tests.items()}
        return {name for path in self._changed if (name := tests.get(path) or module_of(path))}

    def files(self) -> list[Path]:
        """Returns files of tests: changed ones, the pages', then those whose names and imports are nearest."""
        distances = self._imports.distances(self.names)
        ranked = []
        for name, path in self._imports.tests.items():
            if path.is_relative_to(TESTS / "unit") and path.name.startswith("test_"):
                near = max((nearness(path, changed) for changed in self.names), default=0)
                if name in distances or near >= OF_DIRECTORY:
                    ranked.append((-near, distances.get(name, len(distances)), path.stat().st_size, path))
        own = [path for path in self._changed if path.is_relative_to(TESTS) and path.name.startswith("test_")]
        return [*dict.fromkeys([*own, *(TESTS / name for name in PAGES), *(path for *_, path in sorted(ranked))])]
