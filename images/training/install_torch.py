#!/usr/bin/env python3
"""Installs torch, torch_xla and what fits them into the Python that runs this file, without CUDA or with it.

    python install_torch.py [--build auto|cpu|cuda] [--index-url URL] [--download DIRECTORY] [REQUIREMENT...]

uv installs, or pip where uv cannot be had (`installing`). Without CUDA there are two ways. Where PyTorch's index of CPU
wheels answers, the wheel is from there. Otherwise it is the ordinary one, and `torch_without_cuda` leaves out what is
for GPUs. That part is not even downloaded where the index allows it. The Dockerfile of the training image, `sagelet
install-torch`, `sagelet bundle` and `make setup` call this file. Standard library only, Python 3.9.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import re
import ssl
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent))

from installing.progress import Progress
from installing.remote_wheel import NotInRanges, RemoteWheel
from installing.tool import InstallFailed, choose
from torch_without_cuda.elf import NotAnElfFile
from torch_without_cuda.stand_ins import UnknownLayout
from torch_without_cuda.wheel import DROPPED, MARKER, revision, without_cuda, without_requirements

#: PyTorch's own index of wheels that are built without CUDA.
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
#: Seconds for that index to answer.
TIMEOUT_S = 5.0
VARIABLE = "SAGELET_TORCH_BUILD"
BUILDS = ("auto", "cpu", "cuda")
#: torch_xla has no release after 2.9.0, and its binary interface fits exactly one torch.
TORCH, TORCH_XLA = "2.9.0", "2.9.0"
#: XLA's CPU plugin, and the releases of torch_xla that load one.
CPU_PLUGIN, PLUGIN_RELEASES = Path(__file__).with_name("requirements-cpu-plugin.txt"), ("2.8", "2.9")
CPU_PLUGIN_NAME = "lammps-jax-pjrt-cpu"


@dataclass(frozen=True)
class Wanted:
    #: `cpu` or `cuda`.
    build: str
    torch: str = TORCH
    #: None: not installed.
    torch_xla: str | None = TORCH_XLA
    torchvision: str | None = None
    torchaudio: str | None = None
    #: An index for torch and its siblings alone, or None.
    index_url: str | None = None
    #: Requirements of other packages that are installed after torch.
    others: tuple[str, ...] = ()
    #: The directory in which the wheels are left. None: they are installed.
    folder: Path | None = None

    @property
    def siblings(self) -> list[str]:
        """Returns the packages whose binary interface fits one torch, as pip's requirements."""
        named = {"torchvision": self.torchvision, "torchaudio": self.torchaudio}
        return [f"{name}=={version}" for name, version in named.items() if version]


@dataclass(frozen=True)
class Installed:
    version: str
    #: The revision of `torch_without_cuda` that made it, or None.
    revision: str | None
    #: Whether it requires NVIDIA's packages.
    has_cuda: bool


