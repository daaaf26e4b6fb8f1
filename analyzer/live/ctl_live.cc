// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/ctl_live.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "base/utf8.h"

namespace gpumem {
namespace {

constexpr size_t kMaxRows = 10'000;

std::string LiveFieldOf(const ControlAnswer& answer, size_t row, absl::string_view field) {
  return answer.Text(absl::StrCat(row, ".", field));
}

// How many came.
size_t Rows(const ControlAnswer& answer) {
  size_t rows = 0;
  while (rows < kMaxRows && (!LiveFieldOf(answer, rows, "bytes").empty() || !LiveFieldOf(answer, rows, "name").empty()))
    ++rows;
  return rows;
}

void WriteNumber(absl::string_view key, const std::string& text, JsonWriter* json) {
  double number = 0;
  json->Key(key);
  absl::SimpleAtod(text, &number) && std::isfinite(number) ? json->Value(number) : json->Null();
}

void WriteTensor(const ControlAnswer& answer, size_t row, JsonWriter* json) {
  const auto number = [&](absl::string_view key) { return answer.Number(absl::StrCat(row, ".", key)); };
  json->Field("bytes", number("bytes"));
  json->Field("dtype", LiveFieldOf(answer, row, "dtype"));
  json->Field("shape", LiveFieldOf(answer, row, "shape"));
  json->Field("device", LiveFieldOf(answer, row, "device"));
  json->Field("address", absl::StrCat("0x", absl::Hex(number("address"))));
  json->Field("shares", number("shares"));
  json->Field("requires_grad", LiveFieldOf(answer, row, "requires_grad") == "True");
  json->Field("holders", LiveFieldOf(answer, row, "holders"));
  json->Field("chain", LiveFieldOf(answer, row, "chain"));
}

void WriteGradient(const ControlAnswer& answer, size_t row, JsonWriter* json) {
  json->Field("name", LiveFieldOf(answer, row, "name"));
  for (const absl::string_view key : {"elements", "nan", "inf"})
    json->Field(key, answer.Number(absl::StrCat(row, ".", key)));
  for (const absl::string_view key : {"norm", "min", "max", "mean"})
    WriteNumber(key, LiveFieldOf(answer, row, key), json);
}

// Tensors in one container, or under one name in many objects: "the global train.cache[310]" is train.cache's.
struct TensorGroup {
  std::string holder;
  std::vector<size_t> rows;  // largest first
  uint64_t bytes = 0;
};

std::string ContainerOf(absl::string_view holders) {
  const absl::string_view first = holders.substr(0, holders.find("; "));
  const size_t bracket = absl::EndsWith(first, "]") ? first.rfind('[') : absl::string_view::npos;
  return absl::StrCat(first.substr(0, bracket), bracket == absl::string_view::npos ? "" : "[...]");
}

std::vector<TensorGroup> GroupTensors(const ControlAnswer& answer, size_t rows) {
  std::vector<TensorGroup> groups;
  std::map<std::string, size_t> places;
  for (size_t row = 0; row < rows; ++row) {
    const std::string holder = ContainerOf(LiveFieldOf(answer, row, "holders"));
    const auto [place, is_new] = places.try_emplace(holder, groups.size());
    if (is_new || holder.empty()) place->second = groups.size();
    if (place->second == groups.size()) groups.push_back({holder, {}, 0});
    groups[place->second].rows.push_back(row);
    groups[place->second].bytes += answer.Number(absl::StrCat(row, ".bytes"));
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const TensorGroup& a, const TensorGroup& b) { return a.bytes > b.bytes; });
  return groups;
}

// How the program reaches it, where that says more than who holds it.
std::string ChainOf(const ControlAnswer& answer, size_t row) {
  const std::string chain = LiveFieldOf(answer, row, "chain");
  const std::string holders = LiveFieldOf(answer, row, "holders");
  const bool says_more = !chain.empty() && chain != holders.substr(0, holders.find("; "));
  return says_more ? absl::StrCat("\n              from ", EscapeControls(chain)) : "";
}

std::string TensorLine(const ControlAnswer& answer, const TensorGroup& group) {
  const size_t row = group.rows[0];
  const std::string shape = absl::StrCat(LiveFieldOf(answer, row, "dtype"), " ", LiveFieldOf(answer, row, "shape"));
  const std::string bytes = absl::StrCat(PadLeft(FormatBytes(group.bytes), 10), "  ");
  if (group.rows.size() > 1) {
    return absl::StrCat(bytes, FormatCount(group.rows.size()), " tensors, held by ", EscapeControls(group.holder),
                        "; largest ", EscapeControls(shape), ChainOf(answer, row), "\n");
  }
  const std::string holders = LiveFieldOf(answer, row, "holders");
  return absl::StrCat(bytes, EscapeControls(shape), " on ", EscapeControls(LiveFieldOf(answer, row, "device")),
                      ", held by ", holders.empty() ? "a local variable, or C++ code" : EscapeControls(holders),
                      ChainOf(answer, row), "\n");
}

std::string GradientLine(const ControlAnswer& answer, size_t row) {
  std::string line = absl::StrCat("  ", EscapeControls(LiveFieldOf(answer, row, "name")));
  for (const absl::string_view key : {"nan", "inf"}) {
    const uint64_t count = answer.Number(absl::StrCat(row, ".", key));
    if (count != 0) absl::StrAppend(&line, "  ", FormatCount(count), key == "nan" ? " NaN" : " Inf");
  }
  for (const absl::string_view key : {"norm", "min", "max"}) {
    double number = NAN;
    (void)absl::SimpleAtod(LiveFieldOf(answer, row, key), &number);
    absl::StrAppend(&line, "  ", key, " ", absl::SixDigits(number));
  }
  return absl::StrCat(line, "\n");
}

}  // namespace

