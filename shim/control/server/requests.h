// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What `gpumemshim ctl` asks and what it is answered: one line each way around, in text, so that `socat` can ask too.
//
//   -> gpumemshim/1 status\n                 also start, stop, flush, dump, tensors, gradients, gc, backtrace, owners,
//   mark TEXT, snapshot TEXT, eval TEXT, settings, set NAME=VALUE
//   <- gpumemshim/1 ok\n
//      state recording\n                 a name, a blank, the value; backslash, newline and other control characters
//      file /home/user/run.gmtrace\n          of a value come as \xNN
//      end\n
//   <- gpumemshim/1 error why it is not done\n
//
// Thread-safety: the control thread's. Failure: an answer that begins with "error".

#ifndef GPUMEM_SHIM_CONTROL_SERVER_REQUESTS_H_
#define GPUMEM_SHIM_CONTROL_SERVER_REQUESTS_H_

#include <cstddef>

namespace gpumemshim::control {

inline constexpr size_t kMaxRequestBytes = 2048;
inline constexpr size_t kMaxAnswerBytes = size_t{56} << 10;

enum class Command {
  kNone,
  kStatus,
  kStart,
  kStop,
  kFlush,
  kDump,
  kMark,
  kSnapshot,
  kTensors,
  kGradients,
  kGc,
  kBacktrace,
  kOwners,
  kEval,
  kSettings,
  kSet
};

struct Request {
  Command command = Command::kNone;
  const char* argument = "";
  size_t argument_size = 0;
  const char* error = nullptr;  // why it is not a request
};

// `line`: without its newline. The argument points into it.
Request ParseRequest(const char* line, size_t size);

// Carries it out. Returns the size of the answer in `out`.
size_t AnswerRequest(const Request& request, char* out, size_t capacity);

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_SERVER_REQUESTS_H_
