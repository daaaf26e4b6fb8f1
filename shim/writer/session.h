// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Session: one trace from the ring to the file, apart from the thread that drives it. A pass takes what is ready, gives
// it ids, and appends one packet for every 64 Ki events: definitions first, then the events, then counters and losses
// when they are due. Where the trace has a greatest size, Series says when it goes on in a new file.
//
// Thread-safety: one thread at a time. Ownership: owns the file and all tables. Failure: a file that takes no more
// leaves the session draining the ring and counting; definitions are kept for when it takes more again, which is tried
// once a second.
//
//   session.Init();
//   session.Pass(false);         // again and again
//   ring::Stop(100);
//   session.Finish(&summary);    // what is left, and the end
//   session.ReportEnd();

#ifndef GPUMEM_SHIM_WRITER_SESSION_H_
#define GPUMEM_SHIM_WRITER_SESSION_H_

#include <cstdint>

#include "shim/base/buffer.h"
#include "shim/ring/reader.h"
#include "shim/writer/definitions.h"
#include "shim/writer/event_batch.h"
#include "shim/writer/live_set.h"
#include "shim/writer/live_snapshot.h"
#include "shim/writer/series.h"
#include "shim/writer/trace_file.h"
#include "shim/writer/writer.h"

namespace gpumemshim::writer {

class Session {
 public:
  explicit Session(const Config& config)
      : callbacks_(config.callbacks), series_(config.limit), definitions_(config.callbacks) {}

  bool Init() { return batch_.Init() && reader_.Attach(); }

  // everything: the ring was stopped.
  void Pass(bool everything);

  // After the last pass: losses, counters and End.
  void Finish(Summary* summary);

  // After Finish: whoever wants to read the trace may.
  void ReportEnd();

  // Everything recorded before this time is in the file (or counted as unwritten).
  uint64_t written_until_ns() const { return written_until_ns_; }

  // A pass left something that it could have taken.
  bool has_more() const { return reader_.has_more(); }

  // How far the file is now. The writer thread's.
  void Report(Progress* progress) const;

  // In a forked child.
  void Abandon() { file_.Close(); }

 private:
  static constexpr size_t kMaxDevices = 128;
  static constexpr size_t kMaxPendingBytes = size_t{8} << 20;
  static constexpr uint64_t kCountersIntervalNs = 1'000'000'000;
  static constexpr uint64_t kCountersIntervalWhenStoppedNs = 60'000'000'000;
  static constexpr uint64_t kRetryNs = 1'000'000'000;

  struct TorchTotals {
    uint64_t allocated, reserved;
    bool seen;
  };
  struct LossCounts {
    uint64_t dropped_allocs, dropped_frees, dropped_definitions, unwritten, truncated, unread, unseen;
    bool operator==(const LossCounts&) const = default;
    uint64_t events() const { return dropped_allocs + dropped_frees + unwritten; }
  };

  void TakeDefinitions(bool everything);
  bool NextEvent(ring::EventView* view);
  bool FillBatch();
  void AddTotals(const Event& event);
  bool CanWrite(bool last);
  bool MakeHeader(uint32_t number);
  bool OpenFirst();
  bool StartPart();
  bool NextPart();
  void WritePacket(bool last);
  void PutSamples(ProtoWriter* w);
  void TakeNewDefinitions(bool last);
  void FindUnseen(bool last);
  bool Encode(bool last, const LossCounts& losses);
  void GiveBatchUp();
  void CountFailure();
  void AtSizeLimit(bool last);
  void PutCounters(ProtoWriter* w);
  void PutLosses(ProtoWriter* w, const LossCounts& losses);
  void PutLossFields(ProtoWriter* w, const LossCounts& losses);
  void SayLosses();
  LossCounts CountLosses() const;
  void CountWritten();
  void WriteEnd();

  const Callbacks callbacks_;
  Series series_;
  ring::Reader reader_;
  // Taken from the ring, but for the next batch. event == nullptr: none.
  ring::EventView held_{};
  Event held_event_{};
  char held_thread_name_[ring::kThreadNameBytes]{};
  Definitions definitions_;
  EventBatch batch_;
  TraceFile file_;
  Buffer packets_;                   // what goes into one compressed packet
  Buffer unsent_{size_t{48} << 20};  // fields of Definitions that are not in the file yet
  Buffer header_;
  Buffer scratch_;
  LiveSet live_;               // of a series
  DefinitionHistory history_;  // of a series
  bool wanted_ = false;        // there was an event
  bool fresh_file_ = false;    // it has its header and nothing else
  bool started_ = false;       // the file has what a file begins with
  bool stopped_ = false;       // the greatest size was reached
  bool incomplete_ = false;    // the file lacks events
  bool contiguous_ = false;    // the file goes on where the one before it ended
  bool ended_ = false;
  bool samples_due_ = false;
  char place_error_[256] = {};  // why the trace is not where it was wanted
  uint64_t retry_ns_ = 0;       // after a failure: when to try again
  uint64_t written_until_ns_ = 0;
  uint64_t counters_ns_ = 0;
  uint64_t versions_ns_ = 0;
  uint64_t unseen_ns_ = 0;
  uint32_t unseen_ = 0;  // what is known of calls past us
  uint64_t pass_ns_ = 0;
  uint64_t unwritten_ = 0;
  uint64_t events_ = 0;
  uint64_t layer_events_[4] = {};
  uint64_t batch_layers_[4] = {};
  LossCounts losses_ = {};
  TorchTotals totals_[kMaxDevices] = {};
};

}  // namespace gpumemshim::writer

#endif  // GPUMEM_SHIM_WRITER_SESSION_H_
