// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ProbeProcess: runs another program whose life the host cannot notice: no SIGCHLD, nothing for its wait(-1), no
// zombie, no descriptor and no environment of the host's. What it prints comes out on standard error in one piece at
// its end.
//
//   host (any thread) --clone, no exit signal--> supervisor --vfork--> program
//
// The program's parent is the supervisor, a process of ours that never calls exec: a child whose exit signal is not
// SIGCHLD keeps it only until it does (execve(2)), and an orphan would become the child of a host that is process 1 of
// its container. The kernel shows such a supervisor to __WALL and __WCLONE alone. It shares the host's memory, so that
// starting it copies no page tables, and uses system calls only: the thread-local variables that it sees are another
// thread's.
//
// Both die with the thread that called Start (PR_SET_PDEATHSIG), the program also at its timeout. Of StartBeside the
// supervisor only waits, and the program outlives it until it has answered SIGTERM.
//
// Thread-safety: one thread. Ownership: argv and envp must stay valid while Running(). Failure: Start returns false.
//
//   ProbeProcess child;
//   if (child.Start("/usr/bin/gpumemshim", argv, envp, 30'000)) while (child.Running()) ...

#ifndef GPUMEM_SHIM_WITNESS_OOM_PROBE_PROCESS_H_
#define GPUMEM_SHIM_WITNESS_OOM_PROBE_PROCESS_H_

#include <cstdint>

namespace gpumemshim::oom {

class ProbeProcess {
 public:
  // Not while Running().
  bool Start(const char* path, const char* const* argv, const char* const* envp, uint32_t timeout_ms);

  // One that runs as long as the host does, and prints as it goes: on the host's standard error. At the host's end it
  // is asked to end (SIGTERM), and may outlive it for what it still has to do. Not while Running().
  bool StartBeside(const char* path, const char* const* argv, const char* const* envp);

  // Whether it still runs. Must be asked until it does not: only then the process table forgets the supervisor.
  bool Running();

  // Ends both at once; Running() is false soon after.
  void Kill();

  // In a forked child: the parent's, not ours.
  void Forget() { pid_ = 0; }

 private:
  bool StartWith(const char* path, const char* const* argv, const char* const* envp, uint64_t deadline_ns, bool beside);

  void* memory_ = nullptr;  // the supervisor's stacks and what the program printed; kept for the next start
  int pid_ = 0;
};

}  // namespace gpumemshim::oom

#endif  // GPUMEM_SHIM_WITNESS_OOM_PROBE_PROCESS_H_
