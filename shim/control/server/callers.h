// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Callers: the connections of the control socket that have not said their line yet, kMax at most. Each has a second in
// all from its beginning, however it spends that (a byte now and then); where one more comes, the oldest goes. So who
// says nothing holds nobody up, and costs one descriptor.
//
//   accept ─► Add ─► poll(Fds) ─► Read: a whole line? ─► the server answers and closes
//                                       not yet        ─► stays
//                                       end, too long, late ─► closed
//
// Thread-safety: one thread. Ownership: owns the descriptors until TakeLine gives one up. Failure: closes.
//
//   callers.Add(fd, now_ns);
//   count = callers.PutFds(fds); poll(fds, count, kPollMs);
//   while (callers.TakeLine(now_ns, &fd, &line, &size)) { answer(fd, line, size); close(fd); }

#ifndef GPUMEM_SHIM_CONTROL_SERVER_CALLERS_H_
#define GPUMEM_SHIM_CONTROL_SERVER_CALLERS_H_

#include <poll.h>

#include <cstddef>
#include <cstdint>

#include "shim/base/descriptors.h"
#include "shim/control/server/requests.h"

namespace gpumemshim::control {

class Callers {
 public:
  static constexpr uint32_t kMax = 8;
  static constexpr uint64_t kPatienceNs = 1'000'000'000;

  // Takes a connected socket that does not block.
  void Add(int fd, uint64_t now_ns);

  // What to wait for, at most kMax. Returns how many.
  uint32_t PutFds(pollfd* out) const;

  // Reads what has come, closes who is late. The next whole line without its newline, valid until the next call, and
  // its connection, which is the caller's to close. False: no more lines now.
  bool TakeLine(uint64_t now_ns, int* fd, const char** line, size_t* size);

  void CloseAll();

 private:
  struct Caller {
    int fd = -1;
    descriptors::Identity identity;
    uint64_t since_ns = 0;
    size_t size = 0;
    char line[kMaxRequestBytes] = {};  // all of it constant: the library has no constructor
  };
  enum class Outcome { kLine, kWaits, kGone };

  static void Close(Caller* caller);
  static Outcome Read(Caller* caller);

  Caller callers_[kMax];
};

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_SERVER_CALLERS_H_
