// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/file_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace gpumem {

bool WriteAll(int descriptor, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

bool ReadExactly(int descriptor, void* data, size_t size) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = read(descriptor, at, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

int OpenRegularFile(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) return -1;
  struct stat info {};
  if (fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode)) return descriptor;
  close(descriptor);
  errno = EINVAL;
  return -1;
}

absl::StatusOr<std::string> ReadRegularFile(const std::string& path, size_t most_bytes) {
  const int descriptor = OpenRegularFile(path);
  if (descriptor < 0) return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  std::string bytes, piece(size_t{1} << 16, '\0');
  ssize_t got = 0;
  while ((got = read(descriptor, piece.data(), piece.size())) != 0 && bytes.size() <= most_bytes) {
    if (got > 0) bytes.append(piece.data(), static_cast<size_t>(got));
    if (got < 0 && errno != EINTR) break;
  }
  const absl::Status failed = got < 0 ? FileError("read", path) : absl::OkStatus();
  close(descriptor);
  if (!failed.ok()) return failed;
  if (bytes.size() > most_bytes)
    return absl::ResourceExhaustedError(absl::StrCat(path, " is larger than ", most_bytes >> 20, " MiB"));
  return bytes;
}

absl::Status FileError(absl::string_view what, absl::string_view path) {
  return absl::InternalError(absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(errno)));
}

}  // namespace gpumem
