"""Asks a PJRT plugin for the version of its C API (xla/pjrt/c/pjrt_c_api.h), without torch_xla."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from sagelet_runtime.base import installed


class Version(NamedTuple):
    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


class NoPlugin(Exception):
    """The file is not a PJRT plugin, or does not load here. The message says why."""


class _Api(ctypes.Structure):
    """The head of PJRT_Api, which never changes."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("version_struct_size", ctypes.c_size_t),
        ("version_extension", ctypes.c_void_p),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
    ]


def version(path: str) -> Version:
    """Loads the plugin into this process. Raises NoPlugin."""
    try:
        get = ctypes.CDLL(path).GetPjrtApi
    except (OSError, AttributeError) as error:
        raise NoPlugin(f"{path} does not load as a PJRT plugin: {error}") from error
    get.restype = ctypes.POINTER(_Api)
    found = get()
    if not found:
        raise NoPlugin(f"{path} gives no PJRT API")
    return Version(found.contents.major, found.contents.minor)


def refusal(name: str, found: Version, needed: Version) -> str:
    """Returns the sentence about a plugin that does not fit torch_xla. Empty if it fits.

    `name`: `jax-cuda12-pjrt 0.6.2`.
    """
    if found >= needed and found.major == needed.major:
        return ""
    said = f"{name} has PJRT C API {found}, and torch_xla {installed.version('torch_xla')}"
    if found.major != needed.major:
        return f"{said} knows only versions that begin with {needed.major}: install an older plugin"
    return f"{said} needs {needed} or newer: install a newer one (pip install --upgrade {name.partition(' ')[0]})"
