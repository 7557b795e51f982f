"""PyTorch's wheel without CUDA: what is left out, and what the stand-ins answer in a process."""

import ctypes
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support.small_torch import INFORMATION, NAME, record_line, torch_wheel
from torch_without_cuda.elf import Library, NotAnElfFile
from torch_without_cuda.shared_object import Imported, Local, Pointer, SharedObject
from torch_without_cuda.stand_ins import UnknownLayout
from torch_without_cuda.wheel import revision, without_cuda

STAND_INS = ["libcudart.so.12", "libcudnn.so.9", "libcufile.so.0", "libcusparseLt.so.0", "libtorch_cuda.so"]
#: Loads the libraries as `import torch` does, and calls each `ask_` function that it is given.
PROGRAM = """
import ctypes, json, sys
ctypes.CDLL(sys.argv[1] + "/libtorch_global_deps.so", mode=ctypes.RTLD_GLOBAL)
torch = ctypes.CDLL(sys.argv[1] + "/libtorch_python.so")
answers = {}
for question, kind in json.loads(sys.argv[2]).items():
    name, _, argument = question.partition(" ")
    function = getattr(torch, "ask_" + name)
    function.restype = getattr(ctypes, kind)
    answer = function(*([int(argument)] if argument else []))
    answers[question] = answer.decode() if isinstance(answer, bytes) else answer
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return torch_wheel(tmp_path_factory.mktemp("torch"))


@pytest.fixture(scope="module")
def rewritten(ordinary: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return without_cuda(ordinary, tmp_path_factory.mktemp("rewritten"))


@pytest.fixture(scope="module")
def libraries(rewritten: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rewritten wheel's torch/lib."""
    place = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(rewritten) as wheel:
        wheel.extractall(place)
    return place / "torch" / "lib"


def test_kernels_go_and_stand_ins_come(ordinary: Path, rewritten: Path) -> None:
    assert rewritten.name == NAME
    with zipfile.ZipFile(ordinary) as before, zipfile.ZipFile(rewritten) as after:
        dropped = set(before.namelist()) - set(after.namelist())
        added = set(after.namelist()) - set(before.namelist())
        assert dropped == {"torch/lib/libtorch_cuda_linalg.so"}
        assert added == {f"torch/lib/{name}" for name in STAND_INS[:-1]} | {f"{INFORMATION}/WITHOUT_CUDA.txt"}
        assert after.read("torch/lib/libtorch_python.so") == before.read("torch/lib/libtorch_python.so")
        assert after.read("torch/lib/libtorch_cuda.so") != before.read("torch/lib/libtorch_cuda.so")


def test_pip_finds_nothing_of_nvidia_s_to_install(rewritten: Path) -> None:
    with zipfile.ZipFile(rewritten) as wheel:
        metadata = wheel.read(f"{INFORMATION}/METADATA").decode()
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist")]
    assert required == ["Requires-Dist: filelock", 'Requires-Dist: opt-einsum>=3.3; extra == "opt-einsum"']


def test_the_record_has_every_file(rewritten: Path) -> None:
    own = f"{INFORMATION}/RECORD"
    with zipfile.ZipFile(rewritten) as wheel:
        lines = {record_line(name, wheel.read(name)) for name in wheel.namelist() if name != own}
        assert set(wheel.read(own).decode().splitlines(keepends=True)) == {*lines, f"{own},,\n"}


def test_the_marker_names_the_revision(rewritten: Path) -> None:
    with zipfile.ZipFile(rewritten) as wheel:
        assert f"\nrevision {revision()}\n" in wheel.read(f"{INFORMATION}/WITHOUT_CUDA.txt").decode()


@pytest.mark.parametrize("binding", ["", "1"], ids=["lazy", "now"])
def test_answers_are_those_of_a_machine_without_a_driver(libraries: Path, binding: str) -> None:
    """The numbers 4711 and 4712 come from the functions of libc10_cuda.so that throw PyTorch's own errors."""
    number, text = "c_long", "c_char_p"
    expected = {
        "hook 0": (4711, "c_int"),  # init
        "hook 1": (1, "c_int"),  # isBuilt
        "hook 2": (0, "c_int"),  # hasCUDA, the base class's
        "hook 3": (91002, "c_int"),  # versionCuDNN
        "device": (4711, "c_int"),
        "table": (4711, "c_int"),
        "sleep": (4712, "c_int"),
        "nccl": ("ProcessGroupNCCL is only supported with GPUs, no GPUs found!", text),
        "nccl_version": (2 << 32 | 27 << 16 | 5, number),
        "flash": (1, "c_int"),
        "type": ("N4c10d16ProcessGroupNCCLE", text),
        "runtime": (12080, "c_int"),
        "error": ("CUDA driver version is insufficient for CUDA runtime version", text),
        "cudnn": (91002, "c_int"),
        "cudnn_part 0": (9, "c_int"),
        "cudnn_part 2": (2, "c_int"),
        "cudnn_create": (1001, "c_int"),
        "file": (5001, "c_int"),
    }
    questions = json.dumps({question: kind for question, (_, kind) in expected.items()})
    environment = {name: value for name, value in os.environ.items() if name != "LD_BIND_NOW"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(libraries), questions],
        env={**environment, **({"LD_BIND_NOW": binding} if binding else {})},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stderr == "", "the linker warns, for example of missing versions"
    assert json.loads(done.stdout) == {question: answer for question, (answer, _) in expected.items()}


