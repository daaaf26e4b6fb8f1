// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/revisit.h"

#include <algorithm>
#include <optional>

#include "replay/batch_stream.h"

namespace gpumem {

void Revisit(TraceReader* reader, const Checkpoints& checkpoints, std::vector<Look> looks, const Follow& follow) {
  std::stable_sort(looks.begin(), looks.end(),
                   [](const Look& a, const Look& b) { return a.event_index < b.event_index; });
  std::optional<BatchStream> stream;
  std::optional<LiveState> state;
  uint64_t next_event = 0;
  size_t next_in_batch = 0;
  for (const Look& look : looks) {
    const Checkpoint* const from = checkpoints.Before(follow ? 0 : look.event_index);
    if (from == nullptr) return;  // there is no event at all
    if (!stream || from->next_event_index > next_event) {
      reader->Seek(from->place);
      stream.emplace(reader);
      state = from->state;
      next_event = from->next_event_index;
      next_in_batch = 0;
      if (follow) follow(&*state);
      if (!stream->Advance()) return;
    }
    while (next_event <= look.event_index) {
      if (next_in_batch == stream->current().count()) {
        if (!stream->Advance()) return;
        next_in_batch = 0;
        const uint64_t resumed = state->Resume(stream->entry().live_snapshot);
        next_event += resumed;
        if (follow && resumed > 0) follow(&*state);
        state->Bridge(stream->entry());
        continue;
      }
      state->Apply(stream->current(), next_in_batch++, stream->following());
      ++next_event;
    }
    look.see(*state);
  }
}

}  // namespace gpumem
