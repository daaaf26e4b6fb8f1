// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// FileWindow: a moving window over a regular file, filled by pread. Not thread-safe; owns its descriptor and its
// buffer, which grows to the longest piece ever asked for. A read error looks like the end of the file: the reader
// above reports what is missing and where.
//
//   GPUMEM_ASSIGN_OR_RETURN(FileWindow window, FileWindow::Open(path));
//   absl::string_view bytes = window.Read(offset, 100);   // valid until the next Read

#ifndef GPUMEM_ANALYZER_TRACE_FILE_WINDOW_H_
#define GPUMEM_ANALYZER_TRACE_FILE_WINDOW_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpumem {

// Called now and then from the reading thread: bytes of the file done, of all.
using ProgressCallback = std::function<void(uint64_t done_bytes, uint64_t all_bytes)>;

class FileWindow {
 public:
  // NotFound, PermissionDenied or InvalidArgument, with a message for the user.
  static absl::StatusOr<FileWindow> Open(absl::string_view path);

  FileWindow(FileWindow&& other) noexcept { *this = std::move(other); }
  FileWindow& operator=(FileWindow&& other) noexcept;
  ~FileWindow();

  // Up to `size` bytes from `offset` on; fewer only where the file ends.
  absl::string_view Read(uint64_t offset, uint64_t size);

  // The size when it was opened, or at the last Refresh; what a running program appended later is not seen.
  uint64_t file_bytes() const { return file_bytes_; }
  // Takes the size that the file has now, and forgets what was read of it.
  void Refresh();
  // From the disk, so far: what a walk through the file cost.
  uint64_t bytes_read() const { return bytes_read_; }

 private:
  FileWindow(int descriptor, uint64_t file_bytes) : descriptor_(descriptor), file_bytes_(file_bytes) {}

  int descriptor_ = -1;
  uint64_t file_bytes_ = 0;
  uint64_t bytes_read_ = 0;
  uint64_t start_ = 0;  // file offset of buffer_[0]
  size_t filled_ = 0;
  std::vector<char> buffer_;
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_TRACE_FILE_WINDOW_H_
