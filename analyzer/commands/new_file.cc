// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "commands/new_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file_output.h"

namespace gpumem {
namespace {

constexpr uint64_t kCopyBytes = 1 << 20;

absl::Status Exists(const std::string& path) {
  return absl::AlreadyExistsError(absl::StrCat(path, " exists and is not replaced. Give another name with -o"));
}

// As rename, but never over another file.
bool RenameToNew(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) return false;
  return link(from.c_str(), to.c_str()) == 0 && unlink(from.c_str()) == 0;  // where the file system has no such rename
}

}  // namespace

absl::StatusOr<std::unique_ptr<NewFile>> NewFile::Create(const std::string& path, const std::string& like) {
  const std::string temporary = absl::StrCat(path, ".new.", getpid());
  const int descriptor = CreatePrivate(temporary, like);
  if (descriptor < 0) return FileError("write", temporary);
  return std::unique_ptr<NewFile>(new NewFile(path, temporary, descriptor));
}

NewFile::~NewFile() {
  close(descriptor_);
  if (!committed_) unlink(temporary_.c_str());
}

absl::Status NewFile::Commit(Existing existing) {
  if (fsync(descriptor_) != 0 && errno != EINVAL) return FileError("write", path_);
  const bool renamed =
      existing == kReplaceExisting ? rename(temporary_.c_str(), path_.c_str()) == 0 : RenameToNew(temporary_, path_);
  if (!renamed) return errno == EEXIST ? Exists(path_) : FileError("write", path_);
  committed_ = true;
  const std::string folder = path_.find('/') == std::string::npos ? "." : path_.substr(0, path_.rfind('/') + 1);
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) {
    fsync(descriptor);  // the name, too; without it the old state comes back at worst
    close(descriptor);
  }
  return absl::OkStatus();
}

absl::Status CopyBytes(FileWindow* window, uint64_t from, uint64_t to, int descriptor, const std::string& name) {
  for (uint64_t at = from; at < to;) {
    const absl::string_view bytes = window->Read(at, std::min(kCopyBytes, to - at));
    if (bytes.empty()) return absl::InternalError("cannot read the trace to its end");
    if (!WriteAll(descriptor, bytes)) return FileError("write", name);
    at += bytes.size();
  }
  return absl::OkStatus();
}

}  // namespace gpumem
