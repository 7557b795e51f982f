"""GPU variants of the training image, on the process runtime, whose packages are those of the server's Python."""

import sys
from pathlib import Path

import pytest

from sagelet_engine.base.clock import SystemClock
from sagelet_engine.base.errors import ClientFault
from sagelet_engine.images.variants import CU12, CU12_RENAMED, is_training_image, training_image
from sagelet_engine.machine import runtimes as choose
from sagelet_engine.runtimes.process.runtime import ProcessRuntime, StandIn


def test_the_packages_decide_which_variant_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    here = {"torch": "2.8.0", "torch_xla": "2.8.1", "jax-cuda12-pjrt": "0.6.2"}
    monkeypatch.setattr(choose, "_version", here.get)
    assert choose.gpu_variants() == {CU12.reference: True, CU12_RENAMED.reference: False}
    here["jax-cuda12-pjrt"] = "0.7.1"
    assert choose.gpu_variants() == {CU12.reference: False, CU12_RENAMED.reference: False}
    monkeypatch.setattr(choose, "_version", {}.get)
    assert not any(choose.gpu_variants().values())


@pytest.mark.parametrize("there", [True, False])
def test_a_variant_is_there_or_not_and_any_other_image_is_refused(tmp_path: Path, there: bool) -> None:
    stand_in = StandIn((sys.executable,), image=training_image(), variants={CU12.reference: there})
    runtime = ProcessRuntime(tmp_path, stand_in, SystemClock(), namespaces="none")
    assert runtime.has_image(CU12.reference) is there
    assert runtime.has_image(training_image())
    with pytest.raises(ClientFault, match="cannot run mine:1"):
        runtime.has_image("mine:1")


def test_all_variants_have_our_runtime() -> None:
    assert is_training_image(CU12.reference)
    assert not is_training_image("sagelet/training:0.0.1")
    assert not is_training_image(None)
