"""Accelerate of 2021 to 2023: which names its state has, and what it does to generators and float16 on XLA."""

import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest

from sagelet_runtime.base import installed
from sagelet_runtime.hugging_face import dated, half, loading
from sagelet_runtime.torch_xla import shuffling


def accelerate_with(monkeypatch: pytest.MonkeyPatch, **names: Any) -> None:
    state = ModuleType("accelerate.state")
    vars(state).update(names)
    package = ModuleType("accelerate")
    vars(package).update(state=state)
    monkeypatch.setitem(sys.modules, "accelerate", package)
    monkeypatch.setitem(sys.modules, "accelerate.state", state)


@pytest.mark.parametrize("name", ["PartialState", "AcceleratorState"])
@pytest.mark.parametrize(("value", "xla"), [("XLA", True), ("TPU", True), ("MULTI_CPU", False)])
def test_the_state_is_found_in_every_release(monkeypatch: pytest.MonkeyPatch, name: str, value: str, xla: bool) -> None:
    """Before 0.17 there is no PartialState, and a compiled script that shuffled ended with an ImportError."""

    def made() -> Any:
        return SimpleNamespace(distributed_type=SimpleNamespace(value=value), num_processes=1)

    accelerate_with(monkeypatch, **{"AcceleratorState": made, name: made})
    assert shuffling._is_on_xla() == xla
    assert shuffling._is_alone()


def test_a_loader_whose_generator_accelerate_left_alone_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its `generator` is what the workers synchronize: without it each pass fails. 0.5 returns no device's loader."""
    monkeypatch.setattr(shuffling, "_is_on_xla", lambda: True)
    monkeypatch.setattr(shuffling, "_shuffles", lambda loader: loader.sampler)
    torch = ModuleType("torch")
    vars(torch).update(get_rng_state=lambda: "state")
    monkeypatch.setitem(sys.modules, "torch", torch)
    loader = SimpleNamespace(generator=None, sampler=SimpleNamespace(generator=None))

    def prepare_data_loader(given: Any) -> Any:
        given.sampler.generator = "the workers'"
        return SimpleNamespace(generator=given.sampler.generator)

    module = SimpleNamespace(prepare_data_loader=prepare_data_loader)
    shuffling.install(module)
    assert module.prepare_data_loader(loader).generator == "the workers'"
    assert loader.sampler.generator == "the workers'"


@pytest.mark.parametrize(
    ("version", "on_cpu", "cpu"),
    [
        ("0.3.0", "true", False),
        ("0.5.1", "true", True),
        ("0.12.0", "true", True),
        ("0.14.0", "true", True),
        ("0.15.0", "true", False),
        ("0.12.0", "false", False),
    ],
)
def test_native_workers_without_gpus_are_on_the_cpu(
    monkeypatch: pytest.MonkeyPatch, version: str, on_cpu: str, cpu: bool
) -> None:
    """Before 0.15 Accelerate did not read ACCELERATE_USE_CPU and joined them by NCCL."""
    seen: list[tuple[Any, ...]] = []

    class AcceleratorState:
        def __init__(self, mixed_precision: Any = None, cpu: bool = False) -> None:
            seen.append((mixed_precision, cpu))

    monkeypatch.setattr(installed, "version", lambda _name: version)
    monkeypatch.setitem(os.environ, "ACCELERATE_USE_CPU", on_cpu)
    module: Any = SimpleNamespace(AcceleratorState=AcceleratorState)
    dated.install_state(module)
    AcceleratorState(mixed_precision="no", cpu=False)
    AcceleratorState()
    assert seen == [("no", cpu), (None, False)]


class OfBools:
    """AcceleratorState before 0.6."""

    _shared_state: ClassVar[dict[str, Any]] = {}

    def __init__(self, fp16: bool | None = None, cpu: bool = False) -> None:
        self.fp16, self.cpu = fp16, cpu


def test_float16_of_a_release_that_takes_a_bool(capsys: pytest.CaptureFixture[str]) -> None:
    kind: Any = type("AcceleratorState", (OfBools,), {})
    half.install_state(SimpleNamespace(AcceleratorState=kind))
    made = kind(fp16=True, cpu=True)
    assert (made.fp16, made.cpu) == (False, True)
    assert (kind(fp16=None).fp16, kind(False).fp16) == (None, False)
    assert "float16 is computed in float32" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("version", "device", "changed"),
    [("0.12.0", "CPU", True), ("0.27.2", "CPU", True), ("0.28.0", "CPU", False), ("0.12.0", "CUDA", False)],
)
def test_float16_of_a_release_that_refuses_it_on_xla(
    monkeypatch: pytest.MonkeyPatch, version: str, device: str, changed: bool
) -> None:
    kind: Any = type("AcceleratorState", (OfBools,), {})
    monkeypatch.setattr(installed, "version", lambda _name: version)
    monkeypatch.setitem(os.environ, "PJRT_DEVICE", device)
    half.install_compiled_state(SimpleNamespace(AcceleratorState=kind))
    assert kind(fp16=True).fp16 is not changed


class Loader:
    """Accelerate's of before 0.27, which makes the generators equal in the thread that loads."""

    dataset = range(2)

    def __init__(self, rng_types: list[str] | None) -> None:
        self.rng_types, self.generator = rng_types, "a generator"
        self.gradient_state = SimpleNamespace()

    def __iter__(self) -> Any:
        if self.rng_types is not None:
            raise AssertionError("a collective in the thread")
        yield from self.dataset


@pytest.mark.parametrize(("kinds", "calls"), [(["generator"], 2), (None, 0)])
def test_generators_are_made_equal_outside_of_the_thread(kinds: list[str] | None, calls: int) -> None:
    synchronized: list[Any] = []

    class MpDeviceLoaderWrapper:
        def __init__(self, loader: Any) -> None:
            self._loader = loader

        def __iter__(self) -> Any:
            return iter(self._loader)

    module: Any = SimpleNamespace(
        MpDeviceLoaderWrapper=MpDeviceLoaderWrapper,
        find_batch_size=lambda _batch: 1,
        synchronize_rng_states=lambda *given: synchronized.append(given),
    )
    loading.install(module)
    loader = Loader(kinds)
    wrapped = MpDeviceLoaderWrapper(loader)
    assert (list(wrapped), list(wrapped)) == ([0, 1], [0, 1])
    assert synchronized == [(["generator"], "a generator")] * calls
    assert loader.rng_types == kinds
