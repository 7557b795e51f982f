"""CPUs in place of GPUs: what says so, and how float16 gets past libraries that refuse it."""

import os
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from sagelet_runtime.base import installed, say
from sagelet_runtime.gpu import missing_gpu
from sagelet_runtime.hugging_face import alone, half

GPUS = {"SAGELET_INSTANCE_GPUS": '{"ml.p3.2xlarge": 1, "ml.m5.large": 0}'}
LINE = "sagelet: float16 is computed in float32: this host's CPUs stand in for ml.p3.2xlarge\n"


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(say, "_said", set())
    monkeypatch.setenv(missing_gpu.VARIABLE, "ml.p3.2xlarge")
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    for name in ("RANK", "SM_TRAINING_COMPILER_CONFIGURED", "PJRT_DEVICE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("instance_type", "gpus", "expected"),
    [
        ("ml.p3.2xlarge", 0, {missing_gpu.VARIABLE: "ml.p3.2xlarge"}),
        ("ml.p3.2xlarge", 1, {}),
        ("ml.m5.large", 0, {}),
        ("local", 0, {}),
    ],
)
def test_only_missing_gpus_are_stood_in_for(instance_type: str, gpus: int, expected: dict[str, str]) -> None:
    assert missing_gpu.environment(instance_type, GPUS, gpus) == expected


@pytest.mark.parametrize(
    ("gpus", "has_cuda", "lines"), [(1, False, 1), (1, True, 0), (0, False, 0)], ids=["no CUDA", "both", "no GPU"]
)
def test_gpus_that_torch_cannot_use_are_named(
    gpus: int, has_cuda: bool, lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    missing_gpu.say_unused(gpus, has_cuda)
    said = capsys.readouterr().out.splitlines()
    assert len(said) == lines
    assert all("--torch-build cuda" in line for line in said)


def test_a_torch_without_cuda_is_known_by_its_requirements(monkeypatch: pytest.MonkeyPatch) -> None:
    required = ["filelock", "nvidia-cudnn-cu12==9.10.2.21; platform_system == 'Linux'"]
    monkeypatch.setattr(installed.metadata, "requires", lambda name: required)
    assert installed.torch_has_cuda()
    monkeypatch.setattr(installed.metadata, "requires", lambda name: required[:1])
    assert not installed.torch_has_cuda()


@pytest.mark.parametrize("kind", [RuntimeError, AssertionError])
def test_a_missing_gpu_is_named_with_the_remedy(kind: type[Exception]) -> None:
    def original() -> None:
        raise kind("Found no NVIDIA driver on your system. Please install one")

    natively = missing_gpu.without_gpu({missing_gpu.VARIABLE: "ml.p3.2xlarge"})
    with pytest.raises(kind, match=r"no GPU: its CPUs stand in for ml.p3.2xlarge.*'cuda' if torch.cuda.is_available"):
        missing_gpu.explained(original, natively)()
    compiled = missing_gpu.without_gpu({missing_gpu.VARIABLE: "ml.g5.xlarge", "SM_TRAINING_COMPILER_CONFIGURED": "1"})
    with pytest.raises(kind, match=r"stand in for ml.g5.xlarge.*xm.xla_device\(\)"):
        missing_gpu.explained(original, compiled)()


def arguments_of(device_type: str | None) -> SimpleNamespace:
    """transformers.training_args of 4.25 to 4.38, as far as it refuses float16 (read in 4.25.1, 4.30.2 and 4.38.2)."""

    def get_xla_device_type(_device: Any) -> str | None:
        return device_type

    module = SimpleNamespace(get_xla_device_type=get_xla_device_type)

    class TrainingArguments:
        def __init__(self, fp16: bool = False, fp16_full_eval: bool = False, bf16_full_eval: bool = False) -> None:
            self.fp16, self.fp16_full_eval, self.bf16_full_eval = fp16, fp16_full_eval, bf16_full_eval
            self.local_rank = -1
            self.__post_init__()

        def __post_init__(self) -> None:
            self.local_rank = int(os.environ.get("LOCAL_RANK", "-1"))
            if module.get_xla_device_type("xla:0") != "GPU" and (self.fp16 or self.fp16_full_eval):
                raise ValueError("FP16 Mixed precision training with AMP or APEX (`--fp16`) can only be used on CUDA")
            precision = os.environ.get("ACCELERATE_MIXED_PRECISION", "no")
            os.environ["ACCELERATE_MIXED_PRECISION"] = "fp16" if self.fp16 else precision

    module.TrainingArguments = TrainingArguments
    return module


@pytest.mark.parametrize("release", ["4.25.1", "4.38.2"])
def test_natively_float16_gets_past_the_check_and_stays_what_the_script_asked_for(
    release: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed, "version", {"transformers": release}.get)
    module = arguments_of(None)
    with pytest.raises(ValueError, match="FP16 Mixed precision"):
        module.TrainingArguments(fp16=True)
    half.install_arguments(module)
    first, second = module.TrainingArguments(fp16=True), module.TrainingArguments(fp16_full_eval=True)
    assert (first.fp16, second.fp16_full_eval) == (True, False)
    assert os.environ["ACCELERATE_MIXED_PRECISION"] == "no"
    assert capsys.readouterr().out == LINE
    module.TrainingArguments()
    assert capsys.readouterr().out == ""


def test_other_workers_do_not_repeat_it(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "version", {"transformers": "4.30.2"}.get)
    monkeypatch.setenv("RANK", "1")
    module = arguments_of(None)
    half.install_arguments(module)
    module.TrainingArguments(fp16=True)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("device", ["CPU", "XLAGPU"])
def test_compiled_float16_gets_past_the_check_as_on_a_gpu(
    device: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PJRT_DEVICE", device)
    module = arguments_of(device)
    half.install_compiled(module)
    assert module.TrainingArguments(fp16=True).fp16
    assert os.environ["ACCELERATE_MIXED_PRECISION"] == "fp16"
    evaluating = module.TrainingArguments(fp16_full_eval=True)
    assert (evaluating.fp16_full_eval, evaluating.bf16_full_eval) == (False, True)
    assert "sagelet: fp16_full_eval computes in bfloat16" in capsys.readouterr().out


def test_a_gpu_that_torch_xla_calls_cuda_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "CUDA")
    module = arguments_of("CUDA")
    half.install_compiled(module)
    assert module.TrainingArguments(fp16=True, fp16_full_eval=True).fp16_full_eval


def test_other_devices_of_xla_keep_their_own_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "TPU")
    module = arguments_of("TPU")
    half.install_compiled(module)
    with pytest.raises(ValueError, match="FP16 Mixed precision"):
        module.TrainingArguments(fp16=True)


