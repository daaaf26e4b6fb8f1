// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/reserve_causes.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "answers/report/stack_rows.h"
#include "answers/report/verdict.h"
#include "answers/report/what_if.h"
#include "base/format.h"
#include "ledger/stacks/stack_view.h"

namespace gpumem {
namespace {

constexpr uint64_t kLeastStrandedPercent = 5;  // of reserved
constexpr uint64_t kLeastRatchetPercent = 50;  // the same

// Free in the segments of the chain's streams but the last one used, which goes on.
uint64_t FreeOn(const StreamChain& chain, const Fragmentation& fragmentation) {
  const std::set<uint64_t> streams(chain.streams.begin(), chain.streams.end() - 1);
  uint64_t free = 0;
  for (const CachePart& part : fragmentation.caches_at_peak) {
    if (part.pool == 0 && streams.contains(part.stream)) free += part.free;
  }
  return free;
}

struct PoolSum {
  std::set<uint64_t> pools;
  uint64_t reserved = 0, free = 0;
};

PoolSum PoolsOf(const Fragmentation& fragmentation) {
  PoolSum sum;
  for (const CachePart& part : fragmentation.caches_at_peak) {
    if (part.pool == 0) continue;
    sum.pools.insert(part.pool);
    sum.reserved += part.reserved;
    sum.free += part.free;
  }
  return sum;
}

std::string StreamAdvice(const StreamChain& chain, const ReportInput& input) {
  const std::string site = SiteOfStack(chain.stack_id, input);
  const std::string what = chain.is_taken
                               ? absl::StrCat(site, " takes a new one each time (", FormatCount(chain.takes), " times)")
                               : absl::StrCat("the blocks of ", site, " lie on ", FormatCount(chain.streams.size()),
                                              " streams, one after another");
  return absl::StrCat("make one CUDA stream and use it again: ", what);
}

std::string PoolAdvice(const Fragmentation& fragmentation) {
  const PoolSum sum = PoolsOf(fragmentation);
  return absl::StrCat("give all CUDA graphs that never run at once the same pool (pool=): ",
                      FormatCountOf(sum.pools.size(), "private pool", "private pools"), " of graphs hold ",
                      FormatBytes(sum.reserved));
}

void Add(const std::string& advice, const WhatIfRun* run, const DeviceAnalysis& device, uint64_t least_percent,
         std::vector<ReserveRemedy>* remedies) {
  const uint64_t recorded = device.peak_reserved.bytes;
  if (run == nullptr || !run->why_not.empty() || run->peak_reserved >= recorded) return;
  ReserveRemedy remedy;
  remedy.saving = recorded - run->peak_reserved;
  if (!HasPercent(remedy.saving, recorded, least_percent)) return;
  remedy.advice = advice;
  remedy.of_program = run->change != ProgramChange::kNone;
  remedy.text = absl::StrCat(advice, run->change == ProgramChange::kNone ? "" : "; that", " would reserve ",
                             FormatBytes(run->peak_reserved), " instead of ", FormatBytes(recorded), " (replayed)");
  remedies->push_back(std::move(remedy));
}

}  // namespace

std::string SiteOfStack(uint64_t stack_id, const ReportInput& input) {
  return ViewStack(input.stacks->Frames(stack_id), "", input.analysis->process.working_directory).site;
}

namespace {

// Together they must have made a good part of what is reserved.
std::string RatchetText(const DeviceAnalysis& device, const ReportInput& input) {
  uint64_t bytes = 0;
  std::map<std::string, std::pair<uint64_t, uint64_t>> sites;  // bytes and segments
  for (const SizeRatchet& ratchet : device.fragmentation.ratchets) {
    bytes += ratchet.bytes;
    auto& [of_site, segments] = sites[SiteOfStack(ratchet.stack_id, input)];
    of_site += ratchet.bytes;
    segments += ratchet.segments;
  }
  if (!HasPercent(bytes, device.peak_reserved.bytes, kLeastRatchetPercent)) return "";
  const auto most = std::max_element(sites.begin(), sites.end(),
                                     [](const auto& a, const auto& b) { return a.second.first < b.second.first; });
  return absl::StrCat(most->first, " needed a larger segment ", FormatCount(most->second.second), " times",
                      sites.size() == 1 ? "" : ", and others with it", ": what it frees is too small for the next one");
}

}  // namespace

std::string StrandedText(const DeviceAnalysis& device, const ReportInput& input) {
  const Fragmentation& fragmentation = device.fragmentation;
  const uint64_t least = device.peak_reserved.bytes;
  if (!fragmentation.chains.empty()) {
    const StreamChain& chain = fragmentation.chains.front();
    const uint64_t free = FreeOn(chain, fragmentation);
    if (HasPercent(free, least, kLeastStrandedPercent))
      return absl::StrCat(FormatBytes(free), " free on ", FormatCount(chain.streams.size() - 1),
                          " CUDA streams that were each used for a while",
                          chain.is_taken ? absl::StrCat(" (taken in ", SiteOfStack(chain.stack_id, input), ")") : "");
  }
  const PoolSum pools = PoolsOf(fragmentation);
  if (HasPercent(pools.free, least, kLeastStrandedPercent) && !pools.pools.empty())
    return absl::StrCat(FormatBytes(pools.free), " free in ",
                        FormatCountOf(pools.pools.size(), "private pool", "private pools"), " of CUDA graphs");
  if (std::string text = RatchetText(device, input); !text.empty()) return text;
  uint64_t side = 0;
  std::set<uint64_t> streams;
  for (const CachePart& part : fragmentation.caches_at_peak) {
    if (part.pool != 0 || part.stream == 0) continue;
    side += part.free;
    streams.insert(part.stream);
  }
  if (!HasPercent(side, least, kLeastStrandedPercent) || streams.empty()) return "";
  return absl::StrCat(FormatBytes(side), " free on ", FormatCountOf(streams.size(), "side stream", "side streams"),
                      ", where no other stream can use it");
}

std::vector<ReserveRemedy> Remedies(const DeviceAnalysis& device, const ReportInput& input, uint64_t least_percent) {
  std::vector<ReserveRemedy> remedies;
  if (input.what_if == nullptr || !IsReplayOf(*input.what_if, device)) return remedies;
  const WhatIfAnswer& what_if = *input.what_if;
  const Fragmentation& fragmentation = device.fragmentation;
  Add(what_if.other.Title(), &what_if.other, device, least_percent, &remedies);
  if (!fragmentation.chains.empty())
    Add(StreamAdvice(fragmentation.chains.front(), input), what_if.Changed(ProgramChange::kOneStream), device,
        least_percent, &remedies);
  Add(PoolAdvice(fragmentation), what_if.Changed(ProgramChange::kOnePool), device, least_percent, &remedies);
  Add("capture the CUDA graphs of a pool with the largest one first: what a small one leaves free is too small for a "
      "larger one",
      what_if.Changed(ProgramChange::kLargestFirst), device, least_percent, &remedies);
  std::stable_sort(remedies.begin(), remedies.end(),
                   [](const ReserveRemedy& a, const ReserveRemedy& b) { return a.saving > b.saving; });
  return remedies;
}

}  // namespace gpumem
