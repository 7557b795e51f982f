"""The compiler changes nothing in what a model learns: native and compiled trainings from one seed."""

from pathlib import Path

import pytest

from support import same_model
from support.same_model import TOLERANCES, Trained

pytestmark = pytest.mark.xla

STEPS = 8


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Trained]]:
    """All models natively and compiled, one process each: half of the time goes into importing torch."""
    base: Path = tmp_path_factory.mktemp("trained")
    runs = {}
    for kind in ("native", "compiled"):
        compiled = kind == "compiled"
        under_way = same_model.start(
            base / kind, compiled=compiled, threads=1, forked=not compiled, small=1, steps=STEPS
        )
        runs[kind] = same_model.ended(*under_way, [*TOLERANCES])
    return runs


@pytest.mark.parametrize("name", TOLERANCES)
def test_native_and_compiled_trainings_agree(trained: dict[str, dict[str, Trained]], name: str) -> None:
    native, compiled = trained["native"][name], trained["compiled"][name]
    assert (native.device, compiled.device) == ("cpu", "xla")
    assert len(native.losses) == STEPS
    assert len(set(native.losses)) == STEPS, "it learns nothing"
    found = same_model.difference(native, compiled)
    assert found.within(TOLERANCES[name]), (found, native.losses, compiled.losses)


def test_trainings_that_are_not_the_same_are_told_apart(trained: dict[str, dict[str, Trained]]) -> None:
    """The control: a training that is one step behind is out of every tolerance."""
    for name, tolerance in TOLERANCES.items():
        native = trained["native"][name]
        behind = Trained("xla", [native.losses[0], *native.losses[:-1]], [], 0.0, native.weights)
        assert not same_model.difference(native, behind).within(tolerance)
