"""`make check`: which files changed, and which tests they concern, nearest first."""

import os
import re
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest

from support import check
from support.changes import PAGES, Concerned, changed_files, module_of
from support.import_graph import ROOT, TESTS, Imports

ENGINE, API = ROOT / "emulator" / "sagelet_engine", ROOT / "api" / "sagelet_api"
RUNTIME = ROOT / "images" / "runtime" / "sagelet_runtime"
#: Seven short ones. All but the last are always run.
SHORT = [
    f"tests/unit/{name}"
    for name in (
        "api/test_replies.py", "doctor/test_diagnosis.py", "engine/test_authorities.py", "engine/test_private.py",
        "runtimes/test_docker_gpus.py", "runtimes/test_node_programs.py", "engine/test_lifecycle.py",
    )
]  # fmt: skip


@cache
def imports() -> Imports:
    return Imports()


def nearest(*changed: Path) -> list[str]:
    files = [str(path.relative_to(TESTS)) for path in Concerned(changed, imports()).files()]
    return [name for name in files if name not in PAGES]


@pytest.mark.parametrize(
    ("path", "directory"),
    [
        (ENGINE / "doctor" / "rules" / "stall.py", "unit/doctor"),
        (ENGINE / "execution" / "metering.py", "unit/engine"),
        (ENGINE / "tuning" / "strategies" / "bayesian.py", "unit/tuning"),
        (API / "cli" / "jobs.py", "unit/cli"),
        (API / "web" / "job.py", "unit/api"),
        (RUNTIME / "train.py", "unit/runtime"),
    ],
)
def test_the_nearest_tests_are_those_of_the_module(path: Path, directory: str) -> None:
    assert str(Path(nearest(path)[0]).parent) == directory


def test_a_page_of_the_web_has_its_own_tests_first() -> None:
    assert nearest(API / "web" / "job.py")[0] == "unit/api/test_web_job.py"


def test_a_changed_test_is_run_and_a_double_brings_the_tests_that_import_it() -> None:
    assert nearest(TESTS / "xla" / "test_world.py")[0] == "xla/test_world.py"
    assert nearest(TESTS / "support" / "doctor_cases.py")[0].startswith("unit/doctor/")


def test_a_page_of_the_documents_concerns_the_tests_of_pages_only() -> None:
    assert nearest(ROOT / "docs" / "style.md") == []


def test_a_template_belongs_to_its_package() -> None:
    template = next((API / "web" / "templates").glob("*.html"))
    assert module_of(template) == "sagelet_api.web"
    assert module_of(ENGINE / "engine.py") == "sagelet_engine.engine"
    assert module_of(ENGINE / "doctor" / "__init__.py") == "sagelet_engine.doctor"
    assert module_of(ROOT / "README.md") is None


@pytest.mark.programs("git")
def test_what_differs_from_main_is_committed_changed_or_new(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@x", *words], cwd=tmp_path, check=True)

    git("init", "-q", "-b", "main")
    for name in ("same", "committed", "changed", "removed"):
        (tmp_path / name).write_text("before")
    git("add", ".")
    git("commit", "-qm", "before")
    git("checkout", "-qb", "branch")
    (tmp_path / "committed").write_text("after")
    git("commit", "-qam", "after")
    (tmp_path / "changed").write_text("after")
    (tmp_path / "new").write_text("after")
    (tmp_path / "removed").unlink()
    assert [path.name for path in changed_files(tmp_path)] == ["changed", "committed", "new"]


def test_no_test_begins_after_the_time_is_used_up_but_those_of_the_first_files() -> None:
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--begin-until={time.monotonic()}", *SHORT]
    # In CI nothing may be left out, and here tests are.
    environ = {name: value for name, value in os.environ.items() if name != "SAGELET_TEST_REQUIRE"}
    done = subprocess.run([sys.executable, *words], cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert re.search(r"SKIPPED \[\d+\] .*: make check has no time left", done.stdout)
    assert re.search(r"\d+ passed, \d+ skipped", done.stdout)


def test_imports_are_read_without_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of another checkout would say what is not there any more."""
    monkeypatch.chdir(tmp_path)
    Imports()
    assert [*tmp_path.iterdir()] == []


def test_a_linter_that_fails_is_named_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(words: list[object], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(words, int("--check" in words))

    monkeypatch.setattr(check, "changed_files", lambda: [ENGINE / "engine.py"])
    monkeypatch.setattr(check, "_test", lambda *_: 0)
    monkeypatch.setattr(
        check, "_start", lambda *_: subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    )
    monkeypatch.setattr(check.subprocess, "run", run)
    assert check.main() == 1
    assert "make check: failed: ruff format (`make format` does it), " in capsys.readouterr().out
