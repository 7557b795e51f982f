"""Which image a compiled job with GPUs gets, and whether its hosts say that it is compiled."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import sagelet_engine
from sagelet_engine.base.errors import ClientFault
from sagelet_engine.data import compilation
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.images.variants import CPU, CU12, CU13, INDUCTOR, PY39, VARIANTS, variant
from sagelet_engine.model.job import SecondaryStatus
from sagelet_engine.model.runtime import Capabilities
from sagelet_engine.model.training import Compilation
from sagelet_engine.runtimes.process.runtime import GPU_REMEDY
from sagelet_engine.settings import GpuPolicy
from sagelet_engine.store.codec import decode, encode
from support.world import World, until

UUID = "GPU-00000000-0000-0000-0000-000000000000"
GPU = {"ResourceConfig": {"InstanceType": "ml.p3.2xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}}
COMPILED = {"HyperParameters": {"sagemaker_training_compiler_enabled": '"true"'}}
CPU_IMAGE = f"sagelet/training:{sagelet_engine.__version__}"
REASON = "jax-cuda12-pjrt 0.6.2 does not work here: No visible GPU devices."


@pytest.fixture
def gpu_world(make_world: Any, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr("sagelet_engine.engine.detect_gpus", lambda: (UUID,))
    made: World = make_world(gpus=GpuPolicy.REQUIRE)
    return made


def says(world: World, name: str, content: object) -> None:
    """The job's host writes this about its compilation."""
    file = opt_ml(world, name) / "output/sagelet/compilation.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))


def opt_ml(world: World, name: str) -> Path:
    return JobDirectories.of(world.settings.data, world.job(name)).host("algo-1").opt_ml


def test_a_gpu_job_runs_in_the_gpu_variant_where_it_is_there(gpu_world: World) -> None:
    gpu_world.runtime.images.add(CU12.reference)
    gpu_world.create("a", **GPU, **COMPILED)
    host = gpu_world.host("a")
    assert host.plan.image == f"sagelet/training:{sagelet_engine.__version__}-cu12"
    assert gpu_world.job("a").stand_in == ""
    host.end(0)
    gpu_world.ended("a")
    gpu_world.create("b", **COMPILED)
    assert gpu_world.host("b").plan.image == CPU_IMAGE, "it has no GPU"
    gpu_world.runtime.images.add(CU13.reference)
    gpu_world.create("c", **GPU, **COMPILED)
    assert gpu_world.host("c").plan.image == CU13.reference, "the first of the rule's that is there"


def test_without_the_variant_a_compiled_gpu_job_says_that_its_gpus_idle(gpu_world: World) -> None:
    gpu_world.create("a", **GPU, **COMPILED)
    host = gpu_world.host("a")
    assert host.plan.image == CPU_IMAGE
    (starting, *_) = gpu_world.job("a").transitions
    assert "the GPUs stay unused" in starting.message
    assert "sagelet image build --variant cu13" in starting.message
    host.end(0)
    gpu_world.ended("a")
    assert "the GPUs stay unused" in gpu_world.log("a")[0]


def test_a_job_for_inductor_misses_no_plugin(gpu_world: World) -> None:
    gpu_world.create("a", **GPU, **COMPILED, Environment={"SAGELET_COMPILER": "inductor"})
    assert gpu_world.host("a").plan.image == CPU_IMAGE
    assert gpu_world.job("a").stand_in == ""


def test_the_process_runtime_names_packages_in_place_of_images() -> None:
    assert "jax-cuda13-plugin[with-cuda]" in GPU_REMEDY
    assert "image build" not in GPU_REMEDY


def test_a_native_gpu_job_has_torch_s_own_cuda_in_any_image(gpu_world: World) -> None:
    gpu_world.create("a", **GPU)
    assert gpu_world.host("a").plan.image == CPU_IMAGE
    assert gpu_world.job("a").stand_in == ""


