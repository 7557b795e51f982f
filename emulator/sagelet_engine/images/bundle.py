"""Packs sagelet and what its jobs import into a directory, for a machine that reaches no package index.

The directory has wheels, and a script that installs them into a new environment. The other machine needs Linux on
x86-64 and the Python release that packed them, because wheels of torch and torch_xla fit one release each.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import distribution
from pathlib import Path
from tempfile import TemporaryDirectory

import sagelet_engine
from sagelet_engine.base.errors import SageletError, SettingsError
from sagelet_engine.images.context import find_root
from sagelet_engine.images.own_torch import INSTALLER, Runner, pip_remedy, requirements_of_the_extra, take
from sagelet_engine.images.own_wheel import repack
from sagelet_engine.images.variants import CPU_PLUGIN, TorchBuild

WHEELS, SUMS = "wheels", "SHA256SUMS"
REQUIREMENTS = "requirements.txt"
#: Both the plugin and the release of CUDA that it was built for.
GPU_PLUGINS = {"cuda12": "jax-cuda12-plugin[with-cuda]", "cuda13": "jax-cuda13-plugin[with-cuda]"}

INSTALL = """\
#!/bin/sh
# Installs sagelet {version} from this directory into a new environment, without a network: ./install.sh [DIRECTORY]
# PYTHON names the Python to use; it has to be {python}.
set -eu
bundle=$(cd "$(dirname "$0")" && pwd)
environment=${{1:-sagelet-env}}
(cd "$bundle" && sha256sum --check --quiet {sums})
for python in "${{PYTHON:-}}" python{python} python3; do
    [ -n "$python" ] && "$python" -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != "{python}")' 2>&- && break
    python=
done
if [ -z "$python" ]; then
    echo "No Python {python} here, for which this bundle was made. PYTHON=/path/to/python{python} names one." >&2
    exit 1
fi
"$python" -m venv "$environment"
install() {{
    "$environment/bin/python" -m pip install --disable-pip-version-check --no-index --find-links "$bundle/{wheels}" "$@"
}}
install -r "$bundle/{requirements}"
echo "sagelet is in $environment. Next: $environment/bin/sagelet doctor"
"""


class BundleFailed(SageletError):
    """pip failed. Its output says why."""


class Gpu(str, Enum):
    """The GPUs of the machine that the bundle is for."""

    NONE = "none"
    CUDA12 = "cuda12"
    CUDA13 = "cuda13"


@dataclass(frozen=True)
class Wanted:
    gpu: Gpu = Gpu.NONE
    #: None: no torch. The server and tests in simulated time need none.
    torch_build: TorchBuild | None = TorchBuild.AUTO

    def __post_init__(self) -> None:
        if self.torch_build is None and self.gpu is not Gpu.NONE:
            raise SettingsError(f"--gpu {self.gpu.value} needs torch: leave out --without-torch")

    @property
    def requirements(self) -> list[str]:
        """Returns what pip is asked for. XLA's CPU plugin is added where it could be had."""
        extras = "tuning" if self.torch_build is None else "tuning,xla"
        plugin = GPU_PLUGINS.get(self.gpu.value)
        return [f"sagelet[{extras}]=={sagelet_engine.__version__}", *([plugin] if plugin else [])]


def make_bundle(directory: Path, wanted: Wanted, run: Runner = subprocess.call) -> int:
    """Makes the directory, and returns its size in bytes. Nothing is left if a step fails.

    Raises SettingsError if the directory exists, BundleFailed and BuildContextMissing.
    """
    if directory.exists():
        raise SettingsError(f"{directory} exists already: name a new directory, or remove it")
    if not directory.parent.is_dir():
        raise SettingsError(f"{directory.parent} is not a directory")
    with TemporaryDirectory(prefix=".sagelet-bundle-", dir=directory.parent) as made:
        bundle = Path(made) / directory.name
        (bundle / WHEELS).mkdir(parents=True)
        _get_wheels(bundle / WHEELS, wanted, run)
        _write_files(bundle, wanted)
        bundle.rename(directory)
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def _get_wheels(wheels: Path, wanted: Wanted, run: Runner) -> None:
    named = [_own_wheel(wheels, run)]
    if wanted.torch_build is not None:
        others = requirements_of_the_extra()
        build = ["--build", wanted.torch_build.value, "--torch", take(others, "torch")]
        build += ["--torch-xla", take(others, "torch_xla"), "--download", str(wheels)]
        _run(run, "torch", [sys.executable, str(find_root() / INSTALLER), *build])
        named += map(str, wheels.glob("torch-*.whl"))
    own, *others = wanted.requirements
    extras = own[own.index("[") : own.index("]") + 1]
    _wheels(run, "the packages", wheels, named[0] + extras, *named[1:], *others)


def _own_wheel(wheels: Path, run: Runner) -> str:
    """Returns the path of sagelet's own wheel: built of a checkout, or put together of what is installed."""
    checkout = find_root().parent
    if not (checkout / "pyproject.toml").is_file():
        return str(repack(distribution("sagelet"), wheels))
    _wheels(run, "sagelet's wheel", wheels, "--no-deps", str(checkout))
    return str(next(wheels.glob("sagelet-*.whl")))


def _wheels(run: Runner, what: str, directory: Path, *arguments: str) -> None:
    """Downloads wheels, and builds those that the index has as source alone."""
    wheel = [sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--wheel-dir", str(directory)]
    _run(run, what, [*wheel, *arguments])


def _write_files(bundle: Path, wanted: Wanted) -> None:
    has_cpu_plugin = any((bundle / WHEELS).glob(f"{CPU_PLUGIN.partition('=')[0].replace('-', '_')}-*.whl"))
    _write_lines(bundle / REQUIREMENTS, [*wanted.requirements, *([CPU_PLUGIN] if has_cpu_plugin else [])])
    files = sorted(file for file in bundle.rglob("*") if file.is_file())
    _write_lines(bundle / SUMS, [f"{_sha256(file)}  {file.relative_to(bundle)}" for file in files])
    script = bundle / "install.sh"
    script.write_text(
        INSTALL.format(
            version=sagelet_engine.__version__,
            python=".".join(map(str, sys.version_info[:2])),
            sums=SUMS,
            wheels=WHEELS,
            requirements=REQUIREMENTS,
        )
    )
    script.chmod(0o755)


def _write_lines(file: Path, lines: Sequence[str]) -> None:
    file.write_text("".join(f"{line}{os.linesep}" for line in lines))


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while block := content.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _run(run: Runner, what: str, command: Sequence[str]) -> None:
    if status := run(command):
        raise BundleFailed(f"{what}: pip ended with exit status {status}; its output above says why. {pip_remedy()}")
