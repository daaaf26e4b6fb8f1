// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/file_window.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gpumem {
namespace {

constexpr uint64_t kReadBytes = 1u << 20;

absl::Status OpenError(absl::string_view path, int error) {
  const std::string message = absl::StrCat("cannot open ", path, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) {
    return absl::NotFoundError(
        absl::StrCat(message, ". Traces are named *.gmtrace and lie where the program was started"));
  }
  if (error == EACCES || error == EPERM) {
    return absl::PermissionDeniedError(
        absl::StrCat(message, ". A trace is readable by the user whose program wrote it"));
  }
  return absl::InvalidArgumentError(message);
}

}  // namespace

absl::StatusOr<FileWindow> FileWindow::Open(absl::string_view path) {
  // O_NONBLOCK: opening a pipe that nobody writes to must not hang; it is refused below.
  const int descriptor = open(std::string(path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return OpenError(path, errno);
  struct stat info {};
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(descriptor);
    return absl::InvalidArgumentError(absl::StrCat(
        path, S_ISDIR(info.st_mode) ? " is a directory" : " is not a regular file", "; name a trace file (*.gmtrace)"));
  }
  return FileWindow(descriptor, static_cast<uint64_t>(info.st_size));
}

FileWindow& FileWindow::operator=(FileWindow&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(file_bytes_, other.file_bytes_);
  std::swap(bytes_read_, other.bytes_read_);
  std::swap(start_, other.start_);
  std::swap(filled_, other.filled_);
  buffer_.swap(other.buffer_);
  return *this;
}

void FileWindow::Refresh() {
  struct stat info {};
  if (fstat(descriptor_, &info) == 0) file_bytes_ = static_cast<uint64_t>(info.st_size);
  filled_ = 0;
}

FileWindow::~FileWindow() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::string_view FileWindow::Read(uint64_t offset, uint64_t size) {
  if (offset >= file_bytes_) return {};
  size = std::min(size, file_bytes_ - offset);
  if (offset < start_ || offset + size > start_ + filled_) {
    const size_t wanted = static_cast<size_t>(std::min(std::max(size, kReadBytes), file_bytes_ - offset));
    if (buffer_.size() < wanted) buffer_.resize(wanted);
    start_ = offset;
    filled_ = 0;
    while (filled_ < wanted) {
      const ssize_t got =
          pread(descriptor_, buffer_.data() + filled_, wanted - filled_, static_cast<off_t>(offset + filled_));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      filled_ += static_cast<size_t>(got);
    }
    bytes_read_ += filled_;
  }
  const uint64_t skip = offset - start_;
  const uint64_t available = filled_ > skip ? filled_ - skip : 0;
  return absl::string_view(buffer_.data() + skip, static_cast<size_t>(std::min(size, available)));
}

}  // namespace gpumem
