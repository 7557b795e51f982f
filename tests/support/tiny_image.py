"""A Docker image with a static busybox and nothing else, made without a registry."""

import fcntl
import io
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import docker
from docker.errors import ImageNotFound

from sagelet_engine.images.engine import import_image

REFERENCE = "sagelet/test-tiny:1"
APPLETS = "sh cat echo env hostname id ip kill ls mkdir nc printf ps seq setsid sleep stat tail test touch trap true wc"


def ensure(client: docker.DockerClient) -> str:
    """Returns the image's reference. Builds the image if it is missing, one process at a time."""
    with Path(tempfile.gettempdir(), "sagelet-test-tiny.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            client.images.get(REFERENCE)
        except ImageNotFound:
            import_image(client, [_root_tar()], REFERENCE)
    return REFERENCE


def _root_tar() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, mode in (("bin", 0o755), ("tmp", 0o1777), ("opt", 0o755), ("etc", 0o755)):
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, mode
            tar.addfile(directory)
        binary = _busybox()
        file = tarfile.TarInfo("bin/busybox")
        file.size, file.mode = len(binary), 0o755
        tar.addfile(file, io.BytesIO(binary))
        for applet in APPLETS.split():
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    return packed.getvalue()


def _busybox() -> bytes:
    """Returns the static busybox of this machine, or of Debian's package."""
    installed = shutil.which("busybox")
    if installed and _is_static(Path(installed)):
        return Path(installed).read_bytes()
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["apt-get", "download", "busybox-static"], cwd=directory, check=True, capture_output=True)
        (package,) = Path(directory).glob("busybox-static_*.deb")
        subprocess.run(["dpkg-deb", "-x", package, directory], check=True)
        (binary,) = Path(directory).glob("**/bin/busybox")
        return binary.read_bytes()


def _is_static(binary: Path) -> bool:
    """True if the ELF file names no interpreter (a dynamic linker)."""
    return b"/ld-linux" not in binary.read_bytes() and b"/ld-musl" not in binary.read_bytes()
