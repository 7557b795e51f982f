"""Runs the user's script in a worker. If the script only defines `_mp_fn`, calls that with the rank.

AWS's xla_spawn imports the script and calls `_mp_fn(index)`. Scripts with a `__main__` guard do the same below it.
"""

import ast
import os
import runpy
import sys
from pathlib import Path


def command(script: str, arguments: list[str]) -> list[str]:
    if calls_for_mp_fn(Path(script)):
        return [sys.executable, "-m", __name__, script, *arguments]
    return [sys.executable, script, *arguments]


def calls_for_mp_fn(script: Path) -> bool:
    """True if the script defines `_mp_fn` and would not call it when it is run."""
    try:
        body = ast.parse(script.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return False  # Python itself says what is wrong with the script.
    defines = any(isinstance(node, ast.FunctionDef) and node.name == "_mp_fn" for node in body)
    guarded = any(isinstance(node, ast.If) and "__name__" in _names(node.test) for node in body)
    return defines and not guarded and not any("_mp_fn" in _names(node) for node in body)


def _names(node: ast.AST) -> set[str]:
    return {found.id for found in ast.walk(node) if isinstance(found, ast.Name)}


def main() -> None:
    script = sys.argv[1]
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    runpy.run_path(script, run_name="__mp_main__")["_mp_fn"](int(os.environ["RANK"]))


if __name__ == "__main__":
    main()
