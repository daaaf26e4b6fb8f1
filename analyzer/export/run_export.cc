// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <vector>

#include "base/status_macros.h"
#include "export/exporter.h"
#include "replay/state/replay.h"

namespace gpumem {
namespace {

class ExportVisitor final : public ReplayVisitor, public LifetimeObserver {
 public:
  ExportVisitor(const ExportRequest& request, uint64_t origin_ns, Replay* replay, Exporter* exporter,
                const std::function<bool()>& more)
      : request_(request), origin_ns_(origin_ns), replay_(replay), exporter_(exporter), more_(more) {}

  bool Take(const EventBatch& batch, size_t i, const EventBatch* following) {
    const uint64_t since = batch.time_ns(i) - std::min(batch.time_ns(i), origin_ns_);
    if (since > request_.to_ns) return false;
    const bool is_wanted = since >= request_.from_ns && Wants(batch, i);
    if (is_wanted && !more_()) {
      result_.was_cut = true;
      return false;
    }
    ended_.clear();
    LiveState& state = replay_->state();
    state.Apply(batch, i, following);
    const EventRow row = batch.Row(i);
    const bool is_free = !ended_.empty() && row.kind == trace::FREE && row.layer == trace::TORCH;
    const absl::Span<const TorchBlock> ended = ended_;
    const ExportedEvent event{row,
                              replay_->index(),
                              since,
                              SlotOfDevice(row.device),
                              state,
                              is_free ? &ended.back() : nullptr,
                              is_free ? ended.first(ended.size() - 1) : ended};
    if (is_wanted) {
      exporter_->Take(event);
      ++result_.written_events;
    } else {
      exporter_->Skip(event);
    }
    return true;
  }

  const ExportResult& result() const { return result_; }

 private:
  bool Wants(const EventBatch& batch, size_t i) const {
    if (request_.device >= 0 && batch.device(i) != request_.device && !IsMark(batch.kind(i))) return false;
    return request_.layer == LayerFilter::kAll || batch.layer(i) == static_cast<uint32_t>(request_.layer);
  }

  void OnAlloc(Held, uint32_t) override {}
  void OnFree(Held kind, uint32_t place) override {
    if (kind != Held::kBlock) return;
    ended_.push_back(replay_->state().blocks()[place]);
  }

  const ExportRequest& request_;
  uint64_t origin_ns_;
  Replay* replay_;
  Exporter* exporter_;
  const std::function<bool()>& more_;
  std::vector<TorchBlock> ended_;  // by the event at hand
  ExportResult result_;
};

}  // namespace

absl::StatusOr<ExportResult> RunExport(const ExportRequest& request, LoadedTrace* loaded, Exporter* exporter,
                                       const std::function<bool()>& more) {
  absl::StatusOr<TraceReader> reader = TraceReader::Open(loaded->analysis.path);
  if (!reader.ok()) return AsReadError(reader.status());
  if (reader->Next() != ItemType::kHeader) return absl::DataLossError(reader->damage());
  Replay replay(&*reader, LayerFilter::kAll);
  ExportVisitor visitor(request, loaded->analysis.origin_ns, &replay, exporter, more);
  replay.Observe(&visitor);
  exporter->Begin();
  replay.Run(&visitor);
  exporter->End(replay.state());
  return visitor.result();
}

}  // namespace gpumem
