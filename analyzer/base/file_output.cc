// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/file_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace gpumem {
namespace {

absl::Status WriteAndClose(int descriptor, absl::string_view bytes, const std::string& path) {
  absl::Status status = WriteAll(descriptor, bytes) ? absl::OkStatus() : FileError("write", path);
  if (close(descriptor) != 0 && status.ok()) status = FileError("write", path);
  return status;
}

}  // namespace

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

int CreatePrivate(const std::string& path, const std::string& like) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  struct stat info {};
  if (descriptor < 0 || like.empty() || stat(like.c_str(), &info) != 0) return descriptor;
  // The owner first: a change of it may clear bits of the mode. Who may not give files away keeps them.
  if (fchown(descriptor, info.st_uid, info.st_gid) == 0 || info.st_uid == geteuid())
    fchmod(descriptor, info.st_mode & 0777);
  return descriptor;
}

absl::Status ReplaceFile(const std::string& path, absl::string_view bytes, const std::string& like) {
  const std::string temporary = absl::StrCat(path, ".new.", getpid());
  const int descriptor = CreatePrivate(temporary, like);
  if (descriptor < 0) return FileError("write", temporary);
  absl::Status status = WriteAndClose(descriptor, bytes, path);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) status = FileError("write", path);
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

absl::Status WriteOutput(const std::string& path, absl::string_view bytes, const std::string& like) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode)) return ReplaceFile(path, bytes, like);
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY | O_CLOEXEC, 0600);
  return descriptor < 0 ? FileError("write", path) : WriteAndClose(descriptor, bytes, path);
}

}  // namespace gpumem
