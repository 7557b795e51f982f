"""The old names of Transformers and datasets, on stand-ins of the packages of today."""

import dataclasses
import enum
import importlib
import inspect
import logging
import pickle
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from sagelet_runtime.base import installed
from sagelet_runtime.hugging_face import accelerator, activation, arguments, data, levels, moved, names, parser, trainer

TRCOMP = "1/huggingface-pytorch-trcomp-training:1.11.0-transformers4.21.1-gpu-py38-cu113-ubuntu20.04"
TODAY = "1/huggingface-pytorch-training:2.8.0-transformers4.57.1-gpu-py312-cu129-ubuntu22.04"
CHOICES = {"choices": ["auto", "apex", "cpu_amp"]}


class Optimizers(enum.Enum):
    TORCH = "adamw_torch"


@dataclasses.dataclass
class Training:
    output_dir: str = "out"
    eval_strategy: str = "no"
    optim: str = "adamw_torch"
    half_precision_backend: str = dataclasses.field(default="auto", metadata=CHOICES)
    fp16_backend: str = dataclasses.field(default="auto", metadata=CHOICES)


@pytest.fixture
def today() -> Any:
    """A module with a TrainingArguments of today, patched."""

    @dataclasses.dataclass
    class TrainingArguments(Training):
        pass

    module = SimpleNamespace(TrainingArguments=TrainingArguments, OptimizerNames=Optimizers)
    arguments.install(module)  # type: ignore[arg-type]
    return module


def test_keyword_arguments_of_then(today: Any, capsys: pytest.CaptureFixture[str]) -> None:
    given = today.TrainingArguments("out", evaluation_strategy="steps", sharded_ddp="simple", optim="adamw_hf")
    assert (given.eval_strategy, given.evaluation_strategy, given.optim) == ("steps", "steps", "adamw_torch")
    today.TrainingArguments(sharded_ddp="simple", half_precision_backend="cuda_amp")
    assert capsys.readouterr().out.count("sharded_ddp of TrainingArguments was removed") <= 1


def test_a_dataclass_and_a_class_of_the_script_s_own_take_them_too(today: Any) -> None:
    @dataclasses.dataclass
    class Mine(today.TrainingArguments):  # type: ignore[misc]
        extra: int = 3

    class Other(today.TrainingArguments):  # type: ignore[misc]
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)

    assert Mine(evaluation_strategy="epoch", extra=4).eval_strategy == "epoch"
    assert Other(evaluation_strategy="epoch").eval_strategy == "epoch"
    assert "extra" in inspect.signature(Mine).parameters
    assert "output_dir" in inspect.signature(today.TrainingArguments).parameters


