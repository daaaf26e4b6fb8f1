// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/evaluation_range.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "shim/base/descriptors.h"
#include "shim/base/kernel.h"
#include "shim/base/loader.h"

namespace gpumemshim::stack {
namespace {

constexpr const char* kColdPart = "_PyEval_EvalFrameDefault.cold";

// A file mapped for reading; every access is checked against its size.
class MappedFile {
 public:
  explicit MappedFile(const char* path) {
    const int file = descriptors::Raise(open(path, O_RDONLY | O_CLOEXEC));
    struct stat status;
    if (file >= 0 && kernel::Fstat(file, &status) == 0 && status.st_size > 0) {
      void* memory = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
      if (memory != MAP_FAILED) {
        data_ = static_cast<const char*>(memory);
        size_ = static_cast<uint64_t>(status.st_size);
      }
    }
    if (file >= 0) close(file);
  }
  ~MappedFile() {
    if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  template <typename T>
  const T* At(uint64_t offset, uint64_t count = 1) const {
    const bool fits = offset <= size_ && count <= (size_ - offset) / sizeof(T);
    return fits ? reinterpret_cast<const T*>(data_ + offset) : nullptr;
  }

 private:
  const char* data_ = nullptr;
  uint64_t size_ = 0;
};

bool NameStartsWith(const MappedFile& file, const ElfW(Shdr) & strings, uint32_t offset, const char* prefix) {
  const size_t length = std::strlen(prefix);
  const char* name = offset < strings.sh_size ? file.At<char>(strings.sh_offset + offset, length) : nullptr;
  return name != nullptr && std::strncmp(name, prefix, length) == 0;
}

CodeRange FindInSymbolTable(const MappedFile& file, const ElfW(Shdr) & table, const ElfW(Shdr) & strings,
                            uintptr_t base) {
  const uint64_t count = table.sh_size / sizeof(ElfW(Sym));
  const auto* symbols = file.At<ElfW(Sym)>(table.sh_offset, count);
  for (uint64_t i = 0; symbols != nullptr && i < count; ++i) {
    if (symbols[i].st_value == 0 || !NameStartsWith(file, strings, symbols[i].st_name, kColdPart)) continue;
    return {base + symbols[i].st_value, base + symbols[i].st_value + symbols[i].st_size};
  }
  return {0, 0};
}

CodeRange FindColdPart(const char* path, uintptr_t base) {
  const MappedFile file(path);
  const auto* header = file.At<ElfW(Ehdr)>(0);
  if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return {0, 0};
  const auto* sections = file.At<ElfW(Shdr)>(header->e_shoff, header->e_shnum);
  for (int i = 0; sections != nullptr && i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB || sections[i].sh_link >= header->e_shnum) continue;
    return FindInSymbolTable(file, sections[i], sections[sections[i].sh_link], base);
  }
  return {0, 0};
}

}  // namespace

void FindEvaluationRange(const void* function, CodeRange* main_part, CodeRange* cold_part) {
  *main_part = *cold_part = {0, 0};
  if (function == nullptr) return;
  Dl_info info;
  const ElfW(Sym)* symbol = nullptr;
  if (dladdr1 == nullptr ||
      dladdr1(function, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)), RTLD_DL_SYMENT) == 0 ||
      symbol == nullptr) {
    return;
  }
  const auto start = reinterpret_cast<uintptr_t>(function);
  *main_part = {start, start + symbol->st_size};
  // The load bias: for a position-dependent executable its addresses are absolute already.
  *cold_part = FindColdPart(info.dli_fname, start - symbol->st_value);
}

}  // namespace gpumemshim::stack
