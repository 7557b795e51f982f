"""The user's scripts: where they are read from, and what is asked of them."""

import os
from pathlib import Path

import pytest

from sagelet_engine.doctor import reading
from sagelet_engine.doctor.reading import read_sources
from sagelet_engine.doctor.source_line import SourceLine
from sagelet_engine.doctor.sources import Sources

SCRIPT = """\
def main():
    for step in range(3):
        loss = (
            model(batch)
            .item()
        )

        def log():
            print(loss)
    print(
        "done",
    )
"""


def paths(*directories: Path) -> list[str]:
    return [script.path for script in read_sources(directories[0].parent, [one.name for one in directories])]


def test_python_files_of_the_first_directory_that_has_them(tmp_path: Path) -> None:
    for name in ("code/train.py", "code/lib/model.py", "code/data.csv", "code/.git/hook.py", "code/build/old.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("pass")
    assert paths(tmp_path / "code", tmp_path / "channel") == ["lib/model.py", "train.py"]


def test_nothing_is_read_through_links_or_pipes(tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("password = 1")
    code = tmp_path / "code"
    code.mkdir()
    (code / "link.py").symlink_to(tmp_path / "secret.py")
    (code / "inner").symlink_to(tmp_path)
    os.mkfifo(code / "pipe.py")
    (code / "directory.py").mkdir()
    assert paths(code) == []
    (tmp_path / "elsewhere").symlink_to(code)
    (code / "train.py").write_text("pass")
    assert paths(tmp_path / "elsewhere") == []


def test_what_is_read_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_FILES", 3)
    monkeypatch.setattr(reading, "LARGEST_FILE", 20)
    monkeypatch.setattr(reading, "MOST_BYTES", 25)
    (tmp_path / "a.py").write_text("x" * 21)
    for name in ("b", "c", "d"):
        (tmp_path / f"{name}.py").write_text("x" * 10)
    assert paths(tmp_path) == ["b.py", "c.py"]


def test_bytes_that_are_no_utf8(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_bytes(b"name = '\xff'\n")
    (script,) = read_sources(tmp_path)
    assert script.line(1) == "name = '\ufffd'"


@pytest.mark.parametrize(
    ("line", "expected"), [(2, True), (3, True), (5, True), (9, False), (10, False), (11, False), (99, False)]
)
def test_what_is_in_a_loop(line: int, expected: bool) -> None:
    (script,) = Sources({"train.py": SCRIPT})
    assert script.in_loop(line) is expected


@pytest.mark.parametrize("broken", ["def f(:", "x = 1\0", "(" * 3000])
def test_a_script_that_does_not_parse_has_lines_only(broken: str) -> None:
    (script,) = Sources({"train.py": broken})
    assert script.line(1) == broken
    assert script.statement(1) is None
    assert list(script.calls()) == []


def test_scripts_are_found_by_the_end_of_their_path() -> None:
    sources = Sources({"train.py": "", "lib/model.py": "", "a/utils.py": "", "b/utils.py": ""})
    assert sources.find("/opt/ml/code/lib/model.py") is sources.find("model.py") is sources.find("lib/model.py")
    assert sources.find("utils.py") is None
    assert sources.find("b/utils.py") is not None
    assert sources.find("/opt/ml/code/other.py") is None


def test_a_long_line_is_quoted_in_part() -> None:
    sources = Sources({"train.py": "x = " + "1 + " * 50 + "1"})
    quoted = sources.quoted(SourceLine("train.py", 1))
    assert quoted.startswith(" (`x = 1")
    assert len(quoted) < 90
    assert Sources({"a.py": "x = 1  # one"}).quoted(SourceLine("a.py", 1)) == " (`x = 1`)"
    assert sources.quoted(SourceLine("train.py", 2)) == sources.quoted(None) == ""


def test_only_what_ran_is_looked_at_and_the_entry_point_first() -> None:
    texts = {"bench.py": "step()", "inner/data.py": "step()", "train.py": "step()"}
    sources = Sources(texts, ["train.py", "inner/data.py", "/elsewhere/x.py"])
    assert [script.path for script, _ in sources.calls("step")] == ["train.py", "inner/data.py"]
    assert sources.find("bench.py") is not None, "a traceback may name it: a file with a syntax error is not loaded"
    assert sources.same_as(Sources(texts))
    assert [script.path for script in Sources(texts, ["/elsewhere/x.py"])] == sorted(texts)


def test_without_a_record_the_import_statements_say_what_ran() -> None:
    sources = Sources({
        "bench.py": "", "train.py": "import json, inner.data\nfrom helper import *", "helper.py": "from . import twin",
        "inner/__init__.py": "", "inner/data.py": "from inner import more\nimport train", "inner/more.py": "(",
        "twin.py": "", "unused/__init__.py": "",
    })  # fmt: skip
    reached = [script.path for script in sources.reached("train.py")]
    assert reached[0] == "train.py"
    assert {*reached} == {
        "train.py", "inner/__init__.py", "inner/data.py", "inner/more.py", "helper.py", "twin.py",
    }  # fmt: skip
    assert len([*sources.reached("train.sh")]) == len(sources.paths)