OF_2022 = {
    "AlgorithmSpecification": {
        "TrainingImage": "763104351884.dkr.ecr.us-east-1.amazonaws.com/huggingface-pytorch-trcomp-training:"
        "1.11.0-transformers4.21.1-gpu-py38-cu113-ubuntu20.04",
        "TrainingInputMode": "File",
    }
}


@pytest.mark.parametrize("asked", [{}, COMPILED], ids=["native", "compiled"])
def test_a_job_of_2022_runs_in_the_image_of_its_day_where_it_is_there(world: World, asked: dict[str, Any]) -> None:
    world.create("a", **OF_2022, **asked)
    assert world.host("a").plan.image == CPU_IMAGE
    world.host("a").end(0)
    world.ended("a")
    world.runtime.images.add(PY39.reference)
    world.create("b", **OF_2022, **asked)
    assert world.host("b").plan.image == f"{CPU_IMAGE}-py39"
    world.host("b").end(0)
    assert world.ended("b").stand_in == ""


def test_a_job_with_gpus_has_no_image_of_2022(gpu_world: World) -> None:
    gpu_world.runtime.images.add(PY39.reference)
    gpu_world.create("a", **GPU, **OF_2022)
    assert gpu_world.host("a").plan.image == CPU_IMAGE


def test_an_image_of_2022_that_the_runtime_refuses_is_not_there(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    has_image = world.runtime.has_image

    def refuses(image: str) -> bool:
        if image == PY39.reference:
            raise ClientFault("not here")
        return has_image(image)

    monkeypatch.setattr(world.runtime, "has_image", refuses)
    world.create("a", **OF_2022)
    assert world.host("a").plan.image == CPU_IMAGE


def test_an_image_of_2022_that_only_nodes_could_have_is_not_counted_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.runtime, "capabilities", Capabilities("", knows_images=False))
    world.runtime.images.add(PY39.reference)
    world.create("a", **OF_2022)
    assert world.host("a").plan.image == CPU_IMAGE


BY_INDUCTOR = {**COMPILED, "Environment": {"SAGELET_COMPILER": " Inductor "}}


def test_a_job_for_inductor_runs_in_its_image_where_it_is_there(world: World) -> None:
    world.create("a", **OF_2022, **BY_INDUCTOR)
    assert world.host("a").plan.image == CPU_IMAGE
    world.host("a").end(0)
    world.ended("a")
    world.runtime.images |= {INDUCTOR.reference, PY39.reference}
    world.create("b", **OF_2022, **BY_INDUCTOR)
    assert world.host("b").plan.image == f"{CPU_IMAGE}-inductor", "the Environment comes before the image's tag"
    world.host("b").end(0)
    assert world.ended("b").stand_in == ""


def test_a_job_for_inductor_with_gpus_runs_in_its_image_where_it_is_there(gpu_world: World) -> None:
    gpu_world.runtime.images.add(CU13.reference)
    gpu_world.create("a", **GPU, **BY_INDUCTOR)
    assert gpu_world.host("a").plan.image == CU13.reference
    gpu_world.host("a").end(0)
    gpu_world.ended("a")
    gpu_world.runtime.images.add(INDUCTOR.reference)
    gpu_world.create("b", **GPU, **BY_INDUCTOR)
    assert gpu_world.host("b").plan.image == INDUCTOR.reference


@pytest.mark.parametrize(
    "asked",
    [
        {},
        COMPILED,
        {"Environment": BY_INDUCTOR["Environment"]},
        {**COMPILED, "Environment": {"SAGELET_COMPILER": "xla"}},
    ],
    ids=["native", "compiled", "native with the variable", "by XLA"],
)
def test_another_job_does_not_run_in_inductors_image(world: World, asked: dict[str, Any]) -> None:
    world.runtime.images.add(INDUCTOR.reference)
    world.create("a", **asked)
    assert world.host("a").plan.image == CPU_IMAGE


