// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "check.h"

#include <map>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "trace/reader.h"

namespace torture {
namespace {

using gpumem::EventBatch;
using gpumem::ItemType;

bool IsFreeKind(uint8_t kind) {
  return kind == kFree || kind == kAddressFree || kind == kPhysicalRelease || kind == kUnmap ||
         kind == kHostUnregister || kind == kPoolDestroy;
}

// Which sort of thing an event begins or ends; addresses of two sorts have nothing to do with each other.
int SortOf(uint8_t kind, uint8_t layer) {
  switch (kind) {
    case kAlloc:
    case kFree:
      return layer == kTorch ? 1 : 2;
    case kAddressReserve:
    case kAddressFree:
      return 3;
    case kPhysicalCreate:
    case kPhysicalRelease:
      return 4;
    case kMap:
    case kUnmap:
      return 5;
    case kHostRegister:
    case kHostUnregister:
      return 6;
    case kPoolCreate:
    case kPoolDestroy:
      return 7;
    default:
      return 0;
  }
}

// What one thread should have left, and how far it was found.
struct Expected {
  const Entry* entries = nullptr;
  uint64_t begun = 0, acked = 0, next = 0;
  uint64_t missing_allocs = 0, missing_frees = 0;      // acknowledged, passed over
  uint64_t uncertain_allocs = 0, uncertain_frees = 0;  // of the call that was cut off
};

class Checker {
 public:
  Checker(const Truth& truth, const char* file) {
    for (const ThreadTruth& thread : truth.threads) {
      Expected& expected = threads_[thread.tid];
      expected.entries = reinterpret_cast<const Entry*>(file + thread.entries_offset);
      expected.begun = thread.begun.load();
      expected.acked = thread.acked.load();
      verdict_.acknowledged += expected.acked;
    }
  }

  Verdict Check(const std::string& path) {
    absl::StatusOr<gpumem::TraceReader> reader = gpumem::TraceReader::Open(path);
    if (!reader.ok()) return Wrong(reader.status().message());
    while (reader->Next() != ItemType::kEndOfStream && verdict_.wrong.empty()) {
      if (reader->type() == ItemType::kEvents) Take(reader->batch(), reader->stacks());
      if (reader->type() == ItemType::kEnd) Wrong("a killed process has no End");
    }
    if (!reader->damage().empty()) Wrong(reader->damage());
    if (reader->missing_packets() != 0) Wrong("packets are missing");
    verdict_.from_ring = reader->recovery().events;
    verdict_.last_whole_packet = reader->recovery().next_sequence - 1;
    verdict_.torn = reader->recovery().whole_bytes != reader->file_bytes();
    verdict_.dropped_allocs = reader->losses().dropped_allocs();
    verdict_.dropped_frees = reader->losses().dropped_frees();
    const auto& losses = reader->losses();
    if (losses.unwritten_events() != 0) Wrong("events were not written");
    if (losses.dropped_definitions() == 0 && verdict_.without_stack != 0) Wrong("events without their stack");
    if (verdict_.wrong.empty()) CountMissing();
    return verdict_;
  }

 private:
  const Verdict& Wrong(absl::string_view what) {
    if (verdict_.wrong.empty()) verdict_.wrong = std::string(what);
    return verdict_;
  }

  void Take(const EventBatch& batch, const gpumem::StackTable& stacks);
  void TakeOne(const EventBatch& batch, size_t i, Expected* thread);
  void TakeIntoHistory(uint8_t kind, uint8_t layer, uint64_t key);
  void PassOver(Expected* thread);
  void CountMissing();

