// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/file_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
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

absl::Status FileError(absl::string_view what, absl::string_view path) {
  return absl::InternalError(absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(errno)));
}

absl::Status ReplaceFile(const std::string& path, absl::string_view bytes) {
  const std::string temporary = absl::StrCat(path, ".new.", getpid());
  const int descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (descriptor < 0) return FileError("write", temporary);
  absl::Status status = WriteAll(descriptor, bytes) ? absl::OkStatus() : FileError("write", path);
  if (close(descriptor) != 0 && status.ok()) status = FileError("write", path);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) status = FileError("write", path);
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

}  // namespace gpumem
