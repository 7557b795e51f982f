"""What the small libraries answer that take the place of CUDA's and of PyTorch's CUDA kernels.

PyTorch's libraries for CPUs link those for CUDA, so that they do not load without them. A stand-in has each symbol that
they want. What a script asks of CUDA gets the answer that the real libraries give where there is no NVIDIA driver: most
requests end in PyTorch's own check for one, in libc10_cuda.so, which stays.
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch_without_cuda.elf import Library
from torch_without_cuda.shared_object import Code, Imported, Local, Pointer, SharedObject

#: NVIDIA's libraries, by the names that PyTorch's libraries ask for.
NVIDIA = re.compile(r"lib(cu\w+|nccl|nv\w+)\.so\.\d+$")
KERNELS = "libtorch_cuda.so"
#: `c10::cuda::device_count_ensure_non_zero()` throws `Found no NVIDIA driver on your system`. It takes no arguments and
#: never returns here, so a function of any signature may end in it.
NO_DRIVER = "_ZN3c104cuda28device_count_ensure_non_zeroEv"
#: `c10::cuda::current_device()` throws `CUDA driver version is insufficient for CUDA runtime version`.
CURRENT_DEVICE = "_ZN3c104cuda14current_deviceEv"
#: `c10::detail::torchCheckFail(function, file, line, text)` throws a RuntimeError.
CHECK_FAIL = "_ZN3c106detail14torchCheckFailEPKcS2_jS2_"
HOOKS_TABLE, GET_HOOKS = "_ZTVN2at18CUDAHooksInterfaceE", "_ZN2at6detail12getCUDAHooksEv"
CLASS_INFO = "_ZTVN10__cxxabiv117__class_type_infoE"

#: What each library returns without a driver: cudaErrorInsufficientDriver, CUDNN_STATUS_NOT_INITIALIZED,
#: CUPTI_ERROR_NOT_INITIALIZED, CU_FILE_DRIVER_NOT_INITIALIZED.
INSUFFICIENT_DRIVER = 35
STATUS = {"libcudart": INSUFFICIENT_DRIVER, "libcudnn": 1001, "libcupti": 15, "libcufile": 5001}
INSUFFICIENT_DRIVER_TEXT = "CUDA driver version is insufficient for CUDA runtime version"
#: PyTorch's own names, mangled: functions, virtual tables and types of its namespaces.
PYTORCH = re.compile(r"_Z(T[ISV])?NK?(2at|3c10|4c10d|3sdp|5torch)\d")
#: Words of an imported virtual table: more than any class of PyTorch has.
TABLE_WORDS = 64

#: Methods of PyTorch's CUDA hooks, and what they return with CUDA's libraries, driver or not.
TRUE_HOOKS = (
    *("isBuilt", "hasCUDART", "hasCuDNN", "hasCuSOLVER", "hasCuBLASLt", "hasMAGMA", "compiledWithCuDNN"),
    "supportsDilatedConvolutionWithCuDNN",
)
#: Methods that need a device.
DEVICE_HOOKS = (
    *("init", "initCUDA", "showConfig", "deviceSynchronize", "nvrtc", "getDeviceFromPtr"),
    *("getDefaultGenerator", "getDefaultCUDAGenerator", "getCUDADeviceAllocator"),
    *("cuFFTGetPlanCacheMaxSize", "cuFFTSetPlanCacheMaxSize", "cuFFTGetPlanCacheSize", "cuFFTClearPlanCache"),
)

#: Functions of the CUDA kernels that need no device. PyTorch calls the first when it is loaded, and writes into what
#: it returns.
VARIABLES = ("_ZN4c10d15get_gil_checkerEv",)
TRUE = ("_ZN3sdp28is_flash_attention_availableEv",)
FALSE = (
    "_ZN4c10d17nvshmem_extension20is_nvshmem_availableEv",
    "_ZN3sdp23can_use_flash_attentionERKNS_10sdp_paramsEb",
    "_ZN3sdp27can_use_mem_efficient_attentionERKNS_10sdp_paramsEb",
    "_ZN3sdp23can_use_cudnn_attentionERKNS_10sdp_paramsEb",
)
NCCL_VERSION = "_ZN5torch4cuda4nccl7versionEv"
NCCL_SUFFIX = "_ZN5torch4cuda4nccl14version_suffixEv"
#: Constructors: of a graph, of NCCL's process group and of its options.
CURRENT_DEVICE_FIRST = re.compile(r"_ZN2at4cuda(9CUDAGraphC[12]E|5sleepE)")
NCCL_GROUP = re.compile(r"_ZN4c10d16ProcessGroupNCCL(7Options)?C[12]E")
NO_GPUS = "ProcessGroupNCCL is only supported with GPUs, no GPUs found!"
NOTHING_TO_DO = ("_ZN2at4cuda21clearCublasWorkspacesEv", "_ZN5torch14CudaIPCCollectEv")
#: What libraries with CUDA kernels of their own want, such as torchvision's and torchaudio's. They register their
#: kernels when they are loaded, and call the others for tensors on a GPU.
WANTED_BY_OTHERS = {
    KERNELS: ("_ZN2at4cuda26getCurrentDevicePropertiesEv",),
    "libcudart": (
        *("__cudaInitModule", "__cudaRegisterFatBinary", "__cudaRegisterFatBinaryEnd", "__cudaUnregisterFatBinary"),
        *("__cudaRegisterFunction", "__cudaRegisterVar", "__cudaRegisterManagedVar"),
        *("__cudaPushCallConfiguration", "__cudaPopCallConfiguration", "cudaLaunchKernel", "cudaLaunchKernelExC"),
        *("cudaDeviceGetAttribute", "cudaDeviceSynchronize", "cudaFuncGetAttributes", "cudaFuncSetAttribute"),
        *("cudaMalloc", "cudaMallocAsync", "cudaMallocHost", "cudaHostAlloc", "cudaFree", "cudaFreeHost"),
        *("cudaMemcpy", "cudaMemcpyAsync", "cudaMemcpy2D", "cudaMemcpy2DAsync", "cudaMemcpyToSymbol"),
        *("cudaMemset", "cudaMemsetAsync", "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags"),
        *("cudaPeekAtLastError", "cudaStreamCreate", "cudaStreamCreateWithFlags", "cudaStreamDestroy"),
    ),
}


class UnknownLayout(ValueError):
    """This release of PyTorch is built in another way than the ones that the stand-ins are made for."""


@dataclass(frozen=True)
class CudaVersions:
    """The versions of CUDA's libraries that a release of PyTorch asks for: `12.8.90`, `9.10.2.21`."""

    runtime: str
    cudnn: str
    nccl: str

    @property
    def runtime_number(self) -> int:
        major, minor = _numbers(self.runtime)[:2]
        return major * 1000 + minor * 10

    @property
    def nccl_number(self) -> int:
        major, minor, patch = _numbers(self.nccl)[:3]
        return major << 32 | minor << 16 | patch

    @property
    def cudnn_parts(self) -> list[int]:
        return _numbers(self.cudnn)[:3]

    @property
    def cudnn_number(self) -> int:
        major, minor, patch = self.cudnn_parts
        return major * (10_000 if major >= 9 else 1000) + minor * 100 + patch