@dataclass
class Installer:
    wanted: Wanted
    #: Does what `python -m pip` does with these arguments. Raises InstallFailed.
    pip: Callable[[Sequence[str]], None]
    #: True if the index at this address answers.
    answers: Callable[[str], bool]
    installed: Installed | None
    say: Callable[[str], None] = print
    #: True if the plugin of CPU_PLUGIN is installed.
    has_cpu_plugin: bool = False
    #: Returns the wheel of `NAME==VERSION` if parts of it can be asked for, else None.
    find_wheel: Callable[[str], RemoteWheel | None] = lambda _requirement: None
    progress: Progress = field(default_factory=Progress)

    def run(self) -> None:
        """Installs what is wanted. Raises InstallFailed."""
        wanted = self.wanted
        if wanted.build == "cuda":
            self._install_from(wanted.index_url, f"torch {wanted.torch} with CUDA: 5 GB to download, 7 GB installed")
        elif wanted.index_url is not None:
            self._install_from(wanted.index_url, f"torch {wanted.torch} from {wanted.index_url}")
        elif not self._is_there() and not self._install_from_cpu_index():
            self._install_without_cuda()
        if wanted.torch_xla:
            self.pip(["install", f"torch=={wanted.torch}", f"torch_xla=={wanted.torch_xla}"])
            self._install_cpu_plugin(wanted.torch_xla)
        if wanted.siblings:
            self.pip(["install", *self._index(wanted.index_url), f"torch=={wanted.torch}", *wanted.siblings])
        if wanted.others:
            self.pip(["install", f"torch=={wanted.torch}", *wanted.others])

    def download(self, folder: Path) -> None:
        """Leaves the wheels of torch and XLA's CPU plugin in the folder, and installs nothing. Raises InstallFailed."""
        wanted = self.wanted
        self._download_torch(folder)
        if wanted.torch_xla:
            self._cpu_plugin_wheel(wanted.torch_xla, folder, compressed=True)

    def _download_torch(self, folder: Path) -> None:
        wanted = self.wanted
        index = wanted.index_url
        if wanted.build == "cpu" and index is None:
            if not self.answers(CPU_INDEX):
                self._wheel_without_cuda(folder)
                return
            index = CPU_INDEX
        self._download(folder, index)

    def _install_cpu_plugin(self, torch_xla: str) -> None:
        """Installs XLA's CPU plugin. Where it cannot be had, jobs use torch_xla's own client, and their logs say so."""
        if self.has_cpu_plugin:
            return
        with TemporaryDirectory(prefix="install-torch-") as folder:
            if self._cpu_plugin_wheel(torch_xla, Path(folder)):
                again = ["--force-reinstall", "--no-index", "--no-deps", "--find-links", folder]
                self.pip(["install", *again, CPU_PLUGIN_NAME])

    def _cpu_plugin_wheel(self, torch_xla: str, folder: Path, *, compressed: bool = False) -> bool:
        """Leaves the wheel of XLA's CPU plugin in the folder. Returns False if it cannot be had or loaded."""
        if ".".join(torch_xla.split(".")[:2]) not in PLUGIN_RELEASES:
            return False
        options = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", str(CPU_PLUGIN)]
        with TemporaryDirectory(prefix="install-torch-") as downloads:
            try:
                self.pip(["download", "--dest", f"{downloads}/wheels", *options])
            except InstallFailed as error:
                self.say(f"Without XLA's CPU plugin, so without a compile cache on CPUs: {error}")
                return False
            (wheel,) = Path(downloads, "wheels").iterdir()
            # It requires jax, which no job needs. `pip check`, and each installation of a job, would say so.
            without_requirements(wheel, folder, compressed=compressed)
        return True

    def _download(self, folder: Path, index: str | None = None) -> None:
        torch = f"torch=={self.wanted.torch}"
        self.pip(["download", *self._index(index), "--no-deps", "--only-binary", ":all:", "--dest", str(folder), torch])

    def _is_there(self) -> bool:
        found = self.installed
        if found is None or found.version.partition("+")[0] != self.wanted.torch:
            return False
        if found.has_cuda or found.revision not in (None, revision()):
            return False
        self.say(f"torch {found.version} without CUDA is installed")
        return True

    def _install_from_cpu_index(self) -> bool:
        if not self.answers(CPU_INDEX):
            self.say(f"{CPU_INDEX} does not answer")
            return False
        try:
            self._install_from(CPU_INDEX, f"torch {self.wanted.torch} without CUDA, from PyTorch's index")
        except InstallFailed as error:
            self.say(f"{CPU_INDEX}: {error}")
            return False
        # So that the siblings are of the same build.
        self.pip(["install", "--index-url", CPU_INDEX, f"torch=={self.wanted.torch}", *self.wanted.siblings])
        return True

    def _install_from(self, index: str | None, what: str) -> None:
        self.say(what)
        again = self._has_other_build()
        if again:
            self.pip(["install", *self._index(index), "--force-reinstall", "--no-deps", f"torch=={self.wanted.torch}"])
        self.pip(["install", *self._index(index), f"torch=={self.wanted.torch}"])

    def _has_other_build(self) -> bool:
        found = self.installed
        if found is None or found.version.partition("+")[0] != self.wanted.torch:
            return False
        return found.has_cuda != (self.wanted.build == "cuda")

    def _install_without_cuda(self) -> None:
        torch = f"torch=={self.wanted.torch}"
        with TemporaryDirectory(prefix="install-torch-") as folder:
            if self._wheel_without_cuda(Path(folder)):
                # Without an index pip records no place that the wheel came from: `pip freeze` prints torch==VERSION.
                self.pip(["install", "--no-index", "--no-deps", "--force-reinstall", "--find-links", folder, torch])
        self.pip(["install", torch])

    def _wheel_without_cuda(self, folder: Path) -> bool:
        """Leaves torch's wheel in the folder. Returns False if it is the ordinary one."""
        with TemporaryDirectory(prefix="torch-", dir=folder) as downloads:
            wheel = self._fetch_what_is_kept(Path(downloads))
            is_whole = wheel is None
            if wheel is None:
                self.say(f"torch {self.wanted.torch} without CUDA: 900 MB to download, 600 MB installed")
                self._download(Path(downloads))
                (wheel,) = Path(downloads).iterdir()
            try:
                with self.progress.step("leaving out what is for GPUs"):
                    without_cuda(wheel, folder)
            except (UnknownLayout, NotAnElfFile) as error:
                self.say(f"The ordinary torch is taken, because {error}")
                if is_whole:
                    wheel.rename(folder / wheel.name)
                else:
                    self._download(folder)
                return False
        return True

    def _fetch_what_is_kept(self, folder: Path) -> Path | None:
        """Leaves torch's wheel in the folder, without the content of what is for GPUs. None if that is not possible."""
        remote = self.find_wheel(f"torch=={self.wanted.torch}")
        if remote is None:
            return None
        self.say(f"torch {self.wanted.torch} without CUDA: 150 MB of 900 MB to download, 600 MB installed")
        with self.progress.step(f"torch {self.wanted.torch}, what is not for GPUs") as step:

            def show(done: int, total: int) -> None:
                step.now = f"{done / 1e6:.0f} of {total / 1e6:.0f} MB"

            try:
                return remote.fetch(folder, DROPPED, show)
            except NotInRanges as error:
                self.say(f"The whole wheel is downloaded, because {error}")
                return None

    def _index(self, url: str | None) -> list[str]:
        return [] if url is None else ["--index-url", url]


