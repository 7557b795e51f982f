"""The build context: the same files give the same context, whoever owns them."""

import os
import tarfile
from pathlib import Path

import pytest

import sagelet_engine
from sagelet_engine.images.context import CA_BUNDLE, DOCKERFILE, BuildContext, find_root
from sagelet_engine.images.output import BuildContextMissing
from support.docker_double import unpacked

ARGUMENTS = {"BASE": "auto"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {
        DOCKERFILE: "FROM x",
        CA_BUNDLE: "",
        "runtime/bin/train": "#!/bin/sh",
        "runtime/sagelet_runtime/__init__.py": "",
        "runtime/sagelet_runtime/__pycache__/__init__.cpython-311.pyc": "x",
        "base/packages.txt": "bash",
    }
    for name, text in files.items():
        path = tmp_path / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "images"


def test_only_what_the_image_needs_is_sent(root: Path) -> None:
    with BuildContext(root).tar() as archive:
        names = unpacked(archive.read())
    assert set(names) == {DOCKERFILE, CA_BUNDLE, "runtime/bin/train", "runtime/sagelet_runtime/__init__.py"}


def test_files_belong_to_root_and_commands_are_executable(root: Path) -> None:
    with BuildContext(root).tar() as archive, tarfile.open(fileobj=archive) as tar:
        members = {member.name: member for member in tar}
    assert {(member.uid, member.gid, member.mtime) for member in members.values()} == {(0, 0, 0)}
    assert members["runtime/bin/train"].mode == 0o755
    assert members["runtime/sagelet_runtime/__init__.py"].mode == 0o644
    assert members["runtime/sagelet_runtime"].isdir()


def test_the_digest_does_not_depend_on_times_owners_and_caches(root: Path) -> None:
    before = BuildContext(root).digest(ARGUMENTS)
    os.utime(root / DOCKERFILE, (1, 1))
    (root / "runtime/bin/train").chmod(0o600)
    (root / "runtime/__pycache__").mkdir()
    (root / "runtime/__pycache__/x.pyc").write_text("new")
    assert BuildContext(root).digest(ARGUMENTS) == before


@pytest.mark.parametrize("name", [DOCKERFILE, "runtime/bin/train", "runtime/new.py"])
def test_the_digest_changes_with_every_file(root: Path, name: str) -> None:
    before = BuildContext(root).digest(ARGUMENTS)
    (root / name).write_text("changed")
    assert BuildContext(root).digest(ARGUMENTS) != before


def test_the_digest_changes_with_arguments_and_certificates(root: Path) -> None:
    digests = {
        BuildContext(root).digest(ARGUMENTS),
        BuildContext(root).digest({"BASE": "debian"}),
        BuildContext(root).digest({**ARGUMENTS, "PIP_INDEX_URL": "https://index.example/simple"}),
        BuildContext(root, {CA_BUNDLE: b"PEM"}).digest(ARGUMENTS),
    }
    assert len(digests) == 4


def test_a_replaced_file_is_sent_instead(root: Path) -> None:
    with BuildContext(root, {CA_BUNDLE: b"PEM"}).tar() as archive:
        assert unpacked(archive.read())[CA_BUNDLE] == b"PEM"


def test_the_context_of_this_checkout_is_found() -> None:
    names = {name for name, _, _ in BuildContext(find_root()).files()}
    assert {DOCKERFILE, CA_BUNDLE, "training/requirements.txt", "training/requirements-toolkit.txt"} <= names
    assert "runtime/bin/train" in names


def test_an_installed_wheel_carries_the_context(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = root.parent / "lib" / "site-packages" / "sagelet_engine"
    package.mkdir(parents=True)
    monkeypatch.setattr(sagelet_engine, "__file__", str(package / "__init__.py"))
    with pytest.raises(BuildContextMissing, match="install sagelet again"):
        find_root()
    root.rename(package / "_images")
    assert find_root() == package / "_images"
