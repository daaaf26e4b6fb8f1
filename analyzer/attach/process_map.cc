// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "attach/process_map.h"

#include <gelf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file_output.h"

namespace gpumem {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kStackGrowth = 1 << 20;  // the main thread's stack grows by itself, to 8 MiB as a rule

MappedObject& ObjectOf(const std::string& path, uint64_t start, std::vector<MappedObject>* objects) {
  if (!objects->empty() && objects->back().path == path) return objects->back();
  objects->push_back({path, start, {}});
  return objects->back();
}

void AddSymbols(Elf* elf, uint64_t bias, std::vector<Function>* functions) {
  for (Elf_Scn* section = elf_nextscn(elf, nullptr); section != nullptr; section = elf_nextscn(elf, section)) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type != SHT_DYNSYM || header.sh_entsize == 0) continue;
    Elf_Data* const data = elf_getdata(section, nullptr);
    const auto count = static_cast<int>(std::min<uint64_t>(header.sh_size / header.sh_entsize, 1 << 20));
    for (int i = 0; data != nullptr && i < count; ++i) {
      GElf_Sym symbol;
      if (gelf_getsym(data, i, &symbol) == nullptr || GELF_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
      const char* name = elf_strptr(elf, header.sh_link, symbol.st_name);
      if (symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0 || name == nullptr) continue;
      functions->push_back({name, bias + symbol.st_value, bias + symbol.st_value + symbol.st_size});
    }
  }
  std::sort(functions->begin(), functions->end(),
            [](const Function& a, const Function& b) { return a.start < b.start; });
}

}  // namespace

const MappedObject* ProcessMap::Find(absl::string_view prefix) const {
  for (const MappedObject& object : objects) {
    if (absl::StartsWith(std::filesystem::path(object.path).filename().string(), prefix)) return &object;
  }
  return nullptr;
}

const MappedObject* ProcessMap::FindOfGlibc(absl::string_view name) const {
  const MappedObject* const found = Find(absl::StrCat(name, ".so."));
  return found != nullptr ? found : Find(absl::StrCat(name, "-2."));
}

absl::StatusOr<ProcessMap> ReadProcessMap(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/maps"));
  ProcessMap map;
  std::string line;
  while (std::getline(file, line)) {
    uint64_t start = 0, end = 0;
    char access[5] = {};
    int at = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %4s %*s %*s %*s %n", &start, &end, access, &at) < 3) continue;
    if (access[1] == 'w') map.writable.push_back({start - (absl::EndsWith(line, "[stack]") ? kStackGrowth : 0), end});
    if (at == 0 || static_cast<size_t>(at) >= line.size() || line[static_cast<size_t>(at)] != '/') continue;
    MappedObject& object = ObjectOf(line.substr(static_cast<size_t>(at)), start, &map.objects);
    if (access[2] == 'x') object.code.push_back({start, end});
  }
  if (map.objects.empty()) {
    return absl::PermissionDeniedError(absl::StrCat("process ", pid, " does not show what it has mapped"));
  }
  return map;
}

uint64_t ObjectFunctions::AddressOf(absl::string_view name) const {
  for (const Function& function : functions) {
    if (function.name == name) return function.start;
  }
  return 0;
}

absl::StatusOr<ObjectFunctions> ReadFunctions(pid_t pid, const MappedObject& object) {
  const std::string path = absl::StrCat("/proc/", pid, "/root", object.path);
  const int fd = OpenRegularFile(path);
  if (fd < 0) {
    return absl::NotFoundError(absl::StrCat(object.path, " cannot be read as process ", pid, " sees it: ",
                                            errno == EINVAL ? "it is not a plain file" : std::strerror(errno)));
  }
  const absl::Cleanup close_file = [fd] { close(fd); };
  elf_version(EV_CURRENT);
  Elf* const elf = elf_begin(fd, ELF_C_READ_MMAP, nullptr);
  const absl::Cleanup end_elf = [elf] { elf_end(elf); };
  size_t headers = 0;
  if (elf == nullptr || elf_getphdrnum(elf, &headers) != 0)
    return absl::InvalidArgumentError(absl::StrCat(object.path, " is not an ELF file"));
  ObjectFunctions found;
  uint64_t bias = 0;
  bool has_bias = false;
  for (size_t i = 0; i < headers; ++i) {
    GElf_Phdr header;
    if (gelf_getphdr(elf, static_cast<int>(i), &header) == nullptr || header.p_type != PT_LOAD) continue;
    if (!has_bias) bias = object.base - (header.p_vaddr & ~(kPage - 1));
    has_bias = true;
    if ((header.p_flags & PF_X) == 0 || header.p_filesz != header.p_memsz) continue;
    const uint64_t end = bias + header.p_vaddr + header.p_filesz;
    const AddressRange spare{(end + 15) & ~uint64_t{15}, (end + kPage - 1) & ~(kPage - 1)};
    if (spare.end - spare.start > found.spare.end - found.spare.start && spare.end > spare.start) found.spare = spare;
  }
  AddSymbols(elf, bias, &found.functions);
  return found;
}

}  // namespace gpumem
