"""Which loaders of accelerate shuffle by torch's own generator on XLA."""

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from sagelet_runtime.torch_xla import saving, shuffling


class Trainer:
    """Today's Trainer, which natively saves the collator's tokenizer."""

    def __init__(self, tokenizer: Any, processing_class: Any = None, should_save: bool = True) -> None:
        self.data_collator = SimpleNamespace(tokenizer=tokenizer)
        self.processing_class = processing_class
        self.args = SimpleNamespace(output_dir="out", should_save=should_save)

    def _save(self, output_dir: str | None = None) -> None:
        assert self.data_collator is not None

    def _save_tpu(self, output_dir: str | None = None) -> None:
        """Saves none."""


class Tokenizer:
    def __init__(self) -> None:
        self.saved: list[str] = []

    def save_pretrained(self, directory: str) -> None:
        self.saved.append(directory)


@pytest.fixture
def trainer() -> Any:
    kind = type("Trainer", (Trainer,), {})
    saving.install_trainer(SimpleNamespace(Trainer=kind, logger=SimpleNamespace(info=lambda *_, **__: None)))
    return kind


def test_a_compiled_trainer_saves_the_tokenizer_of_its_collator(trainer: Any) -> None:
    tokenizer = Tokenizer()
    trainer(tokenizer)._save_tpu("there")
    trainer(tokenizer)._save_tpu()
    assert tokenizer.saved == ["there", "out"]


@pytest.mark.parametrize("given", [{"processing_class": object()}, {"should_save": False}])
def test_it_does_not_where_the_native_one_does_not(trainer: Any, given: dict[str, Any]) -> None:
    tokenizer = Tokenizer()
    trainer(tokenizer, **given)._save_tpu("there")
    trainer(None)._save_tpu("there")
    assert tokenizer.saved == []


def test_a_trainer_of_then_saves_none_natively_either() -> None:
    class Old(Trainer):
        def _save(self, output_dir: str | None = None) -> None:
            """Without the collator."""

    original = Old._save_tpu
    saving.install_trainer(SimpleNamespace(Trainer=Old))
    assert Old._save_tpu is original


@pytest.mark.xla
@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("seeded", [True, False])
def test_xla_shuffles_as_natively(monkeypatch: pytest.MonkeyPatch, alone: bool, seeded: bool) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader

    def own_generator() -> Any:
        return torch.Generator().manual_seed(int(torch.empty((), dtype=torch.int64).random_().item()))

    def natively(loader: Any) -> Any:
        """Prepares loaders as Accelerate does: the workers' samplers share a generator, their loaders have none."""
        if loader.sampler.generator is None and not alone:
            loader.sampler.generator = own_generator()
        return loader

    def of_accelerate(loader: Any, *_: Any, **__: Any) -> Any:
        """On XLA: a generator of the loader's own, seeded by torch's."""
        generator = own_generator()
        loader.generator = loader.sampler.generator = generator
        below = DataLoader(loader.dataset, batch_sampler=loader.batch_sampler, generator=generator)
        return SimpleNamespace(
            _loader=SimpleNamespace(base_dataloader=below, synchronized_generator=None if alone else generator)
        )

    def rows(loader: Any) -> list[int]:
        return [int(row) for batch in loader for row in batch]

    def loader() -> Any:
        torch.manual_seed(3)
        generator = torch.Generator() if seeded else None
        return DataLoader(range(16), batch_size=4, shuffle=True, generator=generator)

    def seed(own: Any) -> None:
        """As scripts do, once all is prepared."""
        if own.generator is not None:
            own.generator.manual_seed(42)

    module = ModuleType("accelerate.data_loader")
    module.prepare_data_loader = of_accelerate  # type: ignore[attr-defined]
    shuffling.install(module)
    monkeypatch.setattr(shuffling, "_is_on_xla", lambda: True)
    monkeypatch.setattr(shuffling, "_is_alone", lambda: alone)
    native, compiled = natively(loader()), loader()
    seed(native)
    expected = rows(native)
    torch.manual_seed(3)
    given = compiled.sampler.generator
    prepared = module.prepare_data_loader(compiled)._loader  # type: ignore[attr-defined]
    seed(compiled)
    assert rows(prepared.base_dataloader) == expected
    assert prepared.synchronized_generator is (given if seeded and not alone else prepared.synchronized_generator)
    assert shuffling._shuffles(DataLoader(range(4))) is None
