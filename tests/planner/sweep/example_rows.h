// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Made-up sweeps whose numbers follow the laws of real ones: a GPT by sequence length and batch size, and private
// fine-tuning with LoRA by four axes. Tests change what they are about.

#ifndef GPUMEM_TESTS_ANALYZER_SWEEP_EXAMPLE_ROWS_H_
#define GPUMEM_TESTS_ANALYZER_SWEEP_EXAMPLE_ROWS_H_

#include <vector>

#include "planner/sweep/answer.h"

namespace gpumem::testing {}

namespace gpumem::plan::testing {

using namespace gpumem::testing;  // NOLINT(google-build-using-namespace): one set of helpers, the sizes among them

inline constexpr uint64_t kKiB = 1 << 10, kMiB = 1 << 20, kGiB = 1 << 30;

// A row of so many bytes with nothing else in it.
SweepRow RowOf(int number, const Configuration& values, uint64_t allocated);

// seq_len 256..4096 by batch_size 1..8 on 24 GiB; memory goes with the square of seq_len, and batch_size times that.
std::vector<SweepRow> GptRows(uint64_t capacity = 24 * kGiB);

// seq_length, batch_size, max_physical_batch_size and lora_rank, gradients for each sample, one row that failed.
std::vector<SweepRow> PrivateRows(uint64_t capacity = 40 * kGiB);

// All but the files of a sweep of these rows.
SweepAnswer AnswerOf(std::vector<SweepRow> rows);

}  // namespace gpumem::plan::testing

#endif  // GPUMEM_TESTS_ANALYZER_SWEEP_EXAMPLE_ROWS_H_
