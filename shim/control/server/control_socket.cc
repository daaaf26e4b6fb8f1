// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/server/control_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "shim/base/descriptors.h"
#include "shim/base/kernel.h"
#include "shim/settings/text.h"

namespace gpumemshim::control {
namespace {

constexpr int kBacklog = 16;
constexpr int kMaxOfOnePid = 4;  // processes of one pid in several pid namespaces that share a directory
constexpr uint32_t kMaxLookedAt = 256;

struct SocketEntry {  // getdents64
  uint64_t inode;
  int64_t offset;
  uint16_t size;
  uint8_t type;
  char name[1];
};

int OpenSocket() {
  return descriptors::Raise(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), kSocketMark);
}

bool IsOursAlone(const struct stat& status) {
  return S_ISDIR(status.st_mode) && status.st_uid == geteuid() && (status.st_mode & 022) == 0;
}

// Makes the directory where it is missing, and opens it. -1 where it is not ours alone to write to.
int OpenDirectory(const char* path) {
  if (mkdir(path, 0700) != 0 && errno != EEXIST) return -1;
  const int fd = descriptors::Raise(open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status;
  if (fd < 0) return -1;
  if (kernel::Fstat(fd, &status) == 0 && IsOursAlone(status)) return fd;
  close(fd);
  return -1;
}

// Whether it is there, and not ours alone: anybody may make a name in /tmp.
bool IsRefused(const char* path, ControlSocket* out) {
  struct stat status;
  if (kernel::Lstat(path, &status) != 0 || IsOursAlone(status)) return false;
  if (out->refused[0] != '\0') return true;
  Text(out->refused, sizeof out->refused).Add(path);
  out->refused_user = status.st_uid;
  return true;
}

int OpenUsualDirectory(char* path, size_t capacity, ControlSocket* out) {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/') {
    Text text(path, capacity);
    text.Add(runtime).Add("/gpumemshim");
    const int fd = text.overflowed() ? -1 : OpenDirectory(path);
    if (fd >= 0) return fd;
  }
  for (const char* place : {"/tmp", "/dev/shm", "/var/tmp"}) {  // as the analyzer looks for it (live/control_places.cc)
    Text text(path, capacity);
    text.Add(place).Add("/gpumemshim-").Add(uint64_t{geteuid()});
    const int fd = OpenDirectory(path);
    if (fd >= 0 || !IsRefused(path, out)) return fd;
  }
  return -1;
}

// The address of a file in an open directory: short, however long the directory's path is. Without /proc, the path.
bool AddressOf(int directory, const char* path, const char* name, sockaddr_un* address) {
  std::memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  Text text(address->sun_path, sizeof address->sun_path);
  text.Add("/proc/thread-self/fd/").Add(static_cast<uint64_t>(directory));
  struct stat status;
  if (kernel::Stat(address->sun_path, &status) != 0) {
    text = Text(address->sun_path, sizeof address->sun_path);
    text.Add(path);
  }
  text.Add('/').Add(name);
  return !text.overflowed();
}

// True where nobody listens there: what is left of a process that was killed.
bool IsAbandoned(const sockaddr_un& address) {
  const int fd = OpenSocket();
  if (fd < 0) return false;
  const bool refused =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 && errno == ECONNREFUSED;
  close(fd);
  return refused;
}

// Binds to `name`, which must not be somebody else's who is alive.
bool Bind(int fd, int directory, const char* path, const char* name) {
  sockaddr_un address;
  if (!AddressOf(directory, path, name, &address)) return false;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return true;
    if (errno != EADDRINUSE || !IsAbandoned(address)) return false;
    unlinkat(directory, name, 0);
  }
  return false;
}

bool BindToPid(int fd, int directory, const char* path, pid_t pid, char* name, size_t capacity) {
  for (int number = 1; number <= kMaxOfOnePid; ++number) {
    Text text(name, capacity);
    text.Add(static_cast<uint64_t>(pid));
    if (number > 1) text.Add('.').Add(static_cast<uint64_t>(number));
    text.Add(".sock");
    if (Bind(fd, directory, path, name)) return true;
  }
  return false;
}

bool Listen(int directory, const char* path, pid_t pid, ControlSocket* out) {
  char name[64];
  struct stat status;
  // The mode of a socket becomes that of its file: never open to others, not even for an instant.
  if (fchmod(out->fd, 0600) != 0 || !BindToPid(out->fd, directory, path, pid, name, sizeof name)) return false;
  Text text(out->path, sizeof out->path);
  text.Add(path).Add('/').Add(name);
  if (!text.overflowed() && listen(out->fd, kBacklog) == 0 && fstatat(directory, name, &status, 0) == 0) {
    out->file_inode = status.st_ino;
    out->identity = descriptors::IdentityOf(out->fd);
    return true;
  }
  unlinkat(directory, name, 0);
  return false;
}

bool IsSocketName(const char* name) {
  const size_t size = std::strlen(name);
  return *name >= '1' && *name <= '9' && size > 5 && std::strcmp(name + size - 5, ".sock") == 0;
}

}  // namespace

