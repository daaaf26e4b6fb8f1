# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""What a 64-bit little-endian ELF shared object needs and offers. Standard library only, reads by mmap.

  library = elf.Library("libtorch_cuda.so")
  library.soname, library.needed, library.undefined() -> {(name, version's file or "")}, library.defined() -> {name}

Thread-safety: a Library is one thread's. Failure mode: ElfError for what is no such file.
"""
import mmap
import struct

SHT_DYNAMIC, SHT_DYNSYM, SHT_VERNEED, SHT_VERSYM = 6, 11, 0x6FFFFFFE, 0x6FFFFFFF
DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH = 1, 14, 15, 29
STB_WEAK = 2


class ElfError(Exception):
    """The file is not a 64-bit little-endian ELF object with section headers."""


class Library:
    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            try:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError:
                raise ElfError(f"{path}: empty") from None
        if self._data[:6] != b"\x7fELF\x02\x01":
            raise ElfError(f"{path}: not a 64-bit little-endian ELF file")
        try:
            self._read_sections()
            self._read_dynamic()
        except (struct.error, IndexError):
            raise ElfError(f"{path}: damaged") from None

    def _read_sections(self):
        offset, = struct.unpack_from("<Q", self._data, 0x28)
        size, count = struct.unpack_from("<HH", self._data, 0x3A)
        self._sections = [struct.unpack_from("<IIQQQQIIQQ", self._data, offset + i * size) for i in range(count)]

    def _section(self, kind):
        """Contents of the first section of a kind, with those of the string table it links to."""
        for _, sh_type, _, _, offset, size, link, _, _, _ in self._sections:
            if sh_type == kind:
                strings = self._sections[link]
                return self._data[offset:offset + size], self._data[strings[4]:strings[4] + strings[5]]
        return b"", b""

    @staticmethod
    def _string(strings, offset):
        return strings[offset:strings.index(b"\0", offset)].decode("utf-8", "replace")

    def _read_dynamic(self):
        self.soname, self.needed, self.search_path = "", [], ""
        dynamic, strings = self._section(SHT_DYNAMIC)
        for tag, value in struct.iter_unpack("<QQ", dynamic):
            if tag == DT_NEEDED:
                self.needed.append(self._string(strings, value))
            elif tag == DT_SONAME:
                self.soname = self._string(strings, value)
            elif tag in (DT_RPATH, DT_RUNPATH):
                self.search_path = self._string(strings, value)

    def _version_files(self):
        """Version index -> the file that a needed version comes from."""
        data, strings = self._section(SHT_VERNEED)
        files, at = {}, 0
        while data:
            _, count, name, aux, following = struct.unpack_from("<HHIII", data, at)
            entry = at + aux
            for _ in range(count):
                _, _, index, _, next_entry = struct.unpack_from("<IHHII", data, entry)
                files[index & 0x7FFF] = self._string(strings, name)
                entry += next_entry
            if not following:
                break
            at += following
        return files

    def undefined(self):
        """{(symbol, file that its version names, or "")}; without weak references: they may stay so."""
        symbols, strings = self._section(SHT_DYNSYM)
        versions, _ = self._section(SHT_VERSYM)
        files, found = self._version_files(), set()
        for index, (name, info, _, section, _, _) in enumerate(struct.iter_unpack("<IBBHQQ", symbols)):
            if section == 0 and name != 0 and info >> 4 != STB_WEAK:
                version = struct.unpack_from("<H", versions, 2 * index)[0] & 0x7FFF if versions else 0
                found.add((self._string(strings, name), files.get(version, "")))
        return found

    def defined(self):
        symbols, strings = self._section(SHT_DYNSYM)
        return {self._string(strings, name) for name, _, _, section, _, _ in struct.iter_unpack("<IBBHQQ", symbols)
                if section != 0 and name != 0}
