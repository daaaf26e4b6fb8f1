// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/annotation_ranges.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace gpumem {

uint64_t AnnotationRanges::next_ns() const {
  return static_cast<uint64_t>(std::clamp<int64_t>(annotations_[next_].time_us, 0, INT64_MAX / 1000)) * 1000;
}

absl::Status AnnotationRanges::Write(uint64_t begin_ns, TraceWriter* writer) {
  EventRow row;
  row.time_ns = last_ns_ = std::max({next_ns(), begin_ns, last_ns_});
  const SnapshotAnnotation& annotation = annotations_[next_++];
  const absl::string_view name = tree_.Text(annotation.name);
  row.device = -1;
  row.thread = static_cast<uint32_t>(annotation.device) + 1;
  row.text = writer->definitions().String(name);
  std::vector<uint64_t>& open = open_[{annotation.device, annotation.name.id()}];
  if (!annotation.is_start) {
    if (open.empty()) return absl::OkStatus();  // opened before the history begins
    row.kind = trace::RANGE_END;
    row.handle = open.back();
    open.pop_back();
    return writer->Add(row);
  }
  open.push_back(++opened_);
  row.kind = trace::RANGE_START;
  row.handle = opened_;
  absl::string_view number = name;
  uint64_t step = 0;
  if (absl::ConsumePrefix(&number, "ProfilerStep#") && absl::SimpleAtoi(number, &step)) {
    EventRow mark = row;
    mark.kind = trace::STEP;
    mark.handle = step + 1;  // PyTorch counts from 0
    mark.text = 0;
    GPUMEM_RETURN_IF_ERROR(writer->Add(mark));
  }
  return writer->Add(row);
}

}  // namespace gpumem
