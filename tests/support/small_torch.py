"""A wheel that is built like PyTorch's ordinary one for Linux, with libraries of a few functions. Needs gcc."""

import base64
import hashlib
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path

NAME = "torch-2.9.0-cp311-cp311-manylinux_2_28_x86_64.whl"
INFORMATION = "torch-2.9.0.dist-info"
METADATA = """\
Metadata-Version: 2.1
Name: torch
Version: 2.9.0
Requires-Dist: filelock
Requires-Dist: nvidia-cuda-runtime-cu12==12.8.90; platform_system == "Linux" and platform_machine == "x86_64"
Requires-Dist: nvidia-cudnn-cu12==9.10.2.21; platform_system == "Linux" and platform_machine == "x86_64"
Requires-Dist: nvidia-nccl-cu12==2.27.5; platform_system == "Linux" and platform_machine == "x86_64"
Requires-Dist: triton==3.5.0; platform_system == "Linux" and platform_machine == "x86_64"
Requires-Dist: opt-einsum>=3.3; extra == "opt-einsum"
"""

#: NVIDIA's libraries, by soname: what PyTorch's are linked against and what the wheel does not bring.
NVIDIA = {
    "libcudart.so.12": (
        "int cudaMalloc(void) { return 0; } int cudaGetLastError(void) { return 7; } "
        "int cudaRuntimeGetVersion(int *version) { *version = 1; return 7; } "
        'const char *cudaGetErrorString(int error) { return "real"; }'
    ),
    "libcudnn.so.9": (
        "unsigned long cudnnGetVersion(void) { return 1; } int cudnnGetProperty(int part, int *value) { return 7; } "
        "int cudnnCreate(void) { return 0; }"
    ),
    "libcufile.so.0": "long cuFileRead(void) { return 0; }",
    "libcusparseLt.so.0": "int unused;",
}
#: The kernels for GPUs, which the wheel brings.
KERNELS = """
int sleep_(long cycles) __asm__("_ZN2at4cuda5sleepEl");
int sleep_(long cycles) { return 0; }
int device(void) __asm__("_ZN2at4cuda19getDevicePropertiesEa");
int device(void) { return 0; }
const char *nccl(void) __asm__("_ZN4c10d16ProcessGroupNCCL7OptionsC1Eb");
const char *nccl(void) { return "real"; }
int flash(void) __asm__("_ZN3sdp28is_flash_attention_availableEv");
int flash(void) { return 1; }
void *variable;
void **checker(void) __asm__("_ZN4c10d15get_gil_checkerEv");
void **checker(void) { return &variable; }
unsigned long version(void) __asm__("_ZN5torch4cuda4nccl7versionEv");
unsigned long version(void) { return 1; }
void *type[2] __asm__("_ZTIN4c10d16ProcessGroupNCCLE");
void *table[4] __asm__("_ZTVN5torch3jit10tensorexpr11CudaCodeGenE");
"""
SOURCES = {
    "libc10.so": """
        const char *fail(const char *function, const char *file, unsigned line, const char *text)
            __asm__("_ZN3c106detail14torchCheckFailEPKcS2_jS2_");
        const char *fail(const char *function, const char *file, unsigned line, const char *text) { return text; }
    """,
    "libc10_cuda.so": """
        int cudaMalloc(void);
        int none(void) __asm__("_ZN3c104cuda28device_count_ensure_non_zeroEv");
        int none(void) { return 4711; }
        int current(void) __asm__("_ZN3c104cuda14current_deviceEv");
        int current(void) { return 4712; }
        int ask_malloc(void) { return cudaMalloc(); }
    """,
    "libtorch_cpu.so": """
        static int init(void *self) __asm__("_ZNK2at18CUDAHooksInterface4initEv");
        static int init(void *self) { return 1001; }
        static int built(void *self) __asm__("_ZNK2at25AcceleratorHooksInterface7isBuiltEv");
        static int built(void *self) { return 0; }
        static int has_cuda(void *self) __asm__("_ZNK2at18CUDAHooksInterface7hasCUDAEv");
        static int has_cuda(void *self) { return 0; }
        static int version(void *self) __asm__("_ZNK2at18CUDAHooksInterface12versionCuDNNEv");
        static int version(void *self) { return 1002; }
        void *table[6] __asm__("_ZTVN2at18CUDAHooksInterfaceE") = {0, 0, init, built, has_cuda, version};
        static void *object = &table[2];
        void **hooks(void) __asm__("_ZN2at6detail12getCUDAHooksEv");
        void **hooks(void) { return &object; }
        int cudaGetLastError(void);
        int ask_last_error(void) { return cudaGetLastError(); }
    """,
    "libtorch.so": "int torch;",
    "libshm.so": "int shm;",
    "libtorch_global_deps.so": "int global_deps;",
    "libtorch_python.so": """
        int sleep_(long cycles) __asm__("_ZN2at4cuda5sleepEl");
        int device(void) __asm__("_ZN2at4cuda19getDevicePropertiesEa");
        const char *nccl(void) __asm__("_ZN4c10d16ProcessGroupNCCL7OptionsC1Eb");
        int flash(void) __asm__("_ZN3sdp28is_flash_attention_availableEv");
        void **checker(void) __asm__("_ZN4c10d15get_gil_checkerEv");
        unsigned long version(void) __asm__("_ZN5torch4cuda4nccl7versionEv");
        extern void *type[2] __asm__("_ZTIN4c10d16ProcessGroupNCCLE");
        extern void *table[4] __asm__("_ZTVN5torch3jit10tensorexpr11CudaCodeGenE");
        int (***hooks(void))(void *) __asm__("_ZN2at6detail12getCUDAHooksEv");
        int cudaMalloc(void); int cudaRuntimeGetVersion(int *); const char *cudaGetErrorString(int);
        unsigned long cudnnGetVersion(void); int cudnnGetProperty(int, int *); int cudnnCreate(void);
        long cuFileRead(void);
        void *Py_GetVersion(void);

        __attribute__((constructor)) static void loaded(void) { *checker() = (void *) 1; }
        int ask_hook(int slot) { return (*hooks())[slot](hooks()); }
        int ask_sleep(void) { return sleep_(1); }
        int ask_device(void) { return device(); }
        const char *ask_nccl(void) { return nccl(); }
        int ask_flash(void) { return flash(); }
        unsigned long ask_nccl_version(void) { return version(); }
        const char *ask_type(void) { return type[1]; }
        int ask_table(void) { return ((int (*)(void)) table[3])(); }
        int ask_runtime(void) { int version = 0; return cudaRuntimeGetVersion(&version) ? -1 : version; }
        const char *ask_error(void) { return cudaGetErrorString(3); }
        int ask_cudnn(void) { return (int) cudnnGetVersion(); }
        int ask_cudnn_part(int part) { int value = -1; return cudnnGetProperty(part, &value) ? -2 : value; }
        int ask_cudnn_create(void) { return cudnnCreate(); }
        long ask_file(void) { return cuFileRead(); }
        void *ask_python(void) { return Py_GetVersion(); }
    """,
}
#: What each library is linked against, besides all of NVIDIA's.
LINKED = {
    "libc10_cuda.so": ["libc10.so"],
    "libtorch_cpu.so": ["libc10.so"],
    "libtorch.so": ["libtorch_cpu.so", "libtorch_cuda.so"],
    "libshm.so": ["libtorch_cpu.so"],
    "libtorch_python.so": ["libtorch.so", "libtorch_cpu.so", "libtorch_cuda.so", "libc10_cuda.so", "libc10.so"],
}


