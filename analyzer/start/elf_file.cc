// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "start/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace gpumem {
namespace {

// A file mapped for reading; checked access only.
class Mapped {
 public:
  static absl::StatusOr<std::unique_ptr<Mapped>> Open(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return absl::UnavailableError(absl::StrCat("cannot read ", path, ": ", strerror(errno)));
    struct stat status {};
    void* data = nullptr;
    const bool regular = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    if (regular && status.st_size > 0)
      data = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (!regular || data == MAP_FAILED) return absl::UnavailableError(absl::StrCat("cannot read ", path));
    return std::unique_ptr<Mapped>(new Mapped(data, static_cast<size_t>(status.st_size)));
  }
  ~Mapped() {
    if (bytes_.data() != nullptr) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  absl::string_view bytes() const { return bytes_; }

  template <typename T>
  std::optional<T> At(uint64_t offset) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }

  std::string StringAt(uint64_t offset) const {
    if (offset >= bytes_.size()) return "";
    const absl::string_view rest = bytes_.substr(offset, 4096);
    return std::string(rest.substr(0, rest.find('\0')));
  }

 private:
  Mapped(void* data, size_t size) : bytes_(static_cast<const char*>(data), data == nullptr ? 0 : size) {}
  absl::string_view bytes_;
};

std::optional<uint64_t> FileOffset(const Mapped& file, const Elf64_Ehdr& header, uint64_t address) {
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = file.At<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment || segment->p_type != PT_LOAD) continue;
    if (address >= segment->p_vaddr && address - segment->p_vaddr < segment->p_filesz)
      return segment->p_offset + (address - segment->p_vaddr);
  }
  return std::nullopt;
}

void ReadNeeded(const Mapped& file, const Elf64_Ehdr& header, const Elf64_Phdr& dynamic, ElfFile* elf) {
  std::vector<uint64_t> names;
  uint64_t strings = 0;
  for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic.p_filesz; at += sizeof(Elf64_Dyn)) {
    const auto entry = file.At<Elf64_Dyn>(dynamic.p_offset + at);
    if (!entry || entry->d_tag == DT_NULL) break;
    if (entry->d_tag == DT_NEEDED) names.push_back(entry->d_un.d_val);
    if (entry->d_tag == DT_STRTAB) strings = FileOffset(file, header, entry->d_un.d_ptr).value_or(0);
  }
  if (strings == 0) return;
  for (const uint64_t name : names) elf->needed.push_back(file.StringAt(strings + name));
}

void ReadSegments(const Mapped& file, const Elf64_Ehdr& header, ElfFile* elf) {
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = file.At<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment) return;
    if (segment->p_type == PT_INTERP) elf->has_interpreter = true;
    if (segment->p_type == PT_DYNAMIC) ReadNeeded(file, header, *segment, elf);
  }
}

void ReadExports(const Mapped& file, const Elf64_Ehdr& header, ElfFile* elf) {
  for (uint64_t i = 0; i < header.e_shnum; ++i) {
    const auto section = file.At<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr));
    if (!section || section->sh_type != SHT_DYNSYM) continue;
    const auto strings = file.At<Elf64_Shdr>(header.e_shoff + uint64_t{section->sh_link} * sizeof(Elf64_Shdr));
    if (!strings) return;
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= section->sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = file.At<Elf64_Sym>(section->sh_offset + at);
      if (!symbol) return;
      if (symbol->st_shndx != SHN_UNDEF && symbol->st_name != 0)
        elf->exported.insert(file.StringAt(strings->sh_offset + symbol->st_name));
    }
  }
}

std::string ScriptInterpreter(absl::string_view bytes) {
  absl::string_view line = bytes.substr(2, bytes.find('\n') - 2).substr(0, 1024);
  line = absl::StripAsciiWhitespace(line);
  return std::string(line.substr(0, line.find_first_of(" \t")));
}

}  // namespace

absl::StatusOr<ElfFile> ReadElfFile(const std::string& path) {
  absl::StatusOr<std::unique_ptr<Mapped>> file = Mapped::Open(path);
  if (!file.ok()) return file.status();
  ElfFile elf;
  const absl::string_view bytes = (*file)->bytes();
  if (bytes.size() > 2 && bytes[0] == '#' && bytes[1] == '!') elf.script_interpreter = ScriptInterpreter(bytes);
  const auto header = (*file)->At<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return elf;
  elf.is_elf = true;
  elf.machine = header->e_machine;
  elf.is_elf64 = header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB;
  if (!elf.is_elf64 || header->e_phentsize != sizeof(Elf64_Phdr)) return elf;
  ReadSegments(**file, *header, &elf);
  if (header->e_shentsize == sizeof(Elf64_Shdr)) ReadExports(**file, *header, &elf);
  return elf;
}

}  // namespace gpumem
