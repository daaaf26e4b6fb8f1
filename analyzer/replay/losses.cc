// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/losses.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace gpumem {
namespace {

std::vector<UnseenCalls> ToUnseen(const trace::Losses& losses) {
  constexpr size_t kMaxUnseen = 64, kMaxFunctions = 64;
  std::vector<UnseenCalls> all;
  for (const trace::Unseen& unseen : losses.unseen()) {
    if (all.size() == kMaxUnseen) break;
    const int cause = static_cast<int>(unseen.cause());
    UnseenCalls& calls = all.emplace_back();
    if (cause >= 0 && cause <= trace::UNSEEN_SECOND_DRIVER) calls.cause = static_cast<UnseenCalls::Cause>(cause);
    calls.object = unseen.object();
    calls.function_count = unseen.function_count();
    for (const std::string& function : unseen.functions()) {
      if (calls.functions.size() < kMaxFunctions) calls.functions.push_back(function);
    }
  }
  return all;
}

}  // namespace

void TakeCuptiLosses(const trace::Cupti& said, LossCounts* losses) {
  losses->cupti_dropped_records = said.dropped_records();
  losses->cupti_lost_records = said.lost_records();
}

void TakeLosses(const trace::Losses& said, LossCounts* losses) {
  losses->dropped_allocs = said.dropped_allocs();
  losses->dropped_frees = said.dropped_frees();
  losses->dropped_definitions = said.dropped_definitions();
  losses->unwritten_events = said.unwritten_events();
  losses->truncated_stacks = said.truncated_stacks();
  losses->unread_python_frames = said.unread_python_frames();
  losses->write_error = said.write_error();
  losses->unseen = ToUnseen(said);
}

void TakeDamage(const TraceReader& reader, const FirstPass& pass, Analysis* analysis) {
  analysis->damage = reader.damage();
  if (pass.state().gave_up()) {
    absl::StrAppend(
        &analysis->damage, analysis->damage.empty() ? "" : "; ", "replaying was given up at event ",
        pass.state().accounts().work.events(),
        ": what follows asks for more work than a program's events do, as if made to. gpumemshim export events "
        "shows it");
  }
  analysis->losses.missing_packets = reader.missing_packets();
  analysis->losses.missing_events = reader.missing_events();
  analysis->losses.damaged_bytes = reader.damaged_bytes();
  analysis->gaps = reader.gaps();
  for (const TraceGap& gap : analysis->gaps) {
    if (gap.MayHoldEvents() && analysis->unsure_from_ns == 0)
      analysis->unsure_from_ns = std::max(gap.from_ns, pass.origin_ns());
  }
}

}  // namespace gpumem
