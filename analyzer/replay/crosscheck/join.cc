// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/crosscheck/join.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace gpumem {
namespace {

constexpr uint64_t kNearNs = 100'000'000;  // the end of a context, and the releases that belong to it
constexpr int kDriverPools = 2;            // a device
constexpr uint32_t kStaticFrom = 6;        // CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC, and MANAGED_STATIC behind it

// Operation as CUPTI counts it; 0 where it has no record of such a call.
uint32_t OperationOf(const OwnCall& call) {
  switch (call.kind) {
    case trace::ALLOC:
    case trace::MAP:
    case trace::GRAPH_NODE_ALLOC:
    case trace::POOL_CREATE:
      return 1;
    case trace::FREE:
    case trace::UNMAP:
    case trace::POOL_DESTROY:
      return 2;
    case trace::POOL_TRIM:
      return 3;
    default:
      return 0;
  }
}

// kNone: CUPTI has a record of such calls.
GapCause CauseByKind(const OwnCall& call) {
  if (call.layer == trace::TORCH) return GapCause::kSubAllocation;
  switch (call.kind) {
    case trace::ADDRESS_RESERVE:
    case trace::ADDRESS_FREE:
    case trace::PHYSICAL_CREATE:
    case trace::PHYSICAL_RELEASE:
    case trace::PHYSICAL_RETAIN:
    case trace::MULTICAST_BIND:
    case trace::MULTICAST_UNBIND:
      return GapCause::kVirtualMemory;
    case trace::HOST_REGISTER:
    case trace::HOST_UNREGISTER:
      return GapCause::kRegistered;
    case trace::IMPORT:
    case trace::IMPORT_CLOSE:
      return GapCause::kImported;
    case trace::GRAPH_NODE_FREE:
    case trace::GRAPH_MEMORY:
      return GapCause::kGraphMemory;
    case trace::POOL_SETTING:
      return GapCause::kPoolSetting;
    case trace::ALLOC:
    case trace::FREE:
      return call.memory == trace::EXTERNAL ? GapCause::kImported : GapCause::kNone;
    case trace::POOL_CREATE:
      return absl::StrContains(call.api, "Import") ? GapCause::kImported : GapCause::kNone;
    case trace::POOL_DESTROY:
    case trace::POOL_TRIM:
    case trace::MAP:
    case trace::UNMAP:
    case trace::GRAPH_NODE_ALLOC:
      return GapCause::kNone;
    default:
      return GapCause::kContextOrCode;
  }
}

// Of a call without a record of its own kind's: what it was about is known to have none, or not always one. Mappings
// that a thread without a current context makes have none, and nodes only once their graph is launched.
GapCause CauseByMemory(const OwnCall& call) {
  if (call.kind == trace::ALLOC && call.address == 0 && call.bytes == 0) return GapCause::kNothing;
  if (call.kind == trace::MAP || call.kind == trace::UNMAP) return GapCause::kVirtualMemory;
  if (call.kind == trace::GRAPH_NODE_ALLOC) return GapCause::kGraphMemory;
  switch (call.made_by) {
    case trace::IMPORT:
    case trace::MAP:  // of memory of another owner: a mapping of our own ends by an unmap
      return GapCause::kImported;
    case trace::GRAPH_NODE_ALLOC:
      return GapCause::kGraphMemory;
    default:
      return GapCause::kNone;
  }
}

uint64_t Distance(uint64_t one, uint64_t other) { return one > other ? one - other : other - one; }

// Calls of one operation on one address, by both, in the order of time.
struct Pair {
  std::vector<const OwnCall*> ours;
  std::vector<const trace::CuptiRecord*> theirs;
};
using Key = std::tuple<bool, uint64_t, uint32_t>;  // pool, address (0 of pools), operation

class Joiner {
 public:
  explicit Joiner(const CrossEvidence& evidence)
      : evidence_(evidence),
        drops_left_(evidence.cupti.dropped_records() + evidence.cupti.lost_records()),
        losses_left_(evidence.losses.dropped_allocs() + evidence.losses.dropped_frees() +
                     evidence.losses.unwritten_events()) {}

  CrossCheck Run() {
    const bool delivered = evidence_.cupti.complete_until_ns() != 0 || !evidence_.records.empty();
    check_.compared = evidence_.has_cupti && evidence_.cupti.began_ns() != 0 && delivered;
    for (const OwnCall& call : evidence_.calls) {
      NoteRange(call);
      if (const GapCause cause = CauseByKind(call); cause != GapCause::kNone) {
        AddOwn(call, SeenBy::kOnlyUs, cause, false);
      } else {
        const bool pool = call.pool();  // whose handle need not be the address that CUPTI states
        pairs_[{pool, pool ? 0 : call.address, OperationOf(call)}].ours.push_back(&call);
      }
    }
    for (const trace::CuptiRecord& record : evidence_.records)
      pairs_[{record.pool(), record.pool() ? 0 : record.address(), record.operation()}].theirs.push_back(&record);
    for (auto& [key, pair] : pairs_) JoinPair(&pair);
    for (auto& [key, row] : rows_) check_.rows.push_back(row);
    return std::move(check_);
  }

