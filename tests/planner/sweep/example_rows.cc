// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "example_rows.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace gpumem::plan::testing {
namespace {

struct Sizes {
  double parameters = 0, trainable = 0, activations = 0, per_sample = 0;
};

uint64_t Bytes(double value) { return static_cast<uint64_t>(value); }

// A share of each memory type for each component, as in a transformer.
void AddComponents(const Sizes& sizes, SweepRow* row) {
  struct Share {
    const char* name;
    double parameters, activations, trainable;
  };
  constexpr Share kShares[] = {{"mlp", 0.52, 0.38, 0},
                               {"attention", 0.26, 0.42, 0},
                               {"embedding", 0.2, 0.04, 0},
                               {"norm", 0.02, 0.1, 0},
                               {"lora", 0, 0.06, 1}};
  const bool lora = sizes.trainable < sizes.parameters;
  for (const Share& share : kShares) {
    const double trained = sizes.trainable * (lora ? share.trainable : share.parameters);
    if (trained + share.parameters == 0) continue;
    RowComponent component;
    component.name = share.name;
    component.at_peak["parameter"] = Bytes(sizes.parameters * share.parameters);
    component.at_peak["activation"] = Bytes(sizes.activations * share.activations);
    component.at_peak["gradient"] = Bytes(trained + sizes.per_sample * share.trainable);
    component.at_peak["optimizer_state"] = Bytes(2 * trained);
    component.allocated["forward"] = Bytes(sizes.activations * share.activations * 5);
    component.allocated["backward"] = Bytes(sizes.activations * share.activations * 7 + trained * 4);
    component.allocated["optimizer_step"] = Bytes(trained * 3);
    component.allocated["model_construction"] = Bytes(sizes.parameters * share.parameters);
    row->components.push_back(component);
  }
}

void AddCourse(const Sizes& sizes, SweepRow* row) {
  const double fixed = sizes.parameters + 2 * sizes.trainable;
  row->stages = {{"model_load", 1.2, Bytes(sizes.parameters), static_cast<int64_t>(sizes.parameters), 1},
                 {"optimizer_setup", 0.1, Bytes(sizes.parameters), 0, 1},
                 {"forward", 2.5, row->peak_allocated - kMiB, static_cast<int64_t>(sizes.activations), 5},
                 {"backward", 3.5, row->peak_allocated, -static_cast<int64_t>(sizes.activations), 5},
                 {"optimizer_step", 0.7, Bytes(fixed), static_cast<int64_t>(2 * sizes.trainable), 5}};
  constexpr int kPoints = 200;
  uint64_t reserved = 0;
  for (int i = 0; i < kPoints; ++i) {
    const double share = i / (kPoints - 1.0), step = std::fmod(share * 5, 1.0);
    const double held = share < 0.1 ? sizes.parameters * share * 10 : fixed;
    const double wave = share < 0.1 ? 0 : step < 0.45 ? step / 0.45 : std::max(0.0, 1 - (step - 0.45) / 0.4);
    RowPoint point;
    point.seconds = row->seconds * share;
    point.allocated = std::min(row->peak_allocated, Bytes(held + wave * (sizes.activations + sizes.trainable)));
    reserved = std::max(reserved, std::min(row->peak_reserved, point.allocated + point.allocated / 12));
    point.reserved = reserved;
    point.process = reserved + 512 * kMiB;
    row->timeline.push_back(point);
  }
}

// Everything of a row that follows from its sizes.
void Fill(const Sizes& sizes, uint64_t capacity, SweepRow* row) {
  const double gradients = sizes.trainable + sizes.per_sample;
  const double peak = sizes.parameters + 2 * sizes.trainable + gradients + sizes.activations;
  row->peak_allocated = Bytes(peak);
  row->peak_reserved = Bytes(peak * 1.06) + 20 * kMiB;
  row->peak_process = row->peak_reserved + 530 * kMiB;
  row->capacity = capacity;
  row->seconds = 4 + peak / 4e9;
  row->steps = 5;
  row->trace = absl::StrCat("config_", row->number, ".gmtrace");
  if (row->peak_process > capacity) {
    row->state = RowState::kOutOfMemory;
    row->reason = "needs more than the device has";
  }
  row->categories = {{"parameter", Bytes(sizes.parameters)},          {"gradient", Bytes(gradients)},
                     {"optimizer_state", Bytes(2 * sizes.trainable)}, {"activation", Bytes(sizes.activations * 0.93)},
                     {"temporary", Bytes(sizes.activations * 0.05)},  {"input", Bytes(sizes.activations * 0.02)}};
  if (sizes.per_sample > 0) row->parts["per_sample"] = Bytes(sizes.per_sample);
  row->parts["trainable"] = Bytes(sizes.trainable);
  row->tensors["parameter"] = Bytes(sizes.trainable) - 1;
  AddComponents(sizes, row);
  AddCourse(sizes, row);
}

}  // namespace

