// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Reader's events: those of all threads in the order of time, by a heap of each thread's next one.

#include <algorithm>

#include "shim/ring/reader.h"
#include "shim/ring/state.h"

namespace gpumemshim::ring {
namespace {

constexpr size_t kMostChunks = 256;  // 4 MiB, of a pass

// std heaps keep the largest on top; the one to hand out is the smallest.
struct Later {
  template <typename Head>
  bool operator()(const Head& a, const Head& b) const {
    return a.time_ns != b.time_ns ? a.time_ns > b.time_ns : a.rank > b.rank;
  }
};

}  // namespace

// A pass gives chunks back at its end, so one that takes all of a large ring would find it full again. Where there is
// more, it ends at the time at which a later chunk begins, and takes of each the definitions before the first event of
// that time or later: no earlier event needs one behind that, whichever thread it is of.
void Reader::Bound() {
  if (order_.size() <= kMostChunks) return;
  first_times_.Clear();
  for (uint32_t i = 0; i < order_.size(); i++) {
    Head head;
    if (FindHead(i, i + 1, &head)) first_times_.Push(head.time_ns);
  }
  uint64_t* const first = first_times_.data();
  const size_t count = first_times_.size();
  if (count <= kMostChunks) return;
  std::nth_element(first, first + kMostChunks, first + count);
  const uint64_t bound_ns = first[kMostChunks];
  // Not where no chunk begins earlier, or others hold back more than this.
  if (bound_ns >= watermark_ns_ || *std::min_element(first, first + kMostChunks) == bound_ns) return;
  for (uint32_t i = 0; i < order_.size(); i++) {
    Head head;
    if (!FindHead(i, i + 1, &head) || head.time_ns < bound_ns) continue;
    Track& track = tracks_[order_[i]];
    track.stack_limit = track.code_limit = track.text_limit = track.event_position;
  }
  watermark_ns_ = bound_ns;
  has_more_ = true;
}

void Reader::BuildHeap() {
  heap_.Clear();
  for (uint32_t i = 0; i < order_.size();) {
    uint32_t end = i + 1;
    while (end < order_.size() && tracks_[order_[end]].serial == tracks_[order_[i]].serial) end++;
    Head head;
    if (FindHead(i, end, &head)) {
      heap_[heap_.size()] = head;
      heap_.Resize(heap_.size() + 1);
      std::push_heap(heap_.data(), heap_.data() + heap_.size(), Later());
    }
    i = end;
  }
}

// The thread's next event from order_[order] on.
inline bool Reader::FindHead(uint32_t order, uint32_t order_end, Head* head) {
  for (; order < order_end; order++) {
    uint32_t index = order_[order];
    Track& track = tracks_[index];
    while (track.event_position < track.event_limit) {
      const RecordHeader* record = RecordAt(index, track.event_position);
      if (record->type == kRecordEvent) {
        const Event& event = reinterpret_cast<const EventRecord*>(record)->event;
        *head = {event.time_ns, (IsFree(event.kind) ? 0 : 0x80000000u) | (track.serial & 0x7fffffff), order, order_end};
        return true;
      }
      track.event_position += record->size;
    }
  }
  return false;
}

// A thread's events mostly come in a row, so that its next one stays on top: one comparison or two.
inline void Reader::ReplaceTop(const Head& head) {
  Head* const heap = heap_.data();
  const size_t size = heap_.size();
  size_t place = 0;
  for (size_t child = 1; child < size; child = 2 * place + 1) {
    if (child + 1 < size && Later()(heap[child], heap[child + 1])) child++;
    if (!Later()(head, heap[child])) break;
    heap[place] = heap[child];
    place = child;
  }
  heap[place] = head;
}

bool Reader::NextEvent(EventView* view) {
  if (heap_.size() == 0) return false;
  const Head head = heap_.data()[0];
  if (head.time_ns >= watermark_ns_) return false;
  uint32_t index = order_.data()[head.order];
  Track& track = tracks_.data()[index];
  const ChunkDescriptor& chunk = g_state.chunks[index];
  const RecordHeader* record = RecordAt(index, track.event_position);
  event_ = EventOf(*reinterpret_cast<const EventRecord*>(record));
  *view = {&event_, track.serial, chunk.owner_tid, chunk.thread_name};
  track.event_position += record->size;
  Head next;
  if (FindHead(head.order, head.order_end, &next)) {
    ReplaceTop(next);
  } else {
    std::pop_heap(heap_.data(), heap_.data() + heap_.size(), Later());
    heap_.Resize(heap_.size() - 1);
  }
  return true;
}

}  // namespace gpumemshim::ring
