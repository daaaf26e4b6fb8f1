// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// One thread of another process, stopped by ptrace for as long as this lives. It is given back as it was, whatever
// happens: if this process is killed, the kernel lets it go on with the registers that it had last.
//
// Not thread-safe. Failure: a status that says why the thread cannot be stopped.
//
//   GPUMEM_ASSIGN_OR_RETURN(StoppedThread thread, StoppedThread::Stop(tid));
//   thread.registers().rip ...

#ifndef GPUMEM_ANALYZER_ATTACH_STOPPED_THREAD_H_
#define GPUMEM_ANALYZER_ATTACH_STOPPED_THREAD_H_

#include <sys/types.h>
#include <sys/user.h>

#include <cstdint>

#include "absl/status/statusor.h"

namespace gpumem {

class StoppedThread {
 public:
  static absl::StatusOr<StoppedThread> Stop(pid_t tid);
  StoppedThread(StoppedThread&& other) noexcept;
  StoppedThread(const StoppedThread&) = delete;
  StoppedThread& operator=(const StoppedThread&) = delete;
  StoppedThread& operator=(StoppedThread&&) = delete;
  ~StoppedThread();

  const user_regs_struct& registers() const { return registers_; }
  // Where it goes on, and with what in rax; a system call that it was in is forgotten.
  absl::Status GoOnAt(uint64_t address, uint64_t rax);

 private:
  StoppedThread(pid_t tid, int signal, const user_regs_struct& registers)
      : tid_(tid), signal_(signal), registers_(registers) {}

  pid_t tid_;   // 0: given on
  int signal_;  // that came meanwhile and is to be delivered
  user_regs_struct registers_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ATTACH_STOPPED_THREAD_H_
