// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/cupti_words.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "ledger/stacks/names.h"

namespace gpumem {
namespace {

std::string LossText(const CuptiInfo& cupti) {
  std::string text;
  if (cupti.dropped_records != 0)
    absl::StrAppend(&text, "; CUPTI dropped ", FormatCountOf(cupti.dropped_records, "record", "records"));
  if (cupti.lost_records != 0)
    absl::StrAppend(&text, "; the recorder had no room for ", FormatCount(cupti.lost_records));
  if (cupti.unknown_records != 0)
    absl::StrAppend(&text, "; ", FormatCountOf(cupti.unknown_records, "record was", "records were"),
                    " of kinds that another tool asked for");
  return text;
}

}  // namespace

absl::string_view CuptiStateName(trace::CuptiState state) {
  switch (state) {
    case trace::CUPTI_RECORDING:
      return "recording";
    case trace::CUPTI_NO_LIBRARY:
      return "no_library";
    case trace::CUPTI_OTHER_SUBSCRIBER:
      return "other_subscriber";
    case trace::CUPTI_FAILED:
      return "failed";
    case trace::CUPTI_ENDED:
      return "ended";
    default:
      return "not_asked";
  }
}

std::string CuptiSentence(const CuptiInfo& cupti) {
  const std::string which = absl::StrCat(" (CUPTI ", cupti.version, ", ", cupti.library, ")");
  switch (cupti.state) {
    case trace::CUPTI_NO_LIBRARY:
      return cupti.version == 0 ? "no libcupti was found: install CUDA's extras/CUPTI or the nvidia-cuda-cupti wheel "
                                  "of the same version"
                                : absl::StrCat("CUPTI is older than that of CUDA 11.8", which);
    case trace::CUPTI_OTHER_SUBSCRIBER:
      return cupti.began_ns == 0
                 ? absl::StrCat("another tool had subscribed to CUPTI before, and goes first", which)
                 : absl::StrCat("CUPTI recorded until another tool subscribed to CUPTI, and left it to that", which,
                                LossText(cupti));
    case trace::CUPTI_FAILED:
      return absl::StrCat("CUPTI refused: CUptiResult ", cupti.error, which);
    case trace::CUPTI_RECORDING:
      return absl::StrCat("CUPTI recorded, without an end: the process was killed, or ended at once", which,
                          LossText(cupti));
    case trace::CUPTI_ENDED:
      return absl::StrCat("CUPTI recorded to the end", which, LossText(cupti));
    default:
      return "CUPTI was not asked, or had not answered when the process ended";
  }
}

UnseenPeak UnseenPeakOf(const CuptiInfo& cupti) {
  UnseenPeak peak;
  std::vector<std::pair<uint64_t, const CuptiBlock*>> changes;  // a block's begin or end
  for (const CuptiBlock& block : cupti.only_cupti) {
    if (block.is_static) continue;
    ++peak.allocations;
    changes.emplace_back(block.from_ns, &block);
    if (block.to_ns != UINT64_MAX) changes.emplace_back(block.to_ns, &block);
  }
  std::stable_sort(changes.begin(), changes.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::map<int, uint64_t> alive;
  for (const auto& [time_ns, block] : changes) {
    uint64_t& bytes = alive[block->device];
    bytes = time_ns == block->from_ns ? bytes + block->bytes : bytes - std::min(bytes, block->bytes);
    if (bytes > peak.bytes) peak = {bytes, peak.allocations, block->device};
  }
  return peak;
}

std::string OnlyCuptiText(const CuptiInfo& cupti) {
  const UnseenPeak peak = UnseenPeakOf(cupti);
  if (peak.allocations == 0) return "";
  return absl::StrCat("CUPTI alone saw ", FormatCountOf(peak.allocations, "allocation", "allocations"), ", at most ",
                      FormatBytes(peak.bytes), " at once on ", DeviceLabel(peak.device),
                      ": their calls went past the recorder");
}

std::vector<Remark> CuptiRemarks(const ReportInput& input) {
  const CuptiInfo& cupti = input.analysis->cupti;
  if (!cupti.asked) return {};
  const bool is_whole = cupti.state == trace::CUPTI_ENDED || cupti.state == trace::CUPTI_RECORDING;
  std::vector<Remark> remarks = {
      {"CUPTI", absl::StrCat(CuptiSentence(cupti), "."), is_whole ? Tone::kPlain : Tone::kWarning}};
  if (const std::string only = OnlyCuptiText(cupti); !only.empty()) {
    remarks.push_back(
        {"UNSEEN",
         absl::StrCat(only, ". It is in no number below but the reconciliation with nvidia-smi; no stack is known."),
         Tone::kAlarm});
  }
  return remarks;
}

}  // namespace gpumem
