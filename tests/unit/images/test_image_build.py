"""The build: when it is skipped, what the engine is asked for, what a failure says."""

from pathlib import Path
from typing import Any

import pytest
from docker.errors import APIError

from sagelet_engine.base.errors import RuntimeUnavailable, SettingsError
from sagelet_engine.images import engine as docker_engine
from sagelet_engine.images.base import REGISTRY_BASE
from sagelet_engine.images.builder import CONTEXT_LABEL, BuildOptions, build
from sagelet_engine.images.context import CA_BUNDLE, find_root
from sagelet_engine.images.listing import list_images
from sagelet_engine.images.output import BuildOutput, EventKind, ImageBuildFailed
from sagelet_engine.images.variants import (
    CU12,
    CU13,
    INDUCTOR,
    PY39,
    VARIANTS,
    TorchBuild,
    Variant,
    training_image,
    variant,
)
from support.docker_double import EngineDouble, Recorder


@pytest.fixture
def engine() -> EngineDouble:
    return EngineDouble(local={REGISTRY_BASE: {}})


def test_the_image_is_tagged_and_labelled(engine: EngineDouble, report: Recorder) -> None:
    assert build(BuildOptions(), report, engine) == training_image()
    (arguments,) = engine.builds
    assert arguments["tag"] == training_image()
    assert arguments["buildargs"] == {"BASE": REGISTRY_BASE, "PIP_PROGRESS_BAR": "raw", "TORCH_BUILD": "cpu"}
    assert arguments["nocache"] is False
    assert len(arguments["labels"][CONTEXT_LABEL]) == 64
    assert engine.contexts[0][CA_BUNDLE] == b""


@pytest.mark.parametrize(("architecture", "platform"), [("x86_64", None), ("aarch64", "linux/amd64")])
def test_an_engine_of_another_architecture_builds_for_x86_64(
    engine: EngineDouble, report: Recorder, architecture: str, platform: str | None
) -> None:
    engine.architecture = architecture
    engine.registry.add(REGISTRY_BASE)
    build(BuildOptions(), report, engine)
    assert [arguments["platform"] for arguments in engine.builds] == [platform]


def test_an_unchanged_context_is_not_built_again(engine: EngineDouble, report: Recorder) -> None:
    build(BuildOptions(), report, engine)
    build(BuildOptions(), report, engine)
    assert len(engine.builds) == 1
    assert "is up to date" in report.notes()


@pytest.mark.parametrize(
    ("options", "nocache"),
    [(BuildOptions(force=True), True), (BuildOptions(pull=True), False), (BuildOptions(index_url="https://i"), False)],
)
def test_force_pull_and_other_options_build_again(
    engine: EngineDouble, report: Recorder, options: BuildOptions, nocache: bool
) -> None:
    build(BuildOptions(), report, engine)
    build(options, report, engine)
    assert [arguments["nocache"] for arguments in engine.builds] == [False, nocache]


def test_a_named_base_that_was_made_anew_counts(engine: EngineDouble, report: Recorder) -> None:
    engine.registry.add("mine:latest")
    build(BuildOptions(base="mine:latest"), report, engine)
    build(BuildOptions(base="mine:latest"), report, engine)
    assert len(engine.builds) == 1, "pulled by the first build, there for the second"
    del engine.local["mine:latest"]
    build(BuildOptions(base="mine:latest"), report, engine)
    assert len(engine.builds) == 2


def test_package_indexes_become_build_arguments(engine: EngineDouble, report: Recorder) -> None:
    options = BuildOptions(
        index_url="https://a", extra_index_url="https://b", torch_index_url="https://c", network="host"
    )
    build(options, report, engine)
    arguments = engine.builds[0]["buildargs"]
    assert {name: value for name, value in arguments.items() if name.endswith("URL")} == {
        "PIP_INDEX_URL": "https://a",
        "PIP_EXTRA_INDEX_URL": "https://b",
        "TORCH_INDEX_URL": "https://c",
    }
    assert engine.builds[0]["network_mode"] == "host"


