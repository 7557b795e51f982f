"""A loader that a thread runs through ahead of the script: what accelerate is told goes by the script's batch."""

import multiprocessing
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from sagelet_runtime import loading
from sagelet_runtime.hugging_face import loading as accelerated

Seen = tuple[Any, list[str], bool, int, int]


class GradientState:
    """accelerate's: the loaders that are read, the innermost last."""

    def __init__(self) -> None:
        self.loaders: list[Any] = []
        self.num_steps = 2

    def _add_dataloader(self, loader: Any) -> None:
        self.loaders.append(loader)

    def _remove_dataloader(self, loader: Any) -> None:
        self.loaders.remove(loader)


class Loader:
    """In the shape of accelerate's DataLoaderShard."""

    end_of_dataloader = False
    remainder = -1
    num_workers = 0

    def __init__(self, batches: list[Any], state: GradientState, dataset: Any = None, name: str = "loader") -> None:
        self.batches = batches
        self.gradient_state = state
        self.dataset = dataset
        self.iteration = 0
        self.name = name

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        self.end_of_dataloader = False
        self.remainder = 3
        self.gradient_state._add_dataloader(self)
        source = iter(self.batches)
        current = next(source)
        for following in source:
            yield current
            current = following
        self.end_of_dataloader = True
        yield current
        self.iteration += 1
        self.gradient_state._remove_dataloader(self)


class Wrapper:
    """In the shape of MpDeviceLoaderWrapper, with a thread that is always at the end before the script begins."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._loader))


@pytest.fixture
def ahead() -> Callable[[Any], Any]:
    """A loader behind the thread, patched."""
    kind = type("MpDeviceLoaderWrapper", (Wrapper,), {})
    accelerated.install(SimpleNamespace(MpDeviceLoaderWrapper=kind, find_batch_size=len))  # type: ignore[arg-type]
    return kind


def seen(batches: Any, loader: Loader) -> Iterator[Seen]:
    """What a script sees of the state in each round, and after the last."""
    state = loader.gradient_state

    def now(batch: Any) -> Seen:
        names = [other.name for other in state.loaders]
        return batch, names, loader.end_of_dataloader, loader.remainder, loader.iteration

    for batch in batches:
        yield now(batch)
    yield now(None)


@pytest.mark.parametrize("batches", [["a"], ["a", "b"], list("abcde")])
def test_a_script_sees_what_it_sees_without_a_thread(ahead: Callable[[Any], Any], batches: list[str]) -> None:
    plain = Loader(batches, GradientState())
    threaded = Loader(batches, GradientState())
    wrapped = ahead(threaded)
    for _ in range(2):
        assert list(seen(wrapped, threaded)) == list(seen(plain, plain))
        assert wrapped._loader is threaded


def test_an_evaluation_within_a_training(ahead: Callable[[Any], Any]) -> None:
    state = GradientState()
    outer, inner = Loader(list("ab"), state, name="train"), Loader(list("xyz"), state, name="evaluate")
    rounds = []
    for first in seen(ahead(outer), outer):
        rounds.append(first)
        if first[0] == "a":
            rounds += seen(ahead(inner), inner)
    assert [(one[0], one[1], one[2]) for one in rounds] == [
        ("a", ["train"], False),
        ("x", ["train", "evaluate"], False),
        ("y", ["train", "evaluate"], False),
        ("z", ["train", "evaluate"], True),
        (None, ["train"], True),
        ("b", ["train"], True),
        (None, [], True),
    ]


def test_a_script_that_breaks_off_has_not_come_to_the_end(ahead: Callable[[Any], Any]) -> None:
    loader = Loader(list("abc"), GradientState())
    for _ in ahead(loader):
        break
    assert (loader.end_of_dataloader, loader.iteration) == (False, 0)
    assert [round[4] for round in seen(ahead(loader), loader)] == [0, 0, 0, 1]


def test_a_loader_that_is_not_accelerates_stays_as_it_is(ahead: Callable[[Any], Any]) -> None:
    assert list(ahead(["a", "b"])) == ["a", "b"]


class IterableDatasetShard:
    """In the shape of accelerate's: each worker's share of a dataset without a length, filled up from its beginning."""

    batch_size, num_processes, split_batches = 2, 2, False

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset


class IterableDataset:
    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.count))


@pytest.mark.parametrize(("count", "remainder"), [(5, 1), (8, 4), (3, 3)])
def test_padding_of_a_dataset_without_a_length_is_counted(
    ahead: Callable[[Any], Any], count: int, remainder: int
) -> None:
    kind = type("IterableDatasetShard", (IterableDatasetShard, IterableDataset), {})
    dataset = kind(IterableDataset(count))

    class Streaming(Loader):
        def __iter__(self) -> Iterator[Any]:
            list(self.dataset.dataset)
            yield from super().__iter__()

    loader = Streaming(list("ab"), GradientState(), dataset)
    for _ in range(2):
        assert [round[3] for round in seen(ahead(loader), loader)] == [3, remainder, remainder]


def test_what_a_process_that_loads_reads_is_counted(ahead: Callable[[Any], Any]) -> None:
    kind = type("IterableDatasetShard", (IterableDatasetShard, IterableDataset), {})

    class Loading(Loader):
        num_workers = 1

        def __iter__(self) -> Iterator[Any]:
            process = multiprocessing.get_context("fork").Process(target=list, args=(self.dataset.dataset,))
            process.start()
            process.join()
            yield from super().__iter__()

    loader = Loading(list("ab"), GradientState(), kind(IterableDataset(5)))
    for _ in range(2):
        assert [round[3] for round in seen(ahead(loader), loader)] == [3, 1, 1]


def test_that_several_processes_pad_is_said(ahead: Callable[[Any], Any], capsys: pytest.CaptureFixture[str]) -> None:
    """Each fills up its own end, so that no count of the last batch says what is padding."""
    kind = type("IterableDatasetShard", (IterableDatasetShard, IterableDataset), {})
    loader = Loader(list("ab"), GradientState(), kind(IterableDataset(5)))
    loader.num_workers = 3
    list(ahead(loader))
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("sagelet: num_workers=3 for a dataset without a length: ")
    assert "count samples twice" in line


def test_an_error_of_the_dataset_is_raised_after_the_batches_before_it() -> None:
    def batches() -> Iterator[str]:
        yield "a"
        raise ValueError("a bad sample")

    errors: list[Exception] = []
    assert list(loading.Telling(batches(), errors)) == ["a"]
    assert [str(error) for error in errors] == ["a bad sample"]
