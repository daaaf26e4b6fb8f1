// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/writer/session.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <utility>

#include "shim/base/clock.h"
#include "shim/ring/ring.h"
#include "shim/writer/fields.h"
#include "shim/writer/series.h"

namespace gpumemshim::writer {

void Session::Pass(bool everything) {
  pass_ns_ = MonotonicNs();
  reader_.BeginPass(everything);
  samples_due_ = true;
  TakeDefinitions(everything);
  bool more = true;
  while (more) {
    more = FillBatch();
    WritePacket(everything && !more);
    // Before the first event nothing is written, and definitions that only we hold would die with us. But of a stack
    // that waits in vain there may be one in each pass, and a ring that is short would lose all that comes.
    const bool holds = held_.event != nullptr || (definitions_.waits() && !reader_.NeedsRoom());
    if (definitions_.pending_bytes() == 0 && !holds) reader_.Commit();
  }
  written_until_ns_ = reader_.watermark_ns();
  const bool takes_more = started_ && retry_ns_ == 0 && !stopped_ && !file_.gone();
  if (callbacks_.watcher.passed != nullptr && !everything)
    callbacks_.watcher.passed(takes_more ? file_.path() : "", false);
}

void Session::TakeDefinitions(bool everything) {
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
  definitions_.AddWaiting(everything);
}

bool IsProgramEnd(const Event& event) { return event.kind == EventKind::kMark && event.handle == kMarkProgramEnd; }

bool Session::NextEvent(ring::EventView* view) {
  if (held_.event == nullptr) return reader_.NextEvent(view);
  *view = std::exchange(held_, {});
  return true;
}

// False: that was all.
bool Session::FillBatch() {
  batch_.Clear();
  memset(batch_layers_, 0, sizeof(batch_layers_));
  ring::EventView view;
  const uint32_t most = series_.EventsPerPacket(EventBatch::kMaxEvents);
  while (batch_.count() < most && NextEvent(&view)) {
    const Event& event = *view.event;
    if (event.kind == EventKind::kRecordingStart && batch_.count() != 0) {  // begins a batch: trace.proto
      held_event_ = event;
      held_ = view;
      held_.event = &held_event_;
      memcpy(held_thread_name_, view.thread_name, sizeof held_thread_name_);
      held_.thread_name = held_thread_name_;
      return true;
    }
    if (!wanted_ && batch_.count() == 0 && IsProgramEnd(event)) continue;  // alone it is worth no file
    const EventIds ids = {definitions_.ThreadId(view), definitions_.StackId(event.stack),
                          definitions_.ApiId(event.api)};
    batch_.Add(event, ids.thread, ids.stack, ids.api, HasText(event.kind) ? definitions_.TextId(event.text) : 0);
    if (series_.enabled()) live_.Apply(event, ids);
    batch_layers_[static_cast<uint8_t>(event.layer) & 3]++;
    definitions_.AddDevice(event.device, pass_ns_);
    AddTotals(event);
    if (callbacks_.watcher.saw_event != nullptr) callbacks_.watcher.saw_event(event, view.tid);
  }
  return batch_.count() == most;
}

void Session::AddTotals(const Event& event) {
  if (event.layer != Layer::kTorch || event.device < 0 || event.device >= static_cast<int16_t>(kMaxDevices)) return;
  totals_[event.device] = {event.torch_allocated, event.torch_reserved, true};
}

// For part `number` of a series.
bool Session::MakeHeader(uint32_t number) {
  HeaderInfo info;
  if (callbacks_.facts.fill_header != nullptr) callbacks_.facts.fill_header(&info);
  PartInfo part;
  if (series_.enabled()) part = {series_.id(), number, events_, contiguous_};
  header_.Clear();
  ProtoWriter w(&header_);
  EncodeHeader(info, part, &w);
  return w.ok() || file_.Fail("no memory for a header");
}

// Tries the wanted place, then others: a trace in another place is better than none.
bool Session::OpenFirst() {
  char path[4096];
  series_.Identify(MonotonicNs());
  if (!MakeHeader(1)) return false;
  if (callbacks_.paths.wanted == nullptr || !callbacks_.paths.wanted(path, sizeof(path)))
    return file_.Fail("no path for a trace");
  MakeFoldersOf(path);
  bool opened = file_.Open(path, header_);
  for (uint32_t i = 0;
       !opened && callbacks_.paths.fallback != nullptr && callbacks_.paths.fallback(i, path, sizeof(path)); i++) {
    opened = file_.Open(path, header_);
  }
  if (!opened) return false;
  fresh_file_ = true;
  ring::NameTrace(file_.path());
  series_.Begin(file_.path());
  snprintf(place_error_, sizeof(place_error_), "%s", file_.error());
  file_.ForgetError();  // nothing of the trace is missing so far
  return true;
}

// Everything that comes before a file's first event, from its first byte on.
bool Session::StartPart() {
  if (series_.number() > 1) GiveBatchUp();
  if (!fresh_file_) {  // its first words are said anew
    if (!file_.Restart() || !MakeHeader(series_.number())) return false;
    started_ = file_.AppendPlain(fields::Packet::kHeader, header_);
  } else {
    started_ = true;
  }
  fresh_file_ = false;
  if (started_ && series_.number() > 1) {
    started_ = history_.Write(&file_, &packets_) && WriteLiveSnapshot(&live_, &batch_, &file_, &packets_);
    series_.HasBase(file_.bytes());
  }
  losses_ = {};
  counters_ns_ = 0;
  incomplete_ &= !started_;
  return started_;
}

// The next file of the series.
bool Session::NextPart() {
  char path[4096];
  contiguous_ = !incomplete_;
  const uint32_t number = series_.number() + 1;
  GiveBatchUp();  // none, but after a loss
  if (!series_.NextPath(path, sizeof(path)) || !MakeHeader(number) || !file_.CreateNext(path, header_)) return false;
  scratch_.Clear();
  ProtoWriter w(&scratch_);
  w.Varint(fields::Continued::kNextNumber, number);
  w.Varint(fields::Continued::kTimeNs, pass_ns_);
  if (w.ok()) file_.AppendPlain(fields::Packet::kContinued, scratch_);
  series_.Finish(file_.bytes());
  file_.SwitchToNext();
  fresh_file_ = true;
  ring::NameTrace(file_.path());
  series_.Begin(file_.path());
  return StartPart();
}

// Its events are in what is alive already.
void Session::GiveBatchUp() {
  unwritten_ += batch_.count();
  contiguous_ &= batch_.count() == 0;
  memset(batch_layers_, 0, sizeof(batch_layers_));
  batch_.Clear();
}

void Session::CountFailure() {
  incomplete_ |= batch_.count() != 0;
  GiveBatchUp();
  if (retry_ns_ == 0) SayLosses();
  if (pass_ns_ >= retry_ns_) retry_ns_ = pass_ns_ + kRetryNs;
}

bool Session::CanWrite(bool last) {
  if (pass_ns_ < retry_ns_ && !last) return false;
  if (!file_.opened() && !OpenFirst()) return false;
  if (series_.enabled()) {
    if (started_ && !file_.gone() && series_.Spent(file_.bytes())) {
      return last || file_.Fail("GPUMEMSHIM_MAX_SIZE was reached");  // the last words are few
    }
    // A new file tells what is missing now: it begins with what is alive.
    if (file_.gone() || (started_ && incomplete_)) return NextPart();
    return started_ || StartPart();
  }
  return !file_.gone() && (started_ || StartPart());
}

void Session::TakeNewDefinitions(bool last) {
  if (last || pass_ns_ - versions_ns_ >= kCountersIntervalNs) {
    definitions_.AddVersions();
    versions_ns_ = pass_ns_;
  }
  const size_t before = unsent_.size();
  ProtoWriter w(&unsent_);
  definitions_.Take(&w);
  if (w.ok()) return;
  unsent_.Resize(before);
  definitions_.CountLost();
}

void Session::FindUnseen(bool last) {
  if (callbacks_.losses.find_unseen == nullptr || (!last && pass_ns_ - unseen_ns_ < kCountersIntervalNs)) return;
  unseen_ns_ = pass_ns_;
  unseen_ = callbacks_.losses.find_unseen(last);
}

bool Session::Encode(bool last, const LossCounts& losses) {
  packets_.Clear();
  ProtoWriter w(&packets_);
  if (unsent_.size() != 0) {
    size_t packet = w.Open(fields::Trace::kPacket);
    w.Bytes(fields::Packet::kDefinitions, unsent_.data(), unsent_.size());
    w.Close(packet);
  }
  PutSamples(&w);
  if (batch_.count() != 0) {
    size_t packet = w.Open(fields::Trace::kPacket);
    size_t message = w.Open(fields::Packet::kEvents);
    batch_.Encode(&w);
    w.Close(message);
    w.Close(packet);
  }
  const uint64_t interval_ns = stopped_ ? kCountersIntervalWhenStoppedNs : kCountersIntervalNs;
  // What is lost only PyTorch's own totals tell of: they come with each loss.
  const bool loses_events = !stopped_ && losses.events() != losses_.events();
  const bool due = last || loses_events || pass_ns_ - counters_ns_ >= interval_ns;
  if (due) PutCounters(&w);
  if (last || (!(losses == losses_) && (due || !stopped_))) PutLosses(&w, losses);
  return w.ok();
}

void Session::WritePacket(bool last) {
  wanted_ |= batch_.count() != 0 || (callbacks_.samples.has_cupti != nullptr && callbacks_.samples.has_cupti());
  if (!wanted_) return;  // no event yet, so no file yet
  TakeNewDefinitions(last);
  const bool writable = CanWrite(last);
  if (stopped_) {
    GiveBatchUp();
    unsent_.Clear();
  }
  FindUnseen(last);
  const LossCounts losses = CountLosses();
  const bool encoded = writable && Encode(last, losses);
  if (encoded && packets_.size() == 0) return;
  const uint64_t sequence = file_.next_sequence();
  if (encoded) reader_.MarkPending(sequence);
  if (encoded && file_.AppendCompressed(packets_)) {
    ring::MarkWritten(sequence);
    losses_ = losses;
    retry_ns_ = 0;
    CountWritten();
    if (series_.enabled()) history_.Keep(unsent_);
    unsent_.Clear();
  } else {
    CountFailure();
  }
  batch_.Clear();
  AtSizeLimit(last);
}

void Session::AtSizeLimit(bool last) {
  if (!stopped_ && series_.StopsAt(file_.bytes())) {
    stopped_ = true;
    counters_ns_ = 0;
    file_.Fail("GPUMEMSHIM_MAX_SIZE was reached");
  }
  if (!last && retry_ns_ == 0 && series_.Full(file_.bytes()) && series_.HasRoom(file_.bytes())) NextPart();
}

void Session::CountWritten() {
  events_ += batch_.count();
  file_.SetEvents(events_);
  for (int i = 0; i < 4; i++) layer_events_[i] += std::exchange(batch_layers_[i], 0);
}

// Once a pass and before its events, so that the events before a sample in the file are not later than it.
void Session::PutSamples(ProtoWriter* w) {
  if (!samples_due_) return;
  samples_due_ = false;
  while (callbacks_.samples.put != nullptr && callbacks_.samples.put(w)) {
  }
  while (callbacks_.samples.put_cupti != nullptr && callbacks_.samples.put_cupti(w)) {
  }
}

void Session::WriteEnd() {
  using Field = fields::End;
  if (wanted_ && retry_ns_ != 0) {
    // The disk may have room again: say at least what is missing.
    batch_.Clear();
    WritePacket(true);
    if (retry_ns_ != 0) SayLosses();
  }
  if (!file_.opened() || !started_) return;
  scratch_.Clear();
  ProtoWriter w(&scratch_);
  w.Varint(Field::kTimeNs, MonotonicNs());
  w.VarintIf(Field::kEvents, events_);
  w.VarintIf(Field::kTorchEvents, layer_events_[static_cast<int>(Layer::kTorch)]);
  w.VarintIf(Field::kRuntimeEvents, layer_events_[static_cast<int>(Layer::kRuntime)]);
  w.VarintIf(Field::kDriverEvents, layer_events_[static_cast<int>(Layer::kDriver)]);
  ended_ = w.ok() && file_.AppendLast(fields::Packet::kEnd, scratch_);
}

void Session::Report(Progress* progress) const {
  progress->file_bytes = file_.bytes();
  progress->events = events_ - layer_events_[0];  // calls of the program, as in the last line
  progress->unwritten_events = unwritten_;
  memcpy(progress->path, file_.path(), strlen(file_.path()) + 1);
  memcpy(progress->error, file_.error(), sizeof(progress->error));
}

void Session::Finish(Summary* summary) {
  WriteEnd();
  if (file_.gone()) {
    unwritten_ += events_;
    events_ = layer_events_[0] = 0;
  }
  LossCounts losses = CountLosses();
  memset(summary, 0, sizeof(*summary));
  summary->opened = file_.opened() && !file_.gone();
  summary->complete = ended_;
  memcpy(summary->path, file_.path(), strlen(file_.path()) + 1);
  summary->file_bytes = series_.finished_bytes() + file_.bytes();
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
  snprintf(summary->error, sizeof(summary->error), "%s", file_.error()[0] != '\0' ? file_.error() : place_error_);
  file_.Finish();
}

void Session::ReportEnd() {
  if (callbacks_.watcher.passed != nullptr) callbacks_.watcher.passed(ended_ ? file_.path() : "", true);
}

}  // namespace gpumemshim::writer
