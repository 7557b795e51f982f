"""The variants of the training image: which Python, torch, torch_xla and PJRT plugin each holds.

torch_xla from the package index brings a client for CPUs only, so a GPU variant adds a PJRT plugin whose C API is not
older than torch_xla's. Its CUDA is torch's, because one process loads one libcudnn.so.9. The variant `py39` has the
libraries of 2022, which need an older Python. The variant `inductor` has a current torch and no torch_xla, whose last
release fits torch 2.9 only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import sagelet_engine
from sagelet_engine.base.errors import SettingsError

#: The distributions of PJRT plugins. Jobs use the first one that is installed. And the releases of torch_xla that load
#: them (images/runtime, gpu/plugin.py).
PLUGINS, RELEASES = ("jax-cuda13-pjrt", "jax-cuda12-pjrt"), ("2.8", "2.9")
#: PyTorch's index of wheels for CUDA 13.0. On the package index torch 2.9.0 is built for CUDA 12.8.
CUDA13_INDEX = "https://download.pytorch.org/whl/cu130"
#: PyTorch's index of wheels without CUDA.
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
#: XLA's CPU plugin. It is installed without jax, which it requires and no job needs.
CPU_PLUGIN = "lammps-jax-pjrt-cpu==0.11.2"
REPOSITORY = "sagelet/training"


class TorchBuild(str, Enum):
    """The build of torch that an image or an environment has."""

    #: The fitting build: with CUDA for the variants for GPUs, otherwise without.
    AUTO = "auto"
    #: Without CUDA; see images/training/install_torch.py.
    CPU = "cpu"
    #: The package index's ordinary torch, with NVIDIA's libraries.
    CUDA = "cuda"


@dataclass(frozen=True)
class Variant:
    #: The suffix of the version in the tag. Empty for the image that runs everywhere.
    name: str
    #: A description for people.
    text: str
    #: Build arguments of images/training/Dockerfile.
    arguments: Mapping[str, str] = field(default_factory=dict)
    #: The Python version of the base image: `3.11`.
    python: str = "3.11"
    #: The oldest NVIDIA driver of its CUDA: 525 for CUDA 12, 580 for CUDA 13. 0 if it uses no GPUs.
    driver: int = 0

    @property
    def is_for_gpus(self) -> bool:
        return self.driver > 0

    @property
    def torch_build(self) -> TorchBuild:
        """Returns the build of torch unless the user chooses one: with CUDA only if GPUs are used."""
        return TorchBuild.CUDA if self.is_for_gpus else TorchBuild.CPU

    @property
    def packages(self) -> dict[str, str | None]:
        """Returns the versions of the variant's distributions, or None for those that are not installed."""
        pinned = dict(word.split("==", 1) for word in self.arguments.get("PJRT_PLUGIN", "").split() if "==" in word)
        plugins = {name: pinned.get(name) for name in PLUGINS}
        return {"torch": self.arguments.get("TORCH"), "torch_xla": self.arguments.get("TORCH_XLA") or None, **plugins}

    @property
    def plugin(self) -> str:
        """Returns the distribution of its PJRT plugin, or an empty string."""
        return next((name for name in PLUGINS if self.packages[name]), "")

    @property
    def reference(self) -> str:
        """`sagelet/training:0.1.0-cu12`."""
        return f"{REPOSITORY}:{sagelet_engine.__version__}" + (f"-{self.name}" if self.name else "")


CPU = Variant("", "torch 2.9.0, torch_xla 2.9.0 and XLA's CPU plugin")
#: PJRT C API 0.70 on both sides: the platform is called CUDA and scripts run as they are.
CU12 = Variant(
    "cu12",
    "torch 2.8.0, torch_xla 2.8.1 on the CUDA 12 plugin of JAX 0.6.2",
    {
        "TORCH": "2.8.0",
        "TORCH_XLA": "2.8.1",
        "TORCHVISION": "0.23.0",
        "TORCHAUDIO": "2.8.0",
        "PJRT_PLUGIN": "jax-cuda12-pjrt==0.6.2 nvidia-cuda-nvcc-cu12>=12.6.85,<13",
    },
    driver=525,
)
#: PJRT C API 0.75 on both sides. torch_xla 2.9 aborts on a platform called CUDA, so the plugin gets another name.
CU12_RENAMED = Variant(
    "cu12-renamed",
    "torch 2.9.0, torch_xla 2.9.0 on the CUDA 12 plugin of JAX 0.7.1, under another name",
    {
        "TORCH": "2.9.0",
        "TORCH_XLA": "2.9.0",
        "PJRT_PLUGIN": "jax-cuda12-pjrt==0.7.1 nvidia-cuda-nvcc-cu12>=12.6.85,<13",
    },
    driver=525,
)
#: An XLA of 2026. Its CPU plugin of the same release (API 0.115) is the one that CI trains on.
CU13 = Variant(
    "cu13",
    "torch 2.9.0, torch_xla 2.9.0 on the CUDA 13 plugin of JAX 0.11.2, under another name",
    {
        "TORCH": "2.9.0",
        "TORCH_XLA": "2.9.0",
        "TORCH_INDEX_URL": CUDA13_INDEX,
        # torch 2.9.0 holds the packages of CUDA 13 at 13.0.
        "PJRT_PLUGIN": "jax-cuda13-pjrt==0.11.2 nvidia-cuda-nvcc>=13.0,<13.1",
    },
    driver=580,
)
#: The oldest pair of torch and torch_xla that the package index has, and the newest Python that has wheels of
#: Transformers' tokenizers of 2022 (< 0.13) and is in a Debian release: docs/how-to/images-of-their-day.md.
PY39 = Variant(
    "py39",
    "Python 3.9, torch 2.1.0, torch_xla 2.1.0 on its CPU client, Transformers 4.21.1 and the libraries of its day",
    {
        "TORCH": "2.1.0",
        "TORCH_XLA": "2.1.0",
        "TORCHVISION": "0.16.0",
        "TORCHAUDIO": "2.1.0",
        "REQUIREMENTS": "requirements-py39.txt",
        "TOOLKIT_OPTIONS": "--no-deps",
    },
    python="3.9",
)
#: The newest torch of the package index that is built for CUDA 13.0. torchaudio 2.11.0, the last one, works with every
#: later torch of its own CUDA, and raises at its import with torch 2.15, which has CUDA 13.2. torchvision 0.29 works
#: with every torch since 2.14.
INDUCTOR = Variant(
    "inductor",
    "torch 2.14.1 with CUDA 13, for jobs that Inductor compiles; without torch_xla",
    {"TORCH": "2.14.1", "TORCH_XLA": "", "TORCHVISION": "0.29.2", "TORCHAUDIO": "2.11.0"},
    driver=580,
)
VARIANTS = {variant.name or "cpu": variant for variant in (CPU, CU12, CU12_RENAMED, CU13, INDUCTOR, PY39)}
#: Those with XLA for GPUs, in the order in which the built-in rules prefer them, and then the others.
GPU_VARIANTS = (CU13, CU12, CU12_RENAMED)


def variant(name: str) -> Variant:
    """Returns a variant. Raises SettingsError for an unknown name."""
    if name not in VARIANTS:
        raise SettingsError(f"--variant {name}: the variants are {', '.join(VARIANTS)}")
    return VARIANTS[name]


def training_image() -> str:
    """Returns the reference of the image that this version of sagelet builds and runs."""
    return CPU.reference


def is_training_image(reference: str | None) -> bool:
    """True for the training image of this version in any variant, which has sagelet_runtime."""
    return any(reference == known.reference for known in VARIANTS.values())
