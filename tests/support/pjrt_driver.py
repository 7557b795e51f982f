"""`python pjrt_driver.py FRONT PROGRAM...`: uses a plugin as torch_xla does, through ctypes. Prints JSON."""

import ctypes as c
import json
import os
import sys
from typing import Any

HEAD: Any = [("size", c.c_size_t), ("extension", c.c_void_p)]


class Api(c.Structure):
    _fields_ = [*HEAD, ("version", c.c_byte * 24), ("function", c.c_void_p * 58)]


class Program(c.Structure):
    _fields_ = [
        *HEAD,
        ("code", c.c_char_p),
        ("code_size", c.c_size_t),
        ("format", c.c_char_p),
        ("format_size", c.c_size_t),
    ]


class Compile(c.Structure):
    _fields_ = [
        *HEAD, ("client", c.c_void_p), ("program", c.POINTER(Program)), ("options", c.c_char_p),
        ("options_size", c.c_size_t), ("executable", c.c_void_p),
    ]  # fmt: skip


class Text(c.Structure):
    _fields_ = [*HEAD, ("client", c.c_void_p), ("text", c.c_char_p), ("length", c.c_size_t)]


class Two(c.Structure):
    _fields_ = [*HEAD, ("object", c.c_void_p), ("to", c.c_void_p)]


class Status(c.Structure):
    _fields_ = [
        ("hits", c.c_int64), ("misses", c.c_int64), ("written", c.c_int64), ("failures", c.c_int64),
        ("enabled", c.c_int32), ("reason", c.c_char * 256), ("major", c.c_int32), ("minor", c.c_int32),
    ]  # fmt: skip


def compile_all(front_path: str, programs: list[str]) -> dict[str, Any]:
    """Compiles through the library in front of SAGELET_PJRT_PLUGIN. Returns the results and all counts."""
    front, plugin = c.CDLL(front_path), c.CDLL(os.environ["SAGELET_PJRT_PLUGIN"])
    front.GetPjrtApi.restype = c.POINTER(Api)
    front.sagelet_pjrt_front_status.restype = c.POINTER(Status)
    found = front.GetPjrtApi()
    if not found:
        return {"api": None}
    call = c.CFUNCTYPE(c.c_void_p, c.c_void_p)
    text = Text(c.sizeof(Text))
    call(found.contents.function[12])(c.addressof(text))
    made = []
    for program in programs:
        code, options = program.encode(), os.environ.get("OPTIONS", "").encode()
        source = Program(c.sizeof(Program), None, code, len(code), b"mlir", 4)
        asked = Compile(c.sizeof(Compile), None, None, c.pointer(source), options, len(options))
        error = call(found.contents.function[20])(c.addressof(asked))
        made.append("error" if error else c.string_at(asked.executable).decode())
    execute_options = Text(c.sizeof(Text))
    run = Two(c.sizeof(Two), None, None, c.addressof(execute_options))
    executed = not call(found.contents.function[55])(c.addressof(run)) and run.to == c.addressof(execute_options)
    status = front.sagelet_pjrt_front_status().contents
    counts = {name: getattr(status, name) for name in ("hits", "misses", "written", "failures", "enabled")}
    counts |= {name: c.c_int.in_dll(plugin, f"fake_{name}").value for name in ("compilations", "alive", "errors")}
    return {
        "name": text.text.decode(),
        "made": made,
        "reason": status.reason.decode(),
        "executed": executed,
        "api": status.minor,
        **counts,
    }


if __name__ == "__main__":
    print(json.dumps(compile_all(sys.argv[1], sys.argv[2:])))
