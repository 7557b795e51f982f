"""Lightning's Trainer on the XLA device of a compiled job, with stand-ins for Lightning's modules."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from sagelet_runtime.torch_xla import lightning


def world(*workers: int) -> str:
    hosts = [f"algo-{number}" for number in range(1, len(workers) + 1)]
    return json.dumps({
        "hosts": hosts, "workers": workers, "current": "algo-1", "master_address": "algo-1", "master_port": 7777,
    })  # fmt: skip


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, True),
        ({"SAGELET_WORLD": world(1)}, True),
        ({"SAGELET_WORLD": world(4)}, False),
        ({"SAGELET_WORLD": world(1, 1)}, False),
        ({"SAGELET_WORLD": world(1), "WORLD_SIZE": "2"}, False),
    ],
    ids=["no job", "one worker", "four", "two hosts", "two of torchrun"],
)
def test_one_worker_trains_on_the_device(environ: dict[str, str], wanted: bool) -> None:
    assert lightning.is_wanted(environ) is wanted


class Connector:
    @staticmethod
    def _choose_gpu_accelerator_backend() -> str:
        raise RuntimeError("No supported gpu backend found!")


def test_the_accelerators_auto_and_gpu_are_the_device_of_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    class Fabric:
        @staticmethod
        def auto_device_count() -> int:
            raise OSError("a TPU's metadata")

        @staticmethod
        def is_available() -> bool:
            return False

    class Trainers(Fabric):
        pass

    lightning.install_accelerator(SimpleNamespace(XLAAccelerator=Fabric))
    lightning.install_connector(SimpleNamespace(_AcceleratorConnector=Connector))
    assert (Trainers.is_available(), Trainers.auto_device_count()) == (True, 1)
    assert Connector._choose_gpu_accelerator_backend() == "tpu"
    assert capsys.readouterr().out == "sagelet: Lightning calls the XLA device of this job a TPU\n"


def test_mixed_precision_is_float32_and_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    class Precision:
        def __init__(self, precision: str = "32-true") -> None:
            self.precision = precision

    lightning.install_precision(SimpleNamespace(XLAPrecision=Precision))
    assert [Precision().precision, Precision("bf16-true").precision] == ["32-true", "bf16-true"]
    assert capsys.readouterr().out == ""
    assert Precision("16-mixed").precision == "32-true"
    assert "precision='16-mixed'" in capsys.readouterr().out


@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_both_packages_are_patched(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    patched: dict[str, Any] = {}
    monkeypatch.setattr(lightning, "after", lambda name, patch: patched.update({name: patch}))
    lightning.activate()
    assert patched[f"{package}.plugins.precision.xla"] is lightning.install_precision
    assert patched[f"{package}.trainer.connectors.accelerator_connector"] is lightning.install_connector
