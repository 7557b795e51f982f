"""Adds a directory or a prefix of a bucket to the hub, as a revision of a repository."""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from sagelet_engine.hub.label_names import features
from sagelet_engine.hub.names import Kind
from sagelet_engine.hub.records import Commit
from sagelet_engine.hub.sources import Source, SourceFile, UnfitSource, refuse_pointer
from sagelet_engine.hub.store import Draft, HubStore, paths_overlap

CARD = "README.md"
#: Bytes of the first line of a CSV file that are looked at.
LONGEST_HEADER = 4096
#: File types that `datasets` reads without a script.
_DATA = frozenset({".csv", ".tsv", ".json", ".jsonl", ".parquet", ".arrow", ".txt"})
#: Directory names that `datasets` takes for a split, or for the parent of all splits.
_SPLITS = frozenset({"data", "train", "training", "validation", "valid", "dev", "val", "test", "testing", "eval"})
#: Names for the files of a split, in the order in which `datasets` looks for them.
_SPLIT_NAMES = (
    ("train", ("train", "training")),
    ("validation", ("validation", "valid", "dev", "val")),
    ("test", ("test", "testing", "eval", "evaluation")),
)
#: `validation_matched-00000-of-00001.parquet`: how `datasets` itself names the files of a split.
_SPLIT = re.compile(r"((?:train|validation|test)(?:_\w+)?)(?:-\d+-of-\d+)?\.\w+", re.ASCII)


@dataclass(frozen=True)
class Added:
    commit: Commit
    files: int
    bytes: int
    #: Configurations for which a card was made.
    configurations: Sequence[str]


def add(
    store: HubStore,
    source: Source,
    kind: Kind,
    repository: str,
    revision: str,
    now_ms: int,
    seen: Callable[[str, int], None] = lambda *_: None,
) -> Added:
    """Adds a revision. Calls `seen` with each file's path and the bytes that were read of it.

    Raises UnfitName, UnfitSource, DamagedRepository, DiskFull, OSError.
    """
    if (relation := source.overlap(store.data)) is not None:
        raise UnfitSource(
            f"it {relation} the data directory {store.data} with the owner's keys, which every job could then read: "
            "put the files to add into a directory of their own"
        )
    with store.draft() as draft:
        headers: dict[str, str] = {}
        for file in source.files():
            headers |= _take(draft, source, file, seen)
        if not draft.files:
            raise UnfitSource("the directory has no files: nothing was added")
        if (both := paths_overlap(draft.files)) is not None:
            raise UnfitSource(f"{both} is a file and a directory at once: nothing was added")
        made = _make_card(draft, repository, headers) if kind is Kind.DATASET else ()
        commit = draft.publish(kind, repository, revision, now_ms)
        return Added(commit, len(draft.files), sum(file.size for file in draft.files.values()), made)


def _take(draft: Draft, source: Source, file: SourceFile, seen: Callable[[str, int], None]) -> dict[str, str]:
    """Adds a file. Returns the first line of a CSV file, by its path."""
    with source.open(file) as data:
        refuse_pointer(file, data)
        header = data.readline(LONGEST_HEADER) if file.path.endswith(".csv") else b""
        data.seek(0)
        draft.put(file.path, data, file.size, lambda size: seen(file.path, size))
    return {file.path: header.decode("utf-8-sig", "replace").strip()} if header else {}


def _make_card(draft: Draft, repository: str, headers: Mapping[str, str]) -> Sequence[str]:
    """Makes a card for a data set whose directories are configurations.

    With it, `load_dataset("glue", "sst2")` loads `glue/sst2/train.csv`, and knows the names of GLUE's labels. A data
    set with a card or a script of its own stays as it is. `headers`: the first lines of its CSV files.
    """
    names = [PurePosixPath(path) for path in draft.files]
    if CARD in draft.files or any(len(name.parts) == 1 and name.suffix == ".py" for name in names):
        return ()
    data = [name for name in names if name.suffix in _DATA]
    found = sorted({name.parts[0] for name in data if len(name.parts) > 1})
    if not found or len({name for name in data if len(name.parts) == 1}) or {*found} & _SPLITS:
        return ()
    configurations = [(one, [name for name in data if name.parts[0] == one]) for one in found]
    columns = [
        line
        for one, files in configurations
        for line in features(repository, one, [headers.get(str(name), "") for name in files])
    ]
    text = card(configurations, columns).encode()
    draft.put(CARD, io.BytesIO(text), len(text))
    return found


def card(configurations: Sequence[tuple[str, Sequence[PurePosixPath]]], columns: Sequence[str] = ()) -> str:
    """Returns the text of a card. `columns`: its lines about the columns, where they are known."""
    lines = ["---", "configs:"]
    for name, files in configurations:
        lines += [f"- config_name: {_quoted(name)}", "  data_files:"]
        for split, paths in _splits(files):
            lines += [f"  - split: {split}", "    path:", *(f"    - {_quoted(str(path))}" for path in paths)]
    lines += ["dataset_info:", *columns] if columns else []
    return "\n".join([*lines, "---", "", "Made by `sagelet hub add`, of the directories there.", ""])


def _splits(files: Sequence[PurePosixPath]) -> list[tuple[str, list[PurePosixPath]]]:
    """Returns the splits, by the names that `datasets` uses. Files without such a name are for training."""
    found: dict[str, list[PurePosixPath]] = {}
    for path in files:
        found.setdefault(_split_of(path), []).append(path)
    order = [name for name, _ in _SPLIT_NAMES]
    return sorted(found.items(), key=lambda one: (order.index(one[0].split("_")[0]), one[0]))


def _split_of(path: PurePosixPath) -> str:
    if (told := _SPLIT.fullmatch(path.name)) is not None:
        return told[1]
    words = {word for part in path.parts[1:] for word in _words(part)}
    return next((split for split, names in _SPLIT_NAMES if words & {*names}), "train")


def _words(part: str) -> list[str]:
    return "".join(letter if letter.isalnum() else " " for letter in part.lower()).split()


def _quoted(text: str) -> str:
    """Returns the text quoted for YAML."""
    return "'" + text.replace("'", "''") + "'"
