"""What a job that Inductor compiles is given, and what is made of Dynamo's records. Without torch."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sagelet_engine.compile_cache import inductor as kept
from sagelet_engine.data import compilation
from sagelet_runtime.dynamo import faults, modules
from sagelet_runtime.dynamo.compilations import Compilations
from sagelet_runtime.hugging_face import inductor as trainer
from sagelet_runtime.inductor import cache, choice, prepared, vector_units


def test_server_and_container_mean_the_same() -> None:
    """The container's package is a distribution of its own, so each has the constants."""
    assert (compilation.COMPILER, compilation.XLA, compilation.INDUCTOR) == (
        choice.VARIABLE,
        choice.XLA,
        choice.INDUCTOR,
    )
    assert kept.DIRECTORY == cache.SHARED


def test_the_cache_is_the_servers_or_the_jobs_own_and_never_the_machines() -> None:
    given = cache.environment({"SAGELET_COMPILE_CACHE": "/opt/ml/cache"}, "/opt/ml")
    assert given == {cache.DIRECTORY: f"/opt/ml/cache/inductor/{cache.processor()}"}
    assert cache.environment({}, "/opt/ml") == {cache.DIRECTORY: "/opt/ml/sagelet/inductor-alone"}
    assert cache.environment({cache.DIRECTORY: "/mine", "SAGELET_COMPILE_CACHE": "/opt/ml/cache"}, "/opt/ml") == {}


def test_each_processor_has_a_directory_of_its_own(tmp_path: Path) -> None:
    def named(text: str) -> str:
        file = tmp_path / "cpuinfo"
        file.write_text(text)
        return cache.processor(file)

    xeon = named("processor\t: 0\nmodel name\t: Xeon\nflags\t\t: avx2 avx512f\ncpu MHz\t: 1\n")
    assert xeon == named("processor\t: 0\nmodel name\t: Xeon\nflags\t\t: avx2 avx512f\ncpu MHz\t: 2\n")
    assert xeon != named("processor\t: 0\nmodel name\t: Xeon\nflags\t\t: avx2\ncpu MHz\t: 1\n")
    assert len(cache.processor(tmp_path / "none")) == 16


@pytest.mark.parametrize(("is_warm", "has_openssl"), [(False, True), (True, True), (False, False)])
def test_headers_are_precompiled_for_one_job_and_only_where_they_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_warm: bool, has_openssl: bool
) -> None:
    monkeypatch.setenv(cache.DIRECTORY, str(tmp_path))
    monkeypatch.setattr(cache.shutil, "which", lambda _name: "/usr/bin/openssl" if has_openssl else None)
    if is_warm:
        (tmp_path / "ab").mkdir()
        (tmp_path / "ab/cab.main.so").touch()
    codecache = SimpleNamespace(_HEADER_DIR="/tmp/all", _HEADER_LOCK_DIR="/tmp/all", _precompile_header=lambda *_: "h")
    cache.install(codecache)
    assert tmp_path / "precompiled_headers" == Path(codecache._HEADER_DIR)
    assert codecache._precompile_header("header") == ("h" if has_openssl and not is_warm else None)


class VecISA:
    """A set of vector instructions, as torch has it."""

    _arch_flags = "-mavx2"

    def __init__(self, *passes: bool) -> None:
        self.passes = list(passes)

    def __str__(self) -> str:
        return "avx2"

    def check_build(self, code: str) -> bool:
        return self.passes.pop(0)


@pytest.fixture
def vector_units_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., VecISA]:
    """Returns the patched set of a process with this cache. It has a result for each trial that torch makes."""

    def made(directory: Path, *passes: bool, compiler: str = "g++ 12") -> VecISA:
        monkeypatch.setenv(cache.DIRECTORY, str(directory))
        module = SimpleNamespace(
            VecISA=type("VecISA", (VecISA,), {"check_build": VecISA.check_build}),
            _get_isa_dry_compile_fingerprint=lambda flags: f"{compiler}={flags}",
        )
        vector_units.install(module)
        return module.VecISA(*passes)

    return made


