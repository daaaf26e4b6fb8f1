// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ReadProfilerEvents: of torch.profiler's JSON what an import needs: memory events, the spans of operators and Python
// functions around them, what the program annotated, the links from backward operators to forward ones, and what the
// file says of its devices and its rank. Everything else in it (kernels, calls of the runtime) is passed over as it
// streams by. Not thread-safe. DataLoss where it is no JSON, with the byte, or takes more than `memory` allows.
//
//   GPUMEM_ASSIGN_OR_RETURN(const ProfilerEvents events, ReadProfilerEvents(&source, &memory));

#ifndef GPUMEM_ANALYZER_IMPORT_PROFILER_EVENTS_H_
#define GPUMEM_ANALYZER_IMPORT_PROFILER_EVENTS_H_

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "import/byte_source.h"
#include "import/import.h"

namespace gpumem {

// ProfilerNames: the texts of a profile, each kept once, by numbers from 1; 0 is "". Not thread-safe.
//
//   const uint32_t id = names.IdOf("aten::addmm");
class ProfilerNames {
 public:
  uint32_t IdOf(absl::string_view text);
  absl::string_view Text(uint32_t id) const { return texts_[id]; }
  size_t size() const { return texts_.size(); }
  uint64_t bytes() const { return bytes_; }  // that they take, at the most

 private:
  std::deque<std::string> texts_{""};
  absl::flat_hash_map<absl::string_view, uint32_t> ids_{{"", 0}};
  uint64_t bytes_ = 0;
};

struct ProfilerMemoryEvent {
  uint64_t time_ns = 0;
  uint64_t address = 0;  // 0: not stated (older PyTorch)
  int64_t bytes = 0;     // < 0: a free
  int32_t device_type = 0, device = 0;
  uint64_t total_allocated = 0, total_reserved = 0;
  uint64_t stack = 0;   // filled by ProfilerStacks
  uint32_t thread = 0;  // index of ProfilerEvents::threads
  bool has_total = false, has_reserved = false;
  bool failed = false;  // a request that ran out of memory: `bytes` are what it asked for
};

// What a thread did from `begin_ns` to `end_ns`.
struct ProfilerSpan {
  enum class Kind : uint8_t { kPython, kAnnotation, kOperator };  // outermost first where two have the same times

  uint64_t begin_ns = 0, end_ns = 0;
  uint32_t name = 0, thread = 0;
  uint32_t order = 0;       // in the file
  uint32_t call_stack = 0;  // operator: its "Call stack", a name; 0 = none
  uint32_t modules = 0;     // operator: its "Module Hierarchy", a name; 0 = none
  uint32_t python_id = 0, python_parent = 0;
  Kind kind = Kind::kPython;
};

// A link begins at the forward operator that made an autograd node, and ends at the operator that runs the node.
struct ProfilerLink {
  uint64_t time_ns = 0, id = 0;
  uint32_t thread = 0;
  bool is_end = false;
};

struct ProfilerAnnotation {
  uint32_t name = 0;
  uint64_t time_ns = 0, duration_ns = 0;
};

struct ProfilerDevice {
  int64_t id = -1;
  std::string name;
  uint64_t total_bytes = 0;
  uint32_t compute_major = 0, compute_minor = 0;
};

struct ProfilerEvents {
  ProfilerNames names;
  std::vector<std::pair<uint64_t, uint64_t>> threads;  // process, thread
  std::vector<ProfilerMemoryEvent> memory;
  std::vector<ProfilerSpan> spans;
  std::vector<ProfilerLink> links;
  std::vector<ProfilerAnnotation> annotations;
  std::vector<ProfilerDevice> devices;
  uint64_t base_ns = 0;                // that times are counted from, since 1970; 0 = they are since 1970 themselves
  int64_t rank = -1, world_size = -1;  // of "distributedInfo"
};

absl::StatusOr<ProfilerEvents> ReadProfilerEvents(ByteSource* source, ImportMemory* memory);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_PROFILER_EVENTS_H_
