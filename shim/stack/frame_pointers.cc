// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/stack/frame_pointers.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "shim/base/descriptors.h"
#include "shim/stack/memory_read.h"

namespace gpumemshim::stack {
namespace {

struct Mapping {
  uintptr_t start;
  uintptr_t end;
  bool Holds(uintptr_t address) const { return address >= start && address < end; }
};

constinit thread_local Mapping t_stack __attribute__((tls_model("initial-exec"))) = {0, 0};

// Reads "7f..-7f.. rw-p ..." lines a character at a time: only the two addresses of each count.
class MapsParser {
 public:
  // True once the mapping that holds `address` was read.
  bool Feed(char c, uintptr_t address, Mapping* out) {
    if (c == '\n') {
      part_ = Part::kStart;
      mapping_ = {0, 0};
    } else if (part_ == Part::kStart && c == '-') {
      part_ = Part::kEnd;
    } else if (part_ == Part::kEnd && c == ' ') {
      part_ = Part::kRest;
      *out = mapping_;
      return mapping_.Holds(address);
    } else if (part_ != Part::kRest) {
      uintptr_t& number = part_ == Part::kStart ? mapping_.start : mapping_.end;
      number = number << 4 | static_cast<uintptr_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return false;
  }

 private:
  enum class Part { kStart, kEnd, kRest };
  Part part_ = Part::kStart;
  Mapping mapping_{0, 0};
};

Mapping FindMapping(uintptr_t address) {
  const int file = descriptors::Raise(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  if (file < 0) return {0, 0};
  MapsParser parser;
  Mapping found{0, 0};
  bool done = false;
  char buffer[1024];
  for (ssize_t size = read(file, buffer, sizeof buffer); size > 0 && !done; size = read(file, buffer, sizeof buffer)) {
    for (ssize_t i = 0; i < size && !done; ++i) done = parser.Feed(buffer[i], address, &found);
  }
  close(file);
  return done ? found : Mapping{0, 0};
}

// The stack that holds `address`; a coroutine's or a signal's own stack may have come in between.
const Mapping& CurrentStack(uintptr_t address) {
  if (!t_stack.Holds(address)) {
    const int saved_errno = errno;
    t_stack = FindMapping(address);
    errno = saved_errno;
  }
  return t_stack;
}

}  // namespace

uint32_t WalkFramePointers(const void* frame, void** out, uint32_t capacity) {
  auto at = reinterpret_cast<uintptr_t>(frame);
  const Mapping& stack = CurrentStack(at);
  uint32_t count = 0;
  while (count < capacity && at % sizeof(void*) == 0 && stack.Holds(at) && stack.end - at >= 2 * sizeof(void*)) {
    void* const caller = Load<void*>(reinterpret_cast<const void*>(at), sizeof(void*));
    if (caller == nullptr) break;
    out[count++] = caller;
    const auto next = Load<uintptr_t>(reinterpret_cast<const void*>(at), 0);
    if (next <= at) break;  // a chain leads outwards
    at = next;
  }
  return count;
}

}  // namespace gpumemshim::stack
