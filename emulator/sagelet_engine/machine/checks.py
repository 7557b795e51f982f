"""Checks whether this machine is ready for a server and its jobs, with one check for each requirement.

Nothing here raises: a check that cannot be done counts as failed.
"""

import platform
import shutil
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import sagelet_engine
from sagelet_engine.base.clock import SystemClock
from sagelet_engine.base.errors import SageletError, SettingsError
from sagelet_engine.images.listing import LocalImage, list_images
from sagelet_engine.images.platform import ARCHITECTURE, PLATFORM
from sagelet_engine.images.variants import CPU_PLUGIN, PY39, training_image
from sagelet_engine.machine import gpus
from sagelet_engine.machine.check import Check
from sagelet_engine.machine.ports import listener
from sagelet_engine.machine.runtimes import cpu_plugin, every_runtime, missing_modules
from sagelet_engine.model.runtime import Runtime
from sagelet_engine.runtimes.docker.engine import DockerFacts, probe
from sagelet_engine.runtimes.lost_hosts import lost_processes
from sagelet_engine.settings import DEFAULT_PORT, Settings
from sagelet_engine.state.notice import read_notice
from sagelet_engine.state.owner import owner_of

#: Bytes that a few jobs with their archives take. With less, the next upload may fail.
ENOUGH, TOO_LITTLE = 5 * 10**9, 10**9
#: Bytes of the training image (3 GB), its base, and what building it takes.
IMAGE_BYTES = 6 * 10**9


def check_machine(data: Path, port: int = DEFAULT_PORT) -> list[Check]:
    facts = probe()
    images = _images(facts)
    missing = missing_modules()
    image = check_image(facts, images)
    packages = check_packages(missing)
    return [
        check_python(),
        check_docker(facts),
        *check_way_back(facts),
        image,
        *check_image_of_then(images),
        packages,
        *([] if missing else [check_cpu_plugin(cpu_plugin())]),
        check_runtimes(image, packages),
        *gpus.check_gpus(facts, gpus.ask_driver()),
        check_disk(data, shutil.disk_usage(_existing(data)).free),
        check_image_disk(image, _docker_root(facts), lambda root: shutil.disk_usage(root).free),
        check_databases(data),
        check_hosts(data),
        check_server(data),
        check_port(data, port),
    ]


def check_python() -> Check:
    return Check("python", True, f"sagelet {sagelet_engine.__version__} on Python {platform.python_version()}")


def check_docker(facts: DockerFacts | None) -> Check:
    if facts is None:
        return Check(
            "docker",
            False,
            "no Docker Engine answers",
            "start it, or let DOCKER_HOST name one, such as Podman's service (`sagelet docs other-engines`); "
            "without it jobs are processes of this machine",
            needed=False,
        )
    if facts.architecture != ARCHITECTURE:
        return Check(
            "docker",
            False,
            f"{facts.name}. sagelet's images are {PLATFORM}, because PyTorch/XLA has no other wheels: the engine "
            "emulates them, slowly",
            "if a container says `exec format error`, turn on Rosetta in Docker Desktop, or install QEMU's binfmt "
            "(`sagelet docs other-engines`)",
            needed=False,
        )
    return Check("docker", True, facts.name)


def check_way_back(facts: DockerFacts | None) -> list[Check]:
    """Checks whether a container can connect to a server on this machine. Returns no check without a Docker engine."""
    if facts is None:
        return []
    if facts.has_way_back:
        return [Check("endpoint", True, "containers reach the server by host.docker.internal")]
    return [
        Check(
            "endpoint",
            False,
            f"containers of {facts.name} do not reach a server that listens on 127.0.0.1 alone",
            "where a script calls S3 or SageMaker: `sagelet up --host 0.0.0.0 --auth` (`sagelet docs other-engines`)",
            needed=False,
        )
    ]


def check_image(facts: DockerFacts | None, images: Sequence[LocalImage]) -> Check:
    if facts is None:
        return Check("image", False, "no Docker Engine, no image", needed=False)
    found = next((one for one in images if one.reference == training_image()), None)
    if found is None:
        return Check(
            "image",
            False,
            f"{training_image()} is not there, so jobs are processes of this machine",
            "`sagelet image build` makes it: 3 GB, a few minutes",
            needed=False,
        )
    return Check("image", True, f"{found.reference}, {found.size / 1e9:.1f} GB, of {found.created:%Y-%m-%d}")


def check_image_of_then(images: Sequence[LocalImage]) -> list[Check]:
    """Checks the image `py39`. Empty without the training image, because jobs are processes then."""
    references = {one.reference for one in images}
    if training_image() not in references:
        return []
    if PY39.reference in references:
        return [Check("old scripts", True, f"{PY39.reference}: {PY39.text}")]
    return [
        Check(
            "old scripts",
            False,
            f"{PY39.reference} is not there, so scripts of 2021 to 2023 run with the libraries of today",
            "if their pins do not install, `sagelet image build --variant py39` (`sagelet docs images-of-their-day`)",
            needed=False,
        )
    ]


