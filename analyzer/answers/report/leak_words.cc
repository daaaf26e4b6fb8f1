// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/leak_words.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "answers/parts/library_parts.h"
#include "answers/report/owner_words.h"
#include "base/format.h"

namespace gpumem {
namespace {

std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

const LeakDevice* LeaksOf(const LeakFindings& findings, int device) {
  for (const LeakDevice& each : findings.devices) {
    if (each.device == device) return &each;
  }
  return nullptr;
}

std::string IterationWord(const LeakFindings& findings, const LeakRow& row) {
  return findings.loops[row.loop].are_steps ? "step" : "iteration";
}

std::string RateText(double bytes_per_iteration) {
  if (bytes_per_iteration < 1) return absl::StrFormat("%.2g B", bytes_per_iteration);
  return FormatBytes(static_cast<uint64_t>(bytes_per_iteration + 0.5));
}

std::string LeakSite(const LeakRow& row) {
  return row.kind == LeakKind::kAllocator ? "PyTorch's reserved memory" : row.place.site;
}

namespace {

// A line of the source proves nothing: it is shown where nobody was seen.
std::string CandidateText(const LeakRow& row) {
  if (row.candidate.line == 0 || MainOwner(row).has_value()) return "";
  return absl::StrCat(" A line that may keep it (by its source, not seen): ", FileName(row.candidate.file), ":",
                      row.candidate.line, " \"", row.code, "\".");
}

}  // namespace

std::string LeakRemark(const LeakRow& row, const LeakFindings& findings) {
  const std::string iteration = IterationWord(findings, row);
  switch (row.kind) {
    case LeakKind::kGraph:
      return absl::StrCat(
          row.place.site, ": saved by autograd",
          IsKeptByGraph(row) ? absl::StrCat(", and its graphs stay from ", iteration, " to ", iteration) : "", "; ",
          KeptByText(row), ".", CandidateText(row));
    case LeakKind::kOutside:
      return absl::StrCat(row.place.site, ": CUDA memory outside PyTorch; torch.cuda.empty_cache() cannot return it.");
    case LeakKind::kHost:
      return absl::StrCat(row.place.site, ": pinned memory of the host, which stays until the program frees it.");
    case LeakKind::kManaged:
      return absl::StrCat(row.place.site, ": managed memory, which stays until the program frees it.");
    case LeakKind::kDriver:
      return absl::StrCat(row.place.site,
                          ": what the driver takes for contexts, loaded code and kernels' local memory; it stays until "
                          "they are destroyed or unloaded.");
    case LeakKind::kAllocator:
      return "PyTorch reserves more and more beyond what is allocated: what was freed stays in its cache and is not "
             "used again. gpumemshim fragmentation shows where it lies, gpumemshim explain whether expandable segments "
             "would avoid it.";
    case LeakKind::kMemory:
      if (row.is_replaced) {
        return absl::StrCat(row.place.site, ": made anew in each ", iteration,
                            ", larger each time: it seems to be joined to what it was before (torch.cat).");
      }
      if (const std::string kept = KeptByText(row); !kept.empty())
        return absl::StrCat(row.place.site, ": ", kept, ".", CandidateText(row));
      break;
  }
  return "";
}

const LeakRow& RowToSay(const std::vector<LeakRow>& rows) {
  const auto is_named = [](const LeakRow& row) {
    const std::optional<SeenOwner> owner = MainOwner(row);
    return owner.has_value() && (owner->root != OwnerRoot::kNative || !owner->path.empty());
  };
  if (rows[0].kind == LeakKind::kAllocator || is_named(rows[0])) return rows[0];
  for (const LeakRow& row : rows) {
    if (row.status == LeakStatus::kGrowing && 2 * row.grown_bytes >= rows[0].grown_bytes && is_named(row)) return row;
  }
  return rows[0];
}

uint64_t GrowingBytes(const LeakFindings* findings, int device) {
  const LeakDevice* const found = findings == nullptr ? nullptr : LeaksOf(*findings, device);
  uint64_t bytes = 0;
  if (found == nullptr) return 0;
  for (const LeakRow& row : found->rows) {
    if (row.status == LeakStatus::kGrowing) bytes += row.grown_bytes;
  }
  return bytes;
}

std::string LeakHeadline(const LeakFindings& findings, int device) {
  if (!findings.has_lives) return "growth is not judged: the file does not tell which block a free was of";
  if (findings.loops.empty()) {
    return "growth is not judged: nothing repeats often enough (8 steps or iterations)";
  }
  const LeakDevice* const found = LeaksOf(findings, device);
  size_t growing = 0;
  double rate = 0;
  if (found != nullptr) {
    for (const LeakRow& row : found->rows) {
      if (row.status != LeakStatus::kGrowing) continue;
      ++growing;
      if (row.kind != LeakKind::kAllocator) rate += row.bytes_per_iteration;
    }
  }
  if (growing == 0) {
    return findings.misses_events ? "not known whether anything keeps growing: events are missing"
                                  : "nothing keeps growing";
  }
  const LeakRow& worst = found->rows[0];
  const absl::string_view doubt = findings.misses_events ? "not sure, events are missing: " : "";
  if (growing == 1 || worst.kind == LeakKind::kAllocator) {
    return absl::StrCat(doubt, LeakSite(worst), " keeps growing, ", RateText(worst.bytes_per_iteration), " per ",
                        IterationWord(findings, worst), " since ", IterationWord(findings, worst), " ",
                        FormatCount(worst.since_iteration),
                        growing == 1 ? ""
                                     : absl::StrCat("; ", FormatCountOf(growing - 1, "line grows", "lines grow"),
                                                    " too, ", RateText(rate)));
  }
  return absl::StrCat(doubt, growing, " lines keep growing, ", RateText(rate), " per ", IterationWord(findings, worst),
                      " in all, most from ", LeakSite(worst));
}

namespace {

// A library's name where it asked for all of a line's memory.
std::string PartOf(const LeakRow& row, const ReportInput& input) {
  switch (row.kind) {
    case LeakKind::kOutside: {
      std::string library;
      for (const uint64_t stack : row.stacks) {
        const std::string asked = LibraryOf(input.stacks->Frames(stack));
        if (!library.empty() && library != asked) return "CUDA memory outside PyTorch";
        library = asked;
      }
      return library.empty() || !IsLibrary(library) ? "CUDA memory outside PyTorch"
                                                    : absl::StrCat("CUDA memory of ", library);
    }
    case LeakKind::kHost:
      return "pinned memory of the host";
    case LeakKind::kManaged:
      return "managed memory";
    case LeakKind::kDriver:
      return "what the driver takes for contexts and code";
    default:
      return "";
  }
}

constexpr uint64_t kLeastGrowth = uint64_t{1} << 20;
constexpr uint64_t kLeastGrowthPercent = 2;  // of the peak

}  // namespace

std::string PartThatGrows(const LeakFindings& findings, int device, const ReportInput& input) {
  const LeakDevice* const found = LeaksOf(findings, device);
  std::vector<std::string> parts;
  for (size_t i = 0; found != nullptr && i < found->rows.size(); ++i) {
    const LeakRow& row = found->rows[i];
    if (row.status != LeakStatus::kGrowing || row.kind == LeakKind::kAllocator) continue;
    std::string part = PartOf(row, input);
    if (part.empty()) return "";
    if (!absl::c_linear_search(parts, part)) parts.push_back(std::move(part));
  }
  return absl::StrJoin(parts, " and ");
}

bool GrowsEnough(const ReportInput& input, const DeviceAnalysis& device) {
  const uint64_t growth = GrowingBytes(input.leaks, device.device);
  return growth >= kLeastGrowth && HasPercent(growth, device.peak_total.bytes, kLeastGrowthPercent);
}

bool HostGrowsEnough(const ReportInput& input) {
  const uint64_t growth = GrowingBytes(input.leaks, kHostDevice);
  return growth >= kLeastGrowth &&
         HasPercent(growth, input.analysis->host_pinned_peak + input.analysis->managed_peak, kLeastGrowthPercent);
}

std::string LoopText(const LeakLoop& loop, const ReportInput& input) {
  const std::string what =
      loop.are_steps ? FormatCountOf(loop.iterations, "training step", "training steps")
                     : absl::StrCat(FormatCountOf(loop.iterations, "iteration", "iterations"), " of ", loop.place.site);
  return absl::StrCat("judged over ", what, ", ", FormatTime(input.Since(loop.from_ns)), " to ",
                      FormatTime(input.Since(loop.to_ns)));
}

}  // namespace gpumem
