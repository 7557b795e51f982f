"""Errors of a dataset reach the script, whatever torch_xla calls its attributes."""

import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sagelet_runtime.torch_xla.loading import install_on


class Since29:
    """As of torch_xla 2.9, in short."""

    def __init__(self, cpu_loader: Any, _devices: Any = ()) -> None:
        self._cpu_loader = cpu_loader
        self.items: queue.Queue[Any] = queue.Queue()
        self.samples = len(cpu_loader)
        threading.Thread(target=self._loader_worker, daemon=True).start()

    def _loader_worker(self) -> None:
        for item in self._cpu_loader:
            self.items.put(item)
        self.items.put(None)

    def next_item(self, _device: Any) -> Any:
        return self.items.get(timeout=120)


class Of21:
    """As of torch_xla 2.1, which the image of 2022 has."""

    def __init__(self, loader: Any, _devices: Any = ()) -> None:
        self._loader = loader
        self.items: queue.Queue[Any] = queue.Queue()
        self.samples = len(loader)
        threading.Thread(target=self._loader_worker, daemon=True).start()

    def _loader_worker(self) -> None:
        for item in self._loader:
            self.items.put(item)
        self.items.put(None)

    next_item = Since29.next_item


class Data:
    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Iterator[int]:
        yield from (1, 2)
        raise ValueError("row 3 is broken")


@pytest.fixture(params=[Since29, Of21])
def loader_class(request: pytest.FixtureRequest) -> Any:
    patched = type(request.param.__name__, (request.param,), {"__init__": request.param.__init__})
    install_on(patched)
    return patched


def test_batches_come_then_the_error_then_the_end(loader_class: Any) -> None:
    loader = loader_class(Data(), ["xla:0"])
    assert loader.samples == 3
    assert [loader.next_item("xla:0"), loader.next_item("xla:0")] == [1, 2]
    with pytest.raises(ValueError, match="row 3 is broken"):
        loader.next_item("xla:0")


@pytest.mark.parametrize(("found", "name"), [(Since29, "cpu_loader"), (Of21, "loader")])
def test_the_loader_may_be_named(found: Any, name: str) -> None:
    patched = type("Patched", (found,), {"__init__": found.__init__})
    install_on(patched)
    loader = patched(**{name: [7]})
    assert [loader.next_item(0), loader.next_item(0)] == [7, None]
