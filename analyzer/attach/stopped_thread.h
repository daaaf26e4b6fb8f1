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
#include <string>

#include "absl/status/statusor.h"
#include "attach/process_map.h"

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

// The code that a stopped thread of a program goes on in: it makes a thread that loads libgpumemshim.so and calls
// gpumemshim_attach_v1, and returns to where it was, with all its registers. Pure function; payload_x86_64.S has the
// code.

// Functions of the program's C library, as addresses in the program.
struct CLibrary {
  uint64_t pthread_create = 0, pthread_self = 0, pthread_detach = 0, dlopen = 0, dlsym = 0;
};

struct Payload {
  uint64_t address = 0, entry = 0;  // where it is to lie, and where its code begins
  uint64_t resume_slot = 0;         // where the address stands at which the thread is to go on
  std::string bytes;
};

// To lie in `room`. `settings`: lines of NAME=VALUE. ResourceExhausted where it is too long for the room.
absl::StatusOr<Payload> MakePayload(const AddressRange& room, const CLibrary& functions, const std::string& library,
                                    const std::string& settings);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ATTACH_STOPPED_THREAD_H_
