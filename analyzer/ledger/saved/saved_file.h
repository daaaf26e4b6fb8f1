// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// SavedFile: what was found out about a trace, kept in the user's cache beside the indexes (index_file.h): blocks of
// bytes, and one piece that says where they are and all the rest. Written whole or not at all. Only the very program
// that wrote one reads it: its own file's size and time are part of the name, so that no struct is ever taken for one
// that has changed. Bytes that do not agree with their checksum are no file.
//
//   GPUMEM_ASSIGN_OR_RETURN(auto writer, SavedFileWriter::Create(file));
//   const SavedBlock block = writer->Append(bytes);
//   GPUMEM_RETURN_IF_ERROR(writer->Finish(archive.bytes()));
//
//   if (const auto saved = SavedFile::Open(file)) saved->main(), saved->Block(block);

#ifndef GPUMEM_ANALYZER_LEDGER_SAVED_SAVED_FILE_H_
#define GPUMEM_ANALYZER_LEDGER_SAVED_SAVED_FILE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/output_file.h"
#include "ledger/saved/index_file.h"

namespace gpumem {

// `what`: "analysis", "answers"; the file's extension.
absl::StatusOr<IndexFile> SavedFileOf(const std::string& trace, const std::string& what);

struct SavedBlock {
  uint64_t offset = 0, size = 0, checksum = 0;
};

// Not thread-safe. Without Finish nothing is left of it.
class SavedFileWriter {
 public:
  // Makes the folder. Fails where it cannot be written.
  static absl::StatusOr<std::unique_ptr<SavedFileWriter>> Create(const IndexFile& file);
  SavedFileWriter(const SavedFileWriter&) = delete;
  SavedFileWriter& operator=(const SavedFileWriter&) = delete;

  SavedBlock Append(absl::string_view bytes);   // compressed
  absl::Status Finish(absl::string_view main);  // fails where the disk is full
  const absl::Status& status() const { return status_; }

 private:
  explicit SavedFileWriter(std::unique_ptr<OutputFile> output) : output_(std::move(output)) {}
  void Write(absl::string_view bytes);

  std::unique_ptr<OutputFile> output_;
  std::string compressed_;
  uint64_t size_ = 0;
  absl::Status status_;
};

// Thread-safe once open.
class SavedFile {
 public:
  // Null where there is none, or none that can be used.
  static std::unique_ptr<SavedFile> Open(const IndexFile& file);
  ~SavedFile();
  SavedFile(const SavedFile&) = delete;
  SavedFile& operator=(const SavedFile&) = delete;

  absl::string_view main() const { return main_; }
  bool IsIntact(const SavedBlock& block) const;
  // As it was before it was compressed; absent where its bytes have changed.
  std::optional<std::string> Block(const SavedBlock& block) const;

 private:
  SavedFile() = default;
  absl::string_view bytes_;  // mapped
  absl::string_view main_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_SAVED_SAVED_FILE_H_
