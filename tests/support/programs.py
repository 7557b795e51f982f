"""The programs of the machine that tests use: `@pytest.mark.programs("git")` asks for one.

Where it is missing, the tests that ask for it are left out by name. A test that starts a program which it does not ask
for, and which a bare machine lacks, fails: `watch_subprocesses` looks at what tests start, and helpers call `use` for
programs that only the commands of a job start. A fixture asks by `@asks("git")`, for all tests that use it.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

F = TypeVar("F", bound=Callable[..., Any])

#: Where the machine has its programs. Any other directory is an environment, or a test's own.
SYSTEM = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
#: What README asks for beside Python: a C compiler with its binutils, and make.
_ASKED_FOR = frozenset({"ar", "as", "cc", "gcc", "ld", "make", "nm", "objdump", "readelf", "strip"})
#: What every machine has: those, and the programs of the packages that the smallest Debian needs (debootstrap
#: --variant=minbase: coreutils, util-linux, ...), which `bare_programs.txt` lists.
BARE = _ASKED_FOR | frozenset(Path(__file__).with_name("bare_programs.txt").read_text().split())
#: Where Debian puts the busybox of its package, which is static.
BUSYBOX = Path("/bin/busybox")


class UndeclaredProgram(AssertionError):
    """A test uses a program that it does not ask for. The message has the marker."""


def _on_path(name: str) -> bool:
    return any(shutil.which(name, path=directory) for directory in SYSTEM)


@dataclass(frozen=True)
class Program:
    #: The package of Debian that has it.
    package: str
    is_there: Callable[[str], bool] = _on_path


def _busybox_is_static(_name: str) -> bool:
    """True if the ELF file names no interpreter (a dynamic linker), so that it runs in an image of its own."""
    if not BUSYBOX.is_file():
        return False
    content = BUSYBOX.read_bytes()
    return b"/ld-linux" not in content and b"/ld-musl" not in content


PROGRAMS: Mapping[str, Program] = {
    "busybox": Program("busybox-static", _busybox_is_static),
    "debootstrap": Program("debootstrap"),
    "docker": Program("docker.io"),
    # Inductor's: no test starts it, jobs do.
    "g++": Program("g++"),
    "git": Program("git"),
    "mkfs.ext4": Program("e2fsprogs"),
    # torch takes the checksum of Inductor's header with it.
    "openssl": Program("openssl"),
}
#: What tests with these markers use, which have their own way to find out whether all of it is there (conftest).
OF_MARKERS: Mapping[str, frozenset[str]] = {
    "browser": frozenset({"chromium", "chromium-browser", "google-chrome"}),
    "docker": frozenset({"docker"}),
    "dockerd": frozenset({"containerd", "dockerd", "ip", "docker"}),
    "mounts": frozenset({"losetup", "mkfs.ext4"}),
    "podman": frozenset({"podman", "runc", "ip"}),
    "slurm": frozenset(
        {
            "munged",
            "sacct",
            "sacctmgr",
            "sbatch",
            "scancel",
            "scontrol",
            "sinfo",
            "slurmctld",
            "slurmd",
            "squeue",
            "srun",
        }
    ),
}


def asks(*names: str) -> Callable[[F], F]:
    """Says that a fixture uses these programs. It stands below `@pytest.fixture`."""

    def mark(function: F) -> F:
        function.programs = names  # type: ignore[attr-defined]
        return function

    return mark


def asked_for(item: pytest.Item) -> set[str]:
    """Returns the programs that a test asks for: by its markers, and by the fixtures that it names."""
    named = {name for marker in item.iter_markers("programs") for name in marker.args}
    information = getattr(item, "_fixtureinfo", None)
    for definitions in information.name2fixturedefs.values() if information else ():
        named.update(name for one in definitions for name in getattr(one.func, "programs", ()))
    return named


def missing_program(name: str) -> str | None:
    """Returns what to do if the program is not there, else None. Raises KeyError for one that has no entry."""
    program = PROGRAMS[name]
    return None if program.is_there(name) else f"{name} is not installed: apt-get install {program.package}"


class Watch:
    """What the test that runs now asks for, and what it used without asking."""

    def __init__(self) -> None:
        self._declared: frozenset[str] | None = None
        self.undeclared: list[str] = []

    @contextmanager
    def test(self, asked: set[str], markers: Iterable[str]) -> Iterator[None]:
        """Watches while the block runs. `asked`: programs; `markers`: the names of the test's markers."""
        self._declared = frozenset(asked).union(*(OF_MARKERS.get(name, ()) for name in markers))
        self.undeclared = []
        try:
            yield
        finally:
            self._declared = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Watches nothing while the block runs."""
        declared, self._declared = self._declared, None
        try:
            yield
        finally:
            self._declared = declared

    def use(self, name: str) -> None:
        """Raises UndeclaredProgram unless the test that runs asks for the program, or a bare machine has it."""
        if self._declared is None or name in BARE or name in self._declared:
            return
        self.undeclared.append(name)
        known = "" if name in PROGRAMS else ", and give it an entry in tests/support/programs.py"
        raise UndeclaredProgram(f'This test uses {name}: mark it with `@pytest.mark.programs("{name}")`{known}')


#: Of this process.
WATCH = Watch()
use = WATCH.use


def system_program(command: Any, executable: Any = None, path: str | None = None) -> str | None:
    """Returns the name of the machine's program that a command of `subprocess` starts.

    None for a program of an environment or of a test's own, for Python, and for one that is not there.
    """
    words = [command] if isinstance(command, str | os.PathLike) else list(command)
    first = os.fsdecode(executable or words[0])
    where = shutil.which(first, path=path)
    if where is None or os.path.dirname(where) not in SYSTEM:
        return None
    name = os.path.basename(where)
    return None if name.startswith("python") else name


def watch_subprocesses() -> None:
    """From now on, each process that this one starts by `subprocess` is looked at."""
    start = subprocess.Popen.__init__

    def watched(self: "subprocess.Popen[Any]", args: Any, *others: Any, **options: Any) -> None:
        environ = options.get("env")
        path = None if environ is None else environ.get("PATH")
        name = "sh" if options.get("shell") else system_program(args, options.get("executable"), path)
        if name is not None:
            use(name)
        start(self, args, *others, **options)

    subprocess.Popen.__init__ = watched  # type: ignore[method-assign]
