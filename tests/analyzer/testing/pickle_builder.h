// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Pickles for tests, written by hand as Python writes them: Pick values are the bytes of the opcodes that make them.
//
//   const std::string file = PickleOf(Dict({{"segments", List({})}, {"device_traces", List({List({})})}}));

#ifndef GPUMEM_TESTS_ANALYZER_TESTING_PICKLE_BUILDER_H_
#define GPUMEM_TESTS_ANALYZER_TESTING_PICKLE_BUILDER_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace gpumem::pickled {

struct Value {
  std::string bytes;
};

inline std::string LittleEndian(uint64_t value, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

inline Value Int(uint64_t value) {
  if (value < 256) return {"K" + LittleEndian(value, 1)};
  if (value < 65536) return {"M" + LittleEndian(value, 2)};
  if (value < uint64_t{1} << 31) return {"J" + LittleEndian(value, 4)};
  return {std::string("\x8a\x09", 2) + LittleEndian(value, 8) + std::string(1, '\0')};
}

inline Value Text(const std::string& text) { return {"X" + LittleEndian(text.size(), 4) + text}; }
inline Value None() { return {"N"}; }
inline Value Bool(bool value) { return {value ? "\x88" : "\x89"}; }

inline Value List(const std::vector<Value>& items) {
  std::string bytes = "](";
  for (const Value& item : items) bytes += item.bytes;
  return {bytes + "e"};
}

inline Value Tuple(const std::vector<Value>& items) {
  std::string bytes = "(";
  for (const Value& item : items) bytes += item.bytes;
  return {bytes + "t"};
}

inline Value Dict(const std::vector<std::pair<std::string, Value>>& items) {
  std::string bytes = "}(";
  for (const auto& [key, value] : items) bytes += Text(key).bytes + value.bytes;
  return {bytes + "u"};
}

inline std::string PickleOf(const Value& root) { return std::string("\x80\x02", 2) + root.bytes + "."; }

// Of a snapshot's history.
inline Value Entry(const std::string& action, uint64_t address, uint64_t size, uint64_t time_us,
                   const std::vector<Value>& frames = {}, uint64_t stream = 0) {
  return Dict({{"action", Text(action)},
               {action == "oom" ? "device_free" : "addr", Int(address)},
               {"size", Int(size)},
               {"stream", Int(stream)},
               {"time_us", Int(time_us)},
               {"frames", List(frames)}});
}

inline Value Frame(const std::string& file, const std::string& name, uint64_t line) {
  return Dict({{"filename", Text(file)}, {"name", Text(name)}, {"line", Int(line)}});
}

inline Value Block(uint64_t address, uint64_t size, uint64_t requested, const std::string& state,
                   const std::vector<Value>& frames = {}) {
  return Dict({{"address", Int(address)},
               {"size", Int(size)},
               {"requested_size", Int(requested)},
               {"state", Text(state)},
               {"frames", List(frames)}});
}

inline Value Segment(uint64_t address, uint64_t size, const std::string& type, const std::vector<Value>& blocks,
                     bool is_expandable = false, uint64_t pool = 0) {
  return Dict({{"device", Int(0)},
               {"address", Int(address)},
               {"total_size", Int(size)},
               {"stream", Int(0)},
               {"segment_type", Text(type)},
               {"segment_pool_id", Tuple({Int(0), Int(pool)})},
               {"is_expandable", Bool(is_expandable)},
               {"blocks", List(blocks)}});
}

inline std::string Snapshot(const std::vector<Value>& segments, const std::vector<Value>& entries) {
  return PickleOf(Dict({{"segments", List(segments)}, {"device_traces", List({List(entries)})}}));
}

}  // namespace gpumem::pickled

#endif  // GPUMEM_TESTS_ANALYZER_TESTING_PICKLE_BUILDER_H_