def test_vector_instructions_are_tried_once_for_each_program_and_compiler(
    tmp_path: Path, vector_units_of: Callable[..., VecISA]
) -> None:
    assert vector_units_of(tmp_path, False).check_build("code") is False
    assert vector_units_of(tmp_path, True).check_build("code") is True
    assert vector_units_of(tmp_path).check_build("code") is True
    assert vector_units_of(tmp_path, False).check_build("other code") is False
    assert vector_units_of(tmp_path, False, compiler="g++ 9").check_build("code") is False
    (kept_file,) = (tmp_path / vector_units.PASSED).iterdir()
    # The engine keeps files of such names.
    assert kept._PATH.fullmatch(f"{cache.processor()}/{vector_units.PASSED}/{kept_file.name}")


@pytest.mark.parametrize("switch", cache.SWITCHES)
def test_without_inductors_cache_each_process_tries(
    tmp_path: Path, vector_units_of: Callable[..., VecISA], monkeypatch: pytest.MonkeyPatch, switch: str
) -> None:
    monkeypatch.setenv(switch, cache.SWITCHES[switch])
    for _ in range(2):
        tried = vector_units_of(tmp_path, True)
        assert tried.check_build("code") is True
        assert tried.passes == []


@pytest.mark.parametrize("name", ["file", "too-long" * 32])
def test_a_disk_that_takes_no_file_is_no_fault(
    tmp_path: Path, vector_units_of: Callable[..., VecISA], name: str
) -> None:
    """A directory of another user is such a one, too: it cannot even be looked at."""
    (tmp_path / "file").touch()
    assert vector_units_of(tmp_path / name, True).check_build("code") is True


@pytest.fixture
def headers_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., SimpleNamespace]:
    """Returns torch's module as a job has it, whose C++ compiler has this version."""
    monkeypatch.setattr(prepared, "directory", lambda: tmp_path / "prepared")
    monkeypatch.setenv(cache.DIRECTORY, str(tmp_path / "job"))
    monkeypatch.setattr(cache.shutil, "which", lambda _name: "/usr/bin/openssl")

    def made(compiler: str) -> SimpleNamespace:
        module = SimpleNamespace(
            _HEADER_DIR="/tmp/all",
            _HEADER_LOCK_DIR="/tmp/all",
            _precompile_header=lambda *_, **__: "the job's own",
            CppTorchDeviceOptions=lambda **_: SimpleNamespace(get_compiler=lambda: "g++"),
            get_compiler_version_info=lambda _compiler: compiler,
        )
        prepared.install_headers(module)
        return module

    return made


def test_a_prepared_header_is_taken_only_if_all_is_the_same(
    tmp_path: Path, headers_of: Callable[..., SimpleNamespace]
) -> None:
    options = {"vec_isa": "avx2", "device_type": "cpu"}
    file = tmp_path / "prepared/headers" / prepared.header_name("h", "g++ -O3", options, "12")
    file.parent.mkdir(parents=True)
    file.write_text("#include <h>")
    assert headers_of("12")._precompile_header("h", "g++ -O3", **options) == "the job's own", "it is not compiled"
    Path(f"{file}.gch").write_text("")
    assert headers_of("12")._precompile_header("h", "g++ -O3", **options) == str(file)
    assert headers_of("13")._precompile_header("h", "g++ -O3", **options) == "the job's own"
    assert headers_of("12")._precompile_header("h", "g++ -O2", **options) == "the job's own"
    assert headers_of("12")._precompile_header("h", "g++ -O3", **options, extra_flags=("-g",)) == "the job's own"