def stand_ins(libraries: Mapping[str, Library], versions: CudaVersions) -> dict[str, bytes]:
    """The stand-ins by file name: one for each library that `libraries`, by file name, need and that is not among them.

    Raises UnknownLayout.
    """
    missing = {name for library in libraries.values() for name in library.needed} - libraries.keys()
    names = sorted(name for name in missing if name == KERNELS or NVIDIA.match(name))
    if KERNELS not in names:
        raise UnknownLayout(f"no library of this PyTorch asks for {KERNELS}")
    wanted = _wanted(libraries, names)
    made = {}
    for name in names:
        if name == KERNELS:
            made[name] = _kernels(wanted[name], libraries, versions).encode()
        else:
            made[name] = _nvidia(name, wanted[name], versions).encode()
    return made


def _wanted(libraries: Mapping[str, Library], names: Iterable[str]) -> dict[str, dict[str, str]]:
    """By stand-in, the symbols it must have, with their versions (empty: none).

    A symbol with a version names its library. Neither PyTorch's own symbols nor those of cuFile have one. Others
    without a version are Python's, or the C++ library's.
    """
    offered = {symbol.name for library in libraries.values() for symbol in library.symbols if symbol.is_defined}
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for name in names:
        # NVIDIA names the one version of its symbols after the library.
        others = WANTED_BY_OTHERS.get(name) or WANTED_BY_OTHERS.get(_stem(name), ())
        found[name].update(dict.fromkeys(others, "" if name == KERNELS else name))
    for library in libraries.values():
        for symbol in library.symbols:
            if symbol.is_defined or symbol.is_weak or symbol.name in offered or not symbol.name:
                continue
            if symbol.version is not None:
                file, version = symbol.version
                if file in names:
                    found[file][symbol.name] = version
            elif PYTORCH.match(symbol.name):
                found[KERNELS][symbol.name] = ""
            elif symbol.name.startswith("cuFile"):
                found[next(name for name in names if _stem(name) == "libcufile")][symbol.name] = ""
    return found


