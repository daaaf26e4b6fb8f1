// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "base/file_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

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

absl::StatusOr<std::string> NewTemporaryFolder(absl::string_view purpose) {
  std::error_code error;
  const std::filesystem::path place = std::filesystem::temp_directory_path(error);
  std::string name = (place / absl::StrCat("gpumemshim-", purpose, "-XXXXXX")).string();
  if (!error && mkdtemp(name.data()) != nullptr) return name;
  return absl::UnavailableError(absl::StrCat("cannot make a folder like ", name, ": ",
                                             error ? error.message() : std::strerror(errno),
                                             ". Set TMPDIR to another place."));
}

namespace {

constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
constexpr int kDeepestFolder = 8;  // folders in folders
constexpr size_t kLongest = 200;   // of a name that gets an ending
constexpr int kMostNames = 1'000;  // that are tried
constexpr int kMostTries = 100;

struct Slot {
  std::atomic<pid_t> owner;  // 0: free
  char path[PATH_MAX];
};
std::array<Slot, 8> g_slots;
std::array<struct sigaction, kSignals.size()> g_before;
int g_registered = 0;

// As the kernel lays it out for getdents64; opendir would take the heap, which a signal handler may not.
struct DirectoryEntry {
  uint64_t inode;
  int64_t offset;
  uint16_t size;
  uint8_t type;
  char name[1];
};

void RemoveAt(int folder, const char* name, int depth) {
  struct stat info {};
  if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (S_ISREG(info.st_mode)) unlinkat(folder, name, 0);
  if (!S_ISDIR(info.st_mode) || depth >= kDeepestFolder) return;
  const int inside = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (inside < 0) return;
  alignas(DirectoryEntry) char buffer[4096];
  for (long size; (size = syscall(SYS_getdents64, inside, buffer, sizeof buffer)) > 0;) {
    for (long at = 0; at < size;) {
      const auto* const entry = reinterpret_cast<const DirectoryEntry*>(buffer + at);
      at += entry->size;
      if (std::strcmp(entry->name, ".") != 0 && std::strcmp(entry->name, "..") != 0)
        RemoveAt(inside, entry->name, depth + 1);
    }
  }
  close(inside);
  unlinkat(folder, name, AT_REMOVEDIR);
}

void RemoveAndGo(int signal) {
  const pid_t self = getpid();
  struct stat info {};
  for (const Slot& slot : g_slots) {
    // Again where other threads go on writing into a folder.
    for (int i = 0; i < kMostTries && slot.owner.load() == self && lstat(slot.path, &info) == 0; ++i)
      RemoveAt(AT_FDCWD, slot.path, 0);
  }
  std::signal(signal, SIG_DFL);
  raise(signal);
}

// A signal that is ignored stays so, and one that the program takes itself ends in destructors.
void TakeSignals() {
  for (size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction action {};
    sigaction(kSignals[i], nullptr, &g_before[i]);
    if (g_before[i].sa_handler != SIG_DFL) continue;
    action.sa_handler = &RemoveAndGo;
    sigaction(kSignals[i], &action, nullptr);
  }
}

void GiveSignalsBack() {
  for (size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction now {};
    if (sigaction(kSignals[i], nullptr, &now) == 0 && now.sa_handler == &RemoveAndGo)
      sigaction(kSignals[i], &g_before[i], nullptr);
  }
}

}  // namespace

std::string HalfWritten::NameFor(const std::string& path) {
  const size_t name = path.rfind('/') + 1;  // 0 where there is none
  const std::string stem = path.substr(0, name + kLongest);
  struct stat info {};
  for (int number = 0; number < kMostNames; ++number) {
    std::string tried = absl::StrCat(stem, ".tmp.", getpid(), number == 0 ? "" : absl::StrCat(".", number));
    if (lstat(tried.c_str(), &info) != 0) return tried;
  }
  return absl::StrCat(stem, ".tmp.", getpid());  // what makes it says that it is there
}

HalfWritten::HalfWritten(std::string path) : path_(std::move(path)) {
  if (path_.size() >= PATH_MAX) return;
  for (size_t i = 0; i < g_slots.size() && slot_ < 0; ++i) {
    Slot& slot = g_slots[i];
    if (slot.owner.load() == getpid()) continue;  // another process's is our parent's, in a copy
    std::memcpy(slot.path, path_.c_str(), path_.size() + 1);
    slot.owner.store(getpid());
    slot_ = static_cast<int>(i);
  }
  if (slot_ >= 0 && g_registered++ == 0) TakeSignals();
}

HalfWritten::~HalfWritten() {
  if (!path_.empty()) RemoveAt(AT_FDCWD, path_.c_str(), 0);
  Forget();
}

absl::Status HalfWritten::MakeFolder() const {
  std::error_code ignored;
  const std::filesystem::path above = std::filesystem::path(path_).parent_path();
  if (!above.empty()) std::filesystem::create_directories(above, ignored);
  return mkdir(path_.c_str(), 0700) == 0 ? absl::OkStatus() : FileError("make", path_);
}

void HalfWritten::Keep() {
  path_.clear();
  Forget();
}

absl::Status HalfWritten::Become(const std::string& path) {
  const char *const from = path_.c_str(), *const to = path.c_str();
  bool is_done = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0;
  // Where the file system has no such rename: a folder takes the place of nothing else than an empty folder.
  if (!is_done && (errno == EINVAL || errno == ENOSYS)) is_done = rename(from, to) == 0;
  if (!is_done) return FileError("write", path);
  Keep();
  return absl::OkStatus();
}

void HalfWritten::Forget() {
  if (slot_ < 0) return;
  g_slots[static_cast<size_t>(slot_)].owner.store(0);
  slot_ = -1;
  if (--g_registered == 0) GiveSignalsBack();
}

}  // namespace gpumem