bool OpenControlSocket(const char* directory, pid_t pid, ControlSocket* out) {
  char path[sizeof out->path];
  Text text(path, sizeof path);
  text.Add(directory);
  const int folder = text.overflowed()     ? -1
                     : directory[0] == '/' ? OpenDirectory(path)
                                           : OpenUsualDirectory(path, sizeof path, out);
  if (folder < 0) return false;
  out->fd = OpenSocket();
  const bool listens = out->fd >= 0 && Listen(folder, path, pid, out);
  if (!listens && out->fd >= 0) close(out->fd);
  if (!listens) {
    out->fd = -1;
    out->path[0] = '\0';
  }
  close(folder);
  return listens;
}

size_t RefusedLine(const ControlSocket& socket, char* out, size_t capacity) {
  if (socket.refused[0] == '\0') return 0;
  Text text(out, capacity);
  text.Add("gpumemshim: ").Add(socket.refused);
  if (socket.refused_user != geteuid()) {
    text.Add(" belongs to user ").Add(uint64_t{socket.refused_user});
  } else {
    text.Add(" is open to other users");
  }
  if (socket.fd >= 0) {
    text.Add(", so gpumemshim ctl finds this process at ").AddPrintable(socket.path).Add('\n');
  } else {
    text.Add(", so there is no control socket. Remove it, or set GPUMEMSHIM_CONTROL=/a/folder/of/yours\n");
  }
  return text.size();
}

bool IsStillOpen(const ControlSocket& socket) { return descriptors::Is(socket.fd, socket.identity); }

void RemoveFile(const ControlSocket& socket) {
  struct stat status;
  if (socket.path[0] != '\0' && kernel::Lstat(socket.path, &status) == 0 && status.st_ino == socket.file_inode) {
    unlink(socket.path);
  }
}

void CloseControlSocket(ControlSocket* socket) {
  RemoveFile(*socket);
  ForgetControlSocket(socket);
}

void ForgetControlSocket(ControlSocket* socket) {
  if (IsStillOpen(*socket)) close(socket->fd);
  socket->fd = -1;
  socket->path[0] = '\0';
}

uint32_t RemoveStaleSockets(const ControlSocket& socket) {
  char path[sizeof socket.path];
  std::memcpy(path, socket.path, sizeof path);
  char* slash = std::strrchr(path, '/');
  if (slash == nullptr) return 0;
  *slash = '\0';
  const int directory = OpenDirectory(path);
  if (directory < 0) return 0;
  uint32_t removed = 0, seen = 0;
  alignas(SocketEntry) char buffer[4096];
  for (long size; seen < kMaxLookedAt && (size = syscall(SYS_getdents64, directory, buffer, sizeof buffer)) > 0;) {
    for (long at = 0; at < size && seen < kMaxLookedAt; ++seen) {
      const auto* entry = reinterpret_cast<const SocketEntry*>(buffer + at);
      at += entry->size;
      sockaddr_un address;
      if (!IsSocketName(entry->name) || !AddressOf(directory, path, entry->name, &address)) continue;
      if (IsAbandoned(address) && unlinkat(directory, entry->name, 0) == 0) ++removed;
    }
  }
  close(directory);
  return removed;
}

void Callers::Close(Caller* caller) {
  if (descriptors::Is(caller->fd, caller->identity)) close(caller->fd);
  caller->fd = -1;
}

void Callers::Add(int fd, uint64_t now_ns) {
  Caller* place = &callers_[0];
  for (Caller& caller : callers_) {
    if (place->fd < 0) break;
    if (caller.fd < 0 || caller.since_ns < place->since_ns) place = &caller;
  }
  if (place->fd >= 0) Close(place);
  place->fd = fd;
  place->identity = descriptors::IdentityOf(fd);
  place->since_ns = now_ns;
  place->size = 0;
}

uint32_t Callers::PutFds(pollfd* out) const {
  uint32_t count = 0;
  for (const Caller& caller : callers_) {
    if (caller.fd >= 0) out[count++] = {caller.fd, POLLIN, 0};
  }
  return count;
}

Callers::Outcome Callers::Read(Caller* caller) {
  if (!descriptors::Is(caller->fd, caller->identity)) return Outcome::kGone;
  while (caller->size < sizeof caller->line) {
    char* end = caller->line + caller->size;
    const ssize_t got = recv(caller->fd, end, sizeof caller->line - caller->size, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return Outcome::kWaits;
    if (got <= 0) return Outcome::kGone;
    const void* newline = std::memchr(end, '\n', static_cast<size_t>(got));
    if (newline != nullptr) {
      caller->size = static_cast<size_t>(static_cast<const char*>(newline) - caller->line);
      return Outcome::kLine;
    }
    caller->size += static_cast<size_t>(got);
  }
  return Outcome::kGone;  // too long
}

bool Callers::TakeLine(uint64_t now_ns, int* fd, const char** line, size_t* size) {
  for (Caller& caller : callers_) {
    if (caller.fd < 0) continue;
    const Outcome outcome = Read(&caller);
    if (outcome == Outcome::kLine) {
      *fd = caller.fd;
      *line = caller.line;
      *size = caller.size;
      caller.fd = -1;
      return true;
    }
    if (outcome == Outcome::kGone || now_ns - caller.since_ns >= kPatienceNs) Close(&caller);
  }
  return false;
}

void Callers::CloseAll() {
  for (Caller& caller : callers_) {
    if (caller.fd >= 0) Close(&caller);
  }
}

}  // namespace gpumemshim::control
