// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "web/layers.h"

#include <algorithm>
#include <utility>

namespace gpumem {
namespace {

using Changes = absl::flat_hash_map<size_t, int64_t>;

Layer LayerOf(uint32_t key, const Changes& changes) {
  Layer layer;
  layer.key = key;
  for (const auto& [row, bytes] : changes) {
    if (bytes != 0) layer.changes.push_back({row, bytes});
  }
  std::sort(layer.changes.begin(), layer.changes.end(),
            [](const LayerChange& a, const LayerChange& b) { return a.row < b.row; });
  int64_t bytes = 0;
  for (const LayerChange& change : layer.changes) {
    bytes += change.bytes;
    layer.highest = std::max(layer.highest, static_cast<uint64_t>(std::max<int64_t>(bytes, 0)));
  }
  return layer;
}

}  // namespace

void Layers::Add(uint32_t key, size_t from, size_t to, uint64_t bytes) {
  if (from >= to || bytes == 0) return;
  Changes& changes = changes_[key];
  changes[from] += static_cast<int64_t>(bytes);
  changes[to] -= static_cast<int64_t>(bytes);
}

std::vector<Layer> Layers::Take(size_t most) {
  std::vector<Layer> layers;
  for (const auto& [key, changes] : changes_) {
    if (Layer layer = LayerOf(key, changes); layer.highest > 0) layers.push_back(std::move(layer));
  }
  std::sort(layers.begin(), layers.end(), [](const Layer& a, const Layer& b) {
    return a.highest != b.highest ? a.highest > b.highest : a.key < b.key;
  });
  if (layers.size() > most + 1) {  // one layer more is better than "1 other"
    Changes others;
    for (size_t i = most; i < layers.size(); ++i) {
      for (const LayerChange& change : layers[i].changes) others[change.row] += change.bytes;
    }
    Layer other = LayerOf(kOtherKeys, others);
    other.keys = layers.size() - most;
    layers.resize(most);
    layers.push_back(std::move(other));
  }
  changes_.clear();
  return layers;
}

}  // namespace gpumem
