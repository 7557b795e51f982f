"""How the line uses a tensor that it evaluates: it logs the tensor, saves it, or computes with it."""

import ast
from enum import Enum

from sagelet_engine.doctor.source_line import SourceLine
from sagelet_engine.doctor.sources import Sources, called
from sagelet_engine.telemetry.compiler.worker import CallSite

#: Functions and methods that show values to people.
LOGGING = {
    "print", "master_print", "info", "debug", "warning", "error", "critical", "log", "log_metric", "log_metrics",
    "add_scalar", "add_scalars", "add_histogram", "set_postfix", "set_postfix_str", "set_description", "report",
    "write",
}  # fmt: skip
#: Functions and methods that write checkpoints.
SAVING = {"save", "save_model", "save_pretrained", "save_state", "save_file", "save_checkpoint"}


class Use(Enum):
    LOGGED = "logged"
    SAVED = "saved"
    #: Any other act of the script's own line.
    READ = "read"
    #: A library that the line calls does it outside of any loop of the script, so in the library's own training loop.
    LIBRARY = "library"


def use_of(evaluation: CallSite, sources: Sources) -> Use:
    script = sources.find(evaluation.file)
    found = script.statement(evaluation.line) if script else None
    if script is None or found is None:
        return Use.LIBRARY if evaluation.via else Use.READ
    calls = {called(node) for part in _own(found[0]) for node in ast.walk(part) if isinstance(node, ast.Call)}
    if calls & SAVING:
        return Use.SAVED
    if calls & LOGGING:
        return Use.LOGGED
    return Use.LIBRARY if evaluation.via and not script.in_loop(evaluation.line) else Use.READ


def place_of(calls: CallSite, sources: Sources) -> SourceLine:
    """Returns the place with the script's path in the source directory."""
    script = sources.find(calls.file)
    return SourceLine(script.path if script else calls.file, calls.line)


def _own(statement: ast.stmt) -> list[ast.AST]:
    """Returns the parts of a statement that are on its own lines, without the statements in it."""
    return [child for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.stmt)]