@pytest.mark.parametrize("given", [{"no_such": 1}, {"evaluation_strategy": "no", "eval_strategy": "no"}])
def test_what_is_wrong_today_stays_wrong(today: Any, given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        today.TrainingArguments(**given)


def test_a_release_that_has_the_names_is_left_alone() -> None:
    class Names(enum.Enum):
        HF = "adamw_hf"

    @dataclasses.dataclass
    class TrainingArguments:
        evaluation_strategy: str = "no"
        sharded_ddp: str = ""
        optim: str = "adamw_hf"

    arguments.install(SimpleNamespace(TrainingArguments=TrainingArguments, OptimizerNames=Names))  # type: ignore[arg-type]
    given = TrainingArguments(evaluation_strategy="epoch", sharded_ddp="simple", optim="adamw_hf")
    assert dataclasses.asdict(given) == {"evaluation_strategy": "epoch", "sharded_ddp": "simple", "optim": "adamw_hf"}
    assert pickle.loads(pickle.dumps(Training())) == Training()


@pytest.fixture
def words(today: Any) -> Any:
    """The command line as it reaches the real parser."""

    class HfArgumentParser(ArgumentParser):
        dataclass_types = (today.TrainingArguments,)

        def parse_dict(self, args: dict[str, Any]) -> dict[str, Any]:
            return args

    parser.install(SimpleNamespace(HfArgumentParser=HfArgumentParser))  # type: ignore[arg-type]
    return HfArgumentParser(allow_abbrev=False)


def test_a_command_line_of_then(words: Any) -> None:
    for name in ("eval_strategy", "optim", "do_train", "model"):
        words.add_argument(f"--{name}")
    line = "--evaluation_strategy no --sharded_ddp simple --do_train True --optim=adamw_hf --model adamw_hf"
    assert vars(words.parse_args(line.split())) == {
        "eval_strategy": "no", "do_train": "True", "optim": "adamw_torch", "model": "adamw_hf"
    }  # fmt: skip
    assert words.parse_args(["--evaluation-strategy=epoch", "--use_ipex"]).eval_strategy == "epoch"
    assert words.parse_known_args(["--no_such", "1"])[1] == ["--no_such", "1"]


def test_an_option_of_the_script_s_own_stays(words: Any) -> None:
    words.add_argument("--sharded_ddp")
    assert words.parse_args(["--sharded_ddp", "mine"]).sharded_ddp == "mine"
    words.add_argument("--eval_strategy")
    assert words.parse_args(["--sharded_ddp", "mine"]).sharded_ddp == "mine"


def test_a_parser_without_training_arguments_is_left_alone(words: Any) -> None:
    assert words.parse_known_args(["--evaluation_strategy", "no"])[1] == ["--evaluation_strategy", "no"]


def test_a_dict_of_then(words: Any) -> None:
    assert words.parse_dict({"evaluation_strategy": "no", "sharded_ddp": "", "model": 1}) == {
        "eval_strategy": "no", "model": 1
    }  # fmt: skip


def test_a_loss_of_then() -> None:
    class Trainer:
        model_accepts_loss_kwargs = True

        def compute_loss(
            self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            return (model, inputs, num_items_in_batch)

        def log(self, logs: Any, start_time: Any = None) -> None:
            self.logged = (logs, start_time)

    trainer.install(SimpleNamespace(Trainer=Trainer))  # type: ignore[arg-type]

    class Old(Trainer):
        def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False) -> Any:  # type: ignore[override]
            return super().compute_loss(model, inputs, return_outputs)

        def log(self, logs: Any) -> None:  # type: ignore[override]
            super().log(logs)

    class New(Trainer):
        def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
            return super().compute_loss(*args, **kwargs)

    old, new = Old(), New()
    assert old.compute_loss("m", "i", num_items_in_batch=8) == ("m", "i", None)  # type: ignore[call-arg]
    assert new.compute_loss("m", "i", num_items_in_batch=8) == ("m", "i", 8)
    assert (old.model_accepts_loss_kwargs, new.model_accepts_loss_kwargs) == (False, True)
    old.log({"loss": 1}, 5.0)  # type: ignore[call-arg]
    assert old.logged == ({"loss": 1}, None)


class Accelerator:
    """Accelerate's, of today."""

    def __init__(
        self,
        split_batches: Any = None,
        mixed_precision: Any = None,
        project_dir: Any = None,
        dataloader_config: Any = None,
    ) -> None:
        self.mixed_precision = mixed_precision
        self.taken = {"split": split_batches, "project": project_dir, "loaders": dataloader_config}


@pytest.fixture
def accelerator_of_today() -> Any:
    kind = type("Accelerator", (Accelerator,), {})
    accelerator.install(SimpleNamespace(Accelerator=kind, DataLoaderConfiguration=lambda **given: given))
    return kind


def test_an_accelerator_of_then(accelerator_of_today: Any) -> None:
    made = accelerator_of_today(fp16=True, split_batches=True, even_batches=False, logging_dir="logs")
    assert (made.mixed_precision, made.use_fp16) == ("fp16", True)
    loaders = {"split_batches": True, "even_batches": False}
    assert made.taken == {"split": None, "project": "logs", "loaders": loaders}
    assert accelerator_of_today(fp16=False).mixed_precision is None
    assert not accelerator_of_today(mixed_precision="bf16", fp16=False).use_fp16


@pytest.mark.parametrize("given", [{"no_such": 1}, {"dataloader_config": {}, "even_batches": False}])
def test_what_is_wrong_of_an_accelerator_stays_wrong(accelerator_of_today: Any, given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        accelerator_of_today(**given)


def test_an_accelerate_that_has_the_names_is_left_alone() -> None:
    given = {"fp16": True, "logging_dir": "logs", "split_batches": True}
    assert accelerator.translated(given, given, None) == given


def test_types_and_functions_of_accelerate_of_then() -> None:
    class DistributedType(enum.Enum):
        NO = "NO"
        XLA = "XLA"

    accelerator.install_types(SimpleNamespace(DistributedType=DistributedType))
    assert DistributedType.TPU is DistributedType.XLA  # type: ignore[attr-defined]
    assert list(DistributedType) == [DistributedType.NO, DistributedType.XLA]
    utils = SimpleNamespace(is_torch_xla_available=lambda: True)
    accelerator.install_utils(utils)
    assert utils.is_tpu_available(check_device=False) is True
    assert utils.is_ipex_available() is False


def test_datasets_of_then(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(path: str, **given: Any) -> dict[str, Any]:
        return {"path": path, **given}

    inner = SimpleNamespace(load_dataset=load, load_dataset_builder=load)
    package = SimpleNamespace(load=inner, load_dataset=load, load_dataset_builder=load)
    data.install(package)
    assert package.load_dataset("text", use_auth_token=None, keep_linebreaks=True) == {
        "path": "text", "keep_linebreaks": True
    }  # fmt: skip
    assert inner.load_dataset("a", use_auth_token=True, task="x") == {"path": "a", "token": True}
    monkeypatch.setitem(sys.modules, "evaluate", SimpleNamespace(load=lambda *args, **rest: (args, rest)))
    assert package.load_metric("glue", "sst2", use_auth_token=None) == (("glue", "sst2"), {})
    own = SimpleNamespace(MyDataset=1)
    data.install(own)
    assert vars(own) == {"MyDataset": 1}


def test_functions_of_then() -> None:
    utils = SimpleNamespace(is_torch_xla_available=lambda: True)
    names.install_utils(utils)
    assert utils.is_torch_tpu_available(check_device=False) is True
    utils.send_example_telemetry("run_clm", object(), object())


@pytest.mark.parametrize("cpu", [True, False])
def test_the_trainer_s_way_with_smddp_is_for_gpus(monkeypatch: pytest.MonkeyPatch, cpu: bool) -> None:
    monkeypatch.delenv(names.USE_CPU, raising=False)
    if cpu:
        monkeypatch.setenv(names.USE_CPU, "true")
    lazy = type("_LazyModule", (ModuleType,), {"__getattr__": lambda self, name: None})
    import_utils = SimpleNamespace(_smdistributed_available=True, _LazyModule=lazy)
    names.install_package(import_utils)
    assert import_utils._smdistributed_available is not cpu


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package `transformers` with little in it, to be imported with the hooks."""
    root = tmp_path / "transformers"
    (root / "utils").mkdir(parents=True)
    (root / "integrations").mkdir()
    for name in ("__init__", "training_args", "hf_argparser", "integrations/__init__"):
        (root / f"{name}.py").write_text("")
    (root / "utils" / "__init__.py").write_text("from .import_utils import is_torch_xla_available\n")
    (root / "utils" / "import_utils.py").write_text("def is_torch_xla_available():\n    return False\n")
    (root / "integrations" / "deepspeed.py").write_text("VALUE = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    held = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "transformers"}
    yield root
    for name in [name for name in sys.modules if name.partition(".")[0] == "transformers"]:
        del sys.modules[name]
    sys.modules.update(held)


def test_the_hooks_break_no_import(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert package.is_dir()
    activation.activate()
    assert "transformers" not in sys.modules
    utils: Any = importlib.import_module("transformers.utils")
    assert utils.is_torch_tpu_available() is False
    importlib.import_module("transformers.training_args")
    said = capsys.readouterr().out
    assert "the old names of transformers.training_args are left out" in said
    assert importlib.import_module("transformers.deepspeed").VALUE == 7
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("transformers.no_such")
    assert set(moved.MOVED.values()).isdisjoint(moved.MOVED)


@pytest.mark.parametrize(
    ("uri", "found", "asked"),
    [
        (TRCOMP, "4.57.6", "4.21.1"),
        ("1/pytorch-trcomp-training:1.13.1-gpu-py39", "4.57.6", "0"),
        (TODAY, "4.57.6", None),
        (TRCOMP, None, None),
        ("", "4.57.6", None),
    ],
)
def test_which_jobs_get_them(uri: str, found: str | None, asked: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "version", lambda _: found)
    expected = {} if asked is None else {activation.VARIABLE: asked, activation.STANDS_IN: found}
    assert activation.environment({"SAGELET_TRAINING_IMAGE": uri}) == expected


class Levels:
    """The part of a TrainingArguments of today that chooses the level."""

    def __init__(self, log_level: str = "passive", log_level_replica: str = "warning", should_log: bool = True) -> None:
        self.log_level, self.log_level_replica, self.should_log = log_level, log_level_replica, should_log

    def get_process_log_level(self) -> int:
        return {"error": logging.ERROR, "warning": logging.WARNING, "passive": -1}[
            self.log_level if self.should_log else self.log_level_replica
        ]


@pytest.mark.parametrize(
    ("asked", "there", "info"),
    [
        ("4.21.1", "4.57.6", True),
        ("4.9", "4.57.6", True),
        ("4.26.0", "4.27.0", True),
        # Had no level, and left the log to the script.
        ("4.6.1", "4.57.6", False),
        ("4.27", "4.57.6", False),
        # Its own "passive" is INFO.
        ("4.21.1", "4.26.1", False),
        # A PyTorch image: nobody knows which Transformers its script had.
        ("0", "4.57.6", False),
    ],
)
def test_the_trainer_of_then_logs_at_info(asked: str, there: str, info: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(activation.VARIABLE, asked)
    monkeypatch.setenv(activation.STANDS_IN, there)
    monkeypatch.setattr(installed, "version", lambda _: there)
    arguments_of_today = type("TrainingArguments", (Levels,), {})
    levels.install(SimpleNamespace(TrainingArguments=arguments_of_today))  # type: ignore[arg-type]
    assert arguments_of_today().get_process_log_level() == (logging.INFO if info else -1)
    assert arguments_of_today(log_level="error").get_process_log_level() == logging.ERROR
    assert arguments_of_today(should_log=False).get_process_log_level() == logging.WARNING
    replica = arguments_of_today(log_level_replica="passive", should_log=False)
    assert replica.get_process_log_level() == (logging.WARNING if info else -1)


@pytest.mark.parametrize(("there", "info"), [("4.30.2", False), ("4.57.6", True)])
def test_a_transformers_of_requirements_txt_logs_as_itself(
    there: str, info: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Job of an image of 4.21.1: what pip put in its place is what the job had on AWS, too."""
    monkeypatch.setattr(installed, "version", lambda _: "4.57.6")
    for name, value in activation.environment({"SAGELET_TRAINING_IMAGE": TRCOMP}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(installed, "version", lambda _: there)
    arguments_of_today = type("TrainingArguments", (Levels,), {})
    levels.install(SimpleNamespace(TrainingArguments=arguments_of_today))  # type: ignore[arg-type]
    assert arguments_of_today().get_process_log_level() == (logging.INFO if info else -1)


def test_every_hook_is_there() -> None:
    for _, part, function in activation.HOOKS:
        module: ModuleType = importlib.import_module(f"sagelet_runtime.hugging_face.{part}")
        assert callable(getattr(module, function))
