// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "absl/strings/string_view.h"
#include "replay/crosscheck/join.h"

namespace gpumem {
namespace {

struct CauseWords {
  absl::string_view name, text;
};

CauseWords WordsOf(GapCause cause) {
  switch (cause) {
    case GapCause::kNone:
      return {"none", ""};
    case GapCause::kSubAllocation:
      return {"sub_allocation", "a block inside PyTorch's segments: no call of CUDA"};
    case GapCause::kVirtualMemory:
      return {"virtual_memory", "CUPTI records mappings alone, and not all"};
    case GapCause::kRegistered:
      return {"registered_host_memory", "CUPTI has no records of registered host memory"};
    case GapCause::kImported:
      return {"imported", "another owner's memory: CUPTI has no records of imports"};
    case GapCause::kGraphMemory:
      return {"graph_memory", "a graph's memory: CUPTI records it when the graph is launched"};
    case GapCause::kContextOrCode:
      return {"context_or_code", "a context, device or loaded code: no allocation by a call"};
    case GapCause::kPoolSetting:
      return {"pool_setting", "a setting of a pool: no memory changes hands"};
    case GapCause::kNothing:
      return {"nothing", "no bytes were asked for"};
    case GapCause::kNotRecording:
      return {"not_recording", "CUPTI did not record"};
    case GapCause::kBeforeCupti:
      return {"before_cupti", "before CUPTI began"};
    case GapCause::kAfterCupti:
      return {"after_cupti", "after CUPTI's last delivery"};
    case GapCause::kDroppedByCupti:
      return {"dropped_by_cupti", "as many records or fewer as CUPTI dropped"};
    case GapCause::kStaticMemory:
      return {"static_memory", "a variable of loaded code: no call allocates it"};
    case GapCause::kDriverPool:
      return {"driver_pool", "CUDA's own pool: no call makes it, and waiting for a stream trims it"};
    case GapCause::kFreedWithContext:
      return {"freed_with_context", "freed with its context, device or module, without a call of its own"};
    case GapCause::kPaused:
      return {"recording_off", "recording was off"};
    case GapCause::kLostByUs:
      return {"lost_by_recorder", "as many events or fewer as the recorder lost"};
    case GapCause::kPastUs:
      return {"past_recorder", "calls are known to go past the recorder: gpumemshim info names them"};
    case GapCause::kUnexplained:
      break;
  }
  return {"unexplained", "not explained"};
}

}  // namespace

absl::string_view SeenByName(SeenBy seen_by) {
  return seen_by == SeenBy::kBoth ? "both" : seen_by == SeenBy::kOnlyUs ? "only us" : "only CUPTI";
}

absl::string_view GapCauseName(GapCause cause) { return WordsOf(cause).name; }
absl::string_view GapCauseText(GapCause cause) { return WordsOf(cause).text; }

}  // namespace gpumem
