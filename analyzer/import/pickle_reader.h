// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ReadPickle: a pickle as data. The protocols 0 to 5 as Python writes None, booleans, numbers, texts, bytes, lists,
// tuples and dicts; nothing else. What would import, call or build anything (GLOBAL, REDUCE, BUILD, INST, ...) is
// refused by name, so no byte of the file can run code. Nesting costs no stack here, memory is bounded
// (PickleLimits), and cycles are only references (pickle_tree.h).
//
// Thread-safe. DataLoss where the file is none of that: which byte, which opcode, and what to do.
//
//   GPUMEM_ASSIGN_OR_RETURN(ByteSource source, ByteSource::Open("snapshot.pickle"));
//   GPUMEM_ASSIGN_OR_RETURN(const PickleTree tree, ReadPickle(&source, {}));

#ifndef GPUMEM_ANALYZER_IMPORT_PICKLE_READER_H_
#define GPUMEM_ANALYZER_IMPORT_PICKLE_READER_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "import/byte_source.h"
#include "import/pickle_tree.h"

namespace gpumem {

struct PickleLimits {
  // Memory of the values: a fixed part, and so much for each byte read. Snapshots need less than 2 for each byte.
  uint64_t always_bytes = uint64_t{128} << 20;
  uint64_t bytes_per_byte = 4;
  uint64_t most_bytes = uint64_t{512} << 20;  // whatever the file's size; ReadPickle's error is `too_much` then
  uint64_t text_bytes = uint64_t{64} << 20;   // the longest text
  absl::Status too_much = absl::DataLossError("takes too much memory");
};

// Whether bytes look like the beginning of a pickle; others need not be one.
bool BeginsLikePickle(absl::string_view bytes);

absl::StatusOr<PickleTree> ReadPickle(ByteSource* source, const PickleLimits& limits,
                                      const std::function<void(uint64_t done, uint64_t all)>& progress = nullptr);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_PICKLE_READER_H_