@pytest.mark.parametrize(("release", "refuses"), [("4.21.1", True), ("4.38.2", True), ("4.57.6", False)])
def test_the_trainer_that_refuses_float16_on_cpus(release: str, refuses: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "version", {"transformers": release}.get)
    seen = []

    class Trainer:
        def __init__(self, model: Any = None, args: Any = None, data_collator: Any = None) -> None:
            seen.append((model, args.fp16 if args else None, data_collator))

    half.install_trainer(SimpleNamespace(Trainer=Trainer))
    arguments = SimpleNamespace(fp16=True)
    Trainer("model", arguments, data_collator="collator")
    assert seen == [("model", not refuses, "collator")]
    assert arguments.fp16
    Trainer(model="model")
    assert seen[-1] == ("model", None, None)


def test_accelerates_float16_is_none_natively(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class AcceleratorState:
        _shared_state: ClassVar[dict[str, Any]] = {}

        def __init__(self, mixed_precision: str | None = None, cpu: bool = False) -> None:
            self.__dict__ = self._shared_state
            asked = mixed_precision or os.environ.get("ACCELERATE_MIXED_PRECISION", "no")
            if not self._shared_state:
                self.precision = asked
            elif mixed_precision is not None and mixed_precision != self.precision:
                raise ValueError("AcceleratorState has already been initialized")
            assert not cpu

    half.install_state(SimpleNamespace(AcceleratorState=AcceleratorState))
    assert AcceleratorState("fp16", cpu=False).precision == "no"
    assert AcceleratorState("fp16").precision == "no"
    AcceleratorState._shared_state.clear()
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "fp16")
    assert AcceleratorState().precision == "no"
    AcceleratorState._shared_state.clear()
    assert AcceleratorState("bf16").precision == "bf16"
    assert AcceleratorState().precision == "bf16"
    assert capsys.readouterr().out == LINE


@pytest.mark.parametrize(("rank", "local_rank"), [(None, -1), ("0", 0)])
def test_a_script_that_nobody_started_as_a_worker_is_not_distributed(
    rank: str | None, local_rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = arguments_of(None)
    alone.install(module)
    monkeypatch.setenv("LOCAL_RANK", "0")
    if rank is not None:
        monkeypatch.setenv("RANK", rank)
    assert module.TrainingArguments().local_rank == local_rank
