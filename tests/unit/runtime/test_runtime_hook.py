import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from sagelet_runtime.base.import_hook import PostImport
from sagelet_runtime.torch_xla import saving

NAME = "a_module_to_be_hooked"


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ModuleType]]:
    """The modules that the hook was called with; its module raises on import while a file `broken` lies beside it."""
    package = tmp_path / NAME
    package.mkdir()
    (package / "__init__.py").write_text(
        "import os\n"
        "if os.path.exists(os.path.dirname(__file__) + '/broken'):\n"
        "    raise RuntimeError('broken')\n"
        "VALUE = 7\n"
    )
    (package / "inner.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    called: list[ModuleType] = []
    sys.meta_path.insert(0, PostImport(NAME, called.append))
    yield called
    for name in (NAME, f"{NAME}.inner"):
        sys.modules.pop(name, None)


def test_called_once_after_the_import(imported: list[ModuleType]) -> None:
    module = importlib.import_module(NAME)
    importlib.import_module(NAME)
    assert imported == [module]
    assert module.VALUE == 7
    assert module.__spec__ is not None
    assert type(module.__loader__).__name__ == type(module.__spec__.loader).__name__ == "SourceFileLoader"


def test_a_submodule_imports_its_package_with_the_hook(imported: list[ModuleType]) -> None:
    importlib.import_module(f"{NAME}.inner")
    assert [module.__name__ for module in imported] == [NAME]


def test_asking_for_the_spec_is_no_import(imported: list[ModuleType]) -> None:
    assert importlib.util.find_spec(NAME) is not None
    assert importlib.util.find_spec(NAME) is not None
    assert imported == []
    importlib.import_module(NAME)
    assert len(imported) == 1


def test_a_failed_import_may_be_tried_again(imported: list[ModuleType], tmp_path: Path) -> None:
    (tmp_path / NAME / "broken").touch()
    with pytest.raises(RuntimeError, match="broken"):
        importlib.import_module(NAME)
    assert imported == []
    (tmp_path / NAME / "broken").unlink()
    importlib.import_module(NAME)
    assert len(imported) == 1


def test_two_hooks_of_one_module(imported: list[ModuleType]) -> None:
    order: list[str] = []
    sys.meta_path.insert(
        0, PostImport(NAME, lambda module: order.append(module.__name__), before=lambda: order.append("before"))
    )
    module = importlib.import_module(NAME)
    assert imported == [module]
    assert order == ["before", NAME]
    assert module.__spec__ is not None
    assert type(module.__loader__).__name__ == type(module.__spec__.loader).__name__ == "SourceFileLoader"


def test_other_modules_are_left_alone(imported: list[ModuleType]) -> None:
    assert importlib.util.find_spec("json") is not None
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_module_anywhere")
    assert imported == []


def test_transformers_saves_in_the_main_process_only() -> None:
    saved: list[tuple[object, ...]] = []

    class PreTrainedModel:
        def save_pretrained(self, save_directory: str, is_main_process: bool = True, safe: bool = True) -> str:
            saved.append((save_directory, is_main_process, safe))
            return "saved"

        def parameters(self) -> list[object]:
            return []

    module = ModuleType("transformers.modeling_utils")
    module.PreTrainedModel = PreTrainedModel  # type: ignore[attr-defined]
    saving.install(module)
    model = PreTrainedModel()
    assert model.save_pretrained("a", safe=False) == "saved"
    assert model.save_pretrained("b", True, False) == "saved"
    assert model.save_pretrained("c", is_main_process=False) is None
    assert saved == [("a", True, False), ("b", True, False)]
