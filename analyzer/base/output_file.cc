// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/file_output.h"
#include "base/status_macros.h"

namespace gpumem {
namespace {

using Kind = OutputPlace::Kind;

constexpr int kMostLinks = 40;  // as the kernel
constexpr size_t kCopyBytes = 1 << 20;

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string RealPath(const std::string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) == nullptr ? "" : resolved;
}

std::string ReadLink(const std::string& path) {
  char target[PATH_MAX];
  const ssize_t size = readlink(path.c_str(), target, sizeof target);
  return size <= 0 ? "" : std::string(target, static_cast<size_t>(size));
}

// N of /dev/fd/N, by whatever name the folder goes; -1 of all else.
int OwnDescriptor(const std::string& folder, const std::string& name) {
  int number = -1;
  if (folder.empty() || !absl::SimpleAtoi(name, &number) || number < 0) return -1;
  return folder == RealPath("/proc/self/fd") || folder == RealPath("/proc/thread-self/fd") ? number : -1;
}

OutputPlace OfMode(mode_t mode) {
  OutputPlace place;
  place.kind = Kind::kRefused;
  if (S_ISREG(mode)) place.kind = Kind::kPlain;
  if (S_ISFIFO(mode)) place.kind = Kind::kPipe;
  if (S_ISCHR(mode)) place.kind = Kind::kDevice;
  place.why = S_ISDIR(mode)    ? "is a folder"
              : S_ISSOCK(mode) ? "is a socket, which takes no file"
              : S_ISBLK(mode)  ? "is a disk, which is not written over"
              : S_ISFIFO(mode) ? "is a pipe"
                               : "is a device";
  return place;
}

// As rename, but never over another file.
bool RenameToNew(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) return false;
  return link(from.c_str(), to.c_str()) == 0 && unlink(from.c_str()) == 0;  // where the file system has no such rename
}

