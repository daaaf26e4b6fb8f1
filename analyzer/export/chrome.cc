// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/json_writer.h"
#include "export/exporter.h"

namespace gpumem {
namespace {

constexpr int kStepsThread = 1, kMarksThread = 2;

class ChromeExporter final : public Exporter {
 public:
  ChromeExporter(LoadedTrace* loaded, TextSink sink) : loaded_(loaded), sites_(loaded), out_(std::move(sink)) {}

  void Begin() override {
    absl::StrAppend(out_.text(), "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n");
    Name("process_name", 0, loaded_->analysis.process.program);
    Name("thread_name", kStepsThread, "steps");
    Name("thread_name", kMarksThread, "marks and failed requests");
    AddSteps();
  }

  void Take(const ExportedEvent& event) override {
    const EventRow& row = event.row;
    if (row.kind == trace::ALLOC_FAILED || row.kind == trace::MARK) Instant(event);
    if (event.slot == 0 || event.slot >= event.state.slots()) return;
    const MeasureValues& values = event.state.values(event.slot);
    if (event.slot >= last_.size()) last_.resize(event.slot + 1);
    MeasureValues& last = last_[event.slot];
    const bool is_same =
        last.allocated == values.allocated && last.reserved == values.reserved && last.other == values.other;
    if (is_same) return;
    last = values;
    Comma();
    absl::StrAppendFormat(out_.text(),
                          "{\"ph\": \"C\", \"pid\": %d, \"tid\": 0, \"ts\": %s, \"name\": \"GPU %d memory\", \"args\": "
                          "{\"allocated\": %d, \"reserved\": %d, \"outside PyTorch\": %d}}",
                          Pid(), Microseconds(event.since_ns), DeviceOfSlot(event.slot), values.allocated,
                          values.reserved, values.other);
    out_.MaybeFlush();
  }

  void End(const LiveState&) override {
    absl::StrAppend(out_.text(), "\n]}\n");
    out_.Flush();
  }

 private:
  uint32_t Pid() const { return loaded_->analysis.process.pid; }
  // With the nanoseconds: events of the same microsecond keep their order.
  static std::string Microseconds(uint64_t ns) { return absl::StrFormat("%d.%03d", ns / 1000, ns % 1000); }
  void Comma() {
    if (has_any_) absl::StrAppend(out_.text(), ",\n");
    has_any_ = true;
  }

  void Name(absl::string_view what, int thread, const std::string& name) {
    Comma();
    absl::StrAppendFormat(out_.text(),
                          "{\"ph\": \"M\", \"pid\": %d, \"tid\": %d, \"name\": \"%s\", \"args\": {\"name\": ", Pid(),
                          thread, what);
    AppendJsonString(name, out_.text());
    absl::StrAppend(out_.text(), "}}");
  }

  void AddSteps() {
    for (const AttributedStep& each : StepsOf(loaded_)) {
      const uint64_t start = loaded_->input.Since(each.step.start.time_ns),
                     end = loaded_->input.Since(each.step.end.time_ns);
      Comma();
      absl::StrAppendFormat(out_.text(),
                            "{\"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"ts\": %s, \"dur\": %s, \"name\": \"step %d\", "
                            "\"args\": {\"peak_allocated\": %d}}",
                            Pid(), kStepsThread, Microseconds(start), Microseconds(end - std::min(start, end)),
                            each.step.number, each.step.peak.values.allocated);
      out_.MaybeFlush();
    }
  }

  void Instant(const ExportedEvent& event) {
    const EventRow& row = event.row;
    Comma();
    absl::StrAppendFormat(out_.text(),
                          "{\"ph\": \"i\", \"s\": \"p\", \"pid\": %d, \"tid\": %d, \"ts\": %s, \"name\": ", Pid(),
                          kMarksThread, Microseconds(event.since_ns));
    AppendJsonString(row.kind == trace::MARK ? loaded_->stacks.string(row.text) : "failed request", out_.text());
    absl::StrAppendFormat(out_.text(), ", \"args\": {\"size\": %d, \"site\": ", row.size);
    AppendJsonString(sites_.Of(row.stack), out_.text());
    absl::StrAppend(out_.text(), "}}");
  }

  LoadedTrace* loaded_;
  SiteNames sites_;
  ChunkedText out_;
  std::vector<MeasureValues> last_;  // by slot
  bool has_any_ = false;
};

}  // namespace

std::unique_ptr<Exporter> MakeChromeExporter(LoadedTrace* loaded, TextSink sink) {
  return std::make_unique<ChromeExporter>(loaded, std::move(sink));
}

}  // namespace gpumem