SweepRow RowOf(int number, const Configuration& values, uint64_t allocated) {
  SweepRow row;
  row.number = number;
  row.values = values;
  row.peak_allocated = allocated;
  row.peak_reserved = allocated + allocated / 10;
  row.peak_process = row.peak_reserved + 500 * kMiB;
  row.capacity = 80 * kGiB;
  row.seconds = 5;
  return row;
}

std::vector<SweepRow> GptRows(uint64_t capacity) {
  std::vector<SweepRow> rows;
  for (const int length : {256, 512, 1024, 2048, 4096}) {
    for (const int batch : {1, 2, 4, 8}) {
      SweepRow row;
      row.number = static_cast<int>(rows.size()) + 1;
      row.values = {{"seq_len", absl::StrCat(length)}, {"batch_size", absl::StrCat(batch)}};
      const double parameters = 124e6 * 4, tokens = 1.0 * batch * length;
      Fill({parameters, parameters, tokens * (900e3 + 280.0 * length), 0}, capacity, &row);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::vector<SweepRow> PrivateRows(uint64_t capacity) {
  std::vector<SweepRow> rows;
  for (const int length : {128, 256, 512}) {
    for (const int batch : {8, 16, 32}) {
      for (const int physical : {1, 2, 4}) {
        for (const int rank : {8, 16}) {
          SweepRow row;
          row.number = static_cast<int>(rows.size()) + 1;
          row.values = {{"seq_length", absl::StrCat(length)},
                        {"batch_size", absl::StrCat(batch)},
                        {"max_physical_batch_size", absl::StrCat(physical)},
                        {"lora_rank", absl::StrCat(rank)}};
          const double trainable = 2.6e6 * rank, tokens = 1.0 * physical * length;
          Fill({16.1e9, trainable, tokens * (5.4e6 + 7e3 * length), trainable * physical}, capacity, &row);
          rows.push_back(std::move(row));
        }
      }
    }
  }
  SweepRow& failed = rows[7];
  failed = RowOf(8, failed.values, 0);
  failed.peak_reserved = failed.peak_process = 0;
  failed.state = RowState::kFailed;
  failed.exit_code = 1;
  failed.reason = "exit code 1: ValueError: max_physical_batch_size must divide batch_size";
  return rows;
}

SweepAnswer AnswerOf(std::vector<SweepRow> rows) {
  SweepAnswer answer;
  answer.command = {"python", "train.py", "--seq-len", "{seq_len}", "--batch-size", "{batch_size}"};
  answer.device = "RTX4090";
  answer.capacity = rows.empty() ? 24 * kGiB : rows.front().capacity;
  answer.steps = "5";
  answer.version = "0.0.0";
  answer.started_realtime_ns = 1'760'000'000'000'000'000;
  answer.seconds = 93.5;
  answer.scaling = FitScaling(rows);
  answer.rows = std::move(rows);
  return answer;
}

}  // namespace gpumem::plan::testing