def check_packages(missing: Sequence[str]) -> Check:
    """Checks the packages that jobs in processes train with."""
    if not missing:
        return Check("packages", True, "this Python has what jobs that are processes train with")
    if list(missing) == ["torch_xla"]:
        return Check(
            "packages",
            True,
            "this Python has no torch_xla: jobs that are processes train natively, or compiled with "
            "SAGELET_COMPILER=inductor in their Environment",
        )
    return Check(
        "packages",
        False,
        f"this Python has no {', '.join(missing)}, which jobs that are processes need",
        "`sagelet install-torch`",
        needed=False,
    )


def check_cpu_plugin(plugin: str) -> Check:
    """Checks XLA's client of compiled jobs that are processes on CPUs. `plugin`: its name and version, or empty."""
    if plugin:
        return Check("xla on cpus", True, f"compiled jobs that are processes use {plugin}")
    return Check(
        "xla on cpus",
        False,
        f"this Python has no {CPU_PLUGIN}: compiled jobs that are processes use torch_xla's own client, which keeps no "
        "programs in the compile cache",
        "`sagelet install-torch`",
        needed=False,
    )


def check_runtimes(image: Check, packages: Check) -> Check:
    if image.good:
        return Check("runtime", True, "by default jobs run in containers (--runtime docker)")
    if packages.good:
        return Check("runtime", True, "by default jobs run as processes (--runtime process)")
    remedy = " or ".join(part for part in (image.remedy, packages.remedy) if part)
    return Check("runtime", False, "nothing here can run a job: neither the image nor the packages", remedy)


def check_disk(data: Path, free: int) -> Check:
    found = f"{free / 1e9:.1f} GB free for {data}"
    if free >= ENOUGH:
        return Check("disk", True, found)
    remedy = "free some, delete jobs (`sagelet delete`), or name another place: --data (SAGELET_DATA)"
    return Check("disk", False, found, remedy, needed=free < TOO_LITTLE)


def check_image_disk(image: Check, root: Path | None, free: Callable[[Path], int]) -> Check:
    """Checks the space for building the image, which only matters while the image is missing."""
    if root is None or not root.is_dir():
        return Check("docker disk", True, "not on this machine's disks")
    found = f"{free(root) / 1e9:.1f} GB free for Docker ({root})"
    if image.good or free(root) >= IMAGE_BYTES:
        return Check("docker disk", True, found)
    remedy = (
        "the training image needs about 6 GB while it is built, and 15 GB with CUDA: `docker system prune` frees what "
        "nothing uses"
    )
    return Check("docker disk", False, found, remedy, needed=False)


def check_databases(data: Path) -> Check:
    """Reads all pages of the databases, even beside a server."""
    from sagelet_engine.state.integrity import damage

    found = damage(data)
    if not found:
        return Check("databases", True, f"none in {data} yet")
    wrong = [f"{name}: {why[0]}" for name, why in found.items() if why]
    if wrong:
        return Check("databases", False, "; ".join(wrong), "`sagelet down`, then `sagelet check --repair`")
    return Check("databases", True, f"{' and '.join(found)} are sound")


def check_hosts(data: Path, runtimes: Sequence[Runtime] | None = None) -> Check:
    """Looks for hosts that run although their data directory was deleted."""
    try:
        asked = every_runtime(Settings(data=data), SystemClock()) if runtimes is None else runtimes
        lost = [host for runtime in asked for host in runtime.end_lost(dry_run=True)]
        lost += map(str, lost_processes())
    except SageletError as error:
        return Check("hosts", False, f"could not be looked for: {error}", needed=False)
    if not lost:
        return Check("hosts", True, "no host runs without its data directory")
    return Check("hosts", False, "; ".join(lost), "`sagelet gc` ends them", needed=False)


def check_server(data: Path) -> Check:
    notice = read_notice(data)
    if notice is not None:
        return Check("server", True, f"runs on {data}: {notice.endpoint} (process {notice.pid})")
    if (owner := owner_of(data)) is not None:
        return Check("server", True, f"process {owner} uses {data}, and is not a `sagelet up` that is ready")
    return Check("server", True, f"none runs on {data}; `sagelet up` starts one")


def check_port(data: Path, port: int) -> Check:
    notice = read_notice(data)
    if notice is not None and notice.endpoint.endswith(f":{port}"):
        return Check("port", True, f"{port} is the server's")
    try:
        with socket.create_server(("127.0.0.1", port)):
            return Check("port", True, f"{port} is free")
    except OSError:
        taken = f"{port} is taken by {listener(port)}"
        return Check("port", False, taken, "`sagelet up --port 0` takes a free one", needed=False)


def _images(facts: DockerFacts | None) -> list[LocalImage]:
    try:
        return [] if facts is None else list_images()
    except SageletError:
        return []


def _docker_root(facts: DockerFacts | None) -> Path | None:
    return None if facts is None or not facts.root else Path(facts.root)


def _existing(data: Path) -> Path:
    for path in (data, *data.parents):
        if path.exists():
            return path
    raise SettingsError(f"--data {data}: neither it nor a directory above it exists")
