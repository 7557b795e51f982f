"""A Docker image with a static busybox and nothing else, made without a registry."""

import fcntl
import io
import tarfile
import tempfile
from pathlib import Path

import docker
from docker.errors import ImageNotFound

from sagelet_engine.images.engine import import_image
from support.programs import BUSYBOX, use

REFERENCE = "sagelet/test-tiny:1"
APPLETS = "sh cat echo env hostname id ip kill ls mkdir nc printf ps seq setsid sleep stat tail test touch trap true wc"


def ensure(client: docker.DockerClient) -> str:
    """Returns the image's reference. Builds the image if it is missing, one process at a time."""
    use("busybox")
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
        binary = BUSYBOX.read_bytes()
        file = tarfile.TarInfo("bin/busybox")
        file.size, file.mode = len(binary), 0o755
        tar.addfile(file, io.BytesIO(binary))
        for applet in APPLETS.split():
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    return packed.getvalue()