def test_a_wheel_for_cpus_is_left_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(UnknownLayout, match="built without CUDA"):
        without_cuda(torch_wheel(tmp_path / "torch", has_cuda=False), tmp_path)


def test_a_wheel_of_another_layout_is_refused(ordinary: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / NAME
    other.parent.mkdir()
    with zipfile.ZipFile(ordinary) as source, zipfile.ZipFile(other, "w") as target:
        for name in source.namelist():
            if name != "torch/lib/libtorch_cpu.so":
                target.writestr(name, source.read(name))
    with pytest.raises(UnknownLayout, match=r"libtorch_cpu\.so"):
        without_cuda(other, tmp_path)


def test_methods_have_the_names_of_their_slots(libraries: Path) -> None:
    methods = Library(libraries / "libtorch_cpu.so").methods("_ZTVN2at18CUDAHooksInterfaceE")
    assert methods[:2] == [None, None]
    assert methods[2:4] == ["_ZNK2at18CUDAHooksInterface4initEv", "_ZNK2at25AcceleratorHooksInterface7isBuiltEv"]
    with pytest.raises(KeyError):
        Library(libraries / "libtorch_cpu.so").methods("_ZTVN2at5OtherE")


def test_symbols_name_the_library_that_they_are_wanted_of(libraries: Path) -> None:
    wanted = {symbol.name: symbol for symbol in Library(libraries / "libtorch_python.so").symbols}
    assert wanted["cudaRuntimeGetVersion"].version == ("libcudart.so.12", "libcudart.so.12")
    assert wanted["cudnnGetVersion"].version == ("libcudnn.so.9", "libcudnn.so.9")
    assert wanted["cuFileRead"].version is None
    assert wanted["ask_hook"].is_defined
    assert not wanted["cuFileRead"].is_defined


@pytest.mark.parametrize(
    "content",
    [b"", b"#!/bin/sh\n" * 10, b"\x7fELF\x01\x01" + bytes(100), b"\x7fELF\x02\x01" + bytes(100)],
    ids=["empty", "text", "32 bits", "another processor"],
)
def test_what_is_no_library_for_x86_64_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(NotAnElfFile):
        Library(tmp_path / "file")


def test_a_written_library_has_functions_data_imports_and_an_initializer(tmp_path: Path) -> None:
    made = SharedObject("libmade.so", needed=("libc.so.6",), versions={"answer": "MADE_1", "other": "MADE_2"})
    made.function("answer", [b"\xb8\x2a\0\0\0\xc3"])  # mov eax, 42; ret
    made.function("other", [b"\xb8\x2b\0\0\0\xc3"])
    made.function("absolute", [b"\xff\x25", Imported("abs")])  # jmp
    made.function("word", [b"\x48\x8d\x05", Local("text"), b"\xc3"])  # lea rax; ret
    made.text("text", "a word")
    made.data("pointer", bytes(16), {8: Pointer("text", 2)}, exported=True)
    made.data("count", bytes(4), exported=True)
    made.function("begin", [b"\xff\x05", Local("count"), b"\xc3"], exported=False)  # inc dword
    made.initializer("begin")
    path = tmp_path / "libmade.so"
    path.write_bytes(made.encode())
    library = ctypes.CDLL(str(path))
    assert (library.answer(), library.other(), library.absolute(-5)) == (42, 43, 5)
    library.word.restype = ctypes.c_char_p
    assert library.word() == b"a word"
    assert (ctypes.c_char_p * 2).in_dll(library, "pointer")[1] == b"word"
    assert ctypes.c_int.in_dll(library, "count").value == 1
    with pytest.raises(AttributeError):
        library.begin  # noqa: B018 (it is not exported)


def test_an_unknown_label_is_an_error() -> None:
    made = SharedObject("libmade.so")
    made.function("word", [b"\x48\x8d\x05", Local("nowhere"), b"\xc3"])
    with pytest.raises(KeyError, match="nowhere"):
        made.encode()
