// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The listening socket of `gpumemshim ctl`: PID.sock in a directory of the user's own, which is
// $XDG_RUNTIME_DIR/gpumemshim or else /tmp/gpumemshim-UID; where somebody else has made that, the same name in /dev/shm
// or /var/tmp. A file rather than an abstract name: those ignore file modes, and end at a container's network namespace
// instead of its file system.
//
// The directory must be ours and closed to writing by others, and no symbolic link; everything is done through its
// descriptor, so neither a swapped name nor a path too long for a socket's address matters.
//
// Thread-safety: one thread at a time. Ownership: a ControlSocket owns its descriptor until Close or Forget. Failure:
// Open returns false, and the program goes on without.
//
//   ControlSocket socket;
//   if (OpenControlSocket("", getpid(), &socket)) ... poll(socket.fd) ...
//   CloseControlSocket(&socket);

#ifndef GPUMEM_SHIM_CONTROL_SERVER_CONTROL_SOCKET_H_
#define GPUMEM_SHIM_CONTROL_SERVER_CONTROL_SOCKET_H_

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "shim/base/descriptors.h"
#include "shim/control/server/requests.h"

namespace gpumemshim::control {

inline constexpr descriptors::Mark kSocketMark = {S_IFSOCK, O_NONBLOCK};

struct ControlSocket {
  int fd = -1;
  char path[1024] = "";
  // Programs close descriptors that they do not know, and the number may be somebody else's by now.
  descriptors::Identity identity;
  uint64_t file_inode = 0;
  char refused[64] = "";      // the usual directory, where it is somebody else's or open to others; "" = it is not
  uint32_t refused_user = 0;  // who it belongs to
};

// "gpumemshim: /tmp/gpumemshim-0 belongs to user 1000, so ...\n" for standard error; 0 where nothing was refused.
size_t RefusedLine(const ControlSocket& socket, char* out, size_t capacity);

// `directory`: an absolute path, or "" for the usual places.
bool OpenControlSocket(const char* directory, pid_t pid, ControlSocket* socket);

// True while the descriptor is still the socket that was opened.
bool IsStillOpen(const ControlSocket& socket);

// Removes its file, where that is still the one it made. In a signal handler too.
void RemoveFile(const ControlSocket& socket);

// Closes it and removes its file.
void CloseControlSocket(ControlSocket* socket);

// In a forked child: closes the inherited descriptor and leaves the parent's file alone.
void ForgetControlSocket(ControlSocket* socket);

// Removes sockets of the same directory that nobody listens on any more, as a kill leaves them. Returns how many.
uint32_t RemoveStaleSockets(const ControlSocket& socket);

// Callers: the connections of the control socket that have not said their line yet, kMax at most. Each has a second in
// all from its beginning, however it spends that (a byte now and then); where one more comes, the oldest goes. So who
// says nothing holds nobody up, and costs one descriptor.
//
//   accept ─► Add ─► poll(Fds) ─► Read: a whole line? ─► the server answers and closes
//                                       not yet        ─► stays
//                                       end, too long, late ─► closed
//
// Thread-safety: one thread. Ownership: owns the descriptors until TakeLine gives one up. Failure: closes.
//
//   callers.Add(fd, now_ns);
//   count = callers.PutFds(fds); poll(fds, count, kPollMs);
//   while (callers.TakeLine(now_ns, &fd, &line, &size)) { answer(fd, line, size); close(fd); }
class Callers {
 public:
  static constexpr uint32_t kMax = 8;
  static constexpr uint64_t kPatienceNs = 1'000'000'000;

  // Takes a connected socket that does not block.
  void Add(int fd, uint64_t now_ns);

  // What to wait for, at most kMax. Returns how many.
  uint32_t PutFds(pollfd* out) const;

  // Reads what has come, closes who is late. The next whole line without its newline, valid until the next call, and
  // its connection, which is the caller's to close. False: no more lines now.
  bool TakeLine(uint64_t now_ns, int* fd, const char** line, size_t* size);

  void CloseAll();

 private:
  struct Caller {
    int fd = -1;
    descriptors::Identity identity;
    uint64_t since_ns = 0;
    size_t size = 0;
    char line[kMaxRequestBytes] = {};  // all of it constant: the library has no constructor
  };
  enum class Outcome { kLine, kWaits, kGone };

  static void Close(Caller* caller);
  static Outcome Read(Caller* caller);

  Caller callers_[kMax];
};

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_CONTROL_SERVER_CONTROL_SOCKET_H_
