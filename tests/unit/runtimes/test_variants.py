"""GPU variants of the training image, on the process runtime, whose packages are those of the server's Python."""

import sys
from pathlib import Path

import pytest

from sagelet_engine.base.clock import SystemClock
from sagelet_engine.base.errors import ClientFault
from sagelet_engine.images.variants import (
    CU12,
    CU12_RENAMED,
    CU13,
    INDUCTOR,
    PLUGINS,
    RELEASES,
    is_training_image,
    training_image,
)
from sagelet_engine.machine import runtimes as choose
from sagelet_engine.runtimes.process.runtime import ProcessRuntime, StandIn
from sagelet_runtime.gpu import plugin


def test_any_cuda_plugin_beside_torch_xla_stands_in_for_the_gpu_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    here: dict[str, str] = {}
    monkeypatch.setattr(choose, "_version", here.get)

    def found() -> tuple[str, set[bool]]:
        return choose.gpu_packages(), {choose.variants_here()[one.reference] for one in (CU12, CU12_RENAMED)}

    assert found() == ("", {False})
    here |= {"torch": "2.9.0", "torch_xla": "2.9.0"}
    assert found() == ("", {False})
    here["jax-cuda12-pjrt"] = "0.7.1"
    assert found() == ("torch 2.9.0, torch_xla 2.9.0, jax-cuda12-pjrt 0.7.1", {True})
    assert not choose.variants_here()[CU13.reference]
    here["jax-cuda13-pjrt"] = "0.12.0.1"
    assert found() == ("torch 2.9.0, torch_xla 2.9.0, jax-cuda13-pjrt 0.12.0.1", {True})
    assert choose.variants_here()[CU13.reference]
    here["torch"] = "2.13.0"
    assert found() == ("", {False})
    here |= {"torch": "2.1.0", "torch_xla": "2.1.0"}
    assert found() == ("", {False})


def test_a_python_with_the_very_torch_and_no_torch_xla_stands_in_for_inductors_image(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = {"torch": "2.14.1"}
    monkeypatch.setattr(choose, "_version", here.get)
    assert choose.variants_here()[INDUCTOR.reference] is (sys.version_info[:2] == (3, 11))
    here["torch_xla"] = "2.9.0"
    assert not choose.variants_here()[INDUCTOR.reference]


def test_the_runtime_knows_the_same_plugins_and_releases() -> None:
    assert tuple(plugin.CUDA_PLUGINS) == PLUGINS
    assert tuple(plugin.ROUTES) == RELEASES


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
