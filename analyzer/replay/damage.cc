// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/damage.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace gpumem {

void TakeDamage(const TraceReader& reader, const FirstPass& pass, Analysis* analysis) {
  analysis->damage = reader.damage();
  if (pass.state().gave_up()) {
    absl::StrAppend(&analysis->damage, analysis->damage.empty() ? "" : "; ", "replaying was given up at event ",
                    pass.state().accounts().work.events(),
                    ": what follows asks for more work than a program's events do, as if made to. gpumemshim export "
                    "events shows it");
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