@pytest.fixture
def preparations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The compilers that compiled headers. A file `says` decides what the compiler is."""
    compilers: list[str] = []

    def compile_a_program(headers: Path) -> None:
        if prepared._compiler() == "broken":
            raise RuntimeError("C++ compile error")
        (headers / "x.h").touch()
        compilers.append(prepared._compiler())

    monkeypatch.setattr(prepared, "directory", lambda: tmp_path / "beside" / "processor")
    monkeypatch.setattr(prepared, "unfit", lambda: "")
    monkeypatch.setattr(prepared, "_compile_a_program", compile_a_program)
    monkeypatch.setattr(prepared, "_compiler", lambda: (tmp_path / "says").read_text())
    # prepare() sets it.
    monkeypatch.setenv(cache.DIRECTORY, "")
    return compilers


def test_headers_are_prepared_once_for_each_compiler(
    tmp_path: Path, preparations: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for compiler in ("g++ 12", "g++ 12", "g++ 13"):
        (tmp_path / "says").write_text(compiler)
        assert prepared.main() == 0
    assert preparations == ["g++ 12", "g++ 13"]
    assert "Inductor's header is there" in capsys.readouterr().out
    assert (tmp_path / "beside/processor/headers/x.h").is_file()


def test_what_a_killed_preparation_left_is_removed(tmp_path: Path, preparations: list[str]) -> None:
    (tmp_path / "beside/processor-abc/draft/headers").mkdir(parents=True)
    (tmp_path / "says").write_text("g++ 12")
    assert prepared.main() == 0
    assert sorted(os.listdir(tmp_path / "beside")) == [prepared.LOCK, "processor"]


def test_an_installation_does_not_fail_by_a_compiler_that_cannot_compile(
    tmp_path: Path, preparations: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "says").write_text("broken")
    assert (prepared.main(), preparations) == (0, [])
    said = "Inductor's first job will compile its own header: RuntimeError: C++ compile error"
    assert said in capsys.readouterr().out
    assert os.listdir(tmp_path / "beside") == [prepared.LOCK]


def test_a_prepared_trial_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def passes(directory: Path, *results: bool) -> bool:
        monkeypatch.setenv(cache.DIRECTORY, str(directory))
        module = SimpleNamespace(
            VecISA=type("VecISA", (VecISA,), {"check_build": VecISA.check_build}),
            _get_isa_dry_compile_fingerprint=lambda flags: flags,
        )
        prepared.install_trials(module)
        return bool(module.VecISA(*results).check_build("code"))

    monkeypatch.setattr(prepared, "directory", lambda: tmp_path / "prepared")
    assert passes(tmp_path / "prepared", True)
    assert passes(tmp_path / "job")


def test_the_report_says_what_the_cache_did() -> None:
    counters = {"inductor": {"fxgraph_cache_hit": 2, "fxgraph_cache_miss": 1, "fxgraph_cache_bypass": 1}}
    shared = {cache.DIRECTORY: "/opt/ml/sagelet/compile-cache/inductor/0123456789abcdef"}
    assert cache.figures(shared, counters) == {"enabled": True, "reason": "", "hits": 2, "misses": 2}
    alone = cache.figures({cache.DIRECTORY: "/opt/ml/sagelet/inductor-alone"}, counters)
    assert (alone["enabled"], alone["reason"]) == (False, "no cache was given to this job")
    off = cache.figures({**shared, "TORCHINDUCTOR_FX_GRAPH_CACHE": "0"}, {})
    assert off == {"enabled": False, "reason": "TORCHINDUCTOR_FX_GRAPH_CACHE is 0", "hits": 0, "misses": 0}


def test_a_host_without_a_compiler_of_cpp_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "Inductor needs a C++ compiler, and this host has no g++ or clang++; install g++ (or set CXX)"
    assert choice.problem({"PATH": str(tmp_path)}) == said
    compiler = tmp_path / "g++"
    compiler.touch(mode=0o755)
    assert choice.problem({"PATH": str(tmp_path)}) is None
    monkeypatch.setattr(choice.util, "find_spec", lambda _name: None)
    assert choice.problem({"PATH": str(tmp_path)}, on_gpus=True) == (
        "Inductor needs Triton for GPUs, which is not installed; install triton"
    )


@dataclass
class Record:
    """A CompilationMetrics of Dynamo."""

    fail_type: str | None = None
    fail_reason: str | None = None
    recompile_reason: str | None = None
    graph_node_count: int | None = None
    co_name: str = "forward"
    co_filename: str = "/opt/ml/code/train.py"
    co_firstlineno: int = 7


def test_dynamos_records_are_added_up_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(faults, "_noted", {})
    records = [Record(graph_node_count=9), Record(recompile_reason="0/0: size mismatch\nmore", graph_node_count=12)]
    utils = SimpleNamespace(get_compilation_metrics=lambda: records)
    counted = Compilations()
    counted.read(utils)
    counted.read(utils)
    records.append(Record(fail_type="Unsupported", fail_reason="a graph break"))
    records.append(Record(fail_type="SpeculationRestartAnalysis"))
    records.append(Record(fail_type="InternalTorchDynamoError", fail_reason="TypeError: no\nfrom user code"))
    records += [Record(co_name="torch_dynamo_resume_in_forward_at_12")] * 2
    del records[0]
    counted.read(utils)
    found = counted.document({"graph_break": {"Tensor.item()\n  Explanation": 2}, "stats": {"unique_graphs": 3}})
    assert found == {
        "nodes_max": 12, "breaks": 1, "unique": 3, "frames": 0, "recompiles": 1,
        "break_reasons": {"forward (train.py:12)": 2, "Tensor.item()": 2},
        "recompile_reasons": {"0/0: size mismatch": 1},
    }  # fmt: skip
    assert faults.noted() == {"forward (train.py:7): InternalTorchDynamoError: TypeError: no": 1}
    assert "runs natively: forward (train.py:7): InternalTorchDynamoError" in capsys.readouterr().out


def test_dynamos_errors_do_not_end_the_script_unless_the_user_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def config() -> SimpleNamespace:
        return SimpleNamespace(suppress_errors=False, error_on_nested_jit_trace=True)

    ours, users = config(), config()
    faults.install(ours)
    assert vars(ours) == {"suppress_errors": True, "error_on_nested_jit_trace": False}
    monkeypatch.setenv(faults.SUPPRESS, "")
    faults.install(users)
    assert not users.suppress_errors


def test_a_models_call_is_seen_before_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call loads Dynamo, which takes seconds. They are part of the first step."""

    class Module:
        def __call__(self) -> str:
            seen.append("run")
            return "output"

        def parameters(self) -> Iterator[str]:
            yield "weight"

    seen: list[str] = []
    never = SimpleNamespace(is_compiling=lambda: False, is_tracing=lambda: False)
    monkeypatch.setattr(modules, "_observers", [])
    monkeypatch.setattr(modules, "_compile", lambda *_: seen.append("compiled"))
    modules.install(SimpleNamespace(nn=SimpleNamespace(Module=Module), compiler=never, jit=never))
    modules.observe(lambda: seen.append("observed"))
    assert Module()() == "output"
    assert seen == ["observed", "compiled", "run"]


