// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// NewFile: a file that appears whole or not at all. It is written under another name in the same folder and renamed at
// the end; without Commit nothing is left of it. Not thread-safe.
//
//   GPUMEM_ASSIGN_OR_RETURN(std::unique_ptr<NewFile> file, NewFile::Create("out.gmtrace"));
//   GPUMEM_RETURN_IF_ERROR(CopyBytes(&window, 0, window.file_bytes(), file->descriptor(), "out.gmtrace"));
//   GPUMEM_RETURN_IF_ERROR(file->Commit(NewFile::kKeepExisting));

#ifndef GPUMEM_ANALYZER_COMMANDS_NEW_FILE_H_
#define GPUMEM_ANALYZER_COMMANDS_NEW_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trace/file_window.h"

namespace gpumem {

class NewFile {
 public:
  enum Existing { kKeepExisting, kReplaceExisting };

  // With the mode 0600; with mode and owner of `like`, where one is named and they can be had.
  static absl::StatusOr<std::unique_ptr<NewFile>> Create(const std::string& path, const std::string& like = "");
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  int descriptor() const { return descriptor_; }

  // On disk first, then under its name. Fails with AlreadyExists where an existing file is to be kept.
  absl::Status Commit(Existing existing);

 private:
  NewFile(std::string path, std::string temporary, int descriptor)
      : path_(std::move(path)), temporary_(std::move(temporary)), descriptor_(descriptor) {}

  std::string path_, temporary_;
  int descriptor_;
  bool committed_ = false;
};

// Bytes [from, to) of the window's file. `name` is what is written, for messages.
absl::Status CopyBytes(FileWindow* window, uint64_t from, uint64_t to, int descriptor, const std::string& name);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_COMMANDS_NEW_FILE_H_
