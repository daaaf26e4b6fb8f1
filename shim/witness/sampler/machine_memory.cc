// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/witness/sampler/machine_memory.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "shim/base/apart.h"
#include "shim/base/descriptors.h"

namespace gpumemshim::sampler {
namespace {

bool ReadHere(const char* path, char* out, size_t capacity) {
  const int file = descriptors::Raise(open(path, O_RDONLY | O_CLOEXEC));
  if (file < 0) return false;
  const ssize_t size = read(file, out, capacity - 1);
  close(file);
  out[size < 0 ? 0 : size] = '\0';
  return size > 0;
}

bool ReadFile(const char* path, char* out, size_t capacity) {
  bool read = false;
  apart::Do([&] { read = ReadHere(path, out, capacity); });
  return read;
}

uint64_t ParseNumber(const char* text) {
  uint64_t value = 0;
  while (*text == ' ' || *text == '\t') text++;
  for (; *text >= '0' && *text <= '9'; text++) value = value * 10 + static_cast<uint64_t>(*text - '0');
  return value;
}

}  // namespace

uint64_t FindKilobytes(const char* text, const char* name) {
  const size_t size = strlen(name);
  for (const char* line = text; line != nullptr; line = strchr(line, '\n')) {
    if (*line == '\n') line++;
    if (strncmp(line, name, size) == 0 && line[size] == ':') return ParseNumber(line + size + 1) * 1024;
  }
  return 0;
}

uint64_t ResidentBytes() {
  char text[128];
  if (!ReadFile("/proc/self/statm", text, sizeof(text))) return 0;
  const char* second = strchr(text, ' ');
  return second == nullptr ? 0 : ParseNumber(second) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

void ReadMachineMemory(uint64_t* total, uint64_t* available) {
  char text[1024];  // both stand in the first three lines
  *total = *available = 0;
  if (!ReadFile("/proc/meminfo", text, sizeof(text))) return;
  *total = FindKilobytes(text, "MemTotal");
  *available = FindKilobytes(text, "MemAvailable");
}

}  // namespace gpumemshim::sampler
