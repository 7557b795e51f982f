"""Writes small shared objects for Linux on x86-64 (System V ABI: gABI 4.1, AMD64 supplement), without a compiler."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Union

PAGE = 4096
HEADER, PROGRAM_HEADER, SYMBOL, RELOCATION, DYNAMIC = 64, 56, 24, 24, 16

PT_LOAD, PT_DYNAMIC, PT_GNU_STACK = 1, 2, 0x6474E551
READ, READ_EXECUTE, READ_WRITE = 4, 5, 6
STT_OBJECT, STT_FUNC, STB_GLOBAL = 1, 2, 1
R_X86_64_64, R_X86_64_GLOB_DAT, R_X86_64_RELATIVE = 1, 6, 8
VER_BASE, VER_NONE, VER_GLOBAL, FIRST_VERSION = 1, 0, 1, 2
DT_NULL, DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_RELAENT = 0, 1, 4, 5, 6, 7, 8, 9
DT_STRSZ, DT_SYMENT, DT_SONAME, DT_INIT_ARRAY, DT_INIT_ARRAYSZ, DT_RUNPATH = 10, 11, 14, 25, 27, 29
DT_VERSYM, DT_VERDEF, DT_VERDEFNUM = 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFD


@dataclass(frozen=True)
class Imported:
    """Four bytes of an instruction: the way from its end to the word that holds the address of another's symbol."""

    symbol: str


@dataclass(frozen=True)
class Local:
    """Four bytes of an instruction: the way from its end to a function or to data of the same library."""

    label: str


@dataclass(frozen=True)
class Pointer:
    """Eight bytes of data: the address of a label of the same library or of another's symbol, and `addend` bytes."""

    target: str
    addend: int = 0


#: Machine code: its bytes, and the addresses among them.
Code = Sequence[Union[bytes, Imported, Local]]  # noqa: UP007 (Python 3.9)


@dataclass(frozen=True)
class _Data:
    content: bytes
    pointers: Mapping[int, Pointer]


@dataclass
class SharedObject:
    """What a library holds. Functions and data are named by their labels; an exported label is a dynamic symbol."""

    soname: str
    needed: Sequence[str] = ()
    #: Where the linker looks for `needed`: `$ORIGIN`.
    runpath: str = ""
    #: By exported label: the version of the symbol. Labels without one belong to the library's base version.
    versions: Mapping[str, str] = field(default_factory=dict)
    _functions: dict[str, Code] = field(default_factory=dict)
    _data: dict[str, _Data] = field(default_factory=dict)
    _exported: list[str] = field(default_factory=list)
    _initializers: list[str] = field(default_factory=list)

    def function(self, label: str, code: Code, exported: bool = True) -> None:
        """`code` is machine code. A call or jump through `Imported` is an indirect one."""
        self._functions[label] = code
        self._exported += [label] * exported

    def data(
        self, label: str, content: bytes, pointers: Mapping[int, Pointer] | None = None, exported: bool = False
    ) -> None:
        """Writable data. `pointers` has the offsets in `content` that hold addresses."""
        self._data[label] = _Data(content, pointers or {})
        self._exported += [label] * exported

    def text(self, label: str, text: str) -> None:
        """A string of C."""
        self.data(label, text.encode() + b"\0")

    def initializer(self, label: str) -> None:
        """The linker calls this function once, after the initializers of the libraries that are needed."""
        self._initializers.append(label)

    def encode(self) -> bytes:
        """The file. Raises KeyError for a label that code or data uses and that is nowhere defined."""
        return _Layout(self).file()


