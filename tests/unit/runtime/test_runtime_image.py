"""What a job's log says of the image that it names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sagelet_runtime.base import image

HUGGING_FACE = "1/huggingface-pytorch-trcomp-training:1.10.2-transformers4.17.0-gpu-py38-cu113-ubuntu20.04"
FOUND = {"python": "3.11.2", "torch": "2.9.0+cu128", "torch_xla": "2.9.0", "transformers": "4.57.6"}


@pytest.mark.parametrize(
    ("uri", "versions"),
    [
        (HUGGING_FACE, {"torch": "1.10.2", "transformers": "4.17.0", "python": "3.8"}),
        ("1/pytorch-trcomp-training:1.13.1-gpu-py39", {"torch": "1.13.1", "python": "3.9"}),
        ("1/pytorch-training:2.8-cpu-py312", {"torch": "2.8", "python": "3.12"}),
        ("1/pytorch-training:1.13-gpu-py3", {"torch": "1.13", "python": "3"}),
        ("own:1", {}),
    ],
)
def test_what_a_uri_says(uri: str, versions: dict[str, str]) -> None:
    assert image.versions_of(uri) == versions


def test_only_what_has_gone_in_between_is_named() -> None:
    old = "; ".join(image.missing(image.versions_of(HUGGING_FACE), FOUND))
    assert all(word in old for word in ("collections.abc", "cached_path", "AdamW(correct_bias"))
    assert "distutils" not in old
    assert image.missing({"python": "3.10", "torch": "2.6.0", "transformers": "4.47.0"}, FOUND) == []
    assert image.missing({}, FOUND) == []


@pytest.mark.parametrize(
    ("environ", "whole"),
    [
        ({"SAGELET_TRAINING_IMAGE": HUGGING_FACE}, True),
        ({"SAGELET_TRAINING_IMAGE": "1/pytorch-training:2.5.1-gpu-py311"}, True),
        ({"SAGELET_TRAINING_IMAGE": "1/pytorch-training:2.6.0-gpu-py312"}, False),
        ({"SAGELET_TRAINING_IMAGE": "own:1"}, False),
        ({}, False),
        ({"SAGELET_TRAINING_IMAGE": HUGGING_FACE, "TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1"}, False),
        ({"SAGELET_TRAINING_IMAGE": HUGGING_FACE, "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "0"}, False),
    ],
)
def test_torch_load_reads_whole_objects_where_the_images_did(environ: dict[str, str], whole: bool) -> None:
    added = image.loading_environment(environ)
    assert added == ({"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"} if whole else {})


@pytest.mark.xla
def test_the_variable_is_torchs(tmp_path: Path) -> None:
    """A checkpoint of a script of then holds its arguments and figures of NumPy."""
    script = """
import argparse, numpy, sys, torch
torch.save({"args": argparse.Namespace(lr=0.1), "best": numpy.float64(0.5)}, sys.argv[1])
print(torch.load(sys.argv[1])["args"].lr)
"""
    added = image.loading_environment({"SAGELET_TRAINING_IMAGE": HUGGING_FACE})
    command = [sys.executable, "-c", script, str(tmp_path / "checkpoint.pt")]
    for environ, code in ((added, 0), ({}, 1)):
        ended = subprocess.run(command, env=os.environ | environ, capture_output=True, text=True, check=False)
        assert ended.returncode == code, ended.stderr


def test_an_image_that_never_was_had_no_versions(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tag is free text, also in a user's own repository."""
    monkeypatch.setattr(image, "versions", lambda: FOUND)
    for tag, known in (("9.9.9", False), ("1.13.7", False), ("1.13.1", True), ("1.13", True)):
        uri = f"123456789012.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:{tag}-gpu-py39"
        image.say_what_stands_in({"SAGELET_TRAINING_IMAGE": uri})
        assert (f"that image had PyTorch {tag}" in capsys.readouterr().out) is known


def test_both_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(image, "versions", lambda: FOUND)
    image.say_what_stands_in({"SAGELET_TRAINING_IMAGE": HUGGING_FACE})
    first, second = capsys.readouterr().out.splitlines()
    ours = "Python 3.11.2, PyTorch 2.9.0+cu128, torch_xla 2.9.0, Transformers 4.57.6"
    assert first == f"sagelet: in place of {HUGGING_FACE} the job has {ours}"
    theirs = "PyTorch 1.10.2, Transformers 4.17.0, Python 3.8"
    assert second.startswith(f"sagelet: that image had {theirs}; a script of that time may miss here: ")
    assert second.endswith(
        "`sagelet image build --variant py39` makes an image of that day, in which such jobs then run on Docker"
    )
    image.say_what_stands_in({"SAGELET_TRAINING_IMAGE": ""})
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("tag", "python", "nearer"),
    [
        ("1.10.2-transformers4.17.0-gpu-py38-cu113-ubuntu20.04", "3.11.2", True),
        ("1.13.1-gpu-py39", "3.11.2", True),
        ("1.13.1-gpu-py39", "3.9.2", False),
        ("1.13.1-transformers4.26.0-gpu-py39-cu117-ubuntu20.04", "3.11.2", False),
        ("2.1.0-gpu-py310", "3.11.2", False),
        ("2.8-cpu-py312", "3.11.2", False),
    ],
)
def test_an_image_of_their_day_is_named_to_those_that_have_one(tag: str, python: str, nearer: bool) -> None:
    asked = image.versions_of(f"1/pytorch-trcomp-training:{tag}")
    assert image.has_nearer(asked, {**FOUND, "python": python}) == nearer
