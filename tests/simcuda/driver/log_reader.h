// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Reads a SIMCUDA_LOG file.
#ifndef TESTS_SIMCUDA_DRIVER_LOG_READER_H_
#define TESTS_SIMCUDA_DRIVER_LOG_READER_H_

#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace simcuda {

using LogLine = std::map<std::string, std::string>;  // column -> value

inline std::vector<LogLine> ReadLog(const std::string& path) {
  const auto split = [](const std::string& line) {
    std::vector<std::string> fields;
    std::istringstream stream(line);
    for (std::string field; std::getline(stream, field, '\t');) fields.push_back(field);
    return fields;
  };
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> columns = split(line);
  std::vector<LogLine> lines;
  while (std::getline(file, line)) {
    const std::vector<std::string> fields = split(line);
    LogLine entry;
    for (size_t i = 0; i < columns.size() && i < fields.size(); ++i) entry[columns[i]] = fields[i];
    lines.push_back(entry);
  }
  return lines;
}

inline uint64_t Number(const std::string& text) { return std::stoull(text, nullptr, 0); }

}  // namespace simcuda

#endif  // TESTS_SIMCUDA_DRIVER_LOG_READER_H_
