// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/state/replay.h"

#include <algorithm>
#include <optional>

namespace gpumem {
namespace {

struct Walk : ReplayVisitor {
  Replay* replay;
  const Follow* follow;

  bool Take(const EventBatch& batch, size_t i, const EventBatch* following) {
    replay->state().Apply(batch, i, following);
    return true;
  }
  void AfterSnapshot(const std::vector<LiveSnapshotBatch>&) {
    if (*follow) (*follow)(&replay->state());
  }
};

}  // namespace

void Revisit(TraceReader* reader, const Checkpoints& checkpoints, std::vector<StateLook> looks, const Follow& follow) {
  std::stable_sort(looks.begin(), looks.end(),
                   [](const StateLook& a, const StateLook& b) { return a.event_index < b.event_index; });
  std::optional<Replay> replay;
  Walk walk;
  walk.follow = &follow;
  for (const StateLook& look : looks) {
    const Checkpoint* const from = checkpoints.Before(follow ? 0 : look.event_index);
    if (from == nullptr) return;  // there is no event at all
    if (!replay || from->next_event_index > replay->index()) {
      walk.replay = &replay.emplace(reader, *from);
      if (follow) follow(&replay->state());
    }
    replay->Run(&walk, nullptr, look.event_index);
    if (replay->index() <= look.event_index) return;  // it is beyond what can be read
    look.see(replay->state());
  }
}

}  // namespace gpumem
