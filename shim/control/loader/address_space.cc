// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/loader/address_space.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "shim/base/descriptors.h"

namespace gpumemshim::control {
namespace {

struct Usage {
  uint64_t total_bytes = UINT64_MAX;
  uint64_t data_bytes = UINT64_MAX;
};

// "size resident shared text lib data dirty", in pages. What cannot be read counts as all that there is.
Usage ReadUsage() {
  Usage usage;
  char text[256];
  if (descriptors::ReadText("/proc/self/statm", text, sizeof text) == 0) return usage;
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  char* at = text;
  for (int field = 0; field < 6; ++field) {
    char* end = at;
    const uint64_t pages = std::strtoull(at, &end, 10);
    if (end == at) break;
    if (field == 0) usage.total_bytes = pages * page_bytes;
    if (field == 5) usage.data_bytes = pages * page_bytes;
    at = end;
  }
  return usage;
}

uint64_t RoomUnder(const rlimit& limit, uint64_t used_bytes) {
  if (limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  return used_bytes < limit.rlim_cur ? limit.rlim_cur - used_bytes : 0;
}

}  // namespace

uint64_t RoomInAddressSpace() {
  rlimit all{RLIM_INFINITY, RLIM_INFINITY}, data = all;
  if (getrlimit(RLIMIT_AS, &all) != 0 || getrlimit(RLIMIT_DATA, &data) != 0) return UINT64_MAX;
  if (all.rlim_cur == RLIM_INFINITY && data.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  const Usage usage = ReadUsage();
  const uint64_t of_all = RoomUnder(all, usage.total_bytes), of_data = RoomUnder(data, usage.data_bytes);
  return of_all < of_data ? of_all : of_data;
}

Fit FitSettings(uint64_t room_bytes, Settings* settings) {
  if (room_bytes >= kAmpleRoomBytes) return Fit::kAll;
  if (room_bytes < kLeastRoomBytes) return Fit::kNone;
  settings->sample_ms = 0;
  settings->control = false;
  if (settings->ring_size_bytes == 0 || settings->ring_size_bytes > kSmallRingBytes) {
    settings->ring_size_bytes = kSmallRingBytes;
  }
  return Fit::kReduced;
}

size_t NoRoomLine(uint64_t room_bytes, char* out, size_t capacity) {
  const int size = snprintf(
      out, capacity,
      "gpumemshim: nothing is recorded: a limit of memory (ulimit -v, ulimit -d) leaves %llu MiB of "
      "address space, and recording wants %llu MiB. Raise it.\n",
      static_cast<unsigned long long>(room_bytes >> 20), static_cast<unsigned long long>(kLeastRoomBytes >> 20));
  if (size < 0 || capacity == 0) return 0;
  return static_cast<size_t>(size) < capacity ? static_cast<size_t>(size) : capacity - 1;
}

}  // namespace gpumemshim::control