bool IsLive(absl::string_view asked) { return asked == "tensors" || asked == "gradients"; }

std::string LiveText(absl::string_view asked, const ControlAnswer& answer) {
  const size_t rows = Rows(answer);
  const uint64_t all = answer.Number("rows");
  const bool of_tensors = asked == "tensors";
  std::string text =
      of_tensors ? absl::StrCat(FormatCountOf(all, "storage", "storages"), " of live tensors, ",
                                FormatBytes(answer.Number("device_bytes")), "\n")
                 : absl::StrCat(FormatCountOf(all, "gradient", "gradients"), ": ", FormatCount(answer.Number("nan")),
                                " NaN, ", FormatCount(answer.Number("inf")), " Inf\n");
  if (of_tensors) {
    for (const TensorGroup& group : GroupTensors(answer, rows)) text += TensorLine(answer, group);
  } else {
    for (size_t row = 0; row < rows; ++row) text += GradientLine(answer, row);
  }
  if (rows < all) absl::StrAppend(&text, "  and ", FormatCount(all - rows), " smaller ones\n");
  return text;
}

void WriteLive(const ControlAnswer& answer, JsonWriter* json) {
  const size_t rows = Rows(answer);
  const uint64_t all = answer.Number("rows");
  const bool of_tensors = !answer.Text("device_bytes").empty();
  if (of_tensors) {
    json->Field("bytes", answer.Number("device_bytes"));
  } else {
    json->Field("nan", answer.Number("nan"));
    json->Field("inf", answer.Number("inf"));
  }
  json->Key(of_tensors ? "tensors" : "gradients");
  json->BeginArray();
  for (size_t row = 0; row < rows; ++row) {
    json->BeginObject(JsonLayout::kOneLine);
    of_tensors ? WriteTensor(answer, row, json) : WriteGradient(answer, row, json);
    json->EndObject();
  }
  json->EndArray();
  json->Field("left_out", all > rows ? all - rows : 0);
}

}  // namespace gpumem
