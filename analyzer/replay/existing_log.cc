// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/existing_log.h"

#include "gpumem/trace.pb.h"
#include "trace/reader.h"

namespace gpumem {

void ExistingLog::Took(const LiveSnapshotBatch& snapshot) {
  ExistingAtStart& start = taken_.emplace();
  start.known = start.answered = true;
  start.lost = snapshot.lost;
  for (size_t i = 0; i < snapshot.batch.count(); ++i) {
    const bool is_block = snapshot.batch.layer(i) == trace::TORCH;
    ++(is_block ? start.blocks : start.segments);
    (is_block ? start.allocated_bytes : start.reserved_bytes) += snapshot.batch.size(i);
  }
}

}  // namespace gpumem
