// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "attach/elf_file.h"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace gpumem {
namespace {

// The section of this type, or null.
Elf_Scn* FindSection(Elf* file, uint32_t type, GElf_Shdr* header) {
  for (Elf_Scn* section = elf_nextscn(file, nullptr); section != nullptr; section = elf_nextscn(file, section))
    if (gelf_getshdr(section, header) != nullptr && header->sh_type == type) return section;
  return nullptr;
}

void ReadNeeded(Elf* file, ElfFile* elf) {
  GElf_Shdr header;
  Elf_Scn* section = FindSection(file, SHT_DYNAMIC, &header);
  Elf_Data* entries = section == nullptr ? nullptr : elf_getdata(section, nullptr);
  GElf_Dyn entry;
  for (int i = 0; entries != nullptr && gelf_getdyn(entries, i, &entry) != nullptr && entry.d_tag != DT_NULL; ++i) {
    if (entry.d_tag != DT_NEEDED) continue;
    const char* name = elf_strptr(file, header.sh_link, entry.d_un.d_val);
    if (name != nullptr) elf->needed.emplace_back(name);
  }
}

void ReadExports(Elf* file, ElfFile* elf) {
  GElf_Shdr header;
  Elf_Scn* section = FindSection(file, SHT_DYNSYM, &header);
  Elf_Data* symbols = section == nullptr ? nullptr : elf_getdata(section, nullptr);
  GElf_Sym symbol;
  for (int i = 0; symbols != nullptr && gelf_getsym(symbols, i, &symbol) != nullptr; ++i) {
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_name == 0) continue;
    const char* name = elf_strptr(file, header.sh_link, symbol.st_name);
    if (name != nullptr) elf->exported.insert(name);
  }
}

bool HasInterpreter(Elf* file) {
  size_t count = 0;
  if (elf_getphdrnum(file, &count) != 0) return false;
  GElf_Phdr segment;
  for (size_t i = 0; i < count && gelf_getphdr(file, static_cast<int>(i), &segment) != nullptr; ++i)
    if (segment.p_type == PT_INTERP) return true;
  return false;
}

std::string ScriptInterpreter(absl::string_view bytes) {
  absl::string_view line = absl::StripAsciiWhitespace(bytes.substr(2, bytes.find('\n') - 2));
  return std::string(line.substr(0, line.find_first_of(" \t")));
}

}  // namespace

absl::StatusOr<ElfFile> ReadElfFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return absl::UnavailableError(absl::StrCat("cannot read ", path, ": ", strerror(errno)));
  const absl::Cleanup close_file = [fd] { close(fd); };
  struct stat status {};
  std::array<char, 1024> first;
  const ssize_t length = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) ? pread(fd, first.data(), 1024, 0) : -1;
  if (length < 0) return absl::UnavailableError(absl::StrCat("cannot read ", path));
  ElfFile elf;
  const absl::string_view bytes(first.data(), static_cast<size_t>(length));
  if (absl::StartsWith(bytes, "#!")) elf.script_interpreter = ScriptInterpreter(bytes);

  elf_version(EV_CURRENT);
  Elf* file = elf_begin(fd, ELF_C_READ, nullptr);  // not mapped: the file may become shorter while it is read
  const absl::Cleanup end_file = [file] { elf_end(file); };
  GElf_Ehdr header;
  if (elf_kind(file) != ELF_K_ELF || gelf_getehdr(file, &header) == nullptr) return elf;
  elf.is_elf = true;
  elf.machine = header.e_machine;
  elf.is_elf64 = header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB;
  if (!elf.is_elf64) return elf;
  elf.has_interpreter = HasInterpreter(file);
  ReadNeeded(file, &elf);
  ReadExports(file, &elf);
  return elf;
}

}  // namespace gpumem
