"""The runtime package on Python 3.9, which the py39 variant of the training image has: Debian 11's."""

import io
import json
import tarfile

import docker
import pytest
from docker.models.containers import Container

from sagelet_engine.images.base import PYTHONS, choose_base
from sagelet_engine.images.context import find_root
from support.programs import asks

pytestmark = pytest.mark.docker

#: Imports every module; what needs torch, the toolkit or another package of the image is left to that image.
IMPORTS = """
import importlib, json, pkgutil, sys
sys.path.insert(0, "/runtime")
import sagelet_runtime
own, absent = [], {}
for found in pkgutil.walk_packages(sagelet_runtime.__path__, "sagelet_runtime."):
    try:
        importlib.import_module(found.name)
        own.append(found.name)
    except ModuleNotFoundError as error:
        absent[found.name] = error.name.partition(".")[0]
print(json.dumps({"python": sys.version_info[:2], "own": len(own), "absent": sorted(set(absent.values()))}))
"""
OF_THE_IMAGE = {"torch", "torch_xla", "sagemaker_training", "numpy", "psutil"}


@pytest.fixture(scope="module")
@asks("debootstrap")
def base(docker_client: docker.DockerClient) -> str:
    """Made once a machine, in a minute."""
    said: list[str] = []
    return choose_base(docker_client, "debian", lambda event: said.append(event.text), python=PYTHONS["3.9"])


def test_every_module_of_the_runtime_is_imported(docker_client: docker.DockerClient, base: str) -> None:
    container: Container = docker_client.containers.create(base, ["python3", "-c", IMPORTS], network_mode="none")
    try:
        container.put_archive("/", _runtime())
        container.start()
        status = container.wait(timeout=120)
        output = container.logs().decode()
    finally:
        container.remove(force=True)
    assert status["StatusCode"] == 0, output
    found = json.loads(output.strip().splitlines()[-1])
    assert found["python"] == [3, 9]
    assert found["own"] > 60
    assert set(found["absent"]) <= OF_THE_IMAGE


def _runtime() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(find_root() / "runtime", "runtime", filter=_without_caches)
    return packed.getvalue()


def _without_caches(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in member.name else member
