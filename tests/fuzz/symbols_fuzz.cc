// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Any bytes as what names are made of, in the code that reads them without a process of its own: headers of ELF files,
// stored names, line tables of code objects, demangled names. The input's first byte chooses which.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "symbols/elf_identity.h"
#include "symbols/names.h"
#include "symbols/python_lines.h"
#include "trace/module_symbols.h"

namespace {

void ReadAsElf(const std::string& bytes) {
  static const int file = memfd_create("fuzz", MFD_CLOEXEC);
  if (ftruncate(file, 0) != 0 || pwrite(file, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return;
  gpumem::ReadElfIdentity(file);
  gpumem::DebugLinkCrc(file);
}

void ReadAsNames(const std::string& bytes) {
  gpumem::ModuleSymbols symbols, again;
  if (!symbols.Parse(bytes).ok()) return;
  for (const uint64_t address : symbols.Addresses()) symbols.At(address);
  if (!again.Parse(symbols.Serialize()).ok() || again.size() != symbols.size()) __builtin_trap();
}

void ReadAsLines(const std::string& bytes) {
  gpumem::PythonCodeInfo code;
  code.line_table = bytes;
  code.first_line = 7;
  for (code.python_minor = 9; code.python_minor < 15; ++code.python_minor) {
    for (uint32_t instruction = 0; instruction < 64; instruction += 2) gpumem::PythonLine(code, instruction);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 4) {
    case 0:
      ReadAsElf(bytes);
      break;
    case 1:
      ReadAsNames(bytes);
      break;
    case 2:
      ReadAsLines(bytes);
      break;
    default:
      gpumem::ShortName(bytes);
  }
  return 0;
}
