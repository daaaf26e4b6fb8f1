// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/load/ground.h"

#include <algorithm>
#include <array>

#include "trace/import_info.h"

namespace gpumem {
namespace {

constexpr std::array<absl::string_view, 4> kNames = {"nothing", "moment", "window", "run"};

// What was recorded here begins with the program, unless recording did not.
Covers CoversOfRecording(const Analysis& analysis) {
  const bool is_part =
      analysis.marks.began_late() || analysis.marks.was_switched() || analysis.series.events_before != 0;
  return is_part ? Covers::kWindow : Covers::kRun;
}

}  // namespace

absl::string_view CoversName(Covers covers) { return kNames[static_cast<size_t>(covers)]; }

Ground GroundOf(const Analysis& analysis) {
  Ground ground;
  const ImportInfo imported = ImportInfoOf(analysis.process.settings);
  ground.is_complete = analysis.damage.empty() && !analysis.losses.MissesEvents() &&
                       (imported.any() || analysis.complete || analysis.snapshot);
  ground.has_totals = std::any_of(analysis.devices.begin(), analysis.devices.end(), [](const DeviceAnalysis& device) {
    return device.peak_reserved.bytes != 0 || device.peak_allocated.bytes == 0;
  });
  if (!imported.any()) {
    ground.covers = CoversOfRecording(analysis);
    // A Python program frees what its variables hold when the interpreter ends.
    ground.knows_end = !analysis.complete || analysis.program_end_ns != 0 ||
                       !analysis.process.versions.contains("python") || analysis.events.torch == 0;
    return ground;
  }
  const auto named = std::find(kNames.begin(), kNames.end(), imported.covers);
  ground.covers = named == kNames.end() ? Covers::kWindow : static_cast<Covers>(named - kNames.begin());
  ground.has_segments = ground.has_totals && !analysis.events.by_kind.contains(kTorchReservedName);
  ground.has_times = imported.has_times;
  ground.has_stacks = imported.has_stacks;
  ground.has_failures = imported.has_failures;
  ground.has_lives = imported.has_lives;
  return ground;
}

}  // namespace gpumem
