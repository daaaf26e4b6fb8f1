// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// LookUpAddresses: names for return addresses of one module, from its file and its separate debug file: DWARF where
// there is some, else the symbol tables (those packed in .gnu_debugdata too), else the stubs of the dynamic linker.
// Reads no more than the wanted addresses need, so that a library of a gigabyte costs a fraction of a second.
//
// Never fails: what cannot be read leaves addresses unnamed. Files that are damaged or hostile may crash it all the
// same, for libelf and libdw do the reading: LookUpIsolated does the work in a process of its own, with limits on
// memory and time, and falls back from DWARF to symbol tables where that process dies.
//
//   const LookupAnswer answer = LookUpIsolated({"/usr/lib/libfoo.so", "", "", {0x1f20}}, progress);
//   answer.symbols.At(0x1f20);

#ifndef GPUMEM_ANALYZER_SYMBOLS_ADDRESS_LOOKUP_H_
#define GPUMEM_ANALYZER_SYMBOLS_ADDRESS_LOOKUP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trace/module_symbols.h"

namespace gpumem {

// RunIsolated: work on files that are not trusted, in a process of its own: a copy of this one by fork, with limits on
// memory (half of the machine's) and CPU time (two minutes). What crashes, hangs or eats memory there is a status
// here. The copy sees this process's memory as it was, and gives back nothing but its answer. Not for work that needs
// other threads.
//
//   absl::StatusOr<std::string> answer = RunIsolated([&](const auto& report) { return Read(path, report); }, progress);

using ReportProgress = std::function<void(uint64_t done, uint64_t all)>;

// `progress` is called here with what `work` reports there. Unavailable where no process can be started; Aborted where
// it died, with a reason such as "the reader crashed (signal 11)".
absl::StatusOr<std::string> RunIsolated(const std::function<std::string(const ReportProgress& report)>& work,
                                        const ReportProgress& progress);

struct LookupRequest {
  std::string binary, debug;        // paths; either may be ""
  std::string build_id;             // what both must have; "" = whatever they have
  std::vector<uint64_t> addresses;  // return addresses as linked, ascending
  bool dwarf = true;
};

struct LookupAnswer {
  ModuleSymbols symbols;  // has every address, unless `problem` says why not
  std::string problem;    // what could not be read; "" = all went well
};

using LookupProgress = std::function<void(uint64_t done, uint64_t all)>;

ModuleSymbols LookUpAddresses(const LookupRequest& request, const LookupProgress& progress);
LookupAnswer LookUpIsolated(const LookupRequest& request, const LookupProgress& progress);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_SYMBOLS_ADDRESS_LOOKUP_H_
