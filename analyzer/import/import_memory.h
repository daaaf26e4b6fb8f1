// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ImportMemory: how much memory one import may take, and what it has taken. Whoever keeps something of the file's size
// spends for it first, by the most that its container may take; who may not spend stops, with TooMuch's error. 1 GiB
// unless $GPUMEMSHIM_IMPORT_MEMORY says otherwise ("4GiB"). Plain values; each import has one of its own.
//
//   ImportMemory memory = ImportMemory::OfProcess();
//   if (!memory.Spend(entries * sizeof(Entry))) return memory.TooMuch();

#ifndef GPUMEM_ANALYZER_IMPORT_IMPORT_MEMORY_H_
#define GPUMEM_ANALYZER_IMPORT_IMPORT_MEMORY_H_

#include <cstdint>

#include "absl/status/status.h"

namespace gpumem {

class ImportMemory {
 public:
  static constexpr uint64_t kDefault = uint64_t{1} << 30;

  // Of `all`, an eighth is left to what is not counted: the program itself, buffers, rests between blocks.
  explicit ImportMemory(uint64_t all = kDefault) : all_(all), left_(all / 8 * 7) {}
  static ImportMemory OfProcess();

  bool Spend(uint64_t bytes) {
    if (bytes > left_) return !(is_over_ = true);
    left_ -= bytes;
    return true;
  }
  uint64_t left() const { return left_; }
  uint64_t all() const { return all_; }
  bool is_over() const { return is_over_; }

  // DataLoss: how much was allowed, and how to allow more.
  absl::Status TooMuch() const;

 private:
  uint64_t all_, left_;
  bool is_over_ = false;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_IMPORT_MEMORY_H_
