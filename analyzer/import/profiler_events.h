// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ReadProfilerEvents: of torch.profiler's JSON what an import needs: memory events and user annotations. Everything
// else in the file, which is most of it, is passed over as it streams by. Not thread-safe. DataLoss where it is no
// JSON, with the byte, or has more events than fit.
//
//   GPUMEM_ASSIGN_OR_RETURN(const ProfilerEvents events, ReadProfilerEvents(&source));

#ifndef GPUMEM_ANALYZER_IMPORT_PROFILER_EVENTS_H_
#define GPUMEM_ANALYZER_IMPORT_PROFILER_EVENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "import/byte_source.h"

namespace gpumem {

struct ProfilerMemoryEvent {
  uint64_t time_ns = 0;
  uint64_t address = 0;
  int64_t bytes = 0;  // < 0: a free
  int64_t device_type = 0, device = 0;
  uint64_t total_allocated = 0, total_reserved = 0;
  uint64_t thread = 0;
};

struct ProfilerAnnotation {
  std::string name;
  uint64_t time_ns = 0, duration_ns = 0;
};

struct ProfilerEvents {
  std::vector<ProfilerMemoryEvent> memory;
  std::vector<ProfilerAnnotation> annotations;
  uint64_t base_ns = 0;  // that times are counted from, since 1970; 0 = they are since 1970 themselves
};

absl::StatusOr<ProfilerEvents> ReadProfilerEvents(ByteSource* source);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_PROFILER_EVENTS_H_
