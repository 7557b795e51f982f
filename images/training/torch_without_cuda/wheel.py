"""Rewrites PyTorch's wheel: without CUDA kernels and NVIDIA's packages, with stand-ins for what is linked."""

from __future__ import annotations

import base64
import copy
import csv
import hashlib
import io
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

from torch_without_cuda.elf import Library
from torch_without_cuda.stand_ins import CudaVersions, UnknownLayout, stand_ins

#: What is left out: kernels for GPUs, and what only they load.
DROPPED = re.compile(r"torch/lib/lib(torch_cuda\w*|torch_nvshmem|nvfuser\w*|caffe2_nvrtc)\.so$")
#: The libraries that every process with PyTorch loads.
KEPT = ("libtorch_cpu", "libtorch_python", "libtorch", "libshm", "libc10", "libc10_cuda", "libtorch_global_deps")
LIBRARIES = "torch/lib"
REQUIREMENT = re.compile(rb"(?m)^Requires-Dist: *(?:nvidia-[\w-]+|triton|pytorch-triton)\b.*\n")
ANY_REQUIREMENT = re.compile(rb"(?m)^Requires-Dist: .*\n")
#: Beside the wheel's other data: says what was done to it, and by which version of these modules.
MARKER = "WITHOUT_CUDA.txt"
MARKER_TEXT = """\
sagelet installed PyTorch's wheel without its CUDA kernels. Small libraries, made by sagelet, take the place of these
libraries; `torch.cuda.is_available()` is False. An ordinary installation: pip install --force-reinstall torch

revision {revision}
{libraries}
"""


def without_cuda(wheel: Path, directory: Path) -> Path:
    """Writes the rewritten wheel into `directory`, under the same name, and gives its path.

    It is not compressed: pip unpacks it at once. Needs 1.2 GB in `directory` for torch 2.9. Raises UnknownLayout where
    the wheel is not built like the ones that this is made for.
    """
    target = directory / wheel.name
    with ZipFile(wheel) as source:
        information = _information(source)
        metadata = source.read(f"{information}/METADATA")
        with TemporaryDirectory(dir=directory) as libraries:
            made = stand_ins(_libraries(source, Path(libraries)), _cuda_versions(metadata))
        changed = {f"{LIBRARIES}/{name}": content for name, content in made.items()}
        changed[f"{information}/METADATA"] = REQUIREMENT.sub(b"", metadata)
        changed[f"{information}/{MARKER}"] = _marker(made)
        changed[f"{information}/RECORD"] = _record(source, information, changed)
        with ZipFile(target, "w", ZIP_STORED) as written:
            _copy(source, written, changed)
    return target


def without_requirements(wheel: Path, directory: Path, *, compressed: bool = False) -> Path:
    """Writes the wheel into `directory`, under the same name, so that it requires no package. Gives its path."""
    target = directory / wheel.name
    with ZipFile(wheel) as source, ZipFile(target, "w", ZIP_DEFLATED if compressed else ZIP_STORED) as written:
        information = _information(source)
        changed = {f"{information}/METADATA": ANY_REQUIREMENT.sub(b"", source.read(f"{information}/METADATA"))}
        changed[f"{information}/RECORD"] = _record(source, information, changed)
        _copy(source, written, changed)
    return target


def revision() -> str:
    """A digest of these modules. An installation of another revision is made anew."""
    here = Path(__file__).parent
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(here.glob("*.py")))).hexdigest()[:16]


def _information(wheel: ZipFile) -> str:
    names = {name.partition("/")[0] for name in wheel.namelist()}
    found = [name for name in names if name.endswith(".dist-info")]
    if len(found) != 1:
        raise UnknownLayout(f"{wheel.filename} has no single .dist-info directory")
    return found[0]


def _libraries(wheel: ZipFile, directory: Path) -> dict[str, Library]:
    members = [f"{LIBRARIES}/{name}.so" for name in KEPT]
    missing = set(members) - set(wheel.namelist())
    if missing:
        raise UnknownLayout(f"{wheel.filename} has no {', '.join(sorted(missing))}")
    wheel.extractall(directory, members)
    return {Path(member).name: Library(directory / member) for member in members}


def _cuda_versions(metadata: bytes) -> CudaVersions:
    def version_of(package: str) -> str:
        found = re.search(rf"(?m)^Requires-Dist: *nvidia-{package}-cu\d+ *\(?==([\d.]+)", metadata.decode())
        if found is None:
            raise UnknownLayout(f"this PyTorch does not require nvidia-{package}: it is built without CUDA")
        return found[1]

    return CudaVersions(version_of("cuda-runtime"), version_of("cudnn"), version_of("nccl"))


def _marker(made: Mapping[str, bytes]) -> bytes:
    return MARKER_TEXT.format(revision=revision(), libraries="\n".join(sorted(made))).encode()


def _record(source: ZipFile, information: str, changed: Mapping[str, bytes]) -> bytes:
    own = f"{information}/RECORD"
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in csv.reader(source.read(own).decode().splitlines()):
        if row[0] not in changed and row[0] != own and not DROPPED.match(row[0]):
            writer.writerow(row)
    for name, content in changed.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        writer.writerow([name, f"sha256={digest}", len(content)])
    writer.writerow([own, "", ""])
    return text.getvalue().encode()


def _copy(source: ZipFile, target: ZipFile, changed: Mapping[str, bytes]) -> None:
    for member in source.infolist():
        if member.filename in changed or DROPPED.match(member.filename):
            continue
        # A copy: writing changes the places and sizes that reading needs.
        copied = copy.copy(member)
        copied.compress_type = target.compression
        with source.open(member) as stream, target.open(copied, "w", force_zip64=True) as out:
            shutil.copyfileobj(stream, out, 1 << 20)
    for name, content in changed.items():
        target.writestr(name, content)
