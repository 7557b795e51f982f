"""tests/support/programs.py: no test uses a program of the machine that it does not ask for."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import programs
from support.programs import BARE, PROGRAMS, UndeclaredProgram, Watch, missing_program, system_program

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
#: A program of the machine by its path, in a text of a test.
NAMED = re.compile(r"[\"' ;|&(=]/(?:usr/)?s?bin/([\w+-]+)")


def test_a_program_that_no_marker_names_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a `subprocess` that is watched, as it is in all tests."""
    watch = Watch()
    monkeypatch.setattr(programs, "use", watch.use)
    with watch.test(set(), ["xla"]), pytest.raises(UndeclaredProgram, match=r'@pytest\.mark\.programs\("mount\.nfs"\)'):
        watch.use("mount.nfs")
    assert watch.undeclared == ["mount.nfs"]
    with watch.test({"git"}, ["slurm"]):
        for name in ("git", "squeue", "sh", "make"):
            watch.use(name)
    assert watch.undeclared == []
    watch.use("mount.nfs")
    assert watch.undeclared == [], "outside of a test nothing is asked"


@pytest.mark.programs("git")
def test_subprocesses_of_tests_are_watched(tmp_path: Path) -> None:
    subprocess.run(["git", "--version"], check=True, capture_output=True)
    other = tmp_path / "test_other.py"
    other.write_text("import subprocess\ndef test_other():\n    subprocess.run(['git', '--version'])\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    plugin = [f"--rootdir={ROOT}", "-p", "tests.conftest", str(other)]
    done = subprocess.run([*command, *plugin], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert 'This test uses git: mark it with `@pytest.mark.programs("git")`' in done.stdout


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["git", "status"], "git"),
        ("git", "git"),
        (["/usr/bin/git"], "git"),
        ([sys.executable, "-c", ""], None),
        (["python3"], None),
        (["no-such-program-of-sagelet"], None),
        ([Path(sys.executable).with_name("sagelet")], None),
    ],
)
@pytest.mark.programs("git")
def test_programs_of_the_machine_are_told_from_a_test_s_own(command: object, name: str | None) -> None:
    assert system_program(command) == name


def test_a_program_of_a_test_s_own_is_none_of_the_machine_s(tmp_path: Path) -> None:
    own = tmp_path / "git"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    assert system_program(["git"], path=f"{tmp_path}{os.pathsep}/usr/bin") is None


def test_what_is_missing_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "SYSTEM", ("/nonexistent",))
    monkeypatch.setattr(programs, "BUSYBOX", Path("/nonexistent/busybox"))
    assert missing_program("git") == "git is not installed: apt-get install git"
    assert missing_program("busybox") == "busybox is not installed: apt-get install busybox-static"


def test_ci_installs_every_program() -> None:
    words = (ROOT / ".ci/run").read_text().replace("missing+=(", " ").replace(")", " ").split()
    assert [one.package for one in PROGRAMS.values() if one.package not in words] == []


def test_texts_name_only_programs_that_are_known() -> None:
    """The commands of jobs, which no `subprocess` of a test starts."""
    known = BARE | PROGRAMS.keys()
    named = {
        (file.relative_to(TESTS).as_posix(), name)
        for file in TESTS.rglob("*.py")
        for name in NAMED.findall(file.read_text(encoding="utf-8"))
        if not name.startswith("python") and name not in known
    }
    assert named == TALKED_ABOUT


#: Programs of which texts only speak.
TALKED_ABOUT = {
    ("unit/runtime/test_runtime_driver_install.py", "pip3"),
}


def test_a_fixture_of_several_tests_ends_after_one_that_asks_for_nothing() -> None:
    watch = Watch()
    with watch.test(set(), ()):
        with watch.paused():
            watch.use("scancel")
        with pytest.raises(UndeclaredProgram):
            watch.use("scancel")
    assert watch.undeclared == ["scancel"]
