// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/writer/series.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <initializer_list>

#include "shim/base/flat_table.h"
#include "shim/base/kernel.h"

namespace gpumemshim::writer {
namespace {

constexpr uint64_t kBytesPerEvent = 4;
constexpr char kExtension[] = ".gmtrace";

// By which a plain file is distinguished from what somebody else put in its place, on whatever disk; 0 where there is
// none.
uint64_t IdentityOf(const char* path) {
  struct stat status;
  if (kernel::Lstat(path, &status) != 0 || !S_ISREG(status.st_mode)) return 0;
  return (MixBits(status.st_dev) ^ status.st_ino) | uint64_t{1} << 63;
}

}  // namespace

uint64_t Series::PartBytes() const {
  const uint64_t wanted = limit_.max_bytes / kParts;
  const uint64_t grown = std::min(std::max(wanted, 4 * base_bytes_), limit_.max_bytes / 2);
  return std::max({wanted, grown, 2 * base_bytes_ + 4096});
}

uint32_t Series::EventsPerPacket(uint32_t most) const {
  if (limit_.max_bytes == 0) return most;
  const uint64_t file_bytes = enabled() ? PartBytes() : limit_.max_bytes;
  return static_cast<uint32_t>(std::clamp<uint64_t>(file_bytes / 16 / kBytesPerEvent, 256, most));
}

void Series::Identify(uint64_t now_ns) { id_ = MixBits(now_ns ^ static_cast<uint64_t>(getpid()) << 40) | 1; }

void Series::Begin(const char* path) {
  if (number_++ == 0) snprintf(first_path_, sizeof(first_path_), "%s", path);
  base_bytes_ = 0;
  snprintf(current_.path, sizeof(current_.path), "%s", path);
  current_.identity = IdentityOf(path);
}

void Series::Drop(size_t index) {
  finished_bytes_ -= finished_[index].bytes;
  memmove(static_cast<void*>(finished_.data() + index), finished_.data() + index + 1,
          (finished_.size() - 1 - index) * sizeof(Part));
  finished_.Resize(finished_.size() - 1);
}

void Series::Finish(uint64_t bytes) {
  current_.bytes = bytes;
  if (!finished_.Push(current_)) return;
  finished_bytes_ += bytes;
  // The last finished one stays in any case: the next file may be cut off in its first words.
  while (limit_.on_full == OnFull::kLast && finished_.size() > 1 && finished_bytes_ + PartBytes() > limit_.max_bytes) {
    const Part& oldest = finished_[0];
    if (oldest.identity != 0 && IdentityOf(oldest.path) == oldest.identity) unlink(oldest.path);
    Drop(0);
  }
}

bool Series::Fits(uint64_t bytes) {
  if (finished_bytes_ + bytes <= limit_.max_bytes) return true;
  for (size_t i = finished_.size(); i-- > 0;) {
    if (IdentityOf(finished_[i].path) != finished_[i].identity) Drop(i);  // moved away, or removed
  }
  return finished_bytes_ + bytes <= limit_.max_bytes;
}

bool Series::HasRoom(uint64_t bytes) { return limit_.on_full != OnFull::kRotate || Fits(bytes + PartBytes()); }

// EventsPerPacket counts on four bytes an event and gives a packet a sixteenth of a part; events without any pattern
// take up to sixteen bytes.
bool Series::Spent(uint64_t bytes) { return limit_.on_full == OnFull::kRotate && !Fits(bytes + PartBytes() / 4); }

bool Series::NextPath(char* out, size_t capacity) const {
  size_t stem = strlen(first_path_);
  const size_t extension = sizeof(kExtension) - 1;
  const bool has_extension = stem > extension && strcmp(first_path_ + stem - extension, kExtension) == 0;
  if (has_extension) stem -= extension;
  const int size = snprintf(out, capacity, "%.*s.part%u%s", static_cast<int>(stem), first_path_, number_ + 1,
                            has_extension ? kExtension : "");
  return size > 0 && static_cast<size_t>(size) < capacity;
}

}  // namespace gpumemshim::writer
