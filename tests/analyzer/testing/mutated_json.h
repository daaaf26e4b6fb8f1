// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// EachMutation: a JSON text with one value after the other replaced by what does not belong there: lists for numbers,
// empty rows, rows that are too long, texts, numbers beyond every range, nothing. For tests of whoever reads it.
//
//   size_t refused = 0;
//   EachMutation(SummaryLine(rank, {}), [&](const std::string& text) { refused += !ParseSummary(text, nullptr).ok();
//   });

#ifndef GPUMEM_TESTS_ANALYZER_TESTING_MUTATED_JSON_H_
#define GPUMEM_TESTS_ANALYZER_TESTING_MUTATED_JSON_H_

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace gpumem::testing {

inline void EachMutation(const std::string& text, const std::function<void(const std::string&)>& look) {
  using nlohmann::json;
  json root = json::parse(text);
  const json others = json::parse(
      R"([[], [[]], [["x"]], [[-1, 2, 3]], [[1.5, 2, 3]], [1], {}, {"x": []}, "x", "", -1, 1.5, 1e300, -9223372036854775808,
          18446744073709551615, 4611686018427387904, 2147483647, 4294967296, true, null, [[1, 2, 3, 4]], ["x", "y", "z"]])");
  const std::function<void(json*)> mutate = [&](json* value) {
    const json before = *value;
    for (const json& other : others) {
      *value = other;
      look(root.dump());
    }
    *value = before;
    if (value->is_object()) {
      for (const auto& [key, unused] : before.items()) {
        value->erase(key);
        look(root.dump());
        *value = before;
      }
    }
    if (!value->is_structured()) return;
    for (json& each : *value) mutate(&each);
  };
  mutate(&root);
}

}  // namespace gpumem::testing

#endif  // GPUMEM_TESTS_ANALYZER_TESTING_MUTATED_JSON_H_
