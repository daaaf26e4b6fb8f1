// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/writer/session.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "shim/base/clock.h"
#include "shim/ring/ring.h"
#include "shim/writer/fields.h"
#include "shim/writer/header.h"

namespace gpumemshim::writer {
namespace {

uint64_t ResidentBytes() {
  int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
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

}  // namespace

void Session::Pass(bool everything) {
  pass_ns_ = MonotonicNs();
  reader_.BeginPass(everything);
  samples_due_ = true;
  TakeDefinitions();
  bool more = true;
  while (more) {
    FillBatch();
    more = batch_.full();
    WritePacket(everything && !more);
    // Before the first event nothing is written, and definitions that only we hold would die with us.
    if (definitions_.pending_bytes() == 0) reader_.Commit();
  }
  written_until_ns_ = reader_.watermark_ns();
  if (hooks_.passed != nullptr && !everything) hooks_.passed(file_.writable() ? file_.path() : "", false);
}

void Session::TakeDefinitions() {
  ring::TextView text;
  while (reader_.NextText(&text)) {
    definitions_.AddText(text);
    if (definitions_.pending_bytes() > kMaxPendingBytes) WritePacket(false);
  }
  ring::RawCode code;
  while (reader_.NextCode(&code)) {
    definitions_.AddCode(code);
    if (definitions_.pending_bytes() > kMaxPendingBytes) WritePacket(false);
  }
  ring::StackView stack;
  while (reader_.NextStack(&stack)) {
    definitions_.AddStack(stack);
    if (definitions_.pending_bytes() > kMaxPendingBytes) WritePacket(false);
  }
}

void Session::FillBatch() {
  batch_.Clear();
  memset(batch_layers_, 0, sizeof(batch_layers_));
  ring::EventView view;
  while (!batch_.full() && reader_.NextEvent(&view)) {
    const Event& event = *view.event;
    batch_.Add(event, definitions_.ThreadId(view), definitions_.StackId(event.stack), definitions_.ApiId(event.api),
               IsMark(event.kind) ? definitions_.TextId(event.text) : 0);
    batch_layers_[static_cast<uint8_t>(event.layer) & 3]++;
    definitions_.AddDevice(event.device, pass_ns_);
    AddTotals(event);
    if (hooks_.saw_event != nullptr) hooks_.saw_event(event, view.tid);
  }
}

void Session::AddTotals(const Event& event) {
  if (event.layer != Layer::kTorch || event.device < 0 || event.device >= static_cast<int16_t>(kMaxDevices)) return;
  totals_[event.device] = {event.torch_allocated, event.torch_reserved, true};
}

bool Session::OpenOnce() {
  if (open_tried_) return file_.writable();
  open_tried_ = true;
  char path[4096];
  if (hooks_.output_path == nullptr || !hooks_.output_path(path, sizeof(path))) return false;
  HeaderInfo info;
  if (hooks_.fill_header != nullptr) hooks_.fill_header(&info);
  scratch_.Clear();
  ProtoWriter w(&scratch_);
  EncodeHeader(info, &w);
  return w.ok() && file_.Open(path) && file_.AppendPlain(fields::Packet::kHeader, scratch_);
}

void Session::WritePacket(bool last) {
  if (batch_.count() == 0 && !open_tried_) return;  // no event yet, so no file yet
  bool writable = OpenOnce();
  packets_.Clear();
  ProtoWriter w(&packets_);
  if (pass_ns_ - versions_ns_ >= kCountersIntervalNs) {
    definitions_.AddVersions();
    versions_ns_ = pass_ns_;
  }
  size_t packet = w.Open(fields::Trace::kPacket);
  size_t message = w.Open(fields::Packet::kDefinitions);
  definitions_.Take(&w, pass_ns_);
  if (w.size() == message) {
    packets_.Clear();
  } else {
    w.Close(message);
    w.Close(packet);
  }
  PutSamples(&w);
  if (batch_.count() != 0) {
    packet = w.Open(fields::Trace::kPacket);
    message = w.Open(fields::Packet::kEvents);
    batch_.Encode(&w);
    w.Close(message);
    w.Close(packet);
  }
  if (last || pass_ns_ - counters_ns_ >= kCountersIntervalNs) PutCounters(&w);
  LossCounts losses = CountLosses();
  if (last || !(losses == losses_)) PutLosses(&w, losses);
  if (w.ok() && packets_.size() == 0) return;
  if (writable) reader_.MarkPending(file_.next_sequence());
  if (writable && w.ok() && file_.AppendCompressed(packets_)) {
    losses_ = losses;
    CountWritten();
  } else {
    unwritten_ += batch_.count();
  }
  batch_.Clear();
}

void Session::CountWritten() {
  events_ += batch_.count();
  for (int i = 0; i < 4; i++) layer_events_[i] += batch_layers_[i];
}

// Once a pass and before its events, so that the events before a sample in the file are not later than it.
void Session::PutSamples(ProtoWriter* w) {
  if (!samples_due_ || hooks_.put_sample == nullptr) return;
  samples_due_ = false;
  while (hooks_.put_sample(w)) {
  }
}

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
  if (hooks_.stack_losses != nullptr) hooks_.stack_losses(&stacks);
  return {ring.dropped_allocs,
          ring.dropped_frees,
          ring.dropped_definitions + definitions_.lost() + reader_.broken_codes(),
          unwritten_,
          ring.truncated_stacks + stacks.truncated_stacks,
          stacks.unread_python_frames};
}

void Session::PutLosses(ProtoWriter* w, const LossCounts& losses) {
  using Field = fields::Losses;
  size_t packet = w->Open(fields::Trace::kPacket);
  size_t message = w->Open(fields::Packet::kLosses);
  w->VarintIf(Field::kDroppedAllocs, losses.dropped_allocs);
  w->VarintIf(Field::kDroppedFrees, losses.dropped_frees);
  w->VarintIf(Field::kDroppedDefinitions, losses.dropped_definitions);
  w->VarintIf(Field::kUnwrittenEvents, losses.unwritten);
  w->VarintIf(Field::kTruncatedStacks, losses.truncated);
  w->VarintIf(Field::kUnreadPythonFrames, losses.unread);
  w->StringIf(Field::kWriteError, file_.error());
  w->Close(message);
  w->Close(packet);
}

void Session::WriteEnd() {
  using Field = fields::End;
  if (!file_.opened()) return;
  if (!file_.writable()) {
    // The disk may have room again: say at least what is missing.
    file_.TryAgain();
    batch_.Clear();
    WritePacket(true);
  }
  scratch_.Clear();
  ProtoWriter w(&scratch_);
  w.Varint(Field::kTimeNs, MonotonicNs());
  w.VarintIf(Field::kEvents, events_);
  w.VarintIf(Field::kTorchEvents, layer_events_[static_cast<int>(Layer::kTorch)]);
  w.VarintIf(Field::kRuntimeEvents, layer_events_[static_cast<int>(Layer::kRuntime)]);
  w.VarintIf(Field::kDriverEvents, layer_events_[static_cast<int>(Layer::kDriver)]);
  ended_ = w.ok() && file_.AppendPlain(fields::Packet::kEnd, scratch_);
}

void Session::Report(Progress* progress) const {
  progress->file_bytes = file_.bytes();
  progress->events = events_;
  progress->unwritten_events = unwritten_;
  strcpy(progress->path, file_.path());
  memcpy(progress->error, file_.error(), sizeof(progress->error));
}

void Session::Finish(Summary* summary) {
  WriteEnd();
  LossCounts losses = CountLosses();
  memset(summary, 0, sizeof(*summary));
  summary->opened = file_.opened();
  summary->complete = ended_;
  memcpy(summary->path, file_.path(), strlen(file_.path()) + 1);
  summary->file_bytes = file_.bytes();
  summary->events = events_ - layer_events_[0];  // calls of the program
  summary->torch_events = layer_events_[static_cast<int>(Layer::kTorch)];
  summary->runtime_events = layer_events_[static_cast<int>(Layer::kRuntime)];
  summary->driver_events = layer_events_[static_cast<int>(Layer::kDriver)];
  summary->dropped_allocs = losses.dropped_allocs;
  summary->dropped_frees = losses.dropped_frees;
  summary->dropped_definitions = losses.dropped_definitions;
  summary->unwritten_events = losses.unwritten;
  summary->truncated_stacks = losses.truncated;
  summary->unread_python_frames = losses.unread;
  memcpy(summary->error, file_.error(), sizeof(summary->error));
  file_.Close();
  if (hooks_.passed != nullptr) hooks_.passed(ended_ ? summary->path : "", true);
}

}  // namespace gpumemshim::writer