def _nvidia(name: str, wanted: Mapping[str, str], versions: CudaVersions) -> SharedObject:
    made = SharedObject(name, versions={symbol: version for symbol, version in wanted.items() if version})
    made.function("sagelet_stand_in", [RETURN], exported=False)
    made.text("error", INSUFFICIENT_DRIVER_TEXT)
    made.text("error name", "cudaErrorInsufficientDriver")
    made.text("result", "CUPTI_ERROR_NOT_INITIALIZED")
    made.data("cudnn", struct.pack("<3i", *versions.cudnn_parts))
    known = _known_functions(versions)
    for symbol in sorted(wanted):
        made.function(symbol, known.get(symbol) or _give(STATUS.get(_stem(name), 1)))
    return made


def _known_functions(versions: CudaVersions) -> dict[str, Code]:
    """Functions of NVIDIA's libraries that need no driver."""
    return {
        **{name: _give(0) for name in WANTED_BY_OTHERS["libcudart"] if name.startswith("__cuda")},
        "cudaDriverGetVersion": _store(0),
        "cudaRuntimeGetVersion": _store(versions.runtime_number),
        "cudaGetLastError": _give(0),
        "cudaPeekAtLastError": _give(0),
        "cudaGetErrorString": _address("error"),
        "cudaGetErrorName": _address("error name"),
        # The address of the text goes where the second argument points.
        "cuptiGetResultString": [*_address("result")[:2], b"\x48\x89\x06", ZERO, RETURN],
        "cudnnGetVersion": _give(versions.cudnn_number),
        # The first argument, a number, chooses the part; it goes where the second points.
        "cudnnGetProperty": [*_address("cudnn")[:2], b"\x89\xff\x8b\x0c\xb8\x89\x0e", ZERO, RETURN],
    }


def _kernels(wanted: Mapping[str, str], libraries: Mapping[str, Library], versions: CudaVersions) -> SharedObject:
    made = SharedObject(
        KERNELS, needed=("libc10_cuda.so", "libtorch_cpu.so", "libc10.so", "libstdc++.so.6"), runpath="$ORIGIN"
    )
    made.function("no driver", _jump(NO_DRIVER), exported=False)
    made.text("empty", "")
    made.text("no GPUs", NO_GPUS)
    for symbol in sorted(wanted):
        if symbol.startswith("_ZTI"):
            made.text(f"name of {symbol}", symbol[len("_ZTI") :])
            made.data(symbol, bytes(16), {0: Pointer(CLASS_INFO, 16), 8: Pointer(f"name of {symbol}")}, exported=True)
        elif symbol.startswith("_ZTV"):
            slots = {8 * slot: Pointer("no driver") for slot in range(2, TABLE_WORDS)}
            made.data(symbol, bytes(8 * TABLE_WORDS), slots, exported=True)
        elif symbol in VARIABLES:
            made.data(f"variable of {symbol}", bytes(8))
            made.function(symbol, _address(f"variable of {symbol}"))
        else:
            made.function(symbol, _kernel(symbol, versions))
    _replace_hooks(made, libraries, versions)
    return made


def _kernel(symbol: str, versions: CudaVersions) -> Code:
    if symbol in TRUE:
        return _give(1)
    if symbol == NCCL_VERSION:
        return [b"\x48\xb8" + struct.pack("<Q", versions.nccl_number), RETURN]  # mov rax
    if symbol == NCCL_SUFFIX:
        return _address("empty")
    if NCCL_GROUP.match(symbol):
        return _fail("no GPUs")
    if CURRENT_DEVICE_FIRST.match(symbol):
        return _jump(CURRENT_DEVICE)
    if symbol in FALSE or symbol in NOTHING_TO_DO:
        return _give(0)
    return _jump(NO_DRIVER)


