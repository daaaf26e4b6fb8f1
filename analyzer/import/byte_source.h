// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ByteSource: a file from its beginning to its end, piece by piece, unpacked where it is gzip. Owns its file; not
// thread-safe. A file that shrinks meanwhile ends early, it does not crash anything.
//
//   GPUMEM_ASSIGN_OR_RETURN(ByteSource source, ByteSource::Open("snapshot.pickle.gz"));
//   for (absl::string_view piece = source.Next(); !piece.empty(); piece = source.Next()) Use(piece);
//   GPUMEM_RETURN_IF_ERROR(source.status());

#ifndef GPUMEM_ANALYZER_IMPORT_BYTE_SOURCE_H_
#define GPUMEM_ANALYZER_IMPORT_BYTE_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpumem {

class ByteSource {
 public:
  // As FileWindow::Open fails.
  static absl::StatusOr<ByteSource> Open(absl::string_view path);
  // Of bytes in memory, which must outlive it.
  static ByteSource Of(absl::string_view bytes);

  ByteSource(ByteSource&&) noexcept;
  ByteSource& operator=(ByteSource&&) noexcept;
  ~ByteSource();

  // The next piece, valid until the next call; empty at the end and where it cannot be read further (status).
  absl::string_view Next();
  absl::Status status() const;

  uint64_t file_bytes() const;  // as it lies on the disk
  uint64_t position() const;    // of the file, so far
  bool is_compressed() const;
  uint64_t unpacked_bytes() const;  // that Next has given so far

  // The first bytes, unpacked, without moving on. At most what one piece holds.
  absl::string_view Peek();

 private:
  struct State;
  explicit ByteSource(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_IMPORT_BYTE_SOURCE_H_
