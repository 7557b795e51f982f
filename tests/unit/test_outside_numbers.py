"""No text from outside becomes a number by Python's own grammar, which takes `1_000`, `٣` and ` 3 `.

`int(text)` or `float(text)` that is tried, with a handler of ValueError, lets Python say what a number is. So does a
guard such as `text.isdecimal()`. `base/number_text.py` has the one grammar. What may stay is listed with its reason.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from sagelet_api.protocol.validation import rule_book
from sagelet_api.services.local_calls import fit
from sagelet_engine.base.number_text import number_in, whole_number_in

ROOT = Path(__file__).parents[2]
TREES = ("api", "emulator", "images/runtime")
#: Files in which Python's grammar decides, with the reason.
ALLOWED = {
    "api/sagelet_api/services/metric_queries/series.py": "rounds what a function of a number returned",
    "emulator/sagelet_engine/data/end_notes.py": "a number of JSON; what it is otherwise is no note",
    "emulator/sagelet_engine/runtimes/docker/stream.py": "the size of a chunk that Docker's daemon sends",
    "emulator/sagelet_engine/runtimes/node/host_files.py": "names in /proc",
    "emulator/sagelet_engine/state/owner.py": "a number that a server of sagelet wrote into its own directory",
    # In a job's own container, where only that job reads them.
    **dict.fromkeys(
        (
            "images/runtime/sagelet_runtime/absent/torch_xla/utils/utils.py",
            "images/runtime/sagelet_runtime/base/processes.py",
            "images/runtime/sagelet_runtime/collectives/layout.py",
            "images/runtime/sagelet_runtime/entry/attach.py",
            "images/runtime/sagelet_runtime/gpu/device.py",
            "images/runtime/sagelet_runtime/gpu/probe.py",
            "images/runtime/sagelet_runtime/gpu/trial.py",
            "images/runtime/sagelet_runtime/launch/framework.py",
            "images/runtime/sagelet_runtime/reporting/writer.py",
            "images/runtime/sagelet_runtime/torch_xla/debugging.py",
            "images/runtime/sagelet_runtime/torch_xla/spawn.py",
            "images/runtime/sagelet_runtime/workers/worker_failures.py",
            "images/runtime/sagelet_runtime/workers/xla_spawn.py",
        ),
        "variables that launchers set, or names in /proc and of files of this runtime",
    ),
}
GUARDS = ("isdecimal", "isdigit", "isnumeric")


def tried(tree: ast.AST) -> Iterator[int]:
    """Yields lines of `int(x)` and `float(x)` within a `try` that catches ValueError."""
    for block in ast.walk(tree):
        if isinstance(block, ast.Try) and any("ValueError" in ast.dump(one.type) for one in block.handlers if one.type):
            for call in (found for statement in block.body for found in ast.walk(statement)):
                name = getattr(call.func, "id", "") if isinstance(call, ast.Call) else ""
                if name in ("int", "float") and call.args and not _is_number(call.args[0]):
                    yield call.lineno


def _is_number(node: ast.expr) -> bool:
    """True for arithmetic and for methods that return numbers: no text is a sum, a product, or a timestamp."""
    if isinstance(node, ast.BinOp):
        return True
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("timestamp", "total_seconds", "time")


def guarded(tree: ast.AST) -> Iterator[int]:
    """Yields lines of `x.isdecimal()` and the like in an expression or statement without `x.isascii()`."""
    asked = {
        ast.dump(call.func.value)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "isascii"
    }
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in GUARDS):
            continue
        if ast.dump(call.func.value) not in asked:
            yield call.lineno


def places() -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for path in sorted(path for top in TREES for path in (ROOT / top).rglob("*.py")):
        tree = ast.parse(path.read_text())
        if lines := sorted({*tried(tree), *guarded(tree)}):
            found[path.relative_to(ROOT).as_posix()] = lines
    return found


def test_no_text_from_outside_is_tried_as_a_number() -> None:
    found = places()
    assert {name: lines for name, lines in found.items() if name not in ALLOWED} == {}
    assert sorted(ALLOWED.keys() - found.keys()) == []


@pytest.mark.parametrize("text", ["1_000", "\u0663", "\u00b2", "\u00a05", "0x10", "1 0", "", "+", "9" * 401, "1\n2"])
def test_what_is_no_number(text: str) -> None:
    assert (number_in(text), whole_number_in(text)) == (None, None)


def test_whole_numbers_have_no_point() -> None:
    assert [whole_number_in(text) for text in ("7", " +7\n", "-7", "007", "7.0", "7e0", "nan")] == [7, 7, -7, 7] + [
        None
    ] * 3


@pytest.mark.parametrize("text", ["1_000", "\u0663", "\u00a05"])
def test_a_pipelines_number_is_an_ascii_number(text: str) -> None:
    """The operation refuses the text, as it is."""
    shape = rule_book("sagemaker").input_shape("CreateTrainingJob")
    body = {"ResourceConfig": {"VolumeSizeInGB": text}}
    assert fit(shape, body) == body
    assert fit(shape, {"ResourceConfig": {"VolumeSizeInGB": "5"}}) == {"ResourceConfig": {"VolumeSizeInGB": 5}}


@pytest.mark.parametrize(
    "code",
    [
        "try:\n    n = int(text)\nexcept ValueError:\n    n = 0",
        "try:\n    n = [float(one) for one in text.split()]\nexcept (KeyError, ValueError):\n    n = 0",
        "n = int(text) if text.isdecimal() else 0",
        "n = other.isascii() and text.isdigit()",
    ],
)
def test_the_walk_sees_what_lets_python_decide(code: str) -> None:
    tree = ast.parse(code)
    assert [*tried(tree), *guarded(tree)] != []
