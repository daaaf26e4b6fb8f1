// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Any bytes as a library that a process to be attached to has mapped, and that names of its frames are looked up in:
// ELF headers, symbol tables, DWARF. libelf and libdw read it: what names frames does so in a process of its own, so
// there only an answer is asked for; `gpumemshim attach` itself must stand it.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "attach/process_map.h"
#include "symbols/address_lookup.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const std::string path = absl::StrCat("/dev/shm/attach_fuzz.", getpid());
  static const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (ftruncate(file, 0) != 0 || pwrite(file, data + 1, size - 1, 0) != static_cast<ssize_t>(size - 1)) return 0;
  gpumem::MappedObject object;
  object.path = path;
  object.base = 0x7f0000000000;
  const auto found = gpumem::ReadFunctions(getpid(), object);
  if (found.ok()) found->AddressOf("dlopen");
  if (data[0] % 16 != 0) return 0;  // a process each time: the costly half
  const gpumem::LookupRequest request{path, "", "", {0x1100, 0x1200, 0x2000}, true};
  const auto answer = gpumem::LookUpIsolated(request, [](uint64_t, uint64_t) {});
  if (answer.problem.empty() && answer.symbols.size() != request.addresses.size()) __builtin_trap();
  return 0;
}

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  std::atexit([] { unlink(absl::StrCat("/dev/shm/attach_fuzz.", getpid()).c_str()); });
  return 0;
}
