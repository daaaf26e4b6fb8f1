// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/attribution/two_passes.h"

#include <algorithm>
#include <map>

#include "base/status_macros.h"
#include "ledger/attribution/label_replay.h"
#include "trace/reader.h"

namespace gpumem {
namespace {

// Several visitors of one replay, in their order.
class Visitors final : public LabelVisitor {
 public:
  explicit Visitors(std::vector<LabelVisitor*> visitors) : visitors_(std::move(visitors)) {}

  void BlockEnded(const TorchBlock& block, const BlockLabel& label, uint64_t end, bool alive) override {
    for (LabelVisitor* visitor : visitors_) visitor->BlockEnded(block, label, end, alive);
  }
  void CudaEnded(const CudaLife& life, uint64_t end) override {
    for (LabelVisitor* visitor : visitors_) visitor->CudaEnded(life, end);
  }
  void HostEnded(const CudaLife& life, uint64_t end) override {
    for (LabelVisitor* visitor : visitors_) visitor->HostEnded(life, end);
  }
  void DriverEnded(const CudaLife& life, uint64_t end) override {
    for (LabelVisitor* visitor : visitors_) visitor->DriverEnded(life, end);
  }
  void SegmentEnded(const CudaLife& life, uint64_t end) override {
    for (LabelVisitor* visitor : visitors_) visitor->SegmentEnded(life, end);
  }
  void BlockAllocated(const TorchBlock& block) override {
    for (LabelVisitor* visitor : visitors_) visitor->BlockAllocated(block);
  }
  void SavedBy(const TorchBlock& block, uint64_t node, uint32_t thread) override {
    for (LabelVisitor* visitor : visitors_) visitor->SavedBy(block, node, thread);
  }
  void BlockSaved(const TorchBlock& block) override {
    for (LabelVisitor* visitor : visitors_) visitor->BlockSaved(block);
  }
  void Before(uint64_t index, const EventBatch* batch, size_t i) override {
    for (LabelVisitor* visitor : visitors_) visitor->Before(index, batch, i);
  }
  void TensorPlaced(uint32_t tensor, uint64_t bytes) override {
    for (LabelVisitor* visitor : visitors_) visitor->TensorPlaced(tensor, bytes);
  }

 private:
  std::vector<LabelVisitor*> visitors_;
};

void Run(LabelReplay* replay, const std::vector<LabelVisitor*>& visitors) {
  if (visitors.size() == 1) return replay->Run(visitors.front());
  Visitors all(visitors);
  replay->Run(&all);
}

// Behind the header of the section that was analyzed.
absl::StatusOr<TraceReader> OpenSection(const std::string& path) {
  GPUMEM_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::Open(path));
  if (reader.Next() != ItemType::kHeader) return absl::InvalidArgumentError(path + ": " + reader.damage());
  return reader;
}

// Of analyses whose first replays end alike.
absl::Status RunTogether(const std::string& path, const ObjectTable& objects, uint64_t first_end,
                         const std::vector<TwoPassAnalysis*>& analyses) {
  GPUMEM_ASSIGN_OR_RETURN(TraceReader first, OpenSection(path));
  LabelReplay first_replay(&first, &objects, first_end);
  std::vector<LabelVisitor*> visitors;
  for (TwoPassAnalysis* analysis : analyses) visitors.push_back(analysis->BeginFirst(first_replay));
  Run(&first_replay, visitors);
  uint64_t second_end = 0;
  for (TwoPassAnalysis* analysis : analyses) {
    analysis->EndFirst(first_replay);
    second_end = std::max(second_end, analysis->SecondEnd());
  }

  GPUMEM_ASSIGN_OR_RETURN(TraceReader second, OpenSection(path));
  LabelReplay second_replay(&second, &objects, second_end);
  visitors.clear();
  std::vector<TwoPassAnalysis*> wanting;
  for (TwoPassAnalysis* analysis : analyses) {
    LabelVisitor* const visitor = analysis->BeginSecond(second_replay);
    if (visitor == nullptr) continue;
    visitors.push_back(visitor);
    wanting.push_back(analysis);
  }
  if (visitors.empty()) return absl::OkStatus();
  Run(&second_replay, visitors);
  for (TwoPassAnalysis* analysis : wanting) analysis->EndSecond();
  return absl::OkStatus();
}

}  // namespace

absl::Status RunOnePass(const std::string& path, const ObjectTable& objects, uint64_t end_ns,
                        const std::function<LabelVisitor*(const LabelReplay&)>& begin) {
  GPUMEM_ASSIGN_OR_RETURN(TraceReader reader, OpenSection(path));
  LabelReplay replay(&reader, &objects, end_ns);
  replay.Run(begin(replay));
  return absl::OkStatus();
}

absl::Status RunTwoPasses(const std::string& path, const ObjectTable& objects,
                          const std::vector<TwoPassAnalysis*>& analyses) {
  std::map<uint64_t, std::vector<TwoPassAnalysis*>> by_end;
  for (TwoPassAnalysis* analysis : analyses) by_end[analysis->FirstEnd()].push_back(analysis);
  for (const auto& [end, together] : by_end) GPUMEM_RETURN_IF_ERROR(RunTogether(path, objects, end, together));
  return absl::OkStatus();
}

}  // namespace gpumem
