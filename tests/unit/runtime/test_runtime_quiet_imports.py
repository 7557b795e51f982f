"""Imports of big libraries without garbage collections: what they spare, and that a script does not notice."""

import io
import json
import os
import subprocess
import sys
import textwrap
import weakref
from pathlib import Path
from typing import Any

import pytest

from sagelet_runtime.base import quiet_imports

STARTUP = Path(quiet_imports.__file__).parents[1] / "startup"
RUNTIME = STARTUP.parents[1]
#: A big library: its import makes many objects that stay, and does what DURING says.
LIBRARY = """
import gc, os
KEPT = [[number] for number in range(60_000)]
{during}
"""


def run(directory: Path, script: str, during: str = "", quiet: str = "1") -> list[Any]:
    """Runs a script that imports `datasets`, a big library. Returns what it printed, a JSON document a line."""
    library = directory / "libraries/site-packages/datasets"
    library.mkdir(parents=True, exist_ok=True)
    (library / "__init__.py").write_text(LIBRARY.format(during=textwrap.dedent(during)))
    (library / "__main__.py").write_text("print('[\"a program\"]')\n")
    file = directory / "train.py"
    file.write_text("import gc, json, os, sys, weakref\n" + textwrap.dedent(script))
    path = os.pathsep.join(map(str, (STARTUP, RUNTIME, library.parent)))
    variables = {"PYTHONPATH": path, "SAGELET_REPORT_DIR": str(directory), "SAGELET_QUIET_IMPORTS": quiet}
    done = subprocess.run(
        [sys.executable, "-B", str(file)], env={**os.environ, **variables}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


COUNTED = """
    collections = []
    gc.callbacks.append(lambda phase, info: collections.append(info["generation"]) if phase == "start" else None)
    import datasets
    print(json.dumps([generation for generation in collections]))
    del collections[:]
    made = [[number] for number in range(20_000)]
    print(json.dumps(len(collections)))
    collector = next(one for one in sys.meta_path if type(one).__name__ == "Finder" and hasattr(one, "_collector"))
    print(json.dumps(collector._collector._own["get_freeze_count"]()))
    """


def test_nothing_is_collected_during_the_import_and_its_objects_are_frozen(tmp_path: Path) -> None:
    during, afterwards, frozen = run(tmp_path, COUNTED)
    assert during == [0], "the one before the import"
    assert afterwards > 5, "the collector goes on"
    assert frozen > 60_000


#: Scripts and libraries that use gc themselves.
SCRIPTS = {
    "it is enabled": (
        "import datasets; print(json.dumps([datasets.DURING, gc.isenabled()]))",
        "DURING = gc.isenabled()",
    ),
    "the script disables": ("gc.disable(); import datasets; print(json.dumps(gc.isenabled()))", ""),
    "the library disables": ("import datasets; print(json.dumps(gc.isenabled()))", "gc.disable()"),
    "the library disables for a while": (
        "import datasets; print(json.dumps([datasets.STATES, gc.isenabled()]))",
        """
        STATES = [gc.isenabled()]
        gc.disable()
        STATES.append(gc.isenabled())
        gc.enable()
        STATES.append(gc.isenabled())
        """,
    ),
    "names are imported": (
        "from gc import disable, enable, isenabled; import datasets; disable(); datasets.on(); "
        "print(json.dumps([gc.isenabled(), isenabled()]))",
        "from gc import enable as on",
    ),
    "all objects are listed": (
        """
        before = [["of the script"]]
        import datasets
        found = set(map(id, gc.get_objects()))
        print(json.dumps([id(before) in found, id(datasets.KEPT) in found, id(json.__dict__) in found]))
        """,
        "",
    ),
    "referrers are found": (
        "import datasets; print(json.dumps(any(one is datasets.KEPT for one in gc.get_referrers(datasets.KEPT[0]))))",
        "",
    ),
    "the script freezes": (
        """
        import datasets
        print(json.dumps(gc.get_freeze_count() < 1_000))
        gc.freeze()
        print(json.dumps(gc.get_freeze_count() > 60_000))
        gc.unfreeze()
        print(json.dumps(gc.get_freeze_count() < 1_000))
        """,
        "",
    ),
    "the script's garbage is collected": (
        """
        class Node: pass
        node = Node(); node.self = node
        gone = weakref.ref(node)
        import datasets
        del node
        gc.collect()
        print(json.dumps(gone() is None))
        """,
        "",
    ),
    "a finalizer runs at the end": (
        """
        class Log:
            def __del__(self): os.write(1, b'"closed"')
        log = Log(); log.self = log; log.write = os.write
        import datasets
        del log
        """,
        "",
    ),
    "a file is flushed at the end": (
        """
        class Log: pass
        log = Log(); log.self = log; log.file = open(1, "w", closefd=False); log.file.write('"flushed"')
        import datasets
        """,
        "",
    ),
    "the import fails": (
        """
        try:
            import datasets
        except ValueError as error:
            print(json.dumps([str(error), gc.isenabled()]))
        """,
        "raise ValueError('no')",
    ),
    "a module is run as a program": (
        """
        import subprocess
        subprocess.run([sys.executable, "-B", "-m", "datasets"], check=True)
        import datasets, importlib.util, inspect
        print(json.dumps([importlib.util.find_spec("datasets.__main__").loader.get_source("datasets.__main__")]))
        print(json.dumps([inspect.getsource(datasets)[:40], type(datasets.__loader__).__name__]))
        """,
        "",
    ),
    "a child of the import": (
        "import datasets; print(json.dumps(gc.isenabled()))",
        """
        child = os.fork()
        if child == 0:
            made = []
            gc.callbacks.append(lambda phase, info: made.append(phase))
            kept = [[number] for number in range(20_000)]
            os.write(1, b"true\\n" if made and gc.isenabled() else b"false\\n")
            os._exit(0)
        os.waitpid(child, 0)
        """,
    ),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_does_not_notice(tmp_path: Path, name: str) -> None:
    script, during = SCRIPTS[name]
    noisy = run(tmp_path, script, during, quiet="0")
    assert noisy, "it prints"
    assert run(tmp_path, script, during) == noisy


def test_what_the_script_has_finished_is_no_reason_to_unfreeze_at_the_end(tmp_path: Path) -> None:
    with open(os.devnull) as file:
        opened = quiet_imports.needs_finalizing(file)
    numbers = (number for number in range(2))
    next(numbers)
    suspended = quiet_imports.needs_finalizing(numbers)
    assert (opened, suspended, list(numbers)) == (True, True, [1])
    detached = io.TextIOWrapper(io.BytesIO())
    detached.detach()
    dead = weakref.proxy(type("Gone", (), {})())
    assert not any(map(quiet_imports.needs_finalizing, (file, numbers, detached, dead, [], object())))
    script = """
        file = open("/dev/null", "w")
        {closing}
        import atexit, datasets
        collector = next(one for one in sys.meta_path if hasattr(one, "_collector"))._collector
        atexit._run_exitfuncs()
        print(json.dumps(collector._own["get_freeze_count"]() > 60_000))
        """
    assert run(tmp_path, script.format(closing="file.close()")) == [True]
    assert run(tmp_path, script.format(closing="")) == [False]


def test_only_the_scripts_own_collection_unfreezes(tmp_path: Path) -> None:
    """Accelerate collects at the start of each training."""
    script = """
        import datasets
        own = next(one for one in sys.meta_path if hasattr(one, "_collector"))._collector._own
        datasets.collect()
        print(json.dumps(own["get_freeze_count"]() > 60_000))
        gc.collect()
        print(json.dumps(own["get_freeze_count"]()))
        """
    assert run(tmp_path, script, "def collect():\n    gc.collect()") == [True, 0]
