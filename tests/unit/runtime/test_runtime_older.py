"""Older than the rest: Python 3.9, torch and torch_xla 2.1, Transformers before 4.39 and Accelerate before 0.28."""

import ast
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from sagelet_runtime.base import command_line, installed
from sagelet_runtime.base.pairs import paired
from sagelet_runtime.collectives.store import has
from sagelet_runtime.hugging_face import dated
from sagelet_runtime.torch_xla import older

RUNTIME = Path(older.__file__).parents[1]


class Store:
    """The PrefixStore of torch 2.1: no `check`."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        if key not in self.kept:
            return expected.encode()
        if self.kept[key] == expected.encode():
            self.kept[key] = desired.encode()
        return self.kept[key]


@pytest.mark.parametrize("file", sorted(RUNTIME.rglob("*.py")), ids=lambda file: file.relative_to(RUNTIME).as_posix())
def test_every_file_is_python_3_9(file: Path) -> None:
    """Its grammar. What is evaluated is tested where there is a Python 3.9: tests/contract/test_python_3_9.py."""
    tree = ast.parse(file.read_text(), feature_version=(3, 9))
    unions = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Call) and _asks_for_union(node)]
    assert unions == [], "isinstance takes no X | Y before Python 3.10"
    strict = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_strict_zip(node)]
    assert strict == [], "zip has no `strict` before Python 3.10: see pairs.py"


def _asks_for_union(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "isinstance" and isinstance(call.args[1], ast.BinOp)


def _is_strict_zip(call: ast.Call) -> bool:
    return (
        isinstance(call.func, ast.Name)
        and call.func.id == "zip"
        and any(word.arg == "strict" for word in call.keywords)
    )


def test_pairs_are_of_equal_length() -> None:
    assert list(paired([1, 2], "ab")) == [(1, "a"), (2, "b")]
    with pytest.raises(ValueError, match="2 and 1 elements do not pair up"):
        paired([1, 2], "a")


def test_the_command_line_without_sys_orig_argv(monkeypatch: pytest.MonkeyPatch) -> None:
    known = list(sys.orig_argv)
    monkeypatch.setattr(command_line, "KNOWS_ITS_COMMAND", False)
    assert command_line.of_this_process() == known


def test_a_store_that_cannot_check_is_asked_by_a_comparison() -> None:
    store = Store()
    assert not has(store, "worker/1")
    assert store.kept == {}, "to ask sets nothing"
    store.kept["worker/1"] = b"there"
    assert has(store, "worker/1")
    assert has(SimpleNamespace(check=lambda keys: keys == ["k"]), "k")


@pytest.fixture
def torch_xla_2_1(monkeypatch: pytest.MonkeyPatch) -> Any:
    """As much of torch 2.1 and torch_xla 2.1 as `older` looks at; `calls` has what was called."""
    calls: list[tuple[Any, ...]] = []
    xm = ModuleType("torch_xla.core.xla_model")
    vars(xm).update(mark_step=lambda wait: calls.append(("mark_step", wait)), xla_device=lambda: "xla:0")
    xmp = ModuleType("torch_xla.distributed.xla_multiprocessing")
    vars(xmp).update(spawn=lambda fn, args, start_method: calls.append((fn, args, start_method)))
    counters = {"aten::nonzero": 2, "UncachedCompile": 1}
    native = SimpleNamespace(
        _xla_counter_names=lambda: list(counters),
        _xla_counter_value=counters.get,
        _xla_get_default_device=lambda: "xla:0",
    )
    package = ModuleType("torch_xla")
    vars(package).update(__version__="2.1.0", _XLAC=native, calls=calls)
    torch = ModuleType("torch")
    vars(torch).update(amp=SimpleNamespace(), cuda=SimpleNamespace(amp=SimpleNamespace(GradScaler=object())))
    modules = {
        "torch": torch,
        "torch_xla": package,
        "torch_xla.core": SimpleNamespace(xla_model=xm),
        "torch_xla.core.xla_model": xm,
        "torch_xla.distributed": SimpleNamespace(xla_multiprocessing=xmp),
        "torch_xla.distributed.xla_multiprocessing": xmp,
    }
    vars(package).update(core=modules["torch_xla.core"], distributed=modules["torch_xla.distributed"])
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(os, "environ", {})
    return package


def test_the_names_of_torch_xla_2_1_are_completed(torch_xla_2_1: Any) -> None:
    older.install(torch_xla_2_1)
    torch_xla_2_1.sync()
    torch_xla_2_1.sync(wait=True)
    torch_xla_2_1.launch("function", args=(1,))
    assert torch_xla_2_1.calls == [("mark_step", False), ("mark_step", True), ("function", (1,), "spawn")]
    assert torch_xla_2_1.device() == "xla:0"
    assert torch_xla_2_1._XLAC._get_executed_fallback_ops() == ["aten::nonzero"]
    torch = sys.modules["torch"]
    assert torch.amp.GradScaler is torch.cuda.amp.GradScaler
    assert os.environ["XLA_ENABLE_PARAM_ALIASING"] == "0", "or GPT-2's state_dict ends the process"


def test_whether_the_device_is_open_is_found_out(torch_xla_2_1: Any) -> None:
    native = torch_xla_2_1._XLAC
    older.install(torch_xla_2_1)
    assert not native._xla_runtime_is_initialized()
    assert native._xla_get_default_device() == "xla:0"
    assert native._xla_runtime_is_initialized()


def test_what_a_newer_torch_xla_has_stays(torch_xla_2_1: Any) -> None:
    own = {name: object() for name in ("sync", "launch", "device")}
    vars(torch_xla_2_1).update(own, __version__="2.9.0")
    torch_xla_2_1._XLAC._xla_runtime_is_initialized = torch_xla_2_1._XLAC._get_executed_fallback_ops = own
    older.install(torch_xla_2_1)
    assert {name: getattr(torch_xla_2_1, name) for name in own} == own
    assert torch_xla_2_1._XLAC._xla_runtime_is_initialized is own
    assert "XLA_ENABLE_PARAM_ALIASING" not in os.environ


@pytest.mark.parametrize(
    ("library", "version", "variable", "hidden"),
    [
        ("transformers", "4.21.1", "0", True),
        ("transformers", "4.38.2", "0", True),
        ("transformers", "4.39.0", "0", False),
        ("accelerate", "0.12.0", "0", True),
        ("accelerate", "0.28.0", "0", False),
        ("transformers", "4.21.1", "1", False),
        ("transformers", None, "0", False),
    ],
)
def test_an_old_library_of_a_native_job_finds_no_torch_xla(
    monkeypatch: pytest.MonkeyPatch, library: str, version: str | None, variable: str, hidden: bool
) -> None:
    monkeypatch.setattr(installed, "version", lambda name: version if name == library else None)
    monkeypatch.setitem(os.environ, dated.VARIABLE, variable)
    monkeypatch.setitem(sys.modules, "torch_xla", ModuleType("torch_xla"))
    del sys.modules["torch_xla"]
    dated.hide_torch_xla(library)
    assert ("torch_xla" in sys.modules) == hidden
    if hidden:
        with pytest.raises(ModuleNotFoundError):
            __import__("torch_xla")


def test_a_torch_xla_that_the_script_imported_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("torch_xla")
    monkeypatch.setattr(installed, "version", lambda _name: "4.21.1")
    monkeypatch.setitem(os.environ, dated.VARIABLE, "0")
    monkeypatch.setitem(sys.modules, "torch_xla", module)
    dated.hide_torch_xla("transformers")
    assert sys.modules["torch_xla"] is module


@pytest.mark.parametrize(("version", "seen"), [("4.21.1", None), ("4.29.2", None), ("4.30.0", "3"), ("4.57.6", "3")])
def test_the_trainer_of_before_accelerate_sees_no_local_rank(
    monkeypatch: pytest.MonkeyPatch, version: str, seen: str | None
) -> None:
    class TrainingArguments:
        def __post_init__(self) -> None:
            self.rank = os.environ.get("LOCAL_RANK")

    monkeypatch.setattr(installed, "version", lambda _name: version)
    monkeypatch.setitem(os.environ, "LOCAL_RANK", "3")
    module: Any = SimpleNamespace(TrainingArguments=TrainingArguments)
    dated.install(module)
    made = TrainingArguments()
    made.__post_init__()
    assert made.rank == seen
    assert os.environ["LOCAL_RANK"] == "3", "the launcher's variable is there for everybody else"


@pytest.mark.parametrize(
    ("version", "on_cpu", "replaced"),
    [("4.21.1", "true", True), ("4.29.2", "true", True), ("4.30.0", "true", False), ("4.21.1", "false", False)],
)
def test_native_workers_of_then_without_gpus_train_over_gloo(
    monkeypatch: pytest.MonkeyPatch, version: str, on_cpu: str, replaced: bool
) -> None:
    class TrainingArguments:
        _setup_devices = "cuda, by NCCL"

    started: list[str] = []
    dist = ModuleType("torch.distributed")
    vars(dist).update(is_initialized=lambda: bool(started), init_process_group=started.append)
    torch = ModuleType("torch")
    vars(torch).update(distributed=dist, device=lambda name: name)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.distributed", dist)
    monkeypatch.setattr(installed, "version", lambda _name: version)
    monkeypatch.setitem(os.environ, "ACCELERATE_USE_CPU", on_cpu)
    monkeypatch.setitem(os.environ, "LOCAL_RANK", "1")
    module: Any = SimpleNamespace(TrainingArguments=TrainingArguments)
    dated.install_native(module)
    made: Any = TrainingArguments()
    assert made._setup_devices == ("cpu" if replaced else "cuda, by NCCL")
    assert made._setup_devices == ("cpu" if replaced else "cuda, by NCCL"), "the group is made once"
    assert started == (["gloo"] if replaced else [])
    assert not replaced or (made.local_rank, made._n_gpu) == (1, 0)
