"""Packages that jobs installed: published once, shared with jobs, and removed when no job uses them."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sagelet_engine.retention.environments import Environments
from sagelet_engine.runtimes.node.kept_packages import DIRECTORY, KeptPackages

OLD_S = 1_000


@pytest.fixture
def kept(tmp_path: Path) -> KeptPackages:
    return KeptPackages(tmp_path / DIRECTORY)


def publish(kept: KeptPackages, key: str, text: str = "installed", used_s: int = OLD_S) -> None:
    with kept.draft(key) as draft:
        (draft / "lib").mkdir()
        (draft / "lib" / "module.py").write_text(text)
        kept.publish(draft, key)
    os.utime(kept.path(key), (used_s, used_s))


def test_who_is_later_changes_nothing(kept: KeptPackages, tmp_path: Path) -> None:
    publish(kept, "a" * 64, "first")
    publish(kept, "a" * 64, "second")
    found = kept.acquire("a" * 64, tmp_path)
    assert found is not None
    assert (found / "lib" / "module.py").read_text() == "first"
    assert list((kept.root / "making").iterdir()) == []


def test_an_installation_that_fails_leaves_nothing(kept: KeptPackages, tmp_path: Path) -> None:
    with kept.draft("a" * 64) as draft:
        (draft / "half").touch()
    assert kept.acquire("a" * 64, tmp_path) is None
    assert list((kept.root / "making").iterdir()) == []


def test_one_at_a_time_has_its_turn(kept: KeptPackages) -> None:
    here: list[int] = []

    def work(number: int) -> int:
        with kept.turn("a" * 64):
            here.append(number)
            together = len(here)
            here.remove(number)
            return together

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(work, range(8))) == {1}


def test_a_turn_is_not_waited_for_without_end(kept: KeptPackages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagelet_engine.runtimes.node.kept_packages.TIMEOUT_S", 0.0)
    with kept.turn("a" * 64), kept.turn("a" * 64):
        pass


def test_who_holds_the_lock_for_ever_holds_nobody(
    kept: KeptPackages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(kept, "a" * 64)
    monkeypatch.setattr("sagelet_engine.runtimes.node.kept_packages.COUNTING_S", 0.0)
    with kept.counting():
        with pytest.raises(TimeoutError):
            kept.acquire("a" * 64, tmp_path)
        with pytest.raises(TimeoutError):
            Environments(tmp_path).trim(-1, None)


def test_what_is_kept_cannot_be_written_by_mistake(kept: KeptPackages) -> None:
    publish(kept, "a" * 64)
    assert (kept.path("a" * 64) / "lib" / "module.py").stat().st_mode & 0o222 == 0
    assert (kept.path("a" * 64) / "lib").stat().st_mode & 0o222 == 0


def trimmed(tmp_path: Path, before_ms: int, most: int | None, *, dry_run: bool = False) -> list[str]:
    return [one.key[0] for one in Environments(tmp_path).trim(before_ms, most, dry_run=dry_run)]


def left(kept: KeptPackages) -> list[str]:
    return sorted(path.name[0] for path in (kept.root / "kept").iterdir())


def test_what_was_not_used_for_long_goes(kept: KeptPackages, tmp_path: Path) -> None:
    publish(kept, "a" * 64, used_s=1_000)
    publish(kept, "b" * 64, used_s=3_000)
    assert trimmed(tmp_path, 2_000_000, None, dry_run=True) == ["a"]
    assert left(kept) == ["a", "b"]
    assert trimmed(tmp_path, 2_000_000, None) == ["a"]
    assert left(kept) == ["b"]
    assert list((kept.root / "making").iterdir()) == []


def test_the_least_recently_used_go_while_all_take_too_much(kept: KeptPackages, tmp_path: Path) -> None:
    for number, name in enumerate("cab"):
        publish(kept, name * 64, "x" * 100_000, used_s=1_000 + number)
    assert trimmed(tmp_path, -1, 250_000) == ["c"]
    assert trimmed(tmp_path, -1, 0) == ["a", "b"]
    assert trimmed(tmp_path, -1, 0) == []


def test_what_a_host_uses_stays(kept: KeptPackages, tmp_path: Path) -> None:
    publish(kept, "a" * 64)
    host = tmp_path / "packages"
    host.mkdir()
    kept.acquire("a" * 64, host)
    assert trimmed(tmp_path, 10**15, 0) == []
    host.rmdir()
    assert trimmed(tmp_path, 10**15, 0) == ["a"]
    assert list((kept.root / "users").iterdir()) == []


def test_an_installation_that_was_killed_goes_and_one_under_way_stays(kept: KeptPackages, tmp_path: Path) -> None:
    publish(kept, "a" * 64)
    killed = kept.root / "making" / "killed"
    (killed / "lib").mkdir(parents=True)
    with kept.turn("b" * 64), kept.draft("b" * 64) as draft:
        trimmed(tmp_path, -1, None)
        assert draft.is_dir()
        assert (kept.root / "locks" / ("b" * 64)).exists()
        assert not killed.exists()
    trimmed(tmp_path, -1, None)
    assert list((kept.root / "locks").iterdir()) == []


def test_no_directory_is_made_where_nothing_was_installed(tmp_path: Path) -> None:
    assert trimmed(tmp_path, -1, 0) == []
    assert list(tmp_path.iterdir()) == []