// In the place of a plain file or of none. What else came there meanwhile stays.
bool RenameOverPlain(const std::string& from, const std::string& to) {
  struct stat info {};
  if (lstat(to.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    errno = EEXIST;
    return false;
  }
  return rename(from.c_str(), to.c_str()) == 0;
}

bool LinkDescriptor(int descriptor, const std::string& to) {
  return linkat(AT_FDCWD, absl::StrCat("/proc/self/fd/", descriptor).c_str(), AT_FDCWD, to.c_str(),
                AT_SYMLINK_FOLLOW) == 0;
}

// Mode and owner of the user's own file that is replaced, else of the file `like`.
void TakeMode(int descriptor, const OutputPlace& place, const std::string& like) {
  struct stat info {};
  if (place.kind == Kind::kPlain && stat(place.path.c_str(), &info) == 0 && info.st_uid == geteuid()) {
    if (fchown(descriptor, static_cast<uid_t>(-1), info.st_gid) == 0) fchmod(descriptor, info.st_mode & 0777);
    return;
  }
  if (like.empty() || stat(like.c_str(), &info) != 0) return;
  // The owner first: a change of it may clear bits of the mode. Who may not give files away keeps them.
  if (fchown(descriptor, info.st_uid, info.st_gid) == 0 || info.st_uid == geteuid())
    fchmod(descriptor, info.st_mode & 0777);
}

absl::Status WithHint(const absl::Status& status, const std::string& hint) {
  return hint.empty() ? status : absl::Status(status.code(), absl::StrCat(status.message(), ". ", hint));
}

absl::Status Exists(const std::string& path, const std::string& hint) {
  return WithHint(absl::AlreadyExistsError(absl::StrCat(path, " exists and is not replaced")), hint);
}

void SyncFolderOf(const std::string& path) {
  const int folder = open(FolderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  fsync(folder);  // without it the old state comes back at worst
  close(folder);
}

}  // namespace

OutputPlace FindOutputPlace(const std::string& path) {
  std::string at = path;
  for (int links = 0; links < kMostLinks; ++links) {
    const std::string name = at.substr(at.rfind('/') + 1), folder = RealPath(FolderOf(at));
    struct stat info {};
    OutputPlace place;
    if (const int own = OwnDescriptor(folder, name); own >= 0) {
      place.kind = Kind::kDescriptor;
      place.why = "stands for an open file";
      place.descriptor = own;
    } else if (lstat(at.c_str(), &info) == 0 && !S_ISLNK(info.st_mode)) {
      place = OfMode(info.st_mode);
    } else if (S_ISLNK(info.st_mode) && (info.st_uid == geteuid() || info.st_uid == 0)) {
      const std::string target = ReadLink(at);
      at = target.empty() || target[0] == '/' ? target : absl::StrCat(folder, "/", target);
      if (!at.empty()) continue;
    } else if (S_ISLNK(info.st_mode)) {
      place.kind = Kind::kRefused;
      place.why = "is a link that another user made";
    }
    place.path = at;
    place.is_link = links > 0;
    return place;
  }
  OutputPlace place;
  place.kind = Kind::kRefused;
  place.why = "is a link that leads nowhere";
  return place;
}

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path, OutputOptions options) {
  auto file = std::unique_ptr<OutputFile>(new OutputFile(path, std::move(options)));
  GPUMEM_RETURN_IF_ERROR(file->Open());
  return file;
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::Status OutputFile::Failed() const { return WithHint(FileError("write", path_), options_.hint); }

absl::Status OutputFile::Open() {
  place_ = FindOutputPlace(path_);
  const bool is_plain = place_.kind == Kind::kPlain || place_.kind == Kind::kNothing;
  const bool is_stream = !is_plain && place_.kind != Kind::kRefused;
  if (place_.kind == Kind::kRefused || (is_stream && !options_.is_named)) {
    return WithHint(absl::InvalidArgumentError(absl::StrCat(path_, " ", place_.why)), options_.hint);
  }
  if (is_stream) {
    descriptor_ = place_.kind == Kind::kDescriptor ? fcntl(place_.descriptor, F_DUPFD_CLOEXEC, 3)
                                                   : open(place_.path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
    return descriptor_ < 0 ? Failed() : absl::OkStatus();
  }
  if (options_.keeps && place_.kind == Kind::kPlain) return Exists(path_, options_.hint);
  descriptor_ = open(FolderOf(place_.path).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor_ >= 0 && access(readable_path().c_str(), F_OK) != 0) close(std::exchange(descriptor_, -1));
  if (descriptor_ < 0) {
    half_ = std::make_unique<HalfWritten>(HalfWritten::NameFor(place_.path));
    descriptor_ = open(half_->path().c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (descriptor_ < 0) {
      const absl::Status failed = Failed();
      half_->Keep();  // it is not ours
      return failed;
    }
  }
  TakeMode(descriptor_, place_, options_.like);
  return absl::OkStatus();
}

std::string OutputFile::readable_path() const { return absl::StrCat("/proc/self/fd/", descriptor_); }

absl::Status OutputFile::Write(absl::string_view bytes) {
  if (status_.ok() && !WriteAll(descriptor_, bytes)) status_ = Failed();
  return status_;
}

absl::Status OutputFile::CopyFrom(int source, uint64_t bytes, uint64_t* copied) {
  std::vector<char> buffer(kCopyBytes);
  uint64_t done = 0;
  while (done < bytes && status_.ok()) {
    const ssize_t got = read(source, buffer.data(), std::min<uint64_t>(buffer.size(), bytes - done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) status_ = Failed();
    if (got <= 0) break;
    done += static_cast<uint64_t>(got);
    Write(absl::string_view(buffer.data(), static_cast<size_t>(got))).IgnoreError();
  }
  if (copied != nullptr) *copied = done;
  return status_;
}

absl::Status OutputFile::Commit() {
  GPUMEM_RETURN_IF_ERROR(status_);
  const bool is_plain = place_.kind == Kind::kPlain || place_.kind == Kind::kNothing;
  if (!is_plain) return Close();
  if (options_.is_durable && fsync(descriptor_) != 0 && errno != EINVAL) return Failed();
  if (half_ != nullptr) GPUMEM_RETURN_IF_ERROR(Close());  // where writing fails late, it fails here
  GPUMEM_RETURN_IF_ERROR(GiveName());
  if (options_.is_durable) SyncFolderOf(place_.path);
  return descriptor_ < 0 ? absl::OkStatus() : Close();
}

absl::Status OutputFile::GiveName() {
  const std::string& to = place_.path;
  if (half_ == nullptr) {
    if (LinkDescriptor(descriptor_, to)) return absl::OkStatus();
    if (errno != EEXIST) return Failed();
    if (options_.keeps) return Exists(path_, options_.hint);
    half_ = std::make_unique<HalfWritten>(HalfWritten::NameFor(to));
    if (!LinkDescriptor(descriptor_, half_->path())) {
      const absl::Status failed = Failed();
      half_->Keep();
      return failed;
    }
  }
  const bool is_named = options_.keeps ? RenameToNew(half_->path(), to) : RenameOverPlain(half_->path(), to);
  if (!is_named) return errno == EEXIST ? Exists(path_, options_.hint) : Failed();
  half_->Keep();
  return absl::OkStatus();
}

absl::Status OutputFile::Close() { return close(std::exchange(descriptor_, -1)) == 0 ? absl::OkStatus() : Failed(); }

absl::Status WriteOutput(const std::string& path, absl::string_view bytes, OutputOptions options) {
  GPUMEM_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file, OutputFile::Create(path, std::move(options)));
  GPUMEM_RETURN_IF_ERROR(file->Write(bytes));
  return file->Commit();
}

absl::Status MoveToOutput(const std::string& from, const std::string& to, OutputOptions options) {
  const int source = open(from.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (source < 0) return FileError("read", from);
  const OutputPlace place = FindOutputPlace(to);
  absl::Status status;
  const bool is_renamed = (place.kind == Kind::kNothing || (place.kind == Kind::kPlain && !options.keeps)) && [&] {
    fchmod(source, 0600);
    TakeMode(source, place, options.like);
    return options.keeps ? RenameToNew(from, place.path) : RenameOverPlain(from, place.path);
  }();
  if (!is_renamed) {
    absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(to, std::move(options));
    status = file.ok() ? (*file)->CopyFrom(source, UINT64_MAX) : file.status();
    if (status.ok()) status = (*file)->Commit();
    if (status.ok() && unlink(from.c_str()) != 0) status = FileError("remove", from);
  }
  close(source);
  return status;
}

bool RemovePlainFile(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return errno == ENOENT;
  if (!S_ISREG(info.st_mode)) {
    errno = EINVAL;
    return false;
  }
  return unlink(path.c_str()) == 0 || errno == ENOENT;
}

}  // namespace gpumem
