import importlib
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from sagelet_runtime.base.deferred_import import Deferral, defer, forwarding, has_run

NAME = "a_module_to_be_deferred"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package that writes a file `runs` each time it runs, and imports its own submodule `inner`."""
    package = tmp_path / NAME
    package.mkdir()
    (package / "__init__.py").write_text(
        "import os\n"
        "HERE = os.path.dirname(__file__)\n"
        "with open(HERE + '/runs', 'a') as file:\n"
        "    file.write('x')\n"
        "if os.path.exists(HERE + '/broken'):\n"
        "    raise RuntimeError('broken')\n"
        "from . import config\n"
        "from .inner import twice\n"
    )
    (package / "inner.py").write_text("LOADED = []\ndef twice(number):\n    return 2 * number\n")
    (package / "config.py").write_text("limit = 7\n")
    (package / "other.py").write_text("from .inner import LOADED\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    yield package
    for name in [name for name in sys.modules if name.split(".")[0] == NAME]:
        del sys.modules[name]


def runs(package: Path) -> int:
    file = package / "runs"
    return len(file.read_text()) if file.exists() else 0


def imported() -> ModuleType:
    return importlib.import_module(NAME)


def test_the_first_use_runs_the_module_once(package: Path) -> None:
    loaded: list[ModuleType] = []
    defer(Deferral(NAME, loaded=loaded.append))
    module = imported()
    assert (runs(package), has_run(module), imported() is module) == (0, False, True)
    assert not hasattr(module, "__wrapped__")
    assert inspect.getfile(module) == str(package / "__init__.py")
    assert runs(package) == 0
    assert module.twice(4) == 8
    assert (runs(package), has_run(module), type(module), loaded) == (1, True, ModuleType, [module])
    assert imported() is module is sys.modules[NAME]
    assert module.__spec__ is not None
    assert type(module.__loader__).__name__ == type(module.__spec__.loader).__name__ == "SourceFileLoader"
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = module.no_such_name
    assert runs(package) == 1


def change(module: ModuleType) -> None:
    module.limit = 3  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "use",
    [
        change,
        dir,
        lambda _module: importlib.import_module(f"{NAME}.inner"),
        lambda _module: importlib.import_module(f"{NAME}.other"),
        lambda _module: exec(f"from {NAME} import *", {}),
    ],
)
def test_what_else_runs_it(package: Path, use: Callable[[ModuleType], object]) -> None:
    defer(Deferral(NAME))
    module = imported()
    use(module)
    assert runs(package) == 1
    inner = importlib.import_module(f"{NAME}.inner")
    assert module.twice is inner.twice
    assert inner.__spec__ is not None
    assert type(inner.__spec__.loader).__name__ == "SourceFileLoader"


def test_a_submodule_may_come_without_its_package(package: Path) -> None:
    defer(Deferral(NAME, alone=frozenset({"config"})))
    module = imported()
    module.config.limit = 9
    assert importlib.import_module(f"{NAME}.config") is module.config
    assert runs(package) == 0
    assert module.twice(1) == 2
    assert (module.config.limit, runs(package)) == (9, 1)


def test_stand_ins_stay_right_after_the_module_has_run(package: Path) -> None:
    defer(Deferral(NAME, {"twice": forwarding(NAME, "twice"), "gone": forwarding(NAME, "gone")}))
    module = imported()
    stand_in, gone = module.twice, module.gone
    assert runs(package) == 0
    assert (stand_in(5), stand_in(6), runs(package)) == (10, 12, 1)
    assert module.twice is not stand_in
    with pytest.raises(AttributeError, match="gone"):
        gone()


def test_a_module_that_fails_may_be_tried_again(package: Path) -> None:
    (package / "broken").touch()
    defer(Deferral(NAME))
    module = imported()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="broken"):
            module.twice(1)
    (package / "broken").unlink()
    assert module.twice(1) == 2
    assert imported() is module


def test_an_import_that_is_not_to_be_deferred(package: Path) -> None:
    defer(Deferral(NAME, wanted=lambda: False))
    assert type(imported()) is ModuleType
    assert runs(package) == 1


def test_threads_wait_until_it_has_run(package: Path) -> None:
    defer(Deferral(NAME))
    module = imported()
    start, seen = threading.Barrier(8), []

    def use() -> None:
        start.wait()
        seen.append(module.twice(2))

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert seen == [4] * 8
    assert runs(package) == 1