@pytest.mark.parametrize(
    ("name", "chosen", "expected"),
    [
        ("cpu", TorchBuild.AUTO, "cpu"),
        ("py39", TorchBuild.AUTO, "cpu"),
        ("cu12", TorchBuild.AUTO, "cuda"),
        ("cu12-renamed", TorchBuild.AUTO, "cuda"),
        ("cu13", TorchBuild.AUTO, "cuda"),
        ("cpu", TorchBuild.CUDA, "cuda"),
        ("cu12", TorchBuild.CUDA, "cuda"),
    ],
)
def test_torch_has_cuda_where_gpus_are_used(
    engine: EngineDouble, report: Recorder, name: str, chosen: TorchBuild, expected: str
) -> None:
    engine.registry.add("mine:latest")
    build(BuildOptions(variant=variant(name), base="mine:latest", torch_build=chosen), report, engine)
    assert engine.builds[0]["buildargs"]["TORCH_BUILD"] == expected


def test_a_variant_for_gpus_needs_cuda(engine: EngineDouble, report: Recorder) -> None:
    with pytest.raises(SettingsError, match="--torch-build cpu"):
        build(BuildOptions(variant=CU12, torch_build=TorchBuild.CPU), report, engine)
    assert engine.builds == []


def test_inductors_image_has_a_current_torch_with_cuda_and_no_torch_xla(engine: EngineDouble, report: Recorder) -> None:
    assert build(BuildOptions(variant=INDUCTOR), report, engine) == f"{training_image()}-inductor"
    arguments = engine.builds[0]["buildargs"]
    names = ("TORCH", "TORCH_XLA", "TORCHVISION", "TORCHAUDIO", "TORCH_BUILD")
    assert [arguments[name] for name in names] == ["2.14.1", "", "0.29.2", "2.11.0", "cuda"]
    assert "PJRT_PLUGIN" not in arguments
    assert "TORCH_INDEX_URL" not in arguments


def test_inductors_image_without_cuda_is_made_of_pytorchs_own_index(engine: EngineDouble, report: Recorder) -> None:
    """sagelet leaves CUDA out of wheels of torch 2.9. Those of 2.14 name `cuda-toolkit[...]` in their metadata."""
    with pytest.raises(SettingsError) as refused:
        build(BuildOptions(variant=INDUCTOR, torch_build=TorchBuild.CPU), report, engine)
    index = "https://download.pytorch.org/whl/cpu"
    assert str(refused.value) == (
        "--torch-build cpu: sagelet can leave CUDA out of torch 2.9, not out of torch 2.14.1. "
        f"Name PyTorch's own index as well: --torch-index-url {index}"
    )
    assert engine.builds == []
    build(BuildOptions(variant=INDUCTOR, torch_build=TorchBuild.CPU, torch_index_url=index), report, engine)
    arguments = engine.builds[0]["buildargs"]
    assert (arguments["TORCH_BUILD"], arguments["TORCH_INDEX_URL"]) == ("cpu", index)


