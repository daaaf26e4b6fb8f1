// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a running process has mapped, by object, and where the functions of an object are. Files are read as the process
// sees them, through /proc/PID/root.
//
// Thread-safety: none needed. Failure: a status with the reason; an object whose symbols cannot be read has none.
//
//   GPUMEM_ASSIGN_OR_RETURN(ProcessMap map, ReadProcessMap(4242));
//   if (const MappedObject* libc = map.FindOfGlibc("libc")) ReadFunctions(4242, *libc);

#ifndef GPUMEM_ANALYZER_ATTACH_PROCESS_MAP_H_
#define GPUMEM_ANALYZER_ATTACH_PROCESS_MAP_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpumem {

struct AddressRange {
  uint64_t start = 0, end = 0;
  bool Holds(uint64_t address) const { return address >= start && address < end; }
};

struct MappedObject {
  std::string path;
  uint64_t base = 0;               // of its first mapping
  std::vector<AddressRange> code;  // executable
};

struct ProcessMap {
  std::vector<MappedObject> objects;   // of files
  std::vector<AddressRange> writable;  // all of it: stacks, heaps

  // The first object whose file name begins so; nullptr: there is none.
  const MappedObject* Find(absl::string_view prefix) const;
  // A library of glibc's: "libc" is libc.so.6, and libc-2.31.so where glibc is older than 2.34.
  const MappedObject* FindOfGlibc(absl::string_view name) const;
};

absl::StatusOr<ProcessMap> ReadProcessMap(pid_t pid);

struct Function {
  std::string name;
  uint64_t start = 0, end = 0;  // in the process
};

// The exported functions of an object, by address, and the unused rest behind its code, up to the page's end.
struct ObjectFunctions {
  std::vector<Function> functions;
  AddressRange spare;
  uint64_t AddressOf(absl::string_view name) const;  // 0: it has none
};

absl::StatusOr<ObjectFunctions> ReadFunctions(pid_t pid, const MappedObject& object);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ATTACH_PROCESS_MAP_H_