 private:
  void NoteRange(const OwnCall& call) {
    graphs_ |= call.kind == trace::GRAPH_NODE_ALLOC || call.kind == trace::GRAPH_MEMORY;
    if (call.kind != trace::MAP && call.kind != trace::GRAPH_NODE_ALLOC) return;
    Range& range = ranges_[call.address];
    range.bytes = std::max(range.bytes, call.bytes);
    range.cause = call.kind == trace::MAP ? GapCause::kVirtualMemory : GapCause::kGraphMemory;
  }

  void JoinPair(Pair* pair) {
    std::stable_sort(pair->ours.begin(), pair->ours.end(),
                     [](const OwnCall* a, const OwnCall* b) { return a->time_ns < b->time_ns; });
    std::stable_sort(pair->theirs.begin(), pair->theirs.end(),
                     [](const auto* a, const auto* b) { return a->time_ns() < b->time_ns(); });
    size_t i = 0, j = 0;
    while (i < pair->ours.size() || j < pair->theirs.size()) {
      const size_t left = pair->ours.size() - i, right = pair->theirs.size() - j;
      if (right == 0 || (left > right && NextIsNearer(*pair, i, j))) {
        AddOnlyUs(*pair->ours[i++]);
      } else if (left == 0 || (right > left && NextRecordIsNearer(*pair, i, j))) {
        AddOnlyCupti(*pair->theirs[j++]);
      } else {
        const OwnCall& call = *pair->ours[i++];
        const trace::CuptiRecord& record = *pair->theirs[j++];
        AddOwn(call, SeenBy::kBoth, GapCause::kNone, call.kind == trace::ALLOC && call.bytes != record.bytes());
      }
    }
  }

  static bool NextIsNearer(const Pair& pair, size_t i, size_t j) {
    const uint64_t time_ns = pair.theirs[j]->time_ns();
    return Distance(pair.ours[i + 1]->time_ns, time_ns) < Distance(pair.ours[i]->time_ns, time_ns);
  }
  static bool NextRecordIsNearer(const Pair& pair, size_t i, size_t j) {
    const uint64_t time_ns = pair.ours[i]->time_ns;
    return Distance(pair.theirs[j + 1]->time_ns(), time_ns) < Distance(pair.theirs[j]->time_ns(), time_ns);
  }

  void AddOnlyUs(const OwnCall& call) {
    const trace::Cupti& cupti = evidence_.cupti;
    GapCause cause = GapCause::kUnexplained;
    if (!evidence_.has_cupti || cupti.began_ns() == 0) {
      cause = GapCause::kNotRecording;
    } else if (const GapCause by_memory = CauseByMemory(call); by_memory != GapCause::kNone) {
      cause = by_memory;
    } else if (call.began_ns < cupti.began_ns()) {
      cause = GapCause::kBeforeCupti;
    } else if (call.time_ns > cupti.complete_until_ns()) {
      cause = GapCause::kAfterCupti;
    } else if (drops_left_ > 0) {
      --drops_left_;
      cause = GapCause::kDroppedByCupti;
    }
    AddOwn(call, SeenBy::kOnlyUs, cause, false);
  }

  // A range of addresses that we saw being mapped, or a graph's node: unmapped in other pieces, launched again. A
  // record without an address or a context is of what the launch of a graph adds to the graphs' pool.
  GapCause CauseByRange(const trace::CuptiRecord& record) const {
    if (record.address() == 0) return graphs_ ? GapCause::kGraphMemory : GapCause::kNone;
    const auto next = ranges_.upper_bound(record.address());
    if (next == ranges_.begin()) return GapCause::kNone;
    const auto& [begin, range] = *std::prev(next);
    return record.address() - begin < range.bytes ? range.cause : GapCause::kNone;
  }

  // Of a pool that no call of ours makes: a device has its default one, and one for graphs, from the first use on.
  GapCause CauseOfPool(const trace::CuptiRecord& record) {
    if (record.operation() == 3) return GapCause::kDriverPool;
    return record.operation() == 1 && ++driver_pools_[record.device()] <= kDriverPools ? GapCause::kDriverPool
                                                                                       : GapCause::kNone;
  }

