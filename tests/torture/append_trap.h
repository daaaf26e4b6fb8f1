// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Stops a victim's writer thread in its next append and kills the victim there. The time between a mark in the ring and
// the packet's last byte is too short to be met by chance, so the thread is held with ptrace at its write(2).
//
// Not thread-safe. Failure: false where ptrace is not allowed or not known on this processor; nothing has happened
// then.
//
//   if (!KillInAppend(pid, AppendStep::kHalfWritten, random)) kill(pid, SIGKILL);

#ifndef GPUMEM_TESTS_TORTURE_APPEND_TRAP_H_
#define GPUMEM_TESTS_TORTURE_APPEND_TRAP_H_

#include <sys/types.h>

#include <cstdint>

namespace torture {

enum class AppendStep { kBeforeTheWrite, kHalfWritten, kAfterTheWrite };

// `part` chooses how much of the packet a kHalfWritten leaves.
bool KillInAppend(pid_t victim, AppendStep step, uint32_t part);

}  // namespace torture

#endif  // GPUMEM_TESTS_TORTURE_APPEND_TRAP_H_