  Verdict verdict_;
  std::map<uint32_t, Expected> threads_;                      // by tid
  absl::flat_hash_map<uint32_t, Expected*> by_id_;            // of the trace; nullptr = not one of the eight
  absl::flat_hash_map<std::pair<int, uint64_t>, bool> live_;  // sort and key
  std::string impossible_;                                    // of the history, where nothing was dropped
  uint64_t last_time_ns_ = 0;
};

std::string Text(const EventBatch& batch, size_t i) {
  return absl::StrCat("kind ", batch.kind(i), " layer ", batch.layer(i), " address ", absl::Hex(batch.address(i)),
                      " handle ", absl::Hex(batch.handle(i)), " size ", batch.size(i));
}

void Checker::Take(const EventBatch& batch, const gpumem::StackTable& stacks) {
  for (size_t i = 0; i < batch.count() && verdict_.wrong.empty(); ++i) {
    const auto [it, is_new] = by_id_.try_emplace(batch.thread(i), nullptr);
    if (is_new) {
      const gpumem::ThreadInfo* const info = stacks.thread(batch.thread(i));
      const auto found = threads_.find(info == nullptr ? 0 : info->tid);
      if (found != threads_.end()) it->second = &found->second;
    }
    // The main thread makes the context and nothing else.
    if (it->second != nullptr) {
      TakeOne(batch, i, it->second);
    } else if (SortOf(static_cast<uint8_t>(batch.kind(i)), 0) != 0) {
      Wrong(absl::StrCat("an event of no thread that there was: ", Text(batch, i)));
    }
    if (batch.time_ns(i) < last_time_ns_) Wrong(absl::StrCat("time runs backwards at ", Text(batch, i)));
    last_time_ns_ = batch.time_ns(i);
  }
}

void Checker::PassOver(Expected* thread) {
  const bool is_free = IsFreeKind(thread->entries[thread->next].kind());
  if (thread->next < thread->acked) {
    ++(is_free ? thread->missing_frees : thread->missing_allocs);
  } else {
    ++(is_free ? thread->uncertain_frees : thread->uncertain_allocs);
  }
  ++thread->next;
}

void Checker::TakeOne(const EventBatch& batch, size_t i, Expected* thread) {
  const uint64_t key = batch.address(i) != 0 ? batch.address(i) : batch.handle(i);
  for (;; PassOver(thread)) {
    if (thread->next == thread->begun) {
      Wrong(absl::StrCat("twice, invented, or out of order: ", Text(batch, i)));
      return;
    }
    const Entry& entry = thread->entries[thread->next];
    const bool cut_off = thread->next >= thread->acked && entry.key == 0;
    if (entry.kind() == batch.kind(i) && entry.layer() == batch.layer(i) && entry.size() == batch.size(i) &&
        (entry.key == key || cut_off))
      break;
  }
  ++thread->next;
  ++verdict_.found;
  if (batch.stack(i) == 0) ++verdict_.without_stack;
  TakeIntoHistory(static_cast<uint8_t>(batch.kind(i)), static_cast<uint8_t>(batch.layer(i)), key);
}

void Checker::TakeIntoHistory(uint8_t kind, uint8_t layer, uint64_t key) {
  const int sort = SortOf(kind, layer);
  if (sort == 0 || IsBogus(key)) return;
  bool& is_live = live_[{sort, key}];
  const bool ends = IsFreeKind(kind);
  if (is_live != ends && impossible_.empty()) {
    impossible_ =
        absl::StrCat(ends ? "freed while not live: " : "given out while live: ", absl::Hex(key), ", kind ", kind);
  }
  is_live = !ends;
}

void Checker::CountMissing() {
  uint64_t allocs = 0, frees = 0, uncertain_allocs = 0, uncertain_frees = 0;
  for (auto& [tid, thread] : threads_) {
    while (thread.next < thread.begun) PassOver(&thread);
    allocs += thread.missing_allocs, frees += thread.missing_frees;
    uncertain_allocs += thread.uncertain_allocs, uncertain_frees += thread.uncertain_frees;
  }
  const auto exact = [](uint64_t missing, uint64_t uncertain, uint64_t dropped) {
    return missing <= dropped && dropped <= missing + uncertain;
  };
  if (!exact(allocs, uncertain_allocs, verdict_.dropped_allocs) ||
      !exact(frees, uncertain_frees, verdict_.dropped_frees)) {
    Wrong(absl::StrCat("acknowledged and missing: ", allocs, " allocations, ", frees,
                       " frees; counted as dropped: ", verdict_.dropped_allocs, " and ", verdict_.dropped_frees));
  }
  if (verdict_.dropped_allocs + verdict_.dropped_frees == 0) Wrong(impossible_);
}

}  // namespace

Verdict CheckTrace(const std::string& trace, const Truth& truth, const char* file) {
  return Checker(truth, file).Check(trace);
}

}  // namespace torture
