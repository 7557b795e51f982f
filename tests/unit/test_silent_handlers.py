"""No handler drops something in silence: each one that lets an error end is in a table, with the reason."""

import sys
from collections import Counter
from pathlib import Path

import pytest

from support.silent_handlers import silent_handlers

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "tests" / "data" / "silent_handlers.toml"
PRODUCT = ("emulator", "api", "images/runtime")


def test_each_silent_handler_has_its_reason() -> None:
    """A new one fails here: mend it (retry, durable state, a line in the job's log), or say why nothing is lost."""
    groups = tomllib.loads(TABLE.read_text(encoding="utf-8"))["silent"]
    listed = Counter(handler for group in groups for handler in group["handlers"])
    files = [file for directory in PRODUCT for file in sorted((ROOT / directory).rglob("*.py"))]
    there = Counter(handler for file in files for handler in silent_handlers(ROOT, file))
    assert there - listed == Counter()
    assert listed - there == Counter(), "these are gone: take them out of the table"
    assert all(len(group["reason"].split()) >= 5 for group in groups)


def test_a_traceback_is_for_what_nobody_knows() -> None:
    """A full disk is one line, not forty: `log.error(..., exc_info=not is_known(error))` (base/errors.py)."""
    always = {
        "doctor/diagnosis.py": 1, "execution/outbox.py": 1, "functions/invocations.py": 2, "model/sinks.py": 1,
        "runtimes/slurm/file_sync/server.py": 1, "tuning/work.py": 1,
    }  # fmt: skip
    engine = ROOT / "emulator" / "sagelet_engine"
    calls = Counter({
        file.relative_to(engine).as_posix(): file.read_text(encoding="utf-8").count("log.exception(")
        for file in engine.rglob("*.py")
    })  # fmt: skip
    assert +calls == always


@pytest.mark.parametrize(
    ("body", "silent"),
    [
        ("except Exception:\n    pass", True),
        ("except Exception as error:\n    log.warning('lost: %s', error)", True),
        ("except Exception as error:\n    log.exception('lost')\n    kept.append(1)", True),
        ("except (KeyError, OSError):\n    value = None", True),
        ("except KeyError as error:\n    log.warning('lost: %s', error)", True),
        ("except:\n    pass", True),
        ("except KeyError:\n    pass", False),
        ("except Exception:\n    raise", False),
        ("except OSError as error:\n    raise ValueError from error", False),
        ("except Exception as error:\n    log.exception('lost')\n    note('', f'lost: {error}')", False),
        ("except OSError as error:\n    answer = str(error)", False),
    ],
)
def test_what_counts_as_silent(tmp_path: Path, body: str, silent: bool) -> None:
    file = tmp_path / "module.py"
    indented = body.replace("\n", "\n        ")
    file.write_text(f"class C:\n    def f(self):\n        try:\n            g()\n        {indented}\n")
    assert bool(list(silent_handlers(tmp_path, file))) is silent
    assert all(one.startswith("module.py C.f") for one in silent_handlers(tmp_path, file))


def test_a_suppressed_type_counts_like_a_handled_one(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text("with suppress(OSError): f()\nwith contextlib.suppress(KeyError): f()\n")
    assert list(silent_handlers(tmp_path, file)) == ["module.py  suppress:OSError"]