def test_inductors_image_that_only_nodes_could_have_is_not_counted_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.runtime, "capabilities", Capabilities("", knows_images=False))
    world.runtime.images.add(INDUCTOR.reference)
    world.create("a", **BY_INDUCTOR)
    assert world.host("a").plan.image == CPU_IMAGE


def test_a_job_that_is_not_compiled_says_so_while_it_trains_and_afterwards(gpu_world: World) -> None:
    gpu_world.create("a", **GPU, **COMPILED)
    host = gpu_world.host("a")
    says(gpu_world, "a", {"version": 1, "compiled": False, "platform": "CUDA", "reason": REASON})
    until(lambda: gpu_world.job("a").compilation is not None)
    training = gpu_world.job("a").transitions[-1]
    assert training.status is SecondaryStatus.TRAINING
    assert training.message.endswith(f"(NOT COMPILED, training natively: {REASON})")
    host.end(0)
    job = gpu_world.ended("a")
    assert job.compilation == Compilation(False, "CUDA", REASON)
    assert decode(encode(job), job.version, {}).compilation == job.compilation
    assert [one.message for one in job.transitions if REASON in one.message] == [training.message]


def test_a_host_that_ends_at_once_is_heard(world: World) -> None:
    world.create("a", **COMPILED)
    host = world.host("a")
    says(world, "a", {"version": 1, "compiled": True, "platform": "CPU", "reason": "this host has no GPU"})
    host.end(0)
    assert world.ended("a").compilation == Compilation(True, "CPU", "this host has no GPU")


def test_a_job_that_asks_for_no_compiler_is_not_asked(world: World) -> None:
    world.create("a")
    host = world.host("a")
    says(world, "a", {"version": 1, "compiled": False, "platform": "CUDA", "reason": REASON})
    host.end(0)
    assert world.ended("a").compilation is None


@pytest.mark.parametrize("content", [[], {}, {"compiled": "no", "platform": 1, "reason": None}, "x" * 100_000, None])
def test_nonsense_of_a_host_is_no_word(world: World, content: object) -> None:
    world.create("a", **COMPILED)
    host = world.host("a")
    says(world, "a", content)
    host.end(0)
    assert world.ended("a").compilation is None


def test_neither_a_fifo_nor_a_link_is_read(world: World, tmp_path: Path) -> None:
    world.create("a", **COMPILED)
    host = world.host("a")
    directory = opt_ml(world, "a") / "output/sagelet"
    directory.mkdir(parents=True)
    os.mkfifo(directory / "compilation.json")
    directories = JobDirectories.of(world.settings.data, world.job("a")).host("algo-1")
    assert compilation.read(directories) is None
    (directory / "compilation.json").unlink()
    secret = tmp_path / "secret"
    secret.write_text(json.dumps({"compiled": True, "platform": "CPU", "reason": "the server's own file"}))
    (directory / "compilation.json").symlink_to(secret)
    assert compilation.read(directories) is None
    host.end(0)
    world.ended("a")


def test_variants_differ_in_what_makes_them() -> None:
    cu12 = {"torch": "2.8.0", "torch_xla": "2.8.1", "jax-cuda13-pjrt": None, "jax-cuda12-pjrt": "0.6.2"}
    assert variant("cu12").packages == cu12
    cu13 = {"torch": "2.9.0", "torch_xla": "2.9.0", "jax-cuda13-pjrt": "0.11.2", "jax-cuda12-pjrt": None}
    assert variant("cu13").packages == cu13
    assert INDUCTOR.packages == {
        "torch": "2.14.1", "torch_xla": None, "jax-cuda13-pjrt": None, "jax-cuda12-pjrt": None,
    }  # fmt: skip
    assert [one.plugin for one in (CU12, CU13, CPU, INDUCTOR)] == ["jax-cuda12-pjrt", "jax-cuda13-pjrt", "", ""]
    assert len({one.reference for one in VARIANTS.values()}) == len(VARIANTS)
