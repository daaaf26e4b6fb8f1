// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Edges: who refers to whom, of all objects that Python's collector knows, as a log of words: a holder, with a mark,
// then what it refers to, and so on. So what refers to an object is found without going over the program's objects
// once more: by an index of the log, since there are many levels, and going over the log for each took ten times as
// long as reading the objects. Memory: 8 bytes an object, 16 a reference, at most 256 MiB; of the C library's heap. Not
// thread-safe.
//
//   edges.AddHolder(dictionary) && edges.Add(tensor) && edges.Index();
//   edges.ForEachHolder(tensor, [&](Edge edge) { use(edges.At(edge.holder)); });

#ifndef GPUMEM_SHIM_PYTHON_EDGES_H_
#define GPUMEM_SHIM_PYTHON_EDGES_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "shim/python/api.h"

namespace gpumemshim::python {

// Places in the log.
struct Edge {
  uint32_t object, holder;
};

class Edges {
 public:
  Edges() = default;
  Edges(const Edges&) = delete;
  Edges& operator=(const Edges&) = delete;
  ~Edges() {
    for (size_t i = 0; i < count_; ++i) std::free(blocks_[i]);
    std::free(ends_);
    std::free(edges_);
  }

  // False: no room.
  bool AddHolder(const Object* holder) { return AddWord(reinterpret_cast<uintptr_t>(holder) | kHolder); }
  bool Add(const Object* object) { return AddWord(reinterpret_cast<uintptr_t>(object)); }

  // Once, after the last of them. False: no memory.
  bool Index() {
    ends_ = static_cast<uint32_t*>(std::calloc(kBuckets + 1, sizeof(uint32_t)));
    if (ends_ == nullptr) return false;
    ForEach([this](Edge, uintptr_t object) { ++ends_[Bucket(object) + 1]; });
    for (size_t i = 0; i < kBuckets; ++i) ends_[i + 1] += ends_[i];
    edges_ = static_cast<Edge*>(std::malloc((ends_[kBuckets] + size_t{1}) * sizeof(Edge)));
    if (edges_ == nullptr) return false;
    // What is the beginning of a bucket here is its end once it is filled.
    ForEach([this](Edge edge, uintptr_t object) { edges_[ends_[Bucket(object)]++] = edge; });
    return true;
  }

  // In the log's order.
  template <typename Each>
  void ForEachHolder(const Object* object, Each each) const {
    const size_t bucket = Bucket(reinterpret_cast<uintptr_t>(object));
    for (uint32_t i = bucket == 0 ? 0 : ends_[bucket - 1]; i < ends_[bucket]; ++i) {
      if (At(edges_[i].object) == object) each(edges_[i]);
    }
  }

  Object* At(uint32_t place) const {
    return reinterpret_cast<Object*>(blocks_[place / kWords][place % kWords] &
                                     ~kHolder);  // NOLINT(performance-no-int-to-ptr)
  }

 private:
  static constexpr uintptr_t kHolder = 1;  // objects are at even addresses
  static constexpr size_t kWords = size_t{1} << 16, kMaxBlocks = 256, kBuckets = size_t{1} << 16;

  static size_t Bucket(uintptr_t object) { return (object >> 4) * 0x9E3779B97F4A7C15u >> 48; }

  bool AddWord(uintptr_t word) {
    if (used_ == kWords) {
      if (count_ == kMaxBlocks) return false;
      blocks_[count_] = static_cast<uintptr_t*>(std::malloc(kWords * sizeof(uintptr_t)));
      if (blocks_[count_] == nullptr) return false;
      ++count_;
      used_ = 0;
    }
    blocks_[count_ - 1][used_++] = word;
    return true;
  }

  template <typename Each>
  void ForEach(Each each) const {
    uint32_t holder = 0, place = 0;
    for (size_t i = 0; i < count_; ++i) {
      for (size_t k = 0, end = i + 1 == count_ ? used_ : kWords; k < end; ++k, ++place) {
        const uintptr_t word = blocks_[i][k];
        if ((word & kHolder) != 0) {
          holder = place;
        } else {
          each(Edge{place, holder}, word);
        }
      }
    }
  }

  uintptr_t* blocks_[kMaxBlocks];
  size_t count_ = 0, used_ = kWords;
  uint32_t* ends_ = nullptr;  // of each bucket in edges_
  Edge* edges_ = nullptr;
};

}  // namespace gpumemshim::python

#endif  // GPUMEM_SHIM_PYTHON_EDGES_H_
