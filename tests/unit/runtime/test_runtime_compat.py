"""Which jobs get torch_xla 1.x's ways back, without torch_xla."""

import pytest

from sagelet_runtime.torch_xla import compat

REGISTRY = "763104351884.dkr.ecr.us-west-2.amazonaws.com"


@pytest.mark.parametrize(
    ("image", "waits"),
    [
        ("pytorch-trcomp-training:1.13.1-gpu-py39-cu117-ubuntu20.04-sagemaker", True),
        ("huggingface-pytorch-trcomp-training:1.10.2-transformers4.17.0-gpu-py38-cu113-ubuntu20.04", True),
        ("huggingface-pytorch-training:2.1.0-transformers4.36.0-gpu-py310-cu121-ubuntu20.04", False),
        ("mine:latest", False),
    ],
)
def test_xm_save_waits_for_all_workers_in_jobs_of_images_of_then(image: str, waits: bool) -> None:
    environ = {"SAGELET_TRAINING_IMAGE": f"{REGISTRY}/{image}"}
    assert compat.waits_for_all(environ) == waits

    def original(*_: object) -> None:
        """torch_xla's."""

    assert (compat.meeting_save(original, environ) is original) != waits


def test_without_an_image_xm_save_is_as_it_is_today() -> None:
    assert not compat.waits_for_all({})


def test_a_library_may_save_in_one_worker_alone() -> None:
    library = compile("", "/usr/lib/python3/site-packages/accelerate/checkpointing.py", "exec")
    assert compat.is_librarys(library)
    assert not compat.is_librarys(compile("", "/opt/ml/code/train.py", "exec"))
