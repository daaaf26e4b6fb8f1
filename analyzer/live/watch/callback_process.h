// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// CallbackProcess: a command of the user's that runs beside us and can hold up nobody: it is never waited for, has a
// process group of its own, and is killed with all of it at its deadline. It reads a text on standard input; what it
// prints goes to our standard error. Time is the caller's, in ns of one clock.
//
// Not thread-safe. Failure: an end with a text that says what happened.
//
//   CallbackProcess process;
//   process.Start({"/bin/sh", "-c", command}, {"GPUMEMSHIM_RISK=high"}, json, now_ns + 30'000'000'000);
//   if (const auto end = process.Poll(now_ns)) end->text;    // "exited with code 3"

#ifndef GPUMEM_ANALYZER_LIVE_WATCH_CALLBACK_PROCESS_H_
#define GPUMEM_ANALYZER_LIVE_WATCH_CALLBACK_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpumem {

struct CallbackEnd {
  bool is_fine = false;
  std::string text;
};

class CallbackProcess {
 public:
  CallbackProcess() = default;
  CallbackProcess(const CallbackProcess&) = delete;
  CallbackProcess& operator=(const CallbackProcess&) = delete;
  ~CallbackProcess() { Kill(); }

  // Not while one runs. Where it cannot be started the next Poll says why. `variables`: "NAME=value", beside ours.
  void Start(const std::vector<std::string>& command, const std::vector<std::string>& variables,
             const std::string& input, uint64_t now_ns, uint64_t deadline_ns);

  bool is_running() const { return pid_ != 0; }
  // How it ended, once; kills it at its deadline.
  std::optional<CallbackEnd> Poll(uint64_t now_ns);
  // Ends it now, with all that it started in its group.
  void Kill();

 private:
  pid_t pid_ = 0;
  uint64_t started_ns_ = 0, deadline_ns_ = 0;
  std::string problem_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_WATCH_CALLBACK_PROCESS_H_
