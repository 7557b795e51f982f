"""The two formats of weights: safetensors, and torch's own (a zip file with a pickle), written without either.

Sources: https://github.com/huggingface/safetensors#format; torch/serialization.py, and Python's pickletools.
"""

import io
import json
import struct
import sys
import zipfile
from array import array
from collections.abc import Mapping

Sizes = Mapping[str, tuple[int, ...]]
Values = Mapping[str, "array[float]"]
#: The root of the zip file, as `torch.save` calls it.
_ROOT = "archive"


def safetensors_file(sizes: Sizes, values: Values) -> bytes:
    """Makes a file of 32-bit floats. The head says that torch wrote it, which Transformers requires."""
    head: dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = {name: _little(values[name]) for name in sizes}
    place = 0
    for name, size in sizes.items():
        head[name] = {"dtype": "F32", "shape": list(size), "data_offsets": [place, place + len(data[name])]}
        place += len(data[name])
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data.values())


def pytorch_file(sizes: Sizes, values: Values) -> bytes:
    """Makes the file that `torch.save` makes of a state dictionary. `torch.load` reads it, also with `weights_only`."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as packed:
        _put(packed, "data.pkl", _pickle(sizes))
        _put(packed, "byteorder", b"little")
        for number, name in enumerate(sizes):
            _put(packed, f"data/{number}", _little(values[name]))
        _put(packed, "version", b"3\n")
    return out.getvalue()


def _put(packed: zipfile.ZipFile, name: str, data: bytes) -> None:
    # A fixed time, so that the bytes are always the same.
    packed.writestr(zipfile.ZipInfo(f"{_ROOT}/{name}", (1980, 1, 1, 0, 0, 0)), data)


def _pickle(sizes: Sizes) -> bytes:
    """Returns a pickle of protocol 2: an OrderedDict of tensors, whose storages are named by a persistent id."""
    body = [b"\x80\x02", _global("collections", "OrderedDict"), b")R("]
    for number, (name, size) in enumerate(sizes.items()):
        body += [_text(name), *_tensor(number, size)]
    return b"".join([*body, b"u."])


def _tensor(number: int, size: tuple[int, ...]) -> list[bytes]:
    """Returns torch._utils._rebuild_tensor_v2(storage, offset, size, strides, requires_grad, hooks)."""
    strides: list[int] = []
    length = 1
    for one in reversed(size):
        strides.insert(0, length)
        length *= one
    storage = [b"(", _text("storage"), _global("torch", "FloatStorage"), _text(str(number)), _text("cpu"), _int(length)]
    no_hooks = [_global("collections", "OrderedDict"), b")R"]
    return [
        _global("torch._utils", "_rebuild_tensor_v2"),
        b"(",
        *storage,
        b"tQ",
        _int(0),
        _tuple(size),
        _tuple(strides),
        b"\x89",
        *no_hooks,
        b"tR",
    ]


def _global(module: str, name: str) -> bytes:
    return b"c" + f"{module}\n{name}\n".encode()


def _text(text: str) -> bytes:
    data = text.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def _int(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def _tuple(values: tuple[int, ...] | list[int]) -> bytes:
    return b"(" + b"".join(map(_int, values)) + b"t"


def _little(values: "array[float]") -> bytes:
    if sys.byteorder == "big":
        values = array("f", values)
        values.byteswap()
    return values.tobytes()
