"""Links within a directory: what they name, and that no race, circle or number of them does harm."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagelet_engine.base import inner_links, nofollow
from sagelet_engine.base.inner_links import Budget, InnerLinks, resolved
from sagelet_engine.base.key_names import Why
from support.work import peak_of

MANY = 10**12


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key").write_text("secret")
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def found(
    root: Path, link: str, budget: Budget | None = None, names: tuple[str, ...] = ()
) -> tuple[dict[str, str], dict[str, Why]]:
    """The files behind a link with their places, and what was left out."""
    left: dict[str, Why] = {}
    links = InnerLinks(root, names, budget or Budget(MANY), left.__setitem__)
    return {one.name: "/".join(one.parts) for one in links.files(tuple(link.split("/")))}, left


def test_a_tree_behind_a_link(root: Path) -> None:
    (root / "a/b").mkdir(parents=True)
    (root / "a/f").touch()
    (root / "a/b/g").touch()
    (root / "a/b/h").symlink_to("../f")
    (root / "l").symlink_to("a")
    os.mkfifo(root / "a/pipe")
    assert found(root, "l") == ({"l/f": "a/f", "l/b/g": "a/b/g", "l/b/h": "a/f"}, {"l/pipe": Why.SPECIAL})


@pytest.mark.parametrize(
    "target",
    [
        "../secret/key",
        "a/../../secret/key",
        "/etc/passwd",
        "/data/../secret",
        "/database/f",
        "l",
        "nowhere",
        "a/up/secret/key",
    ],
)
def test_what_leads_out_or_to_nothing(root: Path, target: str) -> None:
    (root / "a").mkdir()
    (root / "a/up").symlink_to("../..")
    (root / "f").touch()
    (root / "l").symlink_to(target)
    assert found(root, "l", names=("/data",)) == ({}, {"l": Why.LINK})


@pytest.mark.parametrize(
    ("target", "place"), [("/data/f", "f"), ("/data/a/../f", "f"), ("a/b/../../f", "f"), ("./f", "f")]
)
def test_what_stays(root: Path, target: str, place: str) -> None:
    (root / "a/b").mkdir(parents=True)
    (root / "f").touch()
    (root / "l").symlink_to(target)
    assert found(root, "l", names=("/data",)) == ({"l": place}, {})


@pytest.mark.parametrize("target", [".", "/data", "a", "a/b/../.."])
def test_circles_end(root: Path, target: str) -> None:
    (root / "a/b").mkdir(parents=True)
    (root / "f").touch()
    (root / "a/l").symlink_to("../" + target if not target.startswith("/") else target)
    files, left = found(root, "a/l", names=("/data",))
    assert files == {}
    assert set(left.values()) == {Why.LOOP}


def test_links_upon_links_are_bounded(root: Path) -> None:
    """Thirty levels of two links each name a thousand million files."""
    for level in range(30):
        (root / f"d{level}").mkdir()
        for side in "ab":
            (root / f"d{level}" / side).symlink_to(f"../d{level + 1}")
    (root / "d30").mkdir()
    (root / "d30/f").touch()
    (root / "l").symlink_to("d0")
    left: list[Why] = []
    links = InnerLinks(root, (), Budget(MANY, 500), lambda _name, why: left.append(why))
    assert len(list(links.files(("l",)))) <= 500
    assert set(left) == {Why.MANY}
    assert len(left) <= 1000


def test_bytes_behind_links_are_bounded(root: Path) -> None:
    (root / "f").write_bytes(b"12345")
    (root / "g").write_bytes(b"1")
    for name in ("a", "b"):
        (root / name).symlink_to("f")
    (root / "c").symlink_to("g")
    budget, left = Budget(6), dict[str, Why]()
    links = InnerLinks(root, (), budget, left.__setitem__)
    assert [one.name for name in "abc" for one in links.files((name,))] == ["a", "c"]
    assert left == {"b": Why.MANY}


def _to_a_secret(root: Path) -> None:
    (root / "d/f").unlink()
    (root / "d/f").symlink_to(root.parent / "secret/key")


def _directory_to_a_secret(root: Path) -> None:
    (root / "d").rename(root / "e")
    (root / "d").symlink_to(root.parent / "secret")


@pytest.mark.parametrize("change", [_to_a_secret, _directory_to_a_secret])
def test_a_place_that_turns_into_a_link_meanwhile_is_no_file(root: Path, change: Callable[[Path], None]) -> None:
    (root / "d").mkdir()
    (root / "d/f").touch()
    (root / "d/key").touch()
    (root / "l").symlink_to("d/f")
    (root / "m").symlink_to("d/key")
    places = [inner_links.resolved(root, (name,)) for name in "lm"]
    change(root)
    for place in places if (root / "d").is_symlink() else places[:1]:
        assert place is not None
        with pytest.raises(nofollow.NoFile):
            nofollow.open_file(root, place)


def _winding(root: Path, name: str) -> None:
    """Links to 39 more, each as long as the kernel allows."""
    (root / "a").mkdir(exist_ok=True)
    for number in range(39):
        after = f"{name}{number + 1}" if number < 38 else "a"
        (root / f"{name}{number}").symlink_to("a/../" * 800 + after)


def test_the_work_for_winding_links_is_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them would cost 30,000 looks at a name, at each look at the checkpoints."""
    asked: list[str] = []
    original = nofollow.target_of

    def target_of(root: Path, here: list[str], name: str) -> str | None:
        asked.append(name)
        return original(root, here, name)

    monkeypatch.setattr(nofollow, "target_of", target_of)
    _winding(root, "w")
    assert found(root, "w0") == ({}, {"w0": Why.LINK})
    assert len(asked) <= inner_links.MOST_OPENED
    asked.clear()
    budget = Budget(MANY, most_opened=3 * inner_links.MOST_OPENED)
    reasons = [found(root, "w0", budget)[1]["w0"] for _ in range(50)]
    assert (reasons[0], reasons[-1], len(asked) <= 4 * inner_links.MOST_OPENED) == (Why.LINK, Why.MANY, True)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from("abcd"), st.text("abcd./", max_size=12), max_size=4))
def test_a_way_is_the_kernels_or_none(tmp_path_factory: pytest.TempPathFactory, links: dict[str, str]) -> None:
    root = tmp_path_factory.mktemp("links")
    (root / "e").mkdir()
    for name, target in links.items():
        if target and not target.startswith("/"):
            (root / name).symlink_to(target)
    for name in "abcde":
        place = resolved(root, (name,))
        real = os.path.realpath(root / name)
        inside = real == str(root) or real.startswith(f"{root}/")
        if place is not None and os.path.exists(root / name):
            assert inside
            assert str(root.joinpath(*place)) == real


def test_a_short_file_takes_no_memory_for_a_long_one(tmp_path: Path) -> None:
    """Records of hosts are looked at many times a second."""
    (tmp_path / "record").write_bytes(b"{}")
    assert peak_of(lambda: nofollow.read(tmp_path, "record", 64 << 20)) < 1 << 20
    assert nofollow.read(tmp_path, "record", 1) == b"{"
