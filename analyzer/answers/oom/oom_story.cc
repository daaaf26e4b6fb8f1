// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/oom/oom_story.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "answers/report/stack_rows.h"
#include "base/format.h"
#include "ledger/stacks/names.h"
#include "ledger/stacks/stack_view.h"

namespace gpumem {
namespace {

constexpr uint8_t kLayerOfTorch = 3;
constexpr size_t kMaxSitesLookedUp = 500;
constexpr uint64_t kPercentOfMost = 50;  // of what is alive
// Of what the device has for the program, a request that takes so much is too large whatever else is there.
constexpr uint64_t kPercentTooLarge = 90;

// Whether free space inside segments would have held the request, had it been in one piece. Less than a quarter of
// what is reserved is not why a program runs out of memory: it would have been gone with the next requests.
bool IsFragmented(const OomEvent& oom) {
  const FragmentationPoint& pieces = oom.fragmentation;
  return pieces.free >= oom.requested && pieces.largest_free_range < oom.requested &&
         HasPercent(pieces.free, pieces.reserved, kPercentIdle);
}

std::string CauseOnHost(const OomEvent& oom) {
  return absl::StrCat("The host could not give ", FormatBytes(oom.requested),
                      " of pinned memory: see its free memory and the limit on locked memory (ulimit -l).");
}

std::string CauseWithoutStatement(const OomEvent& oom) {
  if (oom.values.total + oom.requested + kContextAtMost <= oom.device_total) {
    return "This process alone does not fill the device: other processes (see nvidia-smi) or a limit of the program's "
           "own stood in the way.";
  }
  return absl::StrCat("The device was full: what this trace cannot see of it, at least ",
                      FormatBytes(oom.device_total - oom.values.total - oom.requested),
                      ", is the CUDA context, its kernels, and what other processes hold (nvidia-smi).");
}

// "; 98 % of it is from train.py:12 distances" where one line has most of what is alive.
std::string MostOfItText(const OomEvent& oom, const ReportInput& input) {
  const std::vector<StackGroup> lines = GroupStacks(oom.live.stacks, input, /*by_stack=*/false);
  if (lines.empty() || !HasPercent(lines[0].use.bytes, oom.live.bytes, kPercentOfMost)) return "";
  return absl::StrCat("; ",
                      FormatPercent(static_cast<double>(lines[0].use.bytes) / static_cast<double>(oom.live.bytes)),
                      " of it is from ", lines[0].view.site);
}

}  // namespace

const OomEvent* OomToExplain(const std::vector<OomEvent>& ooms) {
  const OomEvent* found = nullptr;
  for (const OomEvent& oom : ooms) {
    if (oom.final || found == nullptr || !found->final) found = &oom;
  }
  return found;
}

std::string WhoAsked(const OomEvent& oom) {
  if (oom.layer == kLayerOfTorch) return "PyTorch";
  return oom.api.empty() ? absl::StrCat("a ", LayerName(oom.layer), " call") : oom.api;
}

uint64_t IdleBytes(const MeasureValues& values) {
  return values.reserved > values.allocated ? values.reserved - values.allocated : 0;
}

uint64_t IdlePoolBytes(const OomEvent& oom) {
  return oom.pool_stated && oom.pool_reserved > oom.pool_used ? oom.pool_reserved - oom.pool_used : 0;
}

std::optional<uint64_t> UnseenBytes(const OomEvent& oom) {
  if (!oom.device_stated || oom.device_total == 0) return std::nullopt;  // imports do not know the device's size
  const uint64_t seen = oom.values.total + IdlePoolBytes(oom) + oom.device_free;
  return oom.device_total > seen ? oom.device_total - seen : 0;
}

uint64_t RoomOfRequest(const OomEvent& oom) {
  const std::optional<uint64_t> unseen = UnseenBytes(oom);
  return unseen && *unseen <= kContextAtMost && oom.device_total > *unseen ? oom.device_total - *unseen : 0;
}

bool IsTooLarge(const OomEvent& oom) {
  if (oom.device_total != 0 && oom.requested > oom.device_total) return true;
  const uint64_t room = RoomOfRequest(oom);
  return room != 0 && !oom.limited && HasPercent(oom.requested, room, kPercentTooLarge);
}

bool IsBoundedByRefusal(const OomEvent& oom) { return oom.would_have_fit + 1 == oom.requested; }

bool KnowsRoom(const OomEvent& oom) { return oom.device_stated || oom.device_total != 0; }

uint64_t MissingBytes(const OomEvent& oom) {
  const bool is_known =
      KnowsRoom(oom) && oom.described && !IsBoundedByRefusal(oom) && oom.requested > oom.would_have_fit;
  return is_known ? oom.requested - oom.would_have_fit : 0;
}

bool IsLimitOfRecorder(const OomEvent& oom, const ProcessInfo& process) {
  const auto setting = process.settings.find("GPUMEMSHIM_LIMIT");
  if (setting == process.settings.end() || oom.limit == 0) return false;
  const std::optional<uint64_t> bytes = ParseBytes(setting->second);
  constexpr uint64_t kRounding = 1 << 20;  // the limit is a fraction of the device
  return bytes && *bytes < oom.limit + kRounding && oom.limit < *bytes + kRounding;
}

std::string NameOfLimit(const OomEvent& oom, const ProcessInfo& process) {
  return IsLimitOfRecorder(oom, process) ? "GPUMEMSHIM_LIMIT" : "torch.cuda.set_per_process_memory_fraction";
}

std::string CauseOfOom(const OomEvent& oom, const ReportInput& input) {
  if (!oom.final)
    return "Served later: PyTorch gave cached memory back and asked again. That is slow when it happens often.";
  if (oom.device < 0) return CauseOnHost(oom);
  if (!KnowsRoom(oom)) return "How much memory there was is not known: the file does not tell.";
  if (oom.device_total != 0 && oom.requested > oom.device_total) return "The request alone is larger than the device.";
  if (oom.limited) {
    return absl::StrCat(IsLimitOfRecorder(oom, input.analysis->process) ? "This run" : "The program",
                        " limits what PyTorch may reserve",
                        oom.limit == 0 ? "" : absl::StrCat(" to ", FormatBytes(oom.limit)), " (",
                        NameOfLimit(oom, input.analysis->process), "): the device had ", FormatBytes(oom.device_free),
                        " free, and PyTorch did not ask for it.");
  }
  if (IsTooLarge(oom)) {
    return absl::StrCat("The request alone takes ", FormatBytes(oom.requested), " of the ",
                        FormatBytes(RoomOfRequest(oom)), " that the device has for this program.");
  }
  if (IsFragmented(oom)) {
    const std::string cause = "Fragmentation: enough was free inside PyTorch's segments, but not in one piece.";
    if (oom.fit_expandable.value_or(0) < oom.requested) return cause;
    return absl::StrCat(cause, " Try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.");
  }
  const std::optional<uint64_t> unseen = UnseenBytes(oom);
  if (unseen && *unseen > kContextAtMost && *unseen + oom.device_free >= oom.requested) {
    return absl::StrCat("Others fill the device: ", FormatBytes(*unseen),
                        " is not this process's CUDA memory but its CUDA context, and what other processes hold "
                        "(nvidia-smi names them).");
  }
  if (!unseen && oom.device_total != 0 && oom.values.total + oom.requested <= oom.device_total)
    return CauseWithoutStatement(oom);
  if (oom.device_total != 0 && oom.values.other > oom.values.reserved)
    return "Most of the memory is not PyTorch's: see gpumemshim peak --measure total.";
  if (!oom.described || oom.requested <= oom.would_have_fit) return "";
  if (const FragmentationPoint& pieces = oom.fragmentation; pieces.free >= oom.requested) {
    return absl::StrCat("The device was full of live memory", MostOfItText(oom, input), "; ", FormatBytes(pieces.free),
                        " (", FormatPercent(static_cast<double>(pieces.free) / static_cast<double>(pieces.reserved)),
                        ") of PyTorch's segments lies free in pieces, none of which is large enough.");
  }
  if (IsBoundedByRefusal(oom)) return absl::StrCat("The device was full of live memory", MostOfItText(oom, input), ".");
  return absl::StrCat("The device was full of live memory: ", FormatBytes(MissingBytes(oom)),
                      " less somewhere below would have let this request through", MostOfItText(oom, input), ".");
}

std::vector<OomGroup> GroupOoms(const std::vector<OomEvent>& ooms, const OomEvent* left_out, const ReportInput& input) {
  std::vector<OomGroup> groups;
  std::map<std::pair<int, std::string>, size_t> places;
  std::map<uint64_t, std::string> sites;
  for (const OomEvent& oom : ooms) {
    if (&oom == left_out || !oom.final) continue;
    const auto [site, is_new] = sites.try_emplace(oom.stack_id, "(more stacks)");
    if (is_new && sites.size() <= kMaxSitesLookedUp) {
      site->second =
          ViewStack(input.stacks->Frames(oom.stack_id), oom.api, input.analysis->process.working_directory).site;
    }
    const size_t place = places.try_emplace({oom.device, site->second}, groups.size()).first->second;
    if (place == groups.size())
      groups.push_back({oom.device, site->second, WhoAsked(oom), 0, oom.requested, 0, oom.time_ns, 0});
    OomGroup& group = groups[place];
    ++group.count;
    group.smallest = std::min(group.smallest, oom.requested);
    group.largest = std::max(group.largest, oom.requested);
    group.last_ns = oom.time_ns;
  }
  return groups;
}

}  // namespace gpumem
