"""Reads what the dynamic linker needs of a shared object: ELF, 64 bits, little endian (System V ABI, gABI 4.1)."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELOCATION = struct.Struct("<QQq")
DYNAMIC = struct.Struct("<qQ")
NEED = struct.Struct("<HHIII")
NEED_VERSION = struct.Struct("<IHHII")

SHT_SYMTAB, SHT_RELA, SHT_DYNAMIC, SHT_DYNSYM = 2, 4, 6, 11
SHT_VERNEED, SHT_VERSYM = 0x6FFFFFFE, 0x6FFFFFFF
DT_NEEDED = 1
STB_WEAK = 2
SHN_UNDEF = 0
R_X86_64_64, R_X86_64_RELATIVE = 1, 8
EM_X86_64 = 62


class NotAnElfFile(ValueError):
    """The file is not a shared object for x86-64."""


@dataclass(frozen=True)
class Section:
    kind: int
    address: int
    offset: int
    size: int
    #: The index of another section: a symbol table's strings.
    link: int


@dataclass(frozen=True)
class Symbol:
    name: str
    is_defined: bool
    is_weak: bool
    #: Its address in the library, without the address that the library is loaded at.
    address: int
    #: Bytes.
    size: int
    #: The library and the version that an undefined symbol asks for (`libcudart.so.12`, twice), or None.
    version: tuple[str, str] | None = None


class Library:
    """One shared object. Raises NotAnElfFile."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as stream:
            try:
                self._bytes: mmap.mmap = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError as error:
                raise NotAnElfFile(f"{path} is empty") from error
        if self._bytes[:6] != b"\x7fELF\x02\x01" or len(self._bytes) < 64:
            raise NotAnElfFile(f"{path} is not a 64-bit ELF file")
        if struct.unpack_from("<H", self._bytes, 18)[0] != EM_X86_64:
            raise NotAnElfFile(f"{path} is not for x86-64")
        start, entry_size, count = self._unpack("<Q", 40) + self._unpack("<HH", 58)
        self._sections = [self._section(start + index * entry_size) for index in range(count)]

    @cached_property
    def needed(self) -> list[str]:
        """Returns the names of the libraries that the linker loads with this one, in its order."""
        return [
            self._text(section, value)
            for section in self._of_kind(SHT_DYNAMIC)
            for tag, value in DYNAMIC.iter_unpack(self._content(section))
            if tag == DT_NEEDED
        ]

    @cached_property
    def symbols(self) -> list[Symbol]:
        """Returns the dynamic symbols: what the library offers and what it needs from others."""
        versions = [value for section in self._of_kind(SHT_VERSYM) for value in self._words(section)]
        wanted = dict(self._wanted_versions())
        found = list(self._symbols(SHT_DYNSYM))
        if not versions:
            return found
        return [replace(symbol, version=wanted.get(versions[index] & 0x7FFF)) for index, symbol in enumerate(found)]

    def methods(self, table: str) -> list[str | None]:
        """The names of the functions in a C++ class's virtual table, by slot, or None where no name is known.

        `table` is the table's mangled name (`_ZTVN2at18CUDAHooksInterfaceE`). The list begins with the two words that
        precede the functions (Itanium C++ ABI, 2.5.2). Raises KeyError if the library does not have the table.
        """
        found = [symbol for symbol in self.symbols if symbol.name == table and symbol.is_defined]
        if not found:
            raise KeyError(table)
        functions, named = self._pointers(found[0])
        names: dict[int, str] = {}
        wanted = set(functions.values())
        for symbol in self._symbols(SHT_SYMTAB):
            if symbol.is_defined and symbol.address in wanted:
                names.setdefault(symbol.address, symbol.name)
        return [named.get(slot) or names.get(functions.get(slot, -1)) for slot in range(found[0].size // 8)]

    def _pointers(self, data: Symbol) -> tuple[dict[int, int], dict[int, str]]:
        """Returns, by word of `data`, the addresses in this library that it holds, and the symbols whose addresses it
        holds."""
        addresses: dict[int, int] = {}
        names: dict[int, str] = {}
        for section in self._of_kind(SHT_RELA):
            for place, info, addend in RELOCATION.iter_unpack(self._content(section)):
                if not 0 <= place - data.address < data.size:
                    continue
                if info & 0xFFFFFFFF == R_X86_64_RELATIVE:
                    addresses[(place - data.address) // 8] = addend
                elif info & 0xFFFFFFFF == R_X86_64_64:
                    names[(place - data.address) // 8] = self.symbols[info >> 32].name
        return addresses, names

    def _symbols(self, kind: int) -> Iterator[Symbol]:
        for section in self._of_kind(kind):
            for name, info, _other, home, address, size in SYMBOL.iter_unpack(self._content(section)):
                is_weak = info >> 4 == STB_WEAK
                yield Symbol(self._text(section, name), home != SHN_UNDEF, is_weak, address, size)

    def _wanted_versions(self) -> Iterator[tuple[int, tuple[str, str]]]:
        for section in self._of_kind(SHT_VERNEED):
            at = section.offset
            while True:
                _, count, file, first, following = NEED.unpack_from(self._bytes, at)
                version_at = at + first
                for _ in range(count):
                    _, _, number, name, next_version = NEED_VERSION.unpack_from(self._bytes, version_at)
                    yield number, (self._text(section, file), self._text(section, name))
                    version_at += next_version
                if not following:
                    break
                at += following

    def _section(self, at: int) -> Section:
        _, kind, _, address, offset, size, link, _, _, _ = SECTION.unpack_from(self._bytes, at)
        return Section(kind, address, offset, size, link)

    def _of_kind(self, kind: int) -> Iterator[Section]:
        return (section for section in self._sections if section.kind == kind)

    def _content(self, section: Section) -> bytes:
        return self._bytes[section.offset : section.offset + section.size]

    def _words(self, section: Section) -> Iterator[int]:
        return (value for (value,) in struct.iter_unpack("<H", self._content(section)))

    def _text(self, section: Section, offset: int) -> str:
        start = self._sections[section.link].offset + offset
        return self._bytes[start : self._bytes.find(b"\0", start)].decode()

    def _unpack(self, layout: str, at: int) -> tuple[int, ...]:
        return struct.unpack_from(layout, self._bytes, at)