def torch_wheel(directory: Path, *, has_cuda: bool = True) -> Path:
    """Builds the wheel in `directory`. `has_cuda`: as from the package index; else as from PyTorch's CPU index."""
    libraries = directory / "libraries"
    libraries.mkdir(parents=True)
    for soname, source in NVIDIA.items():
        version = "" if soname == "libcufile.so.0" else soname
        _library(libraries, soname, source, [], version)
    _library(libraries, "libtorch_cuda.so", KERNELS, [])
    _library(libraries, "libtorch_cuda_linalg.so", "int linalg;", [])
    for name, source in SOURCES.items():
        linked = LINKED.get(name, [])
        if has_cuda:
            linked = [*linked, *NVIDIA]
        else:
            linked = [other for other in linked if "cuda" not in other]
            source = "int without_cuda;"
        _library(libraries, name, source, linked)
    files = {f"torch/lib/{path.name}": path.read_bytes() for path in libraries.glob("*.so")}
    files["torch/__init__.py"] = b"version = '2.9.0'\n"
    metadata = METADATA if has_cuda else METADATA.replace("nvidia", "other")
    files[f"{INFORMATION}/METADATA"] = metadata.encode()
    files[f"{INFORMATION}/WHEEL"] = (
        b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-cp311-manylinux_2_28_x86_64\n"
    )
    files[f"{INFORMATION}/RECORD"] = "".join(record_line(name, files[name]) for name in files).encode()
    wheel = directory / NAME
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return wheel


def record_line(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def _library(directory: Path, name: str, source: str, linked: Sequence[str], version: str = "") -> None:
    options = [f"-Wl,-soname,{name}", "-Wl,-rpath,$ORIGIN", "-Wl,-z,lazy", "-Wl,--no-as-needed"]
    if version:
        script = directory / f"{name}.map"
        script.write_text(f"{version} {{ *; }};")
        options.append(f"-Wl,--version-script={script}")
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O1", "-w", *options, "-x", "c", "-", "-o", str(directory / name), "-x", "none"]
        + [str(directory / other) for other in linked],
        input=source,
        text=True,
        check=True,
    )
