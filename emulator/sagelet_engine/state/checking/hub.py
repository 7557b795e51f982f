"""Checks the repositories of the hub against their files."""

import hashlib
from pathlib import Path

from sagelet_engine.hub.records import DamagedRepository, HubFile, Repository
from sagelet_engine.hub.store import BLOBS, DIRECTORY, HubStore, Unreadable
from sagelet_engine.state.checking.report import Aside, Report

_CHUNK = 1024 * 1024


def check_hub(data: Path, report: Report, aside: Aside) -> None:
    """Reads every file of every repository. Raises OSError."""
    store = HubStore(data)
    #: Each file once, even if several repositories have it.
    wrong: dict[str, str] = {}
    sound: set[str] = set()
    for one in store.every():
        if isinstance(one, Unreadable):
            mended = aside.move(one.path) if report.repair else ""
            report.add("hub", one.why, "`sagelet check --repair` moves it aside; then add it again", mended=mended)
            continue
        report.repositories += 1
        damaged = [path for path, file in _files(one) if _look(store, file, sound, wrong, report, aside)]
        if damaged:
            report.add(
                "hub", f"{one.kind.singular} {one.id}: {', '.join(damaged[:5])} ({wrong[_first(one, damaged)]})",
                "add it again (`sagelet hub add`, `make-tiny`), or remove it (`sagelet hub remove`)",
            )  # fmt: skip


def _files(repository: Repository) -> list[tuple[str, HubFile]]:
    return [entry for commit in repository.commits.values() for entry in commit.files.items()]


def _first(repository: Repository, damaged: list[str]) -> str:
    return next(file.sha256 for path, file in _files(repository) if path == damaged[0])


def _look(store: HubStore, file: HubFile, sound: set[str], wrong: dict[str, str], report: Report, aside: Aside) -> bool:
    """Returns whether a file is damaged. A repair moves a damaged one aside, so that it can be added again."""
    if file.sha256 in sound:
        return False
    if file.sha256 in wrong:
        return True
    why = _damage(store, file)
    if not why:
        sound.add(file.sha256)
        return False
    name = f"{DIRECTORY}/{BLOBS}/{file.sha256}"
    if report.repair and (store.root / BLOBS / file.sha256).exists():
        why += f"; {aside.move(name)}"
    wrong[file.sha256] = why
    return True


def _damage(store: HubStore, file: HubFile) -> str:
    """Returns what is wrong with a file. Empty if nothing is."""
    try:
        opened = store.open(file)
    except DamagedRepository:
        return "its file is missing, or has another size"
    digest = hashlib.sha256()
    with opened:
        while chunk := opened.read(_CHUNK):
            digest.update(chunk)
    return "" if digest.hexdigest() == file.sha256 else "its bytes are not those that were added"
