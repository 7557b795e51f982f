"""The user's scripts as the doctor reads them: text and syntax tree by path. Pure."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import PurePosixPath

from sagelet_engine.doctor.source_line import SourceLine


class Script:
    """One Python file. If it does not parse, it has text but no tree."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self._lines = text.splitlines()
        self.text = text

    @cached_property
    def tree(self) -> ast.Module:
        try:
            return ast.parse(self.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return ast.Module(body=[], type_ignores=[])

    def line(self, number: int) -> str:
        """Returns a line without blanks around it. Empty if there is no such line."""
        return self._lines[number - 1].strip() if 1 <= number <= len(self._lines) else ""

    def calls(self) -> Iterator[ast.Call]:
        """All calls, in no particular order."""
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.Call))

    @cached_property
    def _statements(self) -> list[tuple[ast.stmt, tuple[ast.stmt, ...]]]:
        """Returns every statement with the statements around it, outermost first."""
        found: list[tuple[ast.stmt, tuple[ast.stmt, ...]]] = []
        open_: list[tuple[ast.AST, tuple[ast.stmt, ...]]] = [(self.tree, ())]
        while open_:
            node, around = open_.pop()
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.stmt):
                    found.append((child, around))
                    open_.append((child, (*around, child)))
                else:
                    open_.append((child, around))
        return found

    def statement(self, line: int) -> tuple[ast.stmt, tuple[ast.stmt, ...]] | None:
        """Returns the innermost statement of a line, with the statements around it."""
        return self._innermost.get(line)

    @cached_property
    def _innermost(self) -> dict[int, tuple[ast.stmt, tuple[ast.stmt, ...]]]:
        """Returns the innermost statement of each line. A script has as many calls that ask as it has lines."""
        found: dict[int, tuple[ast.stmt, tuple[ast.stmt, ...]]] = {}
        for entry in sorted(self._statements, key=lambda entry: len(entry[1])):
            for line in range(entry[0].lineno, (entry[0].end_lineno or 0) + 1):
                if line not in found or len(found[line][1]) < len(entry[1]):
                    found[line] = entry
        return found

    def in_loop(self, line: int) -> bool:
        """True if the line is in the body of a loop of its own function."""
        found = self.statement(line)
        if found is None:
            return False
        for around in reversed((*found[1], found[0])):
            if isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef)) and around.lineno != line:
                return False
            if isinstance(around, (ast.For, ast.While, ast.AsyncFor)):
                return True
        return False


class Sources:
    """The Python files of a source directory, by path relative to it.

    Those that ran are looked at, in the order in which they were loaded. Any file is found by its path.
    """

    def __init__(self, texts: Mapping[str, str], ran: Iterable[str] = ()) -> None:
        """`ran`: paths of what was loaded, the entry point first; others than those of `texts` are ignored.

        Without any, all files are looked at.
        """
        self._scripts = {path: Script(path, text) for path, text in sorted(texts.items())}
        loaded = [path for path in dict.fromkeys(ran) if path in self._scripts]
        self._looked_at = [self._scripts[path] for path in loaded or self._scripts]

    def __bool__(self) -> bool:
        return bool(self._scripts)

    def same_as(self, other: "Sources") -> bool:
        """True if both have the same files with the same texts."""
        return self._texts() == other._texts()

    def _texts(self) -> dict[str, str]:
        return {path: script.text for path, script in self._scripts.items()}

    def reached(self, entry: str) -> "Sources":
        """Returns the same files, and of these looks at an entry point and what it imports, as far as it can be read.

        For a job whose processes have not noted yet what they loaded. If the entry point is not among them, it
        looks at all files.
        """
        reached = [entry] if entry in self._scripts else []
        for path in reached:
            reached += [file for file in self._imported_by(self._scripts[path]) if file not in reached]
        return Sources(self._texts(), reached)

    def _imported_by(self, script: Script) -> Iterator[str]:
        """Yields the files that a script's import statements name, from the source directory or from its own."""
        own = PurePosixPath(script.path).parent
        for name in (name for node in ast.walk(script.tree) for name in _modules(node)):
            inner = PurePosixPath(*name.split(".")) if name else PurePosixPath()
            for base in (PurePosixPath(), own):
                for file in (base / inner / "__init__.py", (base / inner).with_suffix(".py") if name else base):
                    if str(file) in self._scripts:
                        yield str(file)

    @property
    def paths(self) -> tuple[str, ...]:
        """All files, also those that did not run."""
        return tuple(self._scripts)

    def __iter__(self) -> Iterator[Script]:
        return iter(self._looked_at)

    def find(self, file: str) -> Script | None:
        """Returns a script by its path, or by the end of a path if only one script has it. Reports may lack a part of
        the path.
        """
        if file in self._scripts:
            return self._scripts[file]
        wanted = PurePosixPath(file)
        alike = [
            script
            for path, script in self._scripts.items()
            if wanted.parts[-len(PurePosixPath(path).parts) :] == PurePosixPath(path).parts
            or PurePosixPath(path).parts[-len(wanted.parts) :] == wanted.parts
        ]
        return alike[0] if len(alike) == 1 else None

    def quoted(self, place: SourceLine | None) -> str:
        """Returns the line of a place as code, without its comment, to be appended to a sentence. Empty if it is
        unknown.
        """
        script = self.find(place.file) if place else None
        text = script.line(place.line).partition("  # ")[0] if script and place else ""
        return f" (`{text if len(text) <= 80 else text[:77] + '...'}`)" if text else ""

    def calls(self, *names: str) -> Iterator[tuple[Script, ast.Call]]:
        """Yields calls of functions, methods or classes by the last part of their name, in order of their places."""
        for script in self:
            found = [call for call in script.calls() if called(call) in names]
            for call in sorted(found, key=lambda call: (call.lineno, call.col_offset)):
                yield script, call


def _modules(node: ast.AST) -> list[str]:
    """Returns the dotted names of what may be modules in an import statement. Relative ones are without their dots."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        start = f"{node.module}." if node.module else ""
        names = [*([node.module] if node.module else []), *(f"{start}{alias.name}" for alias in node.names)]
    else:
        return []
    # The packages that a dotted name goes through are imported, too.
    return [name.rsplit(".", cut)[0] for name in names for cut in range(name.count("."), -1, -1)]


def called(call: ast.Call) -> str:
    """Returns the last part of the called name."""
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((given.value for given in call.keywords if given.arg == name), None)


def opaque(call: ast.Call) -> bool:
    """True if the call has arguments that cannot be read from the source: `f(*these, **those)`."""
    return any(given.arg is None for given in call.keywords) or any(
        isinstance(argument, ast.Starred) for argument in call.args
    )


def constant(node: ast.expr | None) -> object:
    """Returns the value of a literal, or None for anything else."""
    return node.value if isinstance(node, ast.Constant) else None
