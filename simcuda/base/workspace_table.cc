// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/base/workspace_table.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>

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
  static constexpr const char* kNames[] = {"set", "measured", "similar", "law", "bound", "nothing"};
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
  uint64_t bytes = 0;
  if (!FindShape(key, &bytes)) return found;
  if (key.device == shapes_of_.device && key.version == shapes_of_.version) return {Known::kMeasured, bytes};
  return {Known::kSimilar, std::max(found.bytes, bytes)};
}

bool WorkspaceTable::AddShape(const std::string& line) {
  if (line.empty() || line[0] == '#') return true;
  const std::vector<std::string> cells = Cells(line);
  if (cells[0] == "device") {
    if (cells.size() != 4 || !ReadCapability(cells[2], &shapes_of_.capability)) return false;
    shapes_of_.library = "cuDNN";
    shapes_of_.device = cells[1];
    shapes_of_.version = cells[3];
    return true;
  }
  if (cells[0] == "shape") {
    for (size_t i = 1; i < cells.size(); ++i) columns_.emplace(cells[i], i - 1);
    return true;
  }
  std::vector<int64_t> sizes;
  for (size_t i = 1; i < cells.size(); ++i) {
    uint64_t bytes = 0;
    if (cells[i] != "-" && !ReadWhole(cells[i], &bytes)) return false;
    sizes.push_back(cells[i] == "-" ? -1 : static_cast<int64_t>(bytes));
  }
  if (sizes.empty() || sizes.size() != columns_.size()) return false;
  shapes_.insert_or_assign(cells[0], std::move(sizes));
  return true;
}

// "convolution_forward" of "f32 x=... dilation=1,1 nchw" is the column "forward f32 nchw" of "x=... dilation=1,1".
bool WorkspaceTable::FindShape(const WorkspaceKey& key, uint64_t* bytes) const {
  constexpr char kPrefix[] = "convolution_";
  const size_t first = key.parameters.find(' '), last = key.parameters.rfind(' ');
  if (key.library != shapes_of_.library || key.capability != shapes_of_.capability || first == last ||
      key.operation.rfind(kPrefix, 0) != 0) {
    return false;
  }
  const auto column = columns_.find(key.operation.substr(sizeof kPrefix - 1) + ' ' + key.parameters.substr(0, first) +
                                    key.parameters.substr(last));
  const auto shape = shapes_.find(key.parameters.substr(first + 1, last - first - 1));
  if (column == columns_.end() || shape == shapes_.end() || shape->second[column->second] < 0) return false;
  *bytes = static_cast<uint64_t>(shape->second[column->second]);
  return true;
}

namespace {

void ReadLines(const std::string& path, const std::function<bool(const std::string&)>& add) {
  std::ifstream file(path);
  bool reported = false;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (add(line) || reported) continue;
    PrintLine("%s:%d: not a row of measured sizes (docs/workspaces.md); it and others like it are left out",
              path.c_str(), number);
    reported = true;
  }
}

}  // namespace

WorkspaceTable ReadWorkspaceTable(const std::string& path) {
  WorkspaceTable table;
  ReadLines(path, [&table](const std::string& line) { return table.Add(line); });
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  ReadLines(folder + "cudnn_convolutions.tsv", [&table](const std::string& line) { return table.AddShape(line); });
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
