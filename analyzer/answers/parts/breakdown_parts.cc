// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/parts/breakdown_parts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/format.h"

namespace gpumem {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
// Below this share and size, a rest is not worth a guess.
constexpr uint64_t kSmallRest = 4 * kMiB, kSmallShare = 200;

uint64_t Magnitude(int64_t value) {
  return value < 0 ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value);
}

}  // namespace

absl::string_view BasisName(Basis basis) {
  return basis == Basis::kMeasured ? "measured" : basis == Basis::kDerived ? "derived" : "unknown";
}

std::vector<BreakdownPart> PartsOf(const MemoryBreakdown& breakdown, const ReportInput& input) {
  std::vector<BreakdownPart> parts;
  const auto add = [&](std::string name, std::string label, uint64_t bytes, Basis basis) {
    if (bytes > 0) parts.push_back({std::move(name), std::move(label), bytes, basis, {}});
  };
  const MeasureValues& values = breakdown.values;
  const uint64_t in_segments = std::min(values.allocated, values.reserved);
  add("pytorch_allocated", "PyTorch: allocated", in_segments, Basis::kMeasured);
  add("pytorch_idle", "PyTorch: reserved, idle", values.reserved - in_segments, Basis::kMeasured);

  uint64_t named = 0;
  for (LibraryPart& asked : LibraryParts(breakdown, input)) {
    named += asked.bytes;
    if (asked.bytes == 0) continue;
    parts.push_back({"library", asked.label, asked.bytes, Basis::kMeasured, {}});
    parts.back().asked = std::move(asked);
  }
  add("library", "the program", values.other - std::min(named, values.other), Basis::kMeasured);

  const Basis of_sample = breakdown.same_state ? Basis::kMeasured : Basis::kDerived;
  if (breakdown.pool_idle != kNotStated) add("pool_idle", "CUDA's default pool: idle", breakdown.pool_idle, of_sample);
  const DriverUse& driver = breakdown.driver;
  add("graphs", "CUDA graphs", driver.graphs, Basis::kMeasured);
  add("contexts",
      driver.context_count == 1 ? "CUDA context" : absl::StrCat("CUDA contexts (", driver.context_count, ")"),
      driver.contexts, Basis::kMeasured);
  add("context_estimate", "CUDA context, by the first sample", breakdown.context_estimate, Basis::kDerived);
  add("modules", absl::StrCat("loaded modules (", driver.module_count, ")"), driver.modules, Basis::kMeasured);
  add("local_memory", absl::StrCat("local memory of kernels (", FormatBytes(driver.local_thread), " a thread)"),
      driver.local, Basis::kDerived);
  add("static_variables", "static variables, by CUPTI", breakdown.cupti.static_bytes, Basis::kMeasured);
  add("unseen_calls", "calls past the recorder, by CUPTI", breakdown.cupti.unseen_bytes, Basis::kMeasured);
  add("rounding", "rounding to CUDA's pages", driver.Rounding(), Basis::kDerived);
  return parts;
}

Basis BasisOfProcess(const MemoryBreakdown& breakdown) {
  if (breakdown.process == kNotStated) return Basis::kUnknown;
  return breakdown.same_state ? Basis::kMeasured : Basis::kDerived;
}

std::string GuessAtRest(const MemoryBreakdown& breakdown, const Analysis& analysis) {
  if (breakdown.process == kNotStated) return "";
  const uint64_t rest = Magnitude(breakdown.unexplained);
  if (rest < kSmallRest || rest * kSmallShare < breakdown.process) return "";
  const DriverUse& driver = breakdown.driver;
  if (breakdown.unexplained < 0) {
    return analysis.losses.Total() > 0 ? "frees that were lost, so more seems to be in use here than is"
                                       : "memory that CUDA had given back, or not yet taken, when the device was asked";
  }
  if (analysis.losses.Total() > 0) return "allocations among the events that were lost";
  if (!analysis.losses.unseen.empty()) {
    return driver.contexts == 0 ? "the CUDA context, and memory that was allocated past the recorder (see the notes)"
                                : "memory that was allocated past the recorder (see the notes)";
  }
  if (driver.contexts == 0 && breakdown.context_estimate == 0) {
    return "mostly the CUDA context (some hundred MiB each) and the code of loaded kernels: no creation was measured";
  }
  if (breakdown.managed >= rest / 2) return "managed memory that lies on the device at the moment";
  if (driver.stream_ordered_in_own_pools > 0) return "memory that the program's own pools keep, which nobody states";
  if (driver.stream_ordered > 0 && breakdown.pool_idle == kNotStated) return "memory that CUDA's default pool keeps";
  if (driver.small_bytes * 4 >= rest) return "holes between small allocations that share CUDA's pages";
  return "code of kernels that were loaded lazily, their local memory (stacks), streams, and printf or heap buffers of "
         "the context";
}

std::string WhyNotKnown(const MemoryBreakdown& breakdown, const Analysis& analysis) {
  const SamplingInfo& sampling = analysis.sampling;
  if (sampling.samples == 0) return "the trace has no samples of the device";
  if (!breakdown.has_reading) {
    return sampling.source_error.empty() ? "the device was never sampled" : sampling.source_error;
  }
  if (breakdown.reading.other_count == kNotStated) return "the device does not list its processes";
  if (breakdown.reading.own_process != OwnProcessMatch::kUnknown) return "the device does not state memory by process";
  return "no process on the device has this one's id: inside a container, or under MPS, nothing tells which it is";
}

}  // namespace gpumem
