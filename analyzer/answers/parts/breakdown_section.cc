// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "answers/parts/breakdown_parts.h"
#include "answers/report/sections.h"
#include "base/format.h"
#include "ledger/stacks/names.h"
#include "render/instants.h"

namespace gpumem {
namespace {

constexpr size_t kMaxOthers = 5;

// One line of the table: what, at the peak, at the end, what it rests on.
struct Row {
  std::string label;
  std::string at_peak, at_end;
  std::string basis;
};

std::string BytesOrNot(uint64_t bytes) { return bytes == kNotStated ? "not known" : FormatBytes(bytes); }

std::string SignedBytes(int64_t bytes) {
  return bytes < 0 ? absl::StrCat("-", FormatBytes(~static_cast<uint64_t>(bytes) + 1))
                   : FormatBytes(static_cast<uint64_t>(bytes));
}

// The parts of both instants side by side, in the order of the first that has them.
std::vector<Row> PartRows(const MemoryBreakdown& peak, const MemoryBreakdown& end, const ReportInput& input) {
  std::vector<Row> rows;
  const std::vector<BreakdownPart> at_peak = PartsOf(peak, input), at_end = PartsOf(end, input);
  const auto find = [](const std::vector<BreakdownPart>& parts, const std::string& key) {
    const auto it = std::find_if(parts.begin(), parts.end(), [&](const auto& part) { return part.Key() == key; });
    return it == parts.end() ? nullptr : &*it;
  };
  // Where their numbers differ (threads, modules) the larger one's label stands for both.
  const auto add = [&](const BreakdownPart& part) {
    const BreakdownPart* first = find(at_peak, part.Key());
    const BreakdownPart* second = find(at_end, part.Key());
    const bool is_more = first != nullptr && second != nullptr && second->bytes > first->bytes;
    std::string basis(BasisName(part.basis));
    if (first != nullptr && second != nullptr && first->basis != second->basis) {
      basis = absl::StrCat(BasisName(first->basis), " / ", BasisName(second->basis));
    }
    rows.push_back({is_more ? second->label : part.label, FormatBytes(first == nullptr ? 0 : first->bytes),
                    FormatBytes(second == nullptr ? 0 : second->bytes), std::move(basis)});
  };
  for (const BreakdownPart& part : at_peak) add(part);
  for (const BreakdownPart& part : at_end) {
    if (find(at_peak, part.Key()) == nullptr) add(part);
  }
  return rows;
}

std::string ProcessBasis(const MemoryBreakdown& peak, const MemoryBreakdown& end) {
  const Basis first = BasisOfProcess(peak), second = BasisOfProcess(end);
  if (first == second) return std::string(BasisName(first));
  return absl::StrCat(BasisName(first), " / ", BasisName(second));
}

std::vector<Row> ShareRows(const MemoryBreakdown& peak, const MemoryBreakdown& end, const ReportInput& input) {
  std::vector<Row> rows = PartRows(peak, end, input);
  const auto rest = [](const MemoryBreakdown& breakdown) {
    return breakdown.process == kNotStated ? std::string("not known") : SignedBytes(breakdown.unexplained);
  };
  if (peak.unexplained != 0 || end.unexplained != 0 || peak.process == kNotStated || end.process == kNotStated) {
    rows.push_back({"not explained", rest(peak), rest(end), "unknown"});
  }
  rows.push_back({"= this process, as nvidia-smi shows it", BytesOrNot(peak.process), BytesOrNot(end.process),
                  ProcessBasis(peak, end)});
  return rows;
}

// Who else is on the device, and what is left, as of the samples that belong to the two instants.
std::vector<Row> DeviceRows(const MemoryBreakdown& peak, const MemoryBreakdown& end) {
  std::vector<Row> rows;
  const auto bytes = [](const MemoryBreakdown& breakdown, uint64_t DeviceReading::*field) {
    return breakdown.has_reading ? BytesOrNot(breakdown.reading.*field) : std::string("not known");
  };
  const auto of = [](const MemoryBreakdown& breakdown, uint32_t pid) {
    for (const OtherProcess& other : breakdown.reading.others) {
      if (other.pid == pid) return BytesOrNot(other.bytes);
    }
    return std::string("-");
  };
  std::vector<OtherProcess> others = peak.reading.others;
  for (const OtherProcess& other : end.reading.others) {
    const auto same = [&](const OtherProcess& before) { return before.pid == other.pid; };
    if (std::none_of(others.begin(), others.end(), same)) others.push_back(other);
  }
  for (size_t i = 0; i < std::min(others.size(), kMaxOthers); ++i) {
    const std::string name = others[i].name.empty() ? "another process" : others[i].name;
    rows.push_back({absl::StrCat(name, " (pid ", others[i].pid, ")"), of(peak, others[i].pid), of(end, others[i].pid),
                    "measured"});
  }
  if (others.size() > kMaxOthers) {
    rows.push_back({absl::StrCat("and ", others.size() - kMaxOthers, " more processes"), "", "", ""});
  }
  rows.push_back(
      {"in use by all processes", bytes(peak, &DeviceReading::used), bytes(end, &DeviceReading::used), "measured"});
  const uint64_t kept = end.reading.driver_reserved;
  if (kept != kNotStated && kept > 0) {
    rows.push_back(
        {"kept by the driver for itself", bytes(peak, &DeviceReading::driver_reserved), FormatBytes(kept), "measured"});
  }
  rows.push_back({"free", bytes(peak, &DeviceReading::free), bytes(end, &DeviceReading::free), "measured"});
  return rows;
}

void AddCategoryTable(const std::vector<Row>& rows, bool heading, Document* answer) {
  std::vector<Page::Row> table;
  if (heading) table.push_back({"", "at the peak", "at the end", ""});
  for (const Row& row : rows) table.push_back({row.label, row.at_peak, row.at_end, row.basis});
  answer->Cells({Align::kLeft, Align::kRight, Align::kRight, Align::kLeft}, table, heading);
}

// When the device was asked, and how far that is from the instant.
std::string SampleText(const MemoryBreakdown& breakdown, const ReportInput& input) {
  if (!breakdown.has_reading) return "";
  const DeviceReading& reading = breakdown.reading;
  std::string text = absl::StrCat("sampled at ", FormatTime(input.Since(reading.time_ns)));
  if (!breakdown.same_state) absl::StrAppend(&text, ", in another state of memory");
  return text;
}

void AddApart(const MemoryBreakdown& end, const Analysis& analysis, Document* answer) {
  std::string text;
  const auto add = [&](uint64_t peak, uint64_t now, absl::string_view what) {
    if (peak == 0) return;
    absl::StrAppend(&text, text.empty() ? "" : "; ", what, " ", FormatBytes(peak), " at its peak, ", FormatBytes(now),
                    " at the end");
  };
  add(analysis.host_pinned_peak, end.host_pinned, "pinned host memory");
  add(analysis.managed_peak, end.managed, "managed memory, wherever it lies,");
  add(analysis.imported_peak, end.imported, "memory of other owners");
  if (!text.empty()) answer->Paragraph("  apart   ", absl::StrCat(text, "."));
}

void AddGuess(const MemoryBreakdown& peak, const MemoryBreakdown& end, const Analysis& analysis, Document* answer) {
  const std::string guess = GuessAtRest(end, analysis);
  const std::string at_peak = GuessAtRest(peak, analysis);
  const std::string& reported = guess.empty() ? at_peak : guess;
  if (!reported.empty()) {
    const bool knows = end.cupti_known && peak.cupti_known;
    answer->Paragraph("  a guess ",
                      absl::StrCat("What is not explained may be ", reported, ".",
                                   knows ? "" : " Static variables of loaded code are not known: CUPTI did not watch."),
                      Tone::kAside);
  }
}

void AddStatic(const MemoryBreakdown& end, Document* answer) {
  const uint64_t within = end.cupti.static_in_measured_bytes;
  if (within == 0) return;
  answer->Paragraph("  CUPTI   ",
                    absl::StrCat("Static variables take ", FormatBytes(within), " of the contexts and loaded modules."),
                    Tone::kAside);
}

}  // namespace

void AddBreakdown(const DeviceAnalysis& device, const ReportInput& input, Document* answer) {
  const Analysis& analysis = *input.analysis;
  const MemoryBreakdown& end = device.breakdown_at_end;
  const MemoryBreakdown& peak = device.breakdown_at_peak.any ? device.breakdown_at_peak : end;
  if (!end.any || (analysis.sampling.samples == 0 && end.driver.context_count == 0)) return;
  answer->Gap();
  answer->Line({{Tone::kHeading, absl::StrCat("Reconciliation with nvidia-smi on ", DeviceLabel(device.device))},
                {Tone::kAside,
                 absl::StrCat("  at the peak of all CUDA memory, ", AtPeak(peak.time_ns, input), ", and at the end")}});
  std::vector<Row> rows = ShareRows(peak, end, input);
  if (peak.has_reading || end.has_reading) {
    const std::vector<Row> more = DeviceRows(peak, end);
    rows.insert(rows.end(), more.begin(), more.end());
  }
  AddCategoryTable(rows, /*heading=*/true, answer);
  if (end.process == kNotStated) {
    answer->Paragraph("  unknown ", absl::StrCat("This process's share: ", WhyNotKnown(end, analysis), "."));
  }
  const std::string peak_sample = SampleText(peak, input), end_sample = SampleText(end, input);
  if (!peak_sample.empty()) {
    answer->Paragraph(
        "  device  ",
        absl::StrCat("the peak ", peak_sample, "; the end ", end_sample, ", by ", analysis.sampling.source, "."),
        Tone::kAside);
  }
  AddApart(end, analysis, answer);
  AddStatic(end, answer);
  AddGuess(peak, end, analysis, answer);
}

void AddLimits(const ReportInput& input, Document* answer) {
  for (const CrossedLimit& limit : input.analysis->sampling.crossed) {
    std::string text = absl::StrCat(DeviceLabel(limit.device), " reached ",
                                    limit.percent != 0 ? absl::StrCat(limit.percent, " %") : FormatBytes(limit.bytes),
                                    " at ", FormatTime(input.Since(limit.time_ns)), ": ", FormatBytes(limit.used));
    if (limit.total != 0) absl::StrAppend(&text, " of ", FormatBytes(limit.total));
    if (limit.own != kNotStated) absl::StrAppend(&text, ", ", FormatBytes(limit.own), " by this process");
    answer->Paragraph("  limit   ", absl::StrCat(text, "."), Tone::kWarning);
  }
}

}  // namespace gpumem
