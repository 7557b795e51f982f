"""Finds the handlers of a source file that let an error end there: neither raised again nor passed on.

A handler passes an error on if it raises, or uses the error that it caught outside of a call of a logger: it returns
it, keeps it, or makes a line for the user of it. What only the server's log says, or nobody, is silent.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

#: Types so wide that a handler of them also takes errors that nobody thought of.
BROAD = frozenset({"Exception", "BaseException", "OSError", "EnvironmentError", "IOError"})
_LOGGERS = frozenset({"log", "_log", "logger", "logging"})


def silent_handlers(root: Path, file: Path) -> Iterator[str]:
    """Yields `PATH FUNCTION TYPES` for each silent handler of a broad type, and for each silent one that logs."""
    tree = ast.parse(file.read_bytes())
    name = file.relative_to(root).as_posix()
    for function, node in _walk(tree, ()):
        if isinstance(node, ast.ExceptHandler):
            types = _types(node.type)
            if _is_silent(node) and (types & BROAD or not types or _logs(node)):
                yield f"{name} {function} {','.join(sorted(types))}"
        elif isinstance(node, ast.Call) and _called(node) == "suppress":
            types = frozenset().union(*(_types(one) for one in node.args))
            if types & BROAD:
                yield f"{name} {function} suppress:{','.join(sorted(types))}"


def _walk(node: ast.AST, above: tuple[str, ...]) -> Iterator[tuple[str, ast.AST]]:
    for below in ast.iter_child_nodes(node):
        named = isinstance(below, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        inner = (*above, below.name) if named else above  # type: ignore[attr-defined]  # mypy does not keep `named`
        yield ".".join(inner), below
        yield from _walk(below, inner)


def _is_silent(handler: ast.ExceptHandler) -> bool:
    inside = [node for statement in handler.body for node in ast.walk(statement)]
    if any(isinstance(node, ast.Raise) for node in inside):
        return False
    if handler.name is None:
        return True
    logged = {id(part) for node in inside if _is_log(node) for part in ast.walk(node)}
    used = [node for node in inside if isinstance(node, ast.Name) and node.id == handler.name]
    return all(id(node) in logged for node in used)


def _logs(handler: ast.ExceptHandler) -> bool:
    return any(_is_log(node) for statement in handler.body for node in ast.walk(statement))


def _is_log(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in _LOGGERS
    )


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _types(node: ast.expr | None) -> frozenset[str]:
    if node is None:
        return frozenset()
    if isinstance(node, ast.Tuple):
        return frozenset().union(*(_types(one) for one in node.elts))
    return frozenset({node.attr if isinstance(node, ast.Attribute) else ast.unparse(node)})
