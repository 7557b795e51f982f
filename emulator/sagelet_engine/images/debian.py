"""A base image from Debian packages, for machines that reach a package mirror but no container registry."""

import os
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from platform import machine

import docker

from sagelet_engine.images.context import find_root
from sagelet_engine.images.engine import import_image
from sagelet_engine.images.output import BuildEvent, EventKind, ImageBuildFailed, Report, note
from sagelet_engine.images.platform import ARCHITECTURE, architecture

#: This release has Python 3.11.
SUITE = "bookworm"
_HOST_CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
_DEBIAN_SUITES = frozenset({"bullseye", "bookworm", "trixie", "forky", "sid", "oldstable", "stable", "testing"})
_EMPTIED = ("var/cache/apt/archives", "var/lib/apt/lists", "var/cache/debconf", "var/log", "tmp")
_CHANGES = (
    "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LABEL org.sagelet.image=base",
    'CMD ["bash"]',
)


def base_image(suite: str = SUITE) -> str:
    """`sagelet/base:bookworm`."""
    return f"sagelet/base:{suite}"


BASE_IMAGE = base_image()


def obstacle() -> str | None:
    """Returns why a base image cannot be made from Debian packages here, with the remedy. None if it can."""
    if shutil.which("debootstrap") is None:
        return "debootstrap is not installed (`apt-get install debootstrap`)"
    if os.geteuid() != 0:
        return "debootstrap needs root (`sudo sagelet image build --base debian`)"
    if architecture(machine()) != ARCHITECTURE:
        return f"debootstrap makes an image for this machine, {machine()}, and PyTorch/XLA needs x86-64: use a registry"
    return None


def build_base(client: docker.DockerClient, report: Report, ca_bundle: Path | None = None, suite: str = SUITE) -> str:
    """Makes `sagelet/base:SUITE` with debootstrap and returns its reference.

    The caller has checked `obstacle()`. `ca_bundle` becomes the certificates of the image. None takes the host's.
    Raises ImageBuildFailed.
    """
    mirror = apt_mirror(suite=suite)
    report(
        note(f"Making {base_image(suite)} from Debian packages of {mirror or 'the default mirror'} (about a minute)")
    )
    with tempfile.TemporaryDirectory(prefix="sagelet-base-") as directory:
        root = Path(directory) / "root"
        _debootstrap(root, suite, mirror, report)
        _trim(root)
        _copy_certificates(root, ca_bundle or _HOST_CA_BUNDLE)
        _import(client, root, base_image(suite))
    return base_image(suite)


def packages() -> list[str]:
    """Returns the packages of the base image, from `images/base/packages.txt`."""
    lines = (find_root() / "base" / "packages.txt").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def _debootstrap(root: Path, suite: str, mirror: str | None, report: Report) -> None:
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(packages())}", suite, str(root)]
    if mirror is not None:
        command.append(mirror)
    tail: deque[str] = deque(maxlen=20)
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            tail.append(line.rstrip())
            report(BuildEvent(EventKind.OUTPUT, line.rstrip().removeprefix("I: ")))
    if process.returncode != 0:
        remedy = f"Check that {mirror or 'the mirror'} answers from here, or name a base image of your own with --base."
        raise ImageBuildFailed(f"debootstrap {suite} (exit code {process.returncode})", tuple(tail), remedy)


def _trim(root: Path) -> None:
    for name in _EMPTIED:
        for entry in (root / name).iterdir() if (root / name).is_dir() else ():
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def _copy_certificates(root: Path, bundle: Path) -> None:
    target = root / "etc/ssl/certs/ca-certificates.crt"
    if bundle.is_file():
        shutil.copyfile(bundle, target)
        target.chmod(0o644)


def _import(client: docker.DockerClient, root: Path, reference: str) -> None:
    command = ["tar", "-C", str(root), "--numeric-owner", "--exclude=./dev/*", "--exclude=./proc/*", "-c", "."]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        import_image(client, _output(process), reference, _CHANGES)


def _output(process: subprocess.Popen[bytes], size: int = 1024 * 1024) -> Iterator[bytes]:
    """Yields what the process prints. Raises ImageBuildFailed if it fails, which ends the reading request, too."""
    assert process.stdout is not None
    while chunk := process.stdout.read(size):
        yield chunk
    if process.wait() != 0:
        raise ImageBuildFailed(f"{process.args!r} (exit code {process.returncode})", (), "Is the disk full?")


@dataclass(frozen=True)
class AptSource:
    uri: str
    suite: str


def apt_mirror(etc_apt: Path = Path("/etc/apt"), suite: str = SUITE) -> str | None:
    """Returns the Debian mirror of this machine, from sources.list and sources.list.d. None if it has none."""
    sources = list(_apt_sources(etc_apt))
    for suites in (frozenset({suite}), _DEBIAN_SUITES):
        for source in sources:
            if source.suite in suites and source.uri.startswith(("http://", "https://", "file:")):
                return source.uri.rstrip("/")
    return None


def _apt_sources(etc_apt: Path) -> Iterator[AptSource]:
    for path in (etc_apt / "sources.list", *sorted((etc_apt / "sources.list.d").glob("*.list"))):
        if path.is_file():
            yield from _one_line_sources(path.read_text(encoding="utf-8", errors="replace"))
    for path in sorted((etc_apt / "sources.list.d").glob("*.sources")):
        yield from _deb822_sources(path.read_text(encoding="utf-8", errors="replace"))


def _one_line_sources(text: str) -> Iterator[AptSource]:
    """Parses the one-line style of sources.list(5): `deb [options] uri suite components`."""
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if not words or words[0] != "deb":
            continue
        while len(words) > 1 and words[1].startswith("["):
            closing = next((n for n, word in enumerate(words) if word.endswith("]")), len(words) - 1)
            del words[1 : closing + 1]
        if len(words) >= 3:
            yield AptSource(words[1], words[2])


def _deb822_sources(text: str) -> Iterator[AptSource]:
    """Parses the deb822 style of sources.list(5): paragraphs of fields."""
    for paragraph in text.replace("\r\n", "\n").split("\n\n"):
        lines = [line for line in paragraph.splitlines() if ":" in line and not line.startswith(("#", " ", "\t"))]
        fields = {key.strip().lower(): value.split() for key, _, value in (line.partition(":") for line in lines)}
        if "deb" not in fields.get("types", []) or fields.get("enabled") == ["no"]:
            continue
        for uri in fields.get("uris", []):
            for suite in fields.get("suites", []):
                yield AptSource(uri, suite)