class _Layout:
    """The addresses of one library, which are also the offsets in its file."""

    def __init__(self, library: SharedObject) -> None:
        self._library = library
        # Null, imports, exports: the order of the dynamic symbols.
        self._imports = sorted(self._imported_names())
        self._exports = list(library._exported)
        self._strings = _Strings()
        self._symbols = {name: index for index, name in enumerate([*self._imports, *self._exports], 1)}
        code, offsets = _placed({label: _size(code) for label, code in library._functions.items()}, 16)
        words, data_offsets = _placed({label: len(data.content) for label, data in library._data.items()}, 16)
        head = self._head_size()
        self._code_start, self._code_size = _up(head, PAGE), code
        self._dynamic = _up(self._code_start + code, PAGE)
        self._initializers = self._dynamic + DYNAMIC * len(self._dynamic_entries({}))
        self._words = self._initializers + 8 * len(library._initializers)
        self._data_start = _up(self._words + 8 * len(self._imports), 16)
        self._end = self._data_start + words
        self._labels = {label: self._code_start + offset for label, offset in offsets.items()}
        self._labels.update({label: self._data_start + offset for label, offset in data_offsets.items()})
        self._import_words = {name: self._words + 8 * index for index, name in enumerate(self._imports)}

    def file(self) -> bytes:
        places, head = self._head(self._relocations())
        image = bytearray(self._end)
        image[: len(head)] = head
        for label, code in self._library._functions.items():
            at = self._labels[label]
            image[at : at + _size(code)] = self._assembled(code, at)
        for label, data in self._library._data.items():
            at = self._labels[label]
            image[at : at + len(data.content)] = data.content
        dynamic = b"".join(struct.pack("<qQ", *entry) for entry in self._dynamic_entries(places))
        image[self._dynamic : self._dynamic + len(dynamic)] = dynamic
        return bytes(image)

    def _imported_names(self) -> set[str]:
        own = self._library._functions.keys() | self._library._data.keys()
        code = {
            part.symbol for code in self._library._functions.values() for part in code if isinstance(part, Imported)
        }
        pointers = {pointer.target for data in self._library._data.values() for pointer in data.pointers.values()}
        return code | (pointers - own)

    def _assembled(self, code: Code, at: int) -> bytes:
        done = b""
        for part in code:
            if isinstance(part, bytes):
                done += part
                continue
            target = self._import_words[part.symbol] if isinstance(part, Imported) else self._labels[part.label]
            done += struct.pack("<i", target - (at + len(done) + 4))
        return done

    def _relocations(self) -> bytes:
        found = [(self._import_words[name], self._symbols[name], R_X86_64_GLOB_DAT, 0) for name in self._imports]
        found += [
            (self._initializers + 8 * index, 0, R_X86_64_RELATIVE, self._labels[label])
            for index, label in enumerate(self._library._initializers)
        ]
        for label, data in self._library._data.items():
            for offset, pointer in data.pointers.items():
                at = self._labels[label] + offset
                if pointer.target in self._labels:
                    found.append((at, 0, R_X86_64_RELATIVE, self._labels[pointer.target] + pointer.addend))
                else:
                    found.append((at, self._symbols[pointer.target], R_X86_64_64, pointer.addend))
        return b"".join(struct.pack("<QQq", at, symbol << 32 | kind, addend) for at, symbol, kind, addend in found)

    def _head_size(self) -> int:
        library = self._library
        pointers = sum(len(data.pointers) for data in library._data.values())
        relocations = len(self._imports) + len(library._initializers) + pointers
        self._labels = dict.fromkeys([*library._functions, *library._data], 0)
        return len(self._head(b"\0" * RELOCATION * relocations, measuring=True)[1])

    def _head(self, relocations: bytes, measuring: bool = False) -> tuple[dict[int, int], bytes]:
        """The first segment, and the values of its tables for the dynamic section."""
        versions, numbers = self._version_definitions()
        tables = [
            (DT_HASH, _hash_table(list(self._symbols))),
            (DT_SYMTAB, b"".join(self._symbol_entries())),
            (DT_VERSYM, struct.pack(f"<{len(self._symbols) + 1}H", 0, *map(numbers.get, self._symbols))),
            (DT_VERDEF, versions),
            (DT_RELA, relocations),
        ]
        self._dynamic_entries({})  # Its strings are in the table before that is written.
        tables.append((DT_STRTAB, self._strings.content))
        places = {}
        at = HEADER + 5 * PROGRAM_HEADER
        body = b""
        for tag, content in tables:
            body += b"\0" * (-len(body) % 8)
            places[tag] = at + len(body)
            body += content
        header = b"" if measuring else self._headers(at + len(body))
        return places, header.ljust(at, b"\0") + body

    def _headers(self, head: int) -> bytes:
        identity = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
        counts = struct.pack("<HHHHHH", HEADER, PROGRAM_HEADER, 5, HEADER, 0, 0)
        file_header = identity + struct.pack("<HHIQQQI", 3, 62, 1, 0, HEADER, 0, 0) + counts
        dynamic_size = self._initializers - self._dynamic
        segments = [
            (PT_LOAD, READ, 0, head, PAGE),
            (PT_LOAD, READ_EXECUTE, self._code_start, self._code_size, PAGE),
            (PT_LOAD, READ_WRITE, self._dynamic, self._end - self._dynamic, PAGE),
            (PT_DYNAMIC, READ_WRITE, self._dynamic, dynamic_size, 8),
            # Without this header the linker makes the stacks of the whole process executable, or refuses to.
            (PT_GNU_STACK, READ_WRITE, 0, 0, 16),
        ]
        return file_header + b"".join(
            struct.pack("<IIQQQQQQ", kind, flags, at, at, at, size, size, align)
            for kind, flags, at, size, align in segments
        )

    def _symbol_entries(self) -> Iterator[bytes]:
        yield b"\0" * SYMBOL
        for name in self._imports:
            yield struct.pack("<IBBHQQ", self._strings.add(name), STB_GLOBAL << 4, 0, 0, 0, 0)
        library = self._library
        for name in self._exports:
            is_function = name in library._functions
            kind = STT_FUNC if is_function else STT_OBJECT
            size = _size(library._functions[name]) if is_function else len(library._data[name].content)
            # There are no sections. Any number but 0 says that the symbol is defined here.
            info = STB_GLOBAL << 4 | kind
            yield struct.pack("<IBBHQQ", self._strings.add(name), info, 0, 1, self._labels[name], size)

    def _version_definitions(self) -> tuple[bytes, dict[str, int]]:
        names = sorted(set(self._library.versions.values()))
        entries = [(self._library.soname, VER_BASE, 1)] if names else []
        entries += [(name, 0, number) for number, name in enumerate(names, FIRST_VERSION)]
        packed = b""
        for index, (name, flags, number) in enumerate(entries):
            following = 28 if index + 1 < len(entries) else 0
            packed += struct.pack("<HHHHIII", 1, flags, number, 1, _hash(name), 20, following)
            packed += struct.pack("<II", self._strings.add(name), 0)
        numbers = dict.fromkeys(self._imports, VER_NONE) | dict.fromkeys(self._exports, VER_GLOBAL)
        numbers |= {name: names.index(version) + FIRST_VERSION for name, version in self._library.versions.items()}
        return packed, numbers

    def _dynamic_entries(self, places: Mapping[int, int]) -> list[tuple[int, int]]:
        library = self._library
        entries = [(DT_NEEDED, self._strings.add(name)) for name in library.needed]
        entries.append((DT_SONAME, self._strings.add(library.soname)))
        if library.runpath:
            entries.append((DT_RUNPATH, self._strings.add(library.runpath)))
        pointers = sum(len(data.pointers) for data in library._data.values())
        relocations = len(self._imports) + len(library._initializers) + pointers
        entries += [(tag, places.get(tag, 0)) for tag in (DT_HASH, DT_STRTAB, DT_SYMTAB)]
        entries += [(DT_STRSZ, len(self._strings.content)), (DT_SYMENT, SYMBOL)]
        if relocations:
            entries += [(DT_RELA, places.get(DT_RELA, 0)), (DT_RELASZ, RELOCATION * relocations)]
            entries.append((DT_RELAENT, RELOCATION))
        if library.versions:
            count = len(set(library.versions.values())) + 1
            entries += [(tag, places.get(tag, 0)) for tag in (DT_VERSYM, DT_VERDEF)] + [(DT_VERDEFNUM, count)]
        if library._initializers:
            start = getattr(self, "_initializers", 0)
            entries += [(DT_INIT_ARRAY, start), (DT_INIT_ARRAYSZ, 8 * len(library._initializers))]
        return [*entries, (DT_NULL, 0)]


