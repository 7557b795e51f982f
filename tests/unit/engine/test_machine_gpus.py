"""The checks of a machine for GPU jobs, with stand-ins for its GPUs and programs."""

from pathlib import Path

import pytest

from sagelet_engine.images.variants import CU12, CU13, GPU_VARIANTS, INDUCTOR
from sagelet_engine.machine import gpus as checks
from sagelet_engine.runtimes.docker.engine import DockerFacts

ENGINE = DockerFacts(version="28.2.2", bridge_gateway=None, gpus=True, rootless=False)
ROW = ["GPU-00000000-0000-0000-0000-000000000000", "NVIDIA T4", "570.86.15", "15360 MiB"]


def nvidia_smi(directory: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    tool = directory / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")


def test_a_driver_that_lists_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia_smi(tmp_path, monkeypatch, f"echo '{', '.join(ROW)}'")
    check = checks.check_driver(checks.ask_driver())
    assert check.good
    assert check.found == f"driver 570.86.15: NVIDIA T4 (15360 MiB, {ROW[0]})"


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("echo NVIDIA-SMI has failed; exit 9", "NVIDIA-SMI has failed"),
        ("exit 9", "nvidia-smi ended with 9"),
        ("echo No devices were found", "the driver lists no GPU"),
    ],
)
def test_a_driver_that_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, found: str) -> None:
    nvidia_smi(tmp_path, monkeypatch, script)
    check = checks.check_driver(checks.ask_driver())
    assert (check.good, check.found, check.remedy) == (False, found, checks.INSTALL_DRIVER)


def test_a_driver_too_old_for_cuda_12() -> None:
    check = checks.check_driver([[ROW[0], ROW[1], "470.57.02", ROW[3]]])
    assert not check.good
    assert "525" in check.remedy


def test_nvml() -> None:
    assert checks.check_nvml(lambda: "570.86.15").good

    def missing() -> str:
        raise OSError("libnvidia-ml.so.1: cannot open shared object file")

    check = checks.check_nvml(missing)
    assert not check.good
    assert "libnvidia-ml.so.1" in check.found


def test_the_engine_and_the_toolkit() -> None:
    assert checks.check_engine(ENGINE).good
    without = checks.check_engine(DockerFacts("28.2.2", None, gpus=False, rootless=False))
    assert "nvidia-ctk runtime configure" in without.remedy
    assert "process" in checks.check_engine(None).remedy
    podman = checks.check_engine(DockerFacts("4.3.1", None, gpus=True, rootless=False, podman=True))
    assert (podman.good, podman.found) == (False, "Podman 4.3.1: its Docker API gives containers no GPUs")


def test_the_image() -> None:
    for image in GPU_VARIANTS:
        found = checks.check_image(ENGINE, {image.reference}.__contains__, 580)
        assert (found.good, found.found) == (True, f"{image.reference}: {image.text}")
    assert not checks.check_image(None, {CU12.reference}.__contains__, 580).good


@pytest.mark.parametrize(("driver", "name"), [(None, "cu13"), (580, "cu13"), (570, "cu12"), (470, "cu12")])
def test_the_driver_says_which_image_to_build(driver: int | None, name: str) -> None:
    absent = checks.check_image(ENGINE, set().__contains__, driver)
    assert (absent.good, absent.remedy) == (False, f"`sagelet image build --variant {name}`")


def test_the_image_of_inductor_has_no_xla() -> None:
    both = checks.check_image(ENGINE, {CU13.reference, INDUCTOR.reference}.__contains__, 580)
    assert (both.good, both.found) == (True, "; ".join(f"{one.reference}: {one.text}" for one in (CU13, INDUCTOR)))
    alone = checks.check_image(ENGINE, {INDUCTOR.reference}.__contains__, 580)
    assert (alone.good, alone.remedy) == (False, "`sagelet image build --variant cu13`")
    assert f"with XLA for GPUs is there; {INDUCTOR.reference}: {INDUCTOR.text}" in alone.found


def test_an_image_whose_cuda_the_driver_does_not_know() -> None:
    both = {CU12.reference, CU13.reference}.__contains__
    assert checks.check_image(ENGINE, both, 580).good
    old = checks.check_image(ENGINE, both, 570)
    assert not old.good
    assert f"Jobs get {CU13.reference}, whose CUDA needs driver 580 or newer" in old.found
    assert f"docker rmi {CU13.reference}" in old.remedy


def test_the_packages_of_the_process_runtime() -> None:
    packages = "torch 2.9.0, torch_xla 2.9.0, jax-cuda13-pjrt 0.12.0"
    told = {"plugin": "jax-cuda13-pjrt 0.12.0", "api": "0.116", "problem": ""}
    there = checks.check_process(packages, lambda: told)
    assert (there.good, there.found) == (True, f"this Python has {packages} (PJRT C API 0.116)")
    old = checks.check_process(packages, lambda: {**told, "api": "0.70", "problem": "0.70 is too old"})
    assert (old.good, old.found) == (False, f"this Python has {packages} (PJRT C API 0.70): 0.70 is too old")
    lacking = checks.check_process("", lambda: told)
    assert not lacking.good
    assert "jax-cuda13-pjrt or jax-cuda12-pjrt" in lacking.found
    assert "==" not in lacking.remedy, "any version will do"


def test_the_plugin_is_asked_in_a_process_of_its_own() -> None:
    told = checks.ask_plugin()
    assert told == {"plugin": "", "api": "", "problem": told["problem"]}, "this Python has no CUDA plugin"
    assert told["problem"]


def test_where_there_is_no_gpu_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    (check,) = checks.check_gpus(ENGINE, checks.ask_driver())
    assert (check.good, check.needed, check.found) == (False, False, checks.NO_TOOL)


def test_where_there_is_one_each_thing_has_a_line() -> None:
    names = [check.name for check in checks.check_gpus(None, [ROW])]
    assert names == ["gpus", "gpu metrics", "gpu docker", "gpu image", "gpu packages"]
