// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/predict/host_reads.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ledger/stacks/stack_view.h"
#include "replay/state/batch_stream.h"
#include "replay/state/checkpoints.h"
#include "trace/reader.h"

namespace gpumem::plan {
namespace {

constexpr uint64_t kOneValue = 16;  // bytes: a complex number of doubles

// Operators whose result has as many elements as the data say.
bool IsShape(absl::string_view operation) {
  for (const absl::string_view part : {"nonzero", "unique", "masked_select", "repeat_interleave", "bincount", "nms",
                                       "histogram", "index_put", "argwhere", "where"}) {
    if (absl::StrContains(operation, part) && !absl::StrContains(operation, "is_nonzero")) return true;
  }
  return operation == "aten::index" || absl::StartsWith(operation, "aten::index_Tensor");
}

// "at::_ops::nonzero::call" as "aten::nonzero"; "" for other functions.
std::string OperationOf(absl::string_view function) {
  constexpr absl::string_view kPrefix = "at::_ops::";
  const size_t begin = function.find(kPrefix);
  if (begin == absl::string_view::npos) return "";
  const absl::string_view rest = function.substr(begin + kPrefix.size());
  return absl::StrCat("aten::", rest.substr(0, rest.find("::")));
}

}  // namespace

HostReadCounts CountHostReads(const OpenTrace& trace, uint64_t* last_alloc_ns) {
  HostReadCounts counts;
  const Checkpoint* const start = trace.checkpoints->Before(0);
  if (start == nullptr) return counts;
  trace.reader->Seek(start->place);
  BatchStream stream(trace.reader);
  while (stream.Advance()) {
    const EventBatch& batch = stream.current();
    for (size_t i = 0; i < batch.count(); ++i) {
      if (last_alloc_ns != nullptr && batch.kind(i) == trace::ALLOC) *last_alloc_ns = batch.time_ns(i);
      if (batch.kind(i) != trace::HOST_READ) continue;
      HostReadCount& count = counts[batch.stack(i)];
      ++count.count;
      count.bytes += batch.size(i);
      count.largest = std::max(count.largest, batch.size(i));
    }
  }
  return counts;
}

HostReadKind KindOfRead(const std::vector<ResolvedFrame>& frames, uint64_t largest, std::string* operation) {
  std::string innermost, telling;
  HostReadKind kind = largest <= kOneValue ? HostReadKind::kValue : HostReadKind::kCopy;
  for (const ResolvedFrame& frame : frames) {
    if (frame.python) break;
    const std::string name = OperationOf(frame.function);
    if (name.empty()) continue;
    if (innermost.empty()) innermost = name;
    const bool is_shape = IsShape(name), is_branch = name == "aten::is_nonzero" || name == "aten::equal";
    if (!is_shape && !is_branch) continue;
    kind = is_shape ? HostReadKind::kShape : HostReadKind::kBranch;
    telling = name;
    if (is_shape) break;
  }
  *operation = telling.empty() ? innermost : telling;
  return kind;
}

std::vector<HostRead> DescribeHostReads(const HostReadCounts& counts, const ReportInput& input) {
  std::map<std::tuple<HostReadKind, std::string, std::string>, HostRead> found;
  for (const auto& [stack, count] : counts) {
    const std::vector<ResolvedFrame> frames = input.stacks->Frames(stack);
    HostRead read;
    read.kind = KindOfRead(frames, count.largest, &read.operation);
    read.site = ViewStack(frames, "", input.analysis->process.working_directory).site;
    HostRead& kept = found.try_emplace({read.kind, read.operation, read.site}, read).first->second;
    kept.count += count.count;
    kept.bytes += count.bytes;
  }
  std::vector<HostRead> reads;
  for (const auto& [key, read] : found) reads.push_back(read);
  std::stable_sort(reads.begin(), reads.end(), [](const HostRead& a, const HostRead& b) {
    return std::make_tuple(a.kind, b.count) < std::make_tuple(b.kind, a.count);
  });
  return reads;
}

}  // namespace gpumem::plan
