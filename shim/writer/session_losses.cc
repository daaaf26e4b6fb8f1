// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a session says of itself: counters, and what is missing from the trace.

#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shim/base/apart.h"
#include "shim/base/clock.h"
#include "shim/base/descriptors.h"
#include "shim/ring/ring.h"
#include "shim/writer/fields.h"
#include "shim/writer/session.h"

namespace gpumemshim::writer {
namespace {

uint64_t ReadResidentBytes() {
  int fd = descriptors::Raise(open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  if (fd < 0) return 0;
  char text[128];
  ssize_t size = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (size <= 0) return 0;
  text[size] = '\0';
  const char* p = strchr(text, ' ');
  uint64_t pages = 0;
  if (p != nullptr) {
    for (p++; *p >= '0' && *p <= '9'; p++) pages = pages * 10 + static_cast<uint64_t>(*p - '0');
  }
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

uint64_t ResidentBytes() {
  uint64_t bytes = 0;
  apart::Do([&bytes] { bytes = ReadResidentBytes(); });
  return bytes;
}

}  // namespace

void Session::PutCounters(ProtoWriter* w) {
  using Field = fields::Counters;
  counters_ns_ = pass_ns_;
  size_t packet = w->Open(fields::Trace::kPacket);
  size_t message = w->Open(fields::Packet::kCounters);
  uint64_t watermark_ns = reader_.watermark_ns();
  w->Varint(Field::kTimeNs, watermark_ns < pass_ns_ ? watermark_ns : pass_ns_);
  for (size_t i = 0; i < kMaxDevices; i++) {
    if (!totals_[i].seen) continue;
    size_t mark = w->Open(Field::kDevices);
    w->SInt(fields::DeviceCounters::kDevice, static_cast<int64_t>(i));
    w->Varint(fields::DeviceCounters::kTorchAllocatedBytes, totals_[i].allocated);
    w->Varint(fields::DeviceCounters::kTorchReservedBytes, totals_[i].reserved);
    w->Close(mark);
  }
  w->VarintIf(Field::kProcessRssBytes, ResidentBytes());
  w->Varint(Field::kShimCpuNs, ClockNs(CLOCK_THREAD_CPUTIME_ID));
  w->Varint(Field::kShimRingHighBytes, ring::GetStats().high_bytes);
  w->Close(message);
  w->Close(packet);
}

Session::LossCounts Session::CountLosses() const {
  ring::Stats ring = ring::GetStats();
  StackLosses stacks;
  if (callbacks_.losses.of_stacks != nullptr) callbacks_.losses.of_stacks(&stacks);
  return {ring.dropped_allocs,
          ring.dropped_frees,
          ring.dropped_definitions + definitions_.lost() + history_.lost() + reader_.broken_codes(),
          unwritten_,
          ring.truncated_stacks + stacks.truncated_stacks,
          stacks.unread_python_frames,
          unseen_};
}

void Session::PutLosses(ProtoWriter* w, const LossCounts& losses) {
  size_t packet = w->Open(fields::Trace::kPacket);
  size_t message = w->Open(fields::Packet::kLosses);
  PutLossFields(w, losses);
  w->Close(message);
  w->Close(packet);
}

void Session::PutLossFields(ProtoWriter* w, const LossCounts& losses) {
  using Field = fields::Losses;
  w->VarintIf(Field::kDroppedAllocs, losses.dropped_allocs);
  w->VarintIf(Field::kDroppedFrees, losses.dropped_frees);
  w->VarintIf(Field::kDroppedDefinitions, losses.dropped_definitions);
  w->VarintIf(Field::kUnwrittenEvents, losses.unwritten);
  w->VarintIf(Field::kTruncatedStacks, losses.truncated);
  w->VarintIf(Field::kUnreadPythonFrames, losses.unread);
  w->StringIf(Field::kWriteError, file_.error());
  if (losses.unseen != 0 && callbacks_.losses.put_unseen != nullptr) callbacks_.losses.put_unseen(w);
}

// When the file takes no more: in the room that is kept for it, so that nobody takes what there is for all.
void Session::SayLosses() {
  if (!file_.opened() || file_.gone() || !started_) return;
  const LossCounts losses = CountLosses();
  scratch_.Clear();
  ProtoWriter w(&scratch_);
  PutLossFields(&w, losses);
  if (w.ok() && file_.AppendLast(fields::Packet::kLosses, scratch_)) losses_ = losses;
}

}  // namespace gpumemshim::writer
