"""What a container is held to, and whose its files are."""

import os
from pathlib import Path

import pytest

from sagelet_engine.runtimes.node import confinement
from sagelet_engine.runtimes.node.confinement import NOBODY, Exceptions, User

GIB = 1024**3
ORDINARY = User(1000, 100)


@pytest.mark.parametrize(
    ("wanted", "machine", "limit"),
    [
        (8 * GIB, 64 * GIB, 8 * GIB),
        # A laptop that stands in for an ml.p3.8xlarge.
        (244 * GIB, 16 * GIB, 14 * GIB),
        (244 * GIB, 4 * GIB, 3.5 * GIB),
        # A type that the catalogue does not have.
        (None, 64 * GIB, 62 * GIB),
        (8 * GIB, 0, 8 * GIB),
        (None, 0, None),
    ],
)
def test_memory_is_the_instance_types_or_what_the_machine_has(
    wanted: int | None, machine: int, limit: int | None
) -> None:
    assert confinement.memory_of(wanted, machine) == limit


@pytest.mark.parametrize(("wanted", "machine", "limit"), [(2, 8, 2), (8, 8, None), (96, 8, None), (None, 8, None)])
def test_cpus_are_the_instance_types_where_the_machine_has_more(
    wanted: int | None, machine: int, limit: int | None
) -> None:
    assert confinement.cpus_of(wanted, machine) == limit


def test_nobody_is_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert confinement.user_of(rootless=False, as_root=False) == (NOBODY, NOBODY)
    assert confinement.user_of(rootless=False, as_root=True) is None
    assert confinement.user_of(rootless=True, as_root=False) is None, "who is the engine's user, and no other"
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(os, "getgid", lambda: 100)
    assert confinement.user_of(rootless=False, as_root=False) == ORDINARY
    assert confinement.user_of(rootless=False, as_root=True) == ORDINARY, "its files must be the server's"


def test_exceptions_are_patterns_of_images() -> None:
    exceptions = Exceptions(writable=("lab/*", "other:1"), root=("lab/old:*",))
    assert exceptions.keeps_root_writable("lab/team/bert:2")
    assert exceptions.keeps_root_writable("other:1")
    assert not exceptions.keeps_root_writable("other:2")
    assert exceptions.runs_as_root("lab/old:3")
    assert not exceptions.runs_as_root("lab/new:3")


@pytest.mark.parametrize(
    ("path", "ours"),
    [
        (
            "/opt/sagelet/runtime/bin:/usr/local/bin:/bin",
            "/opt/sagelet/runtime/bin:/root/.local/bin:/usr/local/bin:/bin",
        ),
        ("/usr/bin", "/root/.local/bin:/usr/bin"),
        ("", f"/root/.local/bin:{confinement.DEFAULT_PATH}"),
        ("/opt/conda/bin", "/opt/conda/bin:/root/.local/bin"),
    ],
)
def test_commands_of_pip_are_found_before_the_systems(path: str, ours: str) -> None:
    assert confinement.environment(read_only=True, user=None, path=path)["PATH"] == ours


def test_a_writable_root_keeps_the_images_own_environment() -> None:
    assert confinement.environment(read_only=False, user=None, path="/bin") == {}
    assert confinement.environment(read_only=False, user=ORDINARY, path="/bin")["HOME"] == "/tmp"


def test_python_finds_what_pip_installs_from_the_start(tmp_path: Path) -> None:
    confinement.make_scratch(tmp_path / "scratch", None)
    assert (tmp_path / "scratch" / "home" / ".local/lib/python3.11/site-packages").is_dir()
    assert oct((tmp_path / "scratch" / "tmp").stat().st_mode)[-4:] == "1777"
    assert oct((tmp_path / "scratch" / "home").stat().st_mode)[-3:] == "700"
    confinement.make_scratch(tmp_path / "scratch", None)


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Whose owner is changed, by name; nothing is."""
    found: list[tuple[str, int]] = []
    monkeypatch.setattr(os, "getuid", lambda: 0)

    def chown(name: str, uid: int, gid: int, *, dir_fd: int, follow_symlinks: bool) -> None:
        assert not follow_symlinks
        assert os.path.lexists(f"/proc/self/fd/{dir_fd}/{name}")
        assert gid == NOBODY
        found.append((name, uid))

    monkeypatch.setattr(os, "chown", chown)
    return found


def test_files_are_given_and_no_link_is_followed(tmp_path: Path, changes: list[tuple[str, int]]) -> None:
    outside, opt_ml = tmp_path / "outside", tmp_path / "opt-ml"
    (outside / "secret").mkdir(parents=True)
    (opt_ml / "model").mkdir(parents=True)
    (opt_ml / "model" / "a").touch()
    (opt_ml / "link").symlink_to(outside)
    confinement.give([opt_ml], User(NOBODY, NOBODY))
    assert sorted(changes) == [(name, NOBODY) for name in ("a", "link", "model", "opt-ml")]


def test_objects_that_are_linked_stay_the_stores_and_can_be_read(
    tmp_path: Path, changes: list[tuple[str, int]]
) -> None:
    train = tmp_path / "opt-ml" / "train"
    train.mkdir(parents=True)
    for name, mode in (("open", 0o444), ("closed", 0o400)):
        (train / name).touch()
        (train / name).chmod(mode)
    confinement.give([tmp_path / "opt-ml"], User(NOBODY, NOBODY), [train])
    assert changes == [("opt-ml", NOBODY), ("train", NOBODY), ("closed", -1)]
    assert oct((train / "open").stat().st_mode)[-3:] == "444"
    assert oct((train / "closed").stat().st_mode)[-3:] == "440"


def test_a_server_that_may_not_give_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refuse)
    with pytest.raises(confinement.CannotGive, match=r"CAP_CHOWN.*--root-image"):
        confinement.give([tmp_path], User(NOBODY, NOBODY))
