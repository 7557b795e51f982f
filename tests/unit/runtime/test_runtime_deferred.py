"""A library's import is deferred until the library calls what it imported."""

import inspect
import pickle
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from sagelet_runtime.base.deferred import Deferred, Finder

LIBRARY = """
    from heavy.part import double, OTHER
    from heavy import sub

    def twice(x, by=double):
        return by(x)

    def by_sub(x):
        return sub.triple(x)

    def at_call():
        import heavy.part
        return heavy.part
    """


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, text in (
        ("heavy/__init__.py", ""),
        ("heavy/part.py", "OTHER = 5\ndef double(x: int) -> int:\n    return 2 * x\n"),
        ("heavy/sub.py", "def triple(x):\n    return 3 * x\n"),
        ("light.py", textwrap.dedent(LIBRARY)),
    ):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [one for one in sys.modules if one.partition(".")[0] in ("heavy", "light")]:
        del sys.modules[name]


@pytest.fixture
def light(library: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The library, which defers `double`. It imports OTHER by the same statement, and that is the real one."""
    monkeypatch.setattr(sys, "meta_path", [Finder({"light": {"heavy.part": ("double",)}}), *sys.meta_path])
    (library / "light.py").write_text(textwrap.dedent(LIBRARY).replace(", OTHER", ""))
    return import_module("light")


def test_the_first_call_imports_and_from_then_on_the_library_has_the_real_function(light: ModuleType) -> None:
    assert "heavy.part" not in sys.modules
    assert isinstance(light.double, Deferred)
    assert light.twice(4) == 8
    assert light.double is sys.modules["heavy.part"].double
    # The default of an argument is kept by the function.
    assert light.twice(5) == 10


def test_others_import_the_real_package_and_nothing_of_the_stand_in_is_left(light: ModuleType) -> None:
    part = import_module("heavy.part")
    assert part.double(3) == 6
    assert not isinstance(part.double, Deferred)
    assert light.at_call() is part
    assert [name for name in sys.modules if " of light" in name] == []


def test_a_deferred_function_has_the_signature_and_the_pickle_of_the_real_one(light: ModuleType) -> None:
    deferred = light.double
    assert list(inspect.signature(deferred).parameters) == ["x"]
    assert pickle.loads(pickle.dumps(deferred)) is sys.modules["heavy.part"].double
    assert deferred.__name__ == "double"


def test_what_a_script_puts_in_its_place_stays(light: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    deferred = light.double
    monkeypatch.setattr(light, "double", len)
    assert deferred(2) == 4
    assert light.double is len


def test_names_that_are_not_in_the_table_are_imported(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [Finder({"light": {"heavy.part": ("double",)}}), *sys.meta_path])
    light = import_module("light")
    assert light.OTHER == 5
    assert light.twice(2) == 4
    assert library.exists()


def test_a_submodule_may_be_deferred(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (library / "heavy" / "deep").mkdir()
    (library / "heavy" / "deep" / "__init__.py").write_text("")
    (library / "heavy" / "deep" / "sub.py").write_text("def triple(x):\n    return 3 * x\n")
    (library / "light.py").write_text("from heavy.deep import sub\n\ndef by_sub(x):\n    return sub.triple(x)\n")
    monkeypatch.setattr(sys, "meta_path", [Finder({"light": {"heavy.deep": ("sub",)}}), *sys.meta_path])
    light = import_module("light")
    assert "heavy.deep.sub" not in sys.modules
    assert light.by_sub(2) == 6
    assert light.sub is sys.modules["heavy.deep.sub"]


def test_a_missing_name_is_told_by_its_first_use(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (library / "light.py").write_text("from heavy.part import gone\n")
    monkeypatch.setattr(sys, "meta_path", [Finder({"light": {"heavy.part": ("gone",)}}), *sys.meta_path])
    light = import_module("light")
    with pytest.raises(AttributeError, match="gone"):
        light.gone(1)
    assert not hasattr(light.gone, "anything")


def test_threads_that_import_the_library_at_once_get_one(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [Finder({"light": {"heavy.part": ("double",)}}), *sys.meta_path])
    barrier, seen = threading.Barrier(8), []

    def use() -> None:
        barrier.wait(60)
        seen.append((import_module("light").twice(7), import_module("heavy.part").double(1)))

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert seen == [(14, 2)] * 8
    assert library.exists()


def test_compiled_code_of_the_library_is_still_cached(library: Path) -> None:
    program = (
        "import sys; from sagelet_runtime.base.deferred import Finder; "
        "sys.meta_path.insert(0, Finder({'light': {'heavy.part': ('double',)}})); import light; print(light.twice(1))"
    )
    runtime = str(Path(inspect.getfile(Finder)).parents[2])
    environment = {"PYTHONPATH": f"{library}:{runtime}"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "2\n"
    assert list((library / "__pycache__").glob("light.*.pyc"))
