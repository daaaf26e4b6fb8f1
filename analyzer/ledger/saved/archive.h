// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// ArchiveWriter, ArchiveReader: plain values as bytes and back: numbers, enums, texts, containers, and structs whose
// fields are listed (fields.h). Only for files that this very program wrote (saved_file.h): nothing in the bytes says
// what they are. A reader whose bytes end too early, or that are no such values, gives defaults and is no longer ok().
// Not thread-safe.
//
//   ArchiveWriter writer;
//   writer(analysis, stacks);
//   ArchiveReader reader(writer.bytes());
//   reader(analysis, stacks);
//   if (!reader.IsDone()) ...

#ifndef GPUMEM_ANALYZER_LEDGER_SAVED_ARCHIVE_H_
#define GPUMEM_ANALYZER_LEDGER_SAVED_ARCHIVE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace gpumem {

// A number or an enum: its bytes are its value.
template <typename T>
inline constexpr bool kIsPlain = std::is_arithmetic_v<T> || std::is_enum_v<T>;

class ArchiveWriter {
 public:
  template <typename... Values>
  void operator()(const Values&... values) {
    (Put(values), ...);
  }
  const std::string& bytes() const { return bytes_; }
  std::string Take() { return std::move(bytes_); }

 private:
  template <typename T>
  void Put(const T& value) {
    if constexpr (kIsPlain<T>) {
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    } else {
      Fields(*this, value);
    }
  }
  void Put(const std::string& text) {
    Put(uint64_t{text.size()});
    bytes_.append(text);
  }
  template <typename T>
  void Put(const std::vector<T>& list) {
    Put(uint64_t{list.size()});
    if constexpr (kIsPlain<T>) {
      bytes_.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(T));
    } else {
      for (const T& each : list) Put(each);
    }
  }
  template <typename T, size_t kSize>
  void Put(const std::array<T, kSize>& list) {
    for (const T& each : list) Put(each);
  }
  template <typename T>
  void Put(const std::optional<T>& value) {
    Put(value.has_value());
    if (value) Put(*value);
  }
  template <typename A, typename B>
  void Put(const std::pair<A, B>& pair) {
    Put(pair.first);
    Put(pair.second);
  }
  template <typename Map>
  void PutMap(const Map& map) {
    Put(uint64_t{map.size()});
    for (const auto& [key, value] : map) {
      Put(key);
      Put(value);
    }
  }
  template <typename K, typename V, typename C>
  void Put(const std::map<K, V, C>& map) {
    PutMap(map);
  }
  template <typename K, typename V>
  void Put(const absl::flat_hash_map<K, V>& map) {
    PutMap(map);
  }

  std::string bytes_;
};

class ArchiveReader {
 public:
  explicit ArchiveReader(absl::string_view bytes) : rest_(bytes) {}

  template <typename... Values>
  void operator()(Values&... values) {
    (Get(values), ...);
  }
  bool ok() const { return ok_; }
  bool IsDone() const { return ok_ && rest_.empty(); }

 private:
  bool Take(void* to, size_t size) {
    if (!ok_ || size > rest_.size()) return ok_ = false;
    if (size != 0) std::memcpy(to, rest_.data(), size);
    rest_.remove_prefix(size);
    return true;
  }
  // Of a container, each of whose elements takes a byte at least.
  size_t Count(size_t element_bytes = 1) {
    uint64_t count = 0;
    Get(count);
    if (count > rest_.size() / element_bytes) ok_ = false;
    return ok_ ? count : 0;
  }
  void Get(bool& value) {
    uint8_t byte = 0;
    Take(&byte, sizeof byte);
    ok_ = ok_ && byte <= 1;  // any other would be neither
    value = byte == 1;
  }
  template <typename T>
  void Get(T& value) {
    if constexpr (kIsPlain<T>) {
      Take(&value, sizeof value);
    } else {
      Fields(*this, value);
    }
  }
  void Get(std::string& text) {
    text.resize(Count());
    Take(text.data(), text.size());
  }
  template <typename T>
  void Get(std::vector<T>& list) {
    if constexpr (kIsPlain<T>) {
      list.resize(Count(sizeof(T)));
      Take(list.data(), list.size() * sizeof(T));
    } else {
      const size_t count = Count();
      list.clear();
      for (size_t i = 0; i < count && ok_; ++i) Get(list.emplace_back());
    }
  }
  template <typename T, size_t kSize>
  void Get(std::array<T, kSize>& list) {
    for (T& each : list) Get(each);
  }
  template <typename T>
  void Get(std::optional<T>& value) {
    bool is_there = false;
    Get(is_there);
    value.reset();
    if (is_there && ok_) Get(value.emplace());
  }
  template <typename A, typename B>
  void Get(std::pair<A, B>& pair) {
    Get(pair.first);
    Get(pair.second);
  }
  template <typename Map>
  void GetMap(Map& map) {
    map.clear();
    const size_t count = Count();
    for (size_t i = 0; i < count && ok_; ++i) {
      typename Map::key_type key{};
      Get(key);
      Get(map[std::move(key)]);
    }
  }
  template <typename K, typename V, typename C>
  void Get(std::map<K, V, C>& map) {
    GetMap(map);
  }
  template <typename K, typename V>
  void Get(absl::flat_hash_map<K, V>& map) {
    GetMap(map);
  }

  absl::string_view rest_;
  bool ok_ = true;
};

// Classes with private members list them themselves.
template <typename Archive, typename T>
auto Fields(Archive& archive, T& value) -> decltype(std::remove_const_t<T>::VisitFieldsOf(archive, value), void()) {
  std::remove_const_t<T>::VisitFieldsOf(archive, value);
}

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_LEDGER_SAVED_ARCHIVE_H_
