// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/server/callers.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

namespace gpumemshim::control {

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
