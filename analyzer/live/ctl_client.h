// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Talks to the control socket of a process that has libgpumemshim.so in it (docs/commands/ctl.md has the protocol).
//
// Sockets lie in directories of the user whose process it is; one is believed only where the kernel says that it is
// the wanted process that listens. A process in a container is reached through /proc/PID/root. Nothing that comes back
// is trusted: lines are bounded and escaped.
//
// Thread-safety: none needed. Failure: a status that says what to do.
//
//   GPUMEM_ASSIGN_OR_RETURN(ControlAnswer answer, AskProcess(4242, "status"));
//   Print(answer.Text("state"), answer.Number("events"));

#ifndef GPUMEM_ANALYZER_LIVE_CTL_CLIENT_H_
#define GPUMEM_ANALYZER_LIVE_CTL_CLIENT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpumem {

class ControlAnswer {
 public:
  // The lines behind "gpumemshim/1 ok". DataLoss where they are no answer; FailedPrecondition with the process's own
  // words where it refused.
  static absl::StatusOr<ControlAnswer> Parse(absl::string_view text);

  std::string Text(absl::string_view name) const;
  uint64_t Number(absl::string_view name) const;  // 0 where it is none

 private:
  std::map<std::string, std::string, std::less<>> fields_;
};

// `request`: "status", "mark epoch 3", ... NotFound where no such process listens, PermissionDenied, Unavailable where
// it does not answer in time.
absl::StatusOr<ControlAnswer> AskProcess(int pid, absl::string_view request);

// The processes of this user that listen and that `pid` started, itself or through others: a `gpumemshim run` in the
// background has the program below it. Ascending.
std::vector<int> ListenersBelow(int pid);

// The answers to "status" of every process of this user that listens. Sockets that nobody listens on any more are
// removed.
std::vector<ControlAnswer> AskAll();

// Where the control sockets of a user's processes may lie (shim/control/server/control_socket.cc chooses), and why a
// process has none: in its own files, what its library would have said.
//
// Thread-safety: pure, but for the environment and files. Failure: WhyNoSocket says the least that is sure.
//
//   for (const std::string& directory : ControlPlaces(uid)) ...
//   return absl::NotFoundError(WhyNoSocket(pid, uid));

// Most likely first.
std::vector<std::string> ControlPlaces(uint32_t uid);

// True where only `uid` can make files in the directory, which is not a link.
bool IsPlaceOf(const std::string& directory, uint32_t uid);

// "it runs without libgpumemshim.so", for example.
std::string WhyNoSocket(int pid, uint32_t uid);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LIVE_CTL_CLIENT_H_