  GapCause CauseOf(const trace::CuptiRecord& record) {
    if (!record.pool() && record.memory() >= kStaticFrom) return GapCause::kStaticMemory;
    const GapCause known = record.pool() ? CauseOfPool(record) : CauseByRange(record);
    if (known != GapCause::kNone) return known;
    const uint64_t time_ns = record.time_ns();
    if (record.operation() == 2) {
      for (const uint64_t end_ns : evidence_.ends_of_contexts) {
        if (Distance(end_ns, time_ns) < kNearNs) return GapCause::kFreedWithContext;
      }
    }
    for (const CrossEvidence::Pause& pause : evidence_.pauses) {
      if (time_ns >= pause.from_ns && time_ns <= pause.to_ns) return GapCause::kPaused;
    }
    if (losses_left_ > 0) {
      --losses_left_;
      return GapCause::kLostByUs;
    }
    return evidence_.losses.unseen().empty() ? GapCause::kUnexplained : GapCause::kPastUs;
  }

  void AddOnlyCupti(const trace::CuptiRecord& record) {
    const GapCause cause = CauseOf(record);
    if (cause != GapCause::kGraphMemory && cause != GapCause::kVirtualMemory)  // those are of memory that we know
      check_.records_only_cupti.push_back(static_cast<uint32_t>(&record - evidence_.records.data()));
    static constexpr absl::string_view kOperations[] = {"?", "allocated", "released"};
    static constexpr absl::string_view kPoolOperations[] = {"?", "created", "destroyed", "trimmed"};
    static constexpr absl::string_view kMemory[] = {"memory of an unknown kind",
                                                    "pageable memory",
                                                    "pinned host memory",
                                                    "device memory",
                                                    "array",
                                                    "managed memory",
                                                    "static variable",
                                                    "static managed variable"};
    const uint32_t operation = record.operation();
    std::string name;
    if (record.pool()) {
      name = absl::StrCat(kPoolOperations[operation < 4 ? operation : 0], ": pool");
    } else {
      name = absl::StrCat(kOperations[operation < 3 ? operation : 0], ": ",
                          kMemory[record.memory() < 8 ? record.memory() : 0]);
    }
    const bool allocates = !record.pool() && operation == 1;
    AddTo(name, SeenBy::kOnlyCupti, cause, allocates ? record.bytes() : 0, false);
  }

  void AddOwn(const OwnCall& call, SeenBy seen_by, GapCause cause, bool other_size) {
    const bool allocates = call.kind == trace::ALLOC || call.kind == trace::PHYSICAL_CREATE;
    AddTo(call.api, seen_by, cause, allocates ? call.bytes : 0, other_size);
  }

  void AddTo(const std::string& api, SeenBy seen_by, GapCause cause, uint64_t bytes, bool other_size) {
    CrossRow& row = rows_[{seen_by, cause, api}];
    row.api = api;
    row.seen_by = seen_by;
    row.cause = cause;
    ++row.calls;
    row.bytes += bytes;
    if (other_size) ++row.other_size;
    ++(seen_by == SeenBy::kBoth ? check_.both : seen_by == SeenBy::kOnlyUs ? check_.only_us : check_.only_cupti);
  }

  const CrossEvidence& evidence_;
  uint64_t drops_left_, losses_left_;
  struct Range {
    uint64_t bytes = 0;
    GapCause cause = GapCause::kNone;
  };
  std::map<Key, Pair> pairs_;
  std::map<uint64_t, Range> ranges_;  // by first address: mappings and nodes of graphs
  std::map<uint32_t, int> driver_pools_;
  bool graphs_ = false;
  std::map<std::tuple<SeenBy, GapCause, std::string>, CrossRow> rows_;
  CrossCheck check_;
};

}  // namespace

uint64_t CrossCheck::unexplained() const {
  uint64_t calls = 0;
  for (const CrossRow& row : rows) {
    if (row.cause == GapCause::kUnexplained) calls += row.calls;
  }
  return calls;
}

void CrossCheck::Add(const CrossCheck& other) {
  compared |= other.compared;
  both += other.both;
  only_us += other.only_us;
  only_cupti += other.only_cupti;
  for (const CrossRow& row : other.rows) {
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const CrossRow& ours) {
      return ours.api == row.api && ours.seen_by == row.seen_by && ours.cause == row.cause;
    });
    if (same == rows.end()) {
      rows.push_back(row);
      continue;
    }
    same->calls += row.calls;
    same->bytes += row.bytes;
    same->other_size += row.other_size;
  }
  std::sort(rows.begin(), rows.end(), [](const CrossRow& a, const CrossRow& b) {
    return std::tie(a.seen_by, a.cause, a.api) < std::tie(b.seen_by, b.cause, b.api);
  });
}

CrossCheck Join(const CrossEvidence& evidence) { return Joiner(evidence).Run(); }

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