def is_reachable(url: str, timeout: float = TIMEOUT_S, environ: Mapping[str, str] = os.environ) -> bool:
    """True if the index answers within `timeout` seconds. Certificates are pip's, where PIP_CERT names them."""
    certificates = environ.get("PIP_CERT") or None
    try:
        context = ssl.create_default_context(cafile=certificates)
        request = urllib.request.Request(url + "/torch/", method="HEAD")
        with urllib.request.urlopen(request, timeout=timeout, context=context) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError, HTTPException):
        return False


def installed_torch() -> Installed | None:
    """Returns the torch of this Python, from its metadata. It is not imported."""
    try:
        found = importlib.metadata.distribution("torch")
    except importlib.metadata.PackageNotFoundError:
        return None
    marker = found.read_text(MARKER)
    named = re.search(r"(?m)^revision (\w+)$", marker) if marker else None
    has_cuda = any(requirement.startswith("nvidia-") for requirement in found.requires or ())
    return Installed(found.version, named[1] if named else None, has_cuda)


def has_cpu_plugin() -> bool:
    """True if this Python has the pinned release of XLA's CPU plugin, as this file installs it."""
    try:
        found = importlib.metadata.distribution(CPU_PLUGIN_NAME)
    except importlib.metadata.PackageNotFoundError:
        return False
    return f"{CPU_PLUGIN_NAME}=={found.version} " in CPU_PLUGIN.read_text() and not found.requires


def unneeded_packages() -> list[str]:
    """Returns NVIDIA's packages and triton, if they are installed and no installed package requires them."""
    distributions = list(importlib.metadata.distributions())
    names = {_normal(found.metadata["Name"]) for found in distributions if found.metadata["Name"]}
    required = {
        _normal(re.split(r"[^\w.-]", text, maxsplit=1)[0]) for found in distributions for text in found.requires or ()
    }
    cuda = {name for name in names if re.match(r"nvidia-\w+(-\w+)*-cu\d+$|triton$", name)}
    return sorted(cuda - required)


def can_be_rewritten() -> bool:
    """True if PyTorch's ordinary wheel for this machine has CUDA in it, and the stand-ins are for its processor."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


def wanted(arguments: Sequence[str]) -> Wanted:
    parser = argparse.ArgumentParser(description="Installs torch and torch_xla, without CUDA or with it.")
    parser.add_argument("--build", choices=BUILDS, default=os.environ.get(VARIABLE) or "auto", help="auto: cpu")
    parser.add_argument("--torch", default=TORCH)
    parser.add_argument("--torch-xla", default=TORCH_XLA, help="empty: none")
    parser.add_argument("--torchvision", default="")
    parser.add_argument("--torchaudio", default="")
    parser.add_argument("--index-url", default="", help="an index for torch, torchvision and torchaudio alone")
    parser.add_argument(
        "--download",
        default="",
        metavar="DIRECTORY",
        help="leave the wheels of torch and the plugin there",
    )
    parser.add_argument("others", nargs="*", metavar="REQUIREMENT", help="other packages, installed after torch")
    given = parser.parse_args(arguments)
    if given.build not in BUILDS:
        parser.error(f"{VARIABLE}={given.build}: it is {', '.join(BUILDS)}")
    return Wanted(
        build="cpu" if given.build == "auto" else given.build,
        folder=Path(given.download) if given.download else None,
        torch=given.torch,
        torch_xla=given.torch_xla or None,
        torchvision=given.torchvision or None,
        torchaudio=given.torchaudio or None,
        index_url=given.index_url or None,
        others=tuple(given.others),
    )


def main(arguments: Sequence[str]) -> int:
    want = wanted(arguments)
    say = partial(print, flush=True)
    progress = Progress()
    try:
        with progress.step("what installs"):
            tool = choose(say=progress.say)
    except InstallFailed as error:
        print(f"torch was not installed: {error}", file=sys.stderr)
        return 1
    installer = Installer(want, tool, is_reachable, installed_torch(), say, has_cpu_plugin(), tool.find_wheel, progress)
    if not can_be_rewritten():
        # There pip's wheel is for CPUs, or there is none.
        installer.wanted = Wanted(**{**vars(want), "build": "cuda"})
    started = time.monotonic()
    try:
        with progress.shown():
            if want.folder is not None:
                installer.download(want.folder)
                return 0
            installer.run()
    except InstallFailed as error:
        print(f"torch was not installed: {error}", file=sys.stderr)
        return 1
    if want.build == "cpu" and (left := unneeded_packages()):
        print(f"No package needs these any more: pip uninstall {' '.join(left)}")
    print(f"torch {want.torch} is installed ({time.monotonic() - started:.0f} s)", flush=True)
    return 0


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
