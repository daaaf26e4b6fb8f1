// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// MarkLog: what the program said about itself: marks, stages, steps, tags, and when recording was on. Fed with a
// trace's events in order, it tells what was open at any time.
//
// A stage belongs to a thread, and memory is often allocated on another one (autograd's). So At() answers for the whole
// process: the innermost stage of the thread that last began or ended one and still has one open.
//
// Bounded: past kMaxChanges changes of a kind the log stays as it is, and says so. Not thread-safe.
//
//   log.Add(batch, i, names);                   // every event with IsMark(batch.kind(i))
//   const MarkPlace at = log.At(peak_time_ns);  // {step 3, stage "train > backward", ...}

#ifndef GPUMEM_ANALYZER_REPLAY_MARK_LOG_H_
#define GPUMEM_ANALYZER_REPLAY_MARK_LOG_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trace/mark_ranges.h"

namespace gpumem {

class EventBatch;
class StackTable;

// What was open at an instant.
struct MarkPlace {
  uint64_t step = 0;  // 0 = none
  std::string stage;  // outermost first, "train > backward"; "" = none
  std::string tag;    // of the thread whose stage it is
  std::string mark;   // the last one before
  bool empty() const { return step == 0 && stage.empty() && tag.empty() && mark.empty(); }
};

// A mark, stage or step, as a timeline shows it.
struct MarkEntry {
  uint64_t time_ns = 0;
  uint32_t kind = 0;  // trace::EventKind
  uint32_t tid = 0;   // kernel's id of the thread
  uint64_t number = 0;
  std::string text;
};

// A mark whose memory the program wants to be shown.
bool IsSnapshot(const MarkEntry& entry);

// The end of the program's own code: exit handlers and the interpreter's end follow.
inline constexpr uint64_t kProgramEndMark = 2;  // handle of a MARK

// A stretch of time that was recorded.
struct RecordedSpan {
  uint64_t from_ns = 0, to_ns = 0;
};

class MarkLog {
 public:
  static constexpr size_t kMaxChanges = 4'000'000;
  static constexpr size_t kMaxEntries = 10'000;

  void Add(const EventBatch& batch, size_t i, const StackTable& names);
  // The first and the last event of the trace.
  void Finish(uint64_t origin_ns, uint64_t end_ns);

  MarkPlace At(uint64_t time_ns) const;

  // The stages that hold for what a thread (the kernel's id) allocates at a time: its own, else the process's as in At;
  // with the range of the process around them. A number that stands for them, 0 = none.
  uint64_t StageAt(uint64_t time_ns, uint32_t tid) const;
  std::string StageText(uint64_t stage) const;  // "train > backward"
  bool has_stages() const { return !stages_.empty() || !ranges_.empty(); }

  // In order, the first kMaxEntries.
  const std::vector<MarkEntry>& entries() const { return entries_; }
  uint64_t entries_dropped() const { return entries_dropped_; }
  bool empty() const { return entries_.empty(); }

  // After Finish. One that goes from the first event to the last where recording was never switched.
  const std::vector<RecordedSpan>& spans() const { return spans_; }
  // Recording began when the program was under way: memory from before is not known.
  bool began_late() const { return began_late_; }
  bool was_switched() const { return began_late_ || switched_; }

  // To keep it in a file, once it is finished, and take it from there (ledger/saved/archive.h).
  template <typename Archive, typename Self>
  static void VisitFieldsOf(Archive& archive, Self& self) {
    archive(self.texts_, self.text_ids_, self.paths_, self.path_ids_, self.threads_, self.open_ranges_, self.changes_,
            self.stages_, self.ranges_, self.tags_, self.marks_, self.thread_changes_, self.steps_, self.entries_,
            self.entries_dropped_, self.spans_, self.open_span_ns_, self.span_is_open_, self.any_span_,
            self.began_late_, self.switched_);
  }

 private:
  struct Change {
    uint64_t time_ns;
    uint32_t value;  // index into paths_ or texts_

    template <typename Archive, typename Self>
    static void VisitFieldsOf(Archive& archive, Self& self) {
      archive(self.time_ns, self.value);
    }
  };
  static uint64_t TimeOf(const Change& change) { return change.time_ns; }
  struct Path {
    uint32_t parent = 0;
    uint32_t text = 0;

    template <typename Archive, typename Self>
    static void VisitFieldsOf(Archive& archive, Self& self) {
      archive(self.parent, self.text);
    }
  };
  struct Thread {
    uint32_t path = 0;  // open now
    uint32_t tag = 0;
    uint64_t changed = 0;  // when, by count
    std::vector<Change> changes;

    template <typename Archive, typename Self>
    static void VisitFieldsOf(Archive& archive, Self& self) {
      archive(self.path, self.tag, self.changed, self.changes);
    }
  };

  uint32_t TextId(const std::string& text);
  uint32_t PathId(uint32_t parent, uint32_t text);
  void SetPath(uint64_t time_ns, uint32_t tid, uint32_t path);
  void SetRange(uint64_t time_ns, uint64_t number, uint32_t text);
  void Show(uint64_t time_ns);
  void AddSpan(uint64_t time_ns, uint32_t kind);
  std::string PathText(uint32_t path) const;

  LibraryRanges library_ranges_;  // in no list: they are no stages of the program
  std::vector<std::string> texts_{""};
  std::map<std::string, uint32_t, std::less<>> text_ids_;
  std::vector<Path> paths_{Path{}};
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> path_ids_;
  std::map<uint32_t, Thread> threads_;        // by tid
  std::map<uint64_t, uint32_t> open_ranges_;  // of the process, by number: text
  uint64_t changes_ = 0;
  std::vector<Change> stages_, ranges_, tags_, marks_;  // by time
  size_t thread_changes_ = 0;                           // of all threads
  std::vector<std::pair<uint64_t, uint64_t>> steps_;    // time, number
  std::vector<MarkEntry> entries_;
  uint64_t entries_dropped_ = 0;
  std::vector<RecordedSpan> spans_;
  uint64_t open_span_ns_ = 0;
  bool span_is_open_ = true;  // from the trace's beginning on
  bool any_span_ = false;
  bool began_late_ = false, switched_ = false;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_REPLAY_MARK_LOG_H_
