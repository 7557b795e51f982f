"""The platform of sagelet's images: PyTorch/XLA has wheels for Linux on x86-64 alone."""

ARCHITECTURE = "amd64"
PLATFORM = f"linux/{ARCHITECTURE}"
#: The kernel's names, as `uname -m` and `docker info` have them, for Docker's.
_DOCKERS_NAMES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386", "": ARCHITECTURE}


def architecture(told: str) -> str:
    """Returns Docker's name of an architecture. An engine that tells none is taken for amd64."""
    return _DOCKERS_NAMES.get(told, told)
