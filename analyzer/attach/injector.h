// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Brings libgpumemshim.so into a running process: one of its threads, stopped at a safe point (safe_point.h), is sent
// through a few instructions (stopped_thread.h) that make a new thread; that one loads the library. No other thread is
// stopped, and nothing that the program does waits for us: if this process is killed at any moment, the program either
// goes on as if nothing had been or loads the library.
//
// Thread-safety: none needed. Failure: a status in plain words, with what to do.
//
//   GPUMEM_ASSIGN_OR_RETURN(Injection done, Inject(4242, "/opt/lib/libgpumemshim.so", "GPUMEMSHIM_QUIET=1\n"));

#ifndef GPUMEM_ANALYZER_ATTACH_INJECTOR_H_
#define GPUMEM_ANALYZER_ATTACH_INJECTOR_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace gpumem {

struct Injection {
  uint64_t stopped_ns = 0;  // the longest that a thread stood still
  uint32_t stops = 0;       // threads stopped until one was at a safe point
};

// Why nothing can be brought into the process; OK where nothing is known to stand against it.
absl::Status CheckTarget(pid_t pid, const std::string& library);

// Returns when the thread goes on; the library is there a moment later.
absl::StatusOr<Injection> Inject(pid_t pid, const std::string& library, const std::string& settings);

// `library` is mapped into the process.
bool HasLibrary(pid_t pid, const std::string& library);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ATTACH_INJECTOR_H_
