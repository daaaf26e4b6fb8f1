// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// NsysTables: of a report of Nsight Systems what an import needs (nsys_report.h), out of its tables. Times are
// nanoseconds of the report's clock, names are valid UTF-8. Plain values.
//
//   GPUMEM_ASSIGN_OR_RETURN(const NsysTables tables, ReadNsysTables(file));

#ifndef GPUMEM_ANALYZER_IMPORT_NSYS_TABLES_H_
#define GPUMEM_ANALYZER_IMPORT_NSYS_TABLES_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "import/sqlite_file.h"

namespace gpumem {

inline constexpr char kNsysEvents[] = "CUDA_GPU_MEMORY_USAGE_EVENTS";

// ENUM_CUDA_MEM_KIND of every report.
enum NsysMemory : int64_t {
  kNsysPageable = 0,
  kNsysPinned,
  kNsysDevice,
  kNsysArray,
  kNsysManaged,
  kNsysDeviceStatic,
  kNsysManagedStatic,
};

// A "global" id is of a machine, a process and a thread, 24 bits each of the latter.
constexpr uint64_t PidOf(int64_t global) { return static_cast<uint64_t>(global) >> 24 & 0xffffff; }
constexpr uint32_t TidOf(int64_t global) { return static_cast<uint32_t>(global) & 0xffffff; }

struct NsysEvent {
  int64_t start = 0, pid = 0, device = 0, kind = 0, correlation = 0, stream = 0;
  uint64_t address = 0, bytes = 0, pool = 0;
  bool allocates = false;
};

struct NsysCall {
  uint32_t tid = 0;
  int64_t name = 0, chain = 0;  // StringIds.id, CUDA_CALLCHAINS.id
  int64_t took = 0;             // ns
};

struct NsysRange {
  int64_t start = 0, end = 0, text_id = 0;
  std::string text;
};

struct NsysGpu {
  int64_t ordinal = 0;  // CUDA's
  std::string name;
  uint64_t total_bytes = 0;
  uint32_t compute_major = 0, compute_minor = 0;
};

struct NsysTables {
  std::vector<NsysEvent> events;      // of the process with the most memory, by time
  int64_t pid = 0;                    // global id of it
  std::map<int64_t, uint64_t> peaks;  // bytes, by process
  std::map<int64_t, std::string> processes;
  absl::flat_hash_map<int64_t, NsysCall> calls;  // by NsysEvent::correlation
  absl::flat_hash_map<int64_t, std::string> strings;
  // By NsysCall::chain: depth, symbol and module, innermost first.
  absl::flat_hash_map<int64_t, std::vector<std::tuple<int64_t, int64_t, int64_t>>> chains;
  std::vector<NsysRange> ranges;
  std::vector<NsysGpu> gpus;
  uint64_t epoch_ns = 0;  // since 1970, when the clock was 0
  uint64_t pageable = 0;  // events that were left out

  absl::string_view Text(int64_t id) const {
    const auto found = strings.find(id);
    return found == strings.end() ? absl::string_view() : absl::string_view(found->second);
  }
};

absl::StatusOr<NsysTables> ReadNsysTables(const SqliteFile& file);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_NSYS_TABLES_H_
