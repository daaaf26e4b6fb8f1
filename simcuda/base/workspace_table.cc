// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/base/workspace_table.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "simcuda/base/note.h"

namespace simcuda {
namespace {

// The columns, in the order of the heading.
enum Column { kLibrary, kOperation, kParameters, kBytes, kDevice, kCapability, kVersion, kOrigin, kColumnCount };
constexpr size_t kLeastColumns = kColumnCount;  // what follows (driver, CUDA, PyTorch, date) is for people

std::vector<std::string> Cells(const std::string& line) {
  std::vector<std::string> cells{""};
  for (const char c : line) {
    if (c == '\t') {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

bool ReadWhole(const std::string& text, uint64_t* value) {
  char* end = nullptr;
  if (text.empty() || text[0] < '0' || text[0] > '9') return false;
  *value = std::strtoull(text.c_str(), &end, 10);
  return *end == '\0';
}

// "9.0" as 90.
bool ReadCapability(const std::string& text, int* capability) {
  const size_t dot = text.find('.');
  uint64_t major = 0, minor = 0;
  if (dot == std::string::npos || !ReadWhole(text.substr(0, dot), &major) || !ReadWhole(text.substr(dot + 1), &minor))
    return false;
  *capability = static_cast<int>(major * 10 + minor);
  return minor < 10 && major < 100;
}

}  // namespace

const char* KnownName(Known known) {
  static constexpr const char* kNames[] = {"set", "measured", "similar", "bound", "nothing"};
  return kNames[static_cast<int>(known)];
}

bool WorkspaceTable::Add(const std::string& line) {
  if (line.empty() || line[0] == '#' || line.rfind("library\t", 0) == 0) return true;
  const std::vector<std::string> cells = Cells(line);
  Row row;
  if (cells.size() < kLeastColumns || cells[kOrigin] != "measured" || !ReadWhole(cells[kBytes], &row.bytes) ||
      !ReadCapability(cells[kCapability], &row.key.capability)) {
    return false;
  }
  row.key.library = cells[kLibrary];
  row.key.operation = cells[kOperation];
  row.key.parameters = cells[kParameters];
  row.key.device = cells[kDevice];
  row.key.version = cells[kVersion];
  rows_.push_back(std::move(row));
  return true;
}

FoundSize WorkspaceTable::Find(const WorkspaceKey& key) const {
  FoundSize found;
  for (const Row& row : rows_) {
    if (row.key.parameters != key.parameters || row.key.operation != key.operation || row.key.library != key.library ||
        row.key.capability != key.capability) {
      continue;
    }
    if (row.key.device == key.device && row.key.version == key.version) return {Known::kMeasured, row.bytes};
    // Of several that are near, the largest: better too much than too little.
    found = {Known::kSimilar, std::max(found.bytes, row.bytes)};
  }
  return found;
}

WorkspaceTable ReadWorkspaceTable(const std::string& path) {
  WorkspaceTable table;
  std::ifstream file(path);
  bool reported = false;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (table.Add(line) || reported) continue;
    PrintLine("%s:%d: not a row of measured sizes (docs/workspaces.md); it and others like it are left out",
              path.c_str(), number);
    reported = true;
  }
  return table;
}

std::string WorkspaceTablePath() {
  const char* const named = std::getenv("SIMCUDA_WORKSPACE_TABLE");
  if (named != nullptr && *named != '\0') return named;
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&WorkspaceTablePath), &info) == 0 || info.dli_fname == nullptr) return "";
  const std::string library = info.dli_fname;
  const size_t slash = library.rfind('/');
  return slash == std::string::npos ? "" : library.substr(0, slash) + "/workspaces.tsv";
}

}  // namespace simcuda
