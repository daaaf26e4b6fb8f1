// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What can be said about an executable or library without running it: whether a preload can reach it, what it needs,
// what it exports. Read by libelf, which checks every offset; a file that makes no sense is not an ELF file or has less
// in it. 64-bit little-endian ELF only (others: is_elf64 false).
//
//   absl::StatusOr<ElfFile> elf = ReadElfFile("/usr/bin/python3");
//   if (elf.ok() && elf->is_elf64 && !elf->has_interpreter) ...   // static: LD_PRELOAD has no effect

#ifndef GPUMEM_ANALYZER_ATTACH_ELF_FILE_H_
#define GPUMEM_ANALYZER_ATTACH_ELF_FILE_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gpumem {

struct ElfFile {
  bool is_elf = false;
  bool is_elf64 = false;
  uint16_t machine = 0;  // EM_*
  bool has_interpreter = false;
  std::vector<std::string> needed;
  std::set<std::string> exported;  // defined dynamic symbols
  std::string script_interpreter;  // of a "#!" file, else ""
};

absl::StatusOr<ElfFile> ReadElfFile(const std::string& path);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ATTACH_ELF_FILE_H_
