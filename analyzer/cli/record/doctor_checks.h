// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The checks of `gpumemshim doctor`, each by itself: what was found, whether that is good, and what to do. They look
// and change nothing, but for a short-lived file in /dev/shm, and what `clean` says. docs/commands/doctor.md lists
// them.

#ifndef GPUMEM_ANALYZER_CLI_RECORD_DOCTOR_CHECKS_H_
#define GPUMEM_ANALYZER_CLI_RECORD_DOCTOR_CHECKS_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace gpumem {

enum class Health { kOk, kWarning, kFailure };

struct Finding {
  std::string check;  // short and stable: "library", "driver"
  Health health = Health::kOk;
  std::string found;
  std::string next;  // what to do; "" where nothing is to be done
};

// This machine and this shell.
Finding CheckLibrary();
Finding CheckUnwinder();
Finding CheckDriver();
Finding CheckPreload(const std::string& ld_preload);
Finding CheckRingMemory(const std::string& folder);
Finding CheckWorkingDirectory();
// One for each ring in `folder`, up to eight, and their sum; none where there is none. `clean`: what processes that are
// gone left is put beside their traces.
std::vector<Finding> CheckRings(const std::string& folder, bool clean);
// Where names of native frames come from when a trace is read here.
Finding CheckSymbols();
// Whether CUPTI will be asked, and where it is; and what a process's trace says of it.
Finding CheckCupti();
Finding CheckCuptiOf(const std::string& trace);
Finding CheckFileLimit();
Finding CheckCoreLimit();

// A program that is to be started.
std::vector<Finding> CheckCommand(const std::vector<std::string>& command_line);

// A process that runs.
std::vector<Finding> CheckProcess(pid_t pid);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_CLI_RECORD_DOCTOR_CHECKS_H_