def test_certificates_come_from_the_environment(
    engine: EngineDouble, report: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ca.pem").write_text("PEM")
    monkeypatch.setenv("PIP_CERT", str(tmp_path / "gone.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    build(BuildOptions(), report, engine)
    assert engine.contexts[0][CA_BUNDLE] == b"PEM"
    assert f"trust the certificates of {tmp_path}/ca.pem (SSL_CERT_FILE)" in report.notes()


def test_named_certificates_must_be_there(engine: EngineDouble, report: Recorder, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"gone\.pem is not a file"):
        build(BuildOptions(ca_bundle=tmp_path / "gone.pem"), report, engine)


def test_a_failed_step_shows_its_output_and_the_remedy(engine: EngineDouble, report: Recorder) -> None:
    engine.messages = [
        {"stream": "Step 1/2 : FROM x\n"},
        {"stream": "an earlier line\n"},
        {"stream": "Step 2/2 : RUN pip install torch==2.9.0\n"},
        {
            "stream": "\x1b[91mWARNING: Retrying after SSLError(CERTIFICATE_VERIFY_FAILED)\n"
            "\x1b[0m\x1b[91mERROR: No matching distribution found\n\x1b[0mRemoving intermediate container 1\n"
        },
        {
            "error": "The command '/bin/sh -c pip install torch==2.9.0' returned a non-zero code: 1",
            "errorDetail": {"code": 1},
        },
    ]
    with pytest.raises(ImageBuildFailed) as raised:
        build(BuildOptions(), report, engine)
    text = str(raised.value)
    assert "not built: RUN pip install torch==2.9.0 failed" in text
    assert "ERROR: No matching distribution found" in text
    assert "returned a non-zero code: 1" in text
    assert "an earlier line" not in text
    assert "\x1b" not in text
    assert raised.value.output[-1] == "returned a non-zero code: 1"
    assert "--ca-bundle" in raised.value.remedy
    assert training_image() not in engine.local


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("ERROR: No matching distribution found for torch==2.9.0", "--index-url"),
        ("OSError: [Errno 28] No space left on device", "docker system prune"),
        ("Temporary failure resolving 'packages.example'", "--network host"),
        ("/bin/sh: 1: python3: not found", "no python3"),
        ("error: subprocess-exited-with-error", "continues from the last step"),
    ],
)
def test_remedies(line: str, remedy: str) -> None:
    with pytest.raises(ImageBuildFailed) as raised:
        list(BuildOutput().events([{"stream": line + "\n"}, {"error": "non-zero code"}]))
    assert remedy in raised.value.remedy


def test_a_request_that_the_engine_refuses(
    engine: EngineDouble, report: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**arguments: Any) -> None:
        raise APIError("500 Server Error", explanation="no space left on device")

    monkeypatch.setattr(EngineDouble, "build", lambda self, **arguments: refuse(**arguments))
    with pytest.raises(ImageBuildFailed, match="no space left on device"):
        build(BuildOptions(), report, engine)


def test_podmans_steps_are_steps() -> None:
    events = BuildOutput().events([{"stream": "STEP 1/2: FROM x\n"}, {"stream": "STEP 2/2: RUN y\n"}])
    assert [(event.kind, event.text, event.step, event.steps) for event in events] == [
        (EventKind.STEP, "FROM x", 1, 2),
        (EventKind.STEP, "RUN y", 2, 2),
    ]


def test_output_becomes_steps_lines_and_progress() -> None:
    stream = (
        "Step 1/2 : FROM x\n ---> 0123456789ab\nStep 2/2 : RUN set -eu;     pip   install\n ---> Running in 1\n"
        "  Downloading https://index.example/torch-2.9.0-cp311.whl (899.8 MB)\nProgress 10 of 30\nProgress 30 of 30\n"
        "\nInstalling torch\nRemoving intermediate container 1\n"
    )
    chunks = [{"stream": stream[n : n + 7]} for n in range(0, len(stream), 7)]
    events = list(BuildOutput().events([*chunks, {"aux": {"ID": "sha256:1"}}]))
    assert [(event.kind, event.text, event.step, event.steps, event.done, event.total) for event in events] == [
        (EventKind.STEP, "FROM x", 1, 2, None, None),
        (EventKind.IMAGE, "0123456789ab", 1, 2, None, None),
        (EventKind.STEP, "RUN set -eu; pip install", 2, 2, None, None),
        (EventKind.RUNS, "RUN set -eu; pip install", 2, 2, None, None),
        (EventKind.OUTPUT, "  Downloading https://index.example/torch-2.9.0-cp311.whl (899.8 MB)", 2, 2, None, None),
        (EventKind.PROGRESS, "torch-2.9.0-cp311.whl", 2, 2, 10, 30),
        (EventKind.PROGRESS, "torch-2.9.0-cp311.whl", 2, 2, 30, 30),
        (EventKind.OUTPUT, "Installing torch", 2, 2, None, None),
    ]


def test_no_engine_names_the_remedies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(RuntimeUnavailable, match="--runtime process"):
        docker_engine.connect()


def test_images_are_listed_training_first_newest_first(engine: EngineDouble) -> None:
    engine.summaries = [
        _summary("base", 300, "sagelet/base:bookworm"),
        _summary("training", 100, "sagelet/training:0.0.1"),
        _summary("training", 200, training_image(), "mine:1"),
        _summary("training", 400),
        {"Id": "sha256:x", "Created": 1, "Size": 1, "RepoTags": ["other:1"], "Labels": {}},
    ]
    images = list_images(engine)
    assert [image.reference for image in images] == [
        "mine:1",
        training_image(),
        "sagelet/training:0.0.1",
        "sagelet/base:bookworm",
    ]
    assert [image.reference for image in images if image.current] == [training_image()]
    assert images[0].created.timestamp() == 200


def _summary(kind: str, created: int, *tags: str) -> dict[str, Any]:
    labels = {"org.sagelet.image": kind}
    return {"Id": f"sha256:{created}", "Created": created, "Size": 7, "RepoTags": list(tags) or None, "Labels": labels}


def test_a_variant_has_a_tag_and_packages_of_its_own(engine: EngineDouble, report: Recorder) -> None:
    build(BuildOptions(), report, engine)
    assert build(BuildOptions(variant=CU12), report, engine) == f"{training_image()}-cu12"
    assert build(BuildOptions(variant=CU12), report, engine) == f"{training_image()}-cu12"
    assert len(engine.builds) == 2, "each variant is up to date by itself"
    arguments = engine.builds[1]["buildargs"]
    assert (arguments["TORCH"], arguments["TORCH_XLA"]) == ("2.8.0", "2.8.1")
    assert "jax-cuda12-pjrt==0.6.2" in arguments["PJRT_PLUGIN"]


def test_the_variant_of_cuda_13_has_a_torch_of_the_same_cuda(engine: EngineDouble, report: Recorder) -> None:
    """torch 2.9.0 of the package index brings the cuDNN of CUDA 12, and a process loads one libcudnn.so.9."""
    build(BuildOptions(variant=CU13), report, engine)
    arguments = engine.builds[0]["buildargs"]
    assert arguments["TORCH_INDEX_URL"] == "https://download.pytorch.org/whl/cu130"
    assert arguments["PJRT_PLUGIN"].split() == ["jax-cuda13-pjrt==0.11.2", "nvidia-cuda-nvcc>=13.0,<13.1"]
    build(BuildOptions(variant=CU13, torch_index_url="https://mirror/cu130"), report, engine)
    assert engine.builds[1]["buildargs"]["TORCH_INDEX_URL"] == "https://mirror/cu130"


def test_an_unknown_variant_is_named() -> None:
    with pytest.raises(
        SettingsError, match="--variant rocm: the variants are cpu, cu12, cu12-renamed, cu13, inductor, py39"
    ):
        variant("rocm")


def test_the_variant_of_2022_has_a_python_of_then(engine: EngineDouble, report: Recorder) -> None:
    engine.registry.add("python:3.9-slim")
    assert build(BuildOptions(variant=PY39), report, engine) == f"{training_image()}-py39"
    arguments = engine.builds[0]["buildargs"]
    assert (arguments["BASE"], arguments["TORCH"], arguments["TORCH_XLA"]) == ("python:3.9-slim", "2.1.0", "2.1.0")
    assert (find_root() / "training" / arguments["REQUIREMENTS"]).is_file()


@pytest.mark.parametrize("made", list(VARIANTS.values()), ids=lambda made: made.name or "cpu")
def test_every_variant_has_torch_s_own_siblings(made: Variant) -> None:
    """torchvision 0.N+15 and torchaudio 2.N fit torch 2.N, and no other, up to torchvision 0.28 and torchaudio 2.10."""
    lines = (find_root() / "training/Dockerfile").read_text().splitlines()
    defaults = dict(line[4:].split("=", 1) for line in lines if line.startswith("ARG ") and "=" in line)
    arguments = {**defaults, **made.arguments}
    minor = int(arguments["TORCH"].split(".")[1])
    assert arguments["TORCHVISION"].startswith(f"0.{min(minor + 15, 29)}.")
    assert arguments["TORCHAUDIO"].startswith(f"2.{min(minor, 11)}.")
    assert arguments["TORCH_XLA"].startswith(f"2.{minor}.") or made is INDUCTOR