@pytest.fixture
def arguments(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A TrainingArguments of Transformers, and the list of what the model is left alone for."""
    left: list[str] = []
    monkeypatch.setattr(modules, "leave_alone", left.append)

    @dataclass
    class TrainingArguments:
        output_dir: str | None = None
        label_names: list[str] = field(default_factory=list)
        torch_compile: bool = False
        optim: str = "adamw"

        def __post_init__(self) -> None:
            self.seen = self.torch_compile

    trainer.install(SimpleNamespace(TrainingArguments=TrainingArguments))
    return TrainingArguments, left


def test_the_users_word_on_torch_compile_wins(arguments: Any) -> None:
    made, left = arguments
    assert made("out").seen is True
    assert made("out", optim="sgd").optim == "sgd"
    assert made("out").label_names == []
    assert made("out", torch_compile=True).seen is True
    assert left == []
    assert made("out", torch_compile=False).seen is False
    assert left == ["TrainingArguments have torch_compile=False"]


def test_a_subclass_has_the_default_too(arguments: Any) -> None:
    base, left = arguments

    @dataclass
    class Seq2SeqTrainingArguments(base):  # type: ignore[misc, valid-type]
        predict_with_generate: bool = False

    assert Seq2SeqTrainingArguments("out").seen is True
    assert Seq2SeqTrainingArguments("out", torch_compile=False).seen is False
    assert len(left) == 1