class _Strings:
    """A table of strings in which each stands once."""

    def __init__(self) -> None:
        self.content = b"\0"
        self._offsets: dict[str, int] = {"": 0}

    def add(self, text: str) -> int:
        if text not in self._offsets:
            self._offsets[text] = len(self.content)
            self.content += text.encode() + b"\0"
        return self._offsets[text]


def _hash_table(names: Sequence[str]) -> bytes:
    """DT_HASH: buckets and chains of the symbols' indexes; `names` begin with index 1."""
    count = max(1, len(names) // 2)
    buckets, chains = [0] * count, [0] * (len(names) + 1)
    for index, name in enumerate(names, 1):
        bucket = _hash(name) % count
        buckets[bucket], chains[index] = index, buckets[bucket]
    return struct.pack(f"<II{count}I{len(chains)}I", count, len(chains), *buckets, *chains)


def _hash(name: str) -> int:
    """The hash function of the gABI, chapter 5."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high & 0xFFFFFFFF
    return value


def _placed(sizes: Mapping[str, int], alignment: int) -> tuple[int, dict[str, int]]:
    """The sum of the sizes, each rounded up, and where each begins."""
    offsets, at = {}, 0
    for label, size in sizes.items():
        offsets[label] = at
        at = _up(at + size, alignment)
    return at, offsets


def _size(code: Code) -> int:
    return sum(len(part) if isinstance(part, bytes) else 4 for part in code)


def _up(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment
