// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/ring/room.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "shim/base/descriptors.h"
#include "shim/base/kernel.h"
#include "shim/ring/dead_rings.h"
#include "shim/ring/layout.h"
#include "shim/ring/ring.h"

namespace gpumemshim::ring {
namespace {

constexpr long kXfsMagic = 0x58465342;
constexpr uint32_t kMaxDepth = 32;  // of cgroups

uint64_t Least(uint64_t a, uint64_t b) { return a < b ? a : b; }

// The digits at `text`, or behind `name` and a space at a line's beginning; kNoLimit where there are none ("max").
uint64_t NumberAt(const char* text) {
  if (text == nullptr || *text < '0' || *text > '9') return kNoLimit;
  uint64_t value = 0;
  for (; *text >= '0' && *text <= '9'; text++) {
    if (value > kNoLimit / 16) return kNoLimit;
    value = value * 10 + static_cast<uint64_t>(*text - '0');
  }
  return value;
}

uint64_t NumberNamed(const char* text, const char* name) {
  const size_t size = strlen(name);
  for (const char* line = text; line != nullptr && *line != '\0'; line = strchr(line, '\n')) {
    if (*line == '\n') line++;
    if (strncmp(line, name, size) == 0 && line[size] == ' ') return NumberAt(line + size + 1);
  }
  return 0;
}

struct Files {
  const char *mount, *limit, *used, *droppable;
};
constexpr Files kVersion2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};
constexpr Files kVersion1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                             "total_inactive_file"};

bool ReadIn(const char* root, const Files& files, const char* group, const char* file, char* out, size_t capacity) {
  char path[1024];
  const int size = snprintf(path, sizeof(path), "%s%s%s/%s", root, files.mount, group, file);
  return size > 0 && static_cast<size_t>(size) < sizeof(path) && descriptors::ReadText(path, out, capacity) != 0;
}

uint64_t LeftIn(const char* root, const Files& files, const char* group) {
  char text[4096];
  if (!ReadIn(root, files, group, files.limit, text, sizeof(text))) return kNoLimit;
  const uint64_t limit = NumberAt(text);
  // Version 1 says "no limit" by a number that no machine has.
  if (limit >= uint64_t{1} << 60 || !ReadIn(root, files, group, files.used, text, sizeof(text))) return kNoLimit;
  const uint64_t used = NumberAt(text);
  uint64_t droppable = 0;
  if (ReadIn(root, files, group, "memory.stat", text, sizeof(text))) droppable = NumberNamed(text, files.droppable);
  if (used == kNoLimit) return kNoLimit;
  const uint64_t held = droppable < used ? used - droppable : 0;
  return held < limit ? limit - held : 0;
}

// The group and all above it. In a container the path may be the machine's, of which only the end is mounted: then the
// mount itself is the group.
uint64_t LeftOnTheWay(const char* root, const Files& files, char* group) {
  uint64_t left = kNoLimit;
  for (uint32_t depth = 0; depth < kMaxDepth; depth++) {
    left = Least(left, LeftIn(root, files, group));
    char* slash = strrchr(group, '/');
    if (slash == nullptr) break;
    *slash = '\0';
  }
  return left;
}

// Of a line of /proc/self/cgroup, "4:cpu,memory:/a/b": the group, where it is the memory's; else nullptr.
char* GroupOf(char* line, const Files** files) {
  char* names = strchr(line, ':');
  char* group = names != nullptr ? strchr(names + 1, ':') : nullptr;
  if (group == nullptr) return nullptr;
  *names++ = *group++ = '\0';
  if (strcmp(line, "0") == 0 && *names == '\0') {
    *files = &kVersion2;
    return group;
  }
  for (char *rest = names, *name; (name = strsep(&rest, ",")) != nullptr;) {
    if (strcmp(name, "memory") != 0) continue;
    *files = &kVersion1;
    return group;
  }
  return nullptr;
}

template <typename Field>
bool ReadField(int fd, size_t offset, Field* field) {
  return pread(fd, field, sizeof(*field), static_cast<off_t>(offset)) == static_cast<ssize_t>(sizeof(*field));
}

// Its owner held it, and nobody does: it never grows again.
bool IsDead(int directory, const char* name) {
  const int fd = descriptors::Raise(openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (fd < 0) return false;
  decltype(RingHeader::magic) magic;
  decltype(RingHeader::locked) locked;
  const bool dead = ReadField(fd, offsetof(RingHeader, magic), &magic) && magic == kMagic &&
                    ReadField(fd, offsetof(RingHeader, locked), &locked) && locked != 0 && !IsHeld(fd);
  close(fd);
  return dead;
}

// Of this user's rings what they may come to take: a living one as much as it claimed, a dead one what it takes. A
// killed program's ring stays for a while, and has most of its claim in no block.
uint64_t BytesOfRings(int directory) {
  uint64_t sum = 0;
  ForEachRing(
      directory,
      [](void* context, int in, const char* name) {
        struct stat ring;
        if (kernel::FstatatLink(in, name, &ring) != 0 || !S_ISREG(ring.st_mode) || ring.st_uid != geteuid())
          return true;
        const auto claimed = static_cast<uint64_t>(ring.st_size), taken = static_cast<uint64_t>(ring.st_blocks) * 512;
        *static_cast<uint64_t*>(context) += taken < claimed && IsDead(in, name) ? taken : claimed;
        return true;
      },
      &sum);
  return sum;
}

}  // namespace

Room RoomOf(const RoomFacts& facts) {
  Room room;
  const uint64_t all = facts.mount_bytes == 0 ? kNoLimit : facts.mount_bytes / kShareOfMount;
  if (all < kMinSizeBytes) return room;
  room.most_bytes = all / kShareOfRings < kMinSizeBytes ? kMinSizeBytes : all / kShareOfRings;
  if (facts.rings_bytes >= all) return room;
  room.free_bytes = all - facts.rings_bytes;
  if (facts.mount_bytes != 0) room.free_bytes = Least(room.free_bytes, facts.free_bytes / kShareOfFree);
  // A ring of the least size is had all the same: memory of another kind would count as much.
  const uint64_t memory = facts.memory_bytes / kShareOfFree;
  room.free_bytes = Least(room.free_bytes, memory < 2 * kMinSizeBytes ? 2 * kMinSizeBytes : memory);
  const uint64_t half = all / 2;
  room.growth_bytes = facts.rings_bytes < half ? Least(room.free_bytes, half - facts.rings_bytes) : 0;
  return room;
}

bool ReadRoomFacts(const char* directory, RoomFacts* facts) {
  const int fd = descriptors::Raise(open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd < 0) return false;
  struct statfs mount;
  const bool known = fstatfs(fd, &mount) == 0;
  if (known) {
    const auto block = static_cast<uint64_t>(mount.f_bsize);
    facts->mount_bytes = static_cast<uint64_t>(mount.f_blocks) * block;
    facts->free_bytes = static_cast<uint64_t>(mount.f_bavail) * block;
    facts->rings_bytes = BytesOfRings(fd);
    facts->memory_bytes = MemoryLeft();
  }
  close(fd);
  return known;
}

uint64_t MemoryLeft(const char* root) {
  char path[256], text[4096];
  const int size = snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
  if (size < 0 || static_cast<size_t>(size) >= sizeof(path) || descriptors::ReadText(path, text, sizeof(text)) == 0)
    return kNoLimit;
  uint64_t left = kNoLimit;
  for (char *rest = text, *line; (line = strsep(&rest, "\n")) != nullptr;) {
    const Files* files = nullptr;
    char* group = GroupOf(line, &files);
    if (group != nullptr) left = Least(left, LeftOnTheWay(root, *files, group));
  }
  return left;
}

bool IsGoodForRings(const char* directory) {
  struct statfs mount;
  if (statfs(directory, &mount) != 0) return false;
  return mount.f_type == TMPFS_MAGIC || mount.f_type == EXT4_SUPER_MAGIC || mount.f_type == kXfsMagic ||
         mount.f_type == OVERLAYFS_SUPER_MAGIC;
}

}  // namespace gpumemshim::ring