def _replace_hooks(made: SharedObject, libraries: Mapping[str, Library], versions: CudaVersions) -> None:
    """Gives PyTorch's CUDA hooks the methods that the real kernels give them.

    The real ones register an object of a class of their own. Without them PyTorch makes one of the base class, whose
    methods are right in all but those of `_hooks`. So the object gets a copy of its class's virtual table with these
    replaced, as soon as the linker has loaded the stand-in.
    """
    try:
        methods = libraries["libtorch_cpu.so"].methods(HOOKS_TABLE)
    except KeyError as error:
        raise UnknownLayout(f"libtorch_cpu.so has no {error}") from error
    pointers = {}
    for name, code in _hooks(versions).items():
        slots = [slot for slot, method in enumerate(methods) if method is not None and _method(method) == name]
        for slot in slots:
            made.function(f"hook {name}", code, exported=False)
            pointers[8 * slot] = Pointer(f"hook {name}")
    if not any(f"hook {name}" in {pointer.target for pointer in pointers.values()} for name in ("init", "initCUDA")):
        raise UnknownLayout("the initialization of CUDA was not found among the methods of at::CUDAHooksInterface")
    made.data("hooks", bytes(8 * len(methods)), pointers)
    made.function("replace hooks", _copy_missing("hooks", len(methods)), exported=False)
    made.initializer("replace hooks")


def _hooks(versions: CudaVersions) -> dict[str, Code]:
    hooks: dict[str, Code] = {name: _give(1) for name in TRUE_HOOKS}
    hooks.update({name: _jump(NO_DRIVER) for name in DEVICE_HOOKS})
    hooks["getNewGenerator"] = _jump(CURRENT_DEVICE)
    hooks["versionCuDNN"] = _give(versions.cudnn_number)
    hooks["versionCUDART"] = _give(versions.runtime_number)
    return hooks


def _copy_missing(table: str, words: int) -> Code:
    """Fills the words of `table` that are 0 from the virtual table of the hooks, and makes it theirs."""
    return [
        b"\x53",  # push rbx: aligns the stack for the call
        b"\xff\x15", Imported(GET_HOOKS),  # call: rax is the object
        b"\x48\x8b\x08",  # mov rcx, [rax]: its virtual table, past the two words in front of the methods
        b"\x48\x8d\x15", Local(table),  # lea rdx
        b"\x31\xf6",  # xor esi, esi: the number of the word
        b"\x48\x83\x3c\xf2\x00",  # cmp qword [rdx + rsi * 8], 0
        b"\x75\x09",  # jne: over the copy
        b"\x48\x8b\x7c\xf1\xf0",  # mov rdi, [rcx + rsi * 8 - 16]
        b"\x48\x89\x3c\xf2",  # mov [rdx + rsi * 8], rdi
        b"\xff\xc6",  # inc esi
        b"\x81\xfe" + struct.pack("<I", words),  # cmp esi, words
        b"\x75\xe6",  # jne: to the first cmp
        b"\x48\x83\xc2\x10",  # add rdx, 16
        b"\x48\x89\x10",  # mov [rax], rdx
        b"\x5b",  # pop rbx
        RETURN,
    ]  # fmt: skip


RETURN, ZERO = b"\xc3", b"\x31\xc0"


def _give(value: int) -> Code:
    """Returns an integer: `mov eax, value; ret`."""
    return [b"\xb8" + struct.pack("<I", value), RETURN]


def _store(value: int) -> Code:
    """Writes an integer of 32 bits where the first argument points, and returns 0: `mov dword [rdi], value`."""
    return [b"\xc7\x07" + struct.pack("<I", value), ZERO, RETURN]


def _address(label: str) -> Code:
    """Returns the address of data: `lea rax, [rip + label]; ret`."""
    return [b"\x48\x8d\x05", Local(label), RETURN]


def _fail(text: str) -> Code:
    """Throws PyTorch's RuntimeError with the text of that label."""
    empty = Local("empty")
    return [
        b"\x48\x8d\x3d", empty,  # lea rdi: the function
        b"\x48\x8d\x35", empty,  # lea rsi: the file
        b"\x31\xd2",  # xor edx, edx: the line
        b"\x48\x8d\x0d", Local(text),  # lea rcx
        *_jump(CHECK_FAIL),
    ]  # fmt: skip


def _jump(symbol: str) -> Code:
    """Ends in another library's function, with the caller's arguments: `jmp [rip + symbol]`."""
    return [b"\xff\x25", Imported(symbol)]


def _method(mangled: str) -> str:
    """`_ZNK2at18CUDAHooksInterface4initEv` -> `init`; empty for other names (Itanium C++ ABI, 5.1)."""
    found = re.match(r"_ZNK?2at\d+\w*?Interface(\d+)(\w+)", mangled)
    return found[2][: int(found[1])] if found else ""


def _stem(name: str) -> str:
    return name.partition(".")[0]


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]
