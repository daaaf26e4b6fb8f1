// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/module_symbols.h"

#include <google/protobuf/stubs/logging.h>

#include <algorithm>

#include "base/utf8.h"
#include "gpumem/trace.pb.h"
#include "trace/limits.h"

namespace gpumem {
namespace {

// Every column as long as it must be, every number inside its table.
bool IsPossible(const trace::ModuleSymbols& message) {
  if (message.depth_size() != message.address_delta_size()) return false;
  uint64_t functions = 0;
  for (const uint32_t depth : message.depth()) {
    if (depth > ModuleSymbols::kMaxFunctions) return false;
    functions += depth;
  }
  const auto fits = [&](int size) { return static_cast<uint64_t>(size) == functions; };
  if (!fits(message.function_size()) || !fits(message.file_size()) || !fits(message.line_size())) return false;
  const auto known = [&](uint32_t number) { return number <= static_cast<uint32_t>(message.text_size()); };
  return std::all_of(message.function().begin(), message.function().end(), known) &&
         std::all_of(message.file().begin(), message.file().end(), known);
}

}  // namespace

uint32_t ModuleSymbols::Number(absl::string_view raw) {
  if (raw.empty()) return 0;
  const std::string text = EscapeControls(ClippedName(std::string(raw)));  // protobuf takes nothing but UTF-8
  const auto [it, is_new] = numbers_.try_emplace(text, static_cast<uint32_t>(texts_.size() + 1));
  if (is_new) texts_.push_back(text);
  return it->second;
}

void ModuleSymbols::Add(uint64_t address, const std::vector<NativeFunction>& functions) {
  const size_t count = std::min(functions.size(), kMaxFunctions);
  const Place place{static_cast<uint32_t>(functions_.size()), static_cast<uint32_t>(count)};
  if (!places_.try_emplace(address, place).second) return;
  // The outermost is the function that has the address; it is kept.
  for (size_t i = functions.size() - count; i < functions.size(); ++i) {
    functions_.push_back({Number(functions[i].function), Number(functions[i].file), functions[i].line});
  }
}

std::vector<NativeFunction> ModuleSymbols::At(uint64_t address) const {
  std::vector<NativeFunction> result;
  const auto it = places_.find(address);
  if (it == places_.end()) return result;
  for (uint32_t i = it->second.begin; i < it->second.begin + it->second.count; ++i) {
    result.push_back({Text(functions_[i].function), Text(functions_[i].file), functions_[i].line});
  }
  return result;
}

std::vector<uint64_t> ModuleSymbols::Addresses() const {
  std::vector<uint64_t> addresses;
  addresses.reserve(places_.size());
  for (const auto& [address, place] : places_) addresses.push_back(address);
  std::sort(addresses.begin(), addresses.end());
  return addresses;
}

absl::Status ModuleSymbols::Parse(absl::string_view serialized) {
  const google::protobuf::LogSilencer silencer;  // damage is reported by us, once
  trace::ModuleSymbols message;
  if (!message.ParseFromArray(serialized.data(), static_cast<int>(serialized.size())) || !IsPossible(message)) {
    return absl::DataLossError("the names of a module are broken");
  }
  // Each text is taken in once, however often it is named.
  std::vector<uint32_t> ours(static_cast<size_t>(message.text_size()) + 1);
  for (int i = 0; i < message.text_size(); ++i) ours[static_cast<size_t>(i) + 1] = Number(message.text(i));
  uint64_t address = 0;
  int next = 0;
  for (int i = 0; i < message.depth_size(); ++i) {
    address += message.address_delta(i);
    const Place place{static_cast<uint32_t>(functions_.size()), message.depth(i)};
    const bool is_new = places_.try_emplace(address, place).second;
    for (const int end = next + static_cast<int>(message.depth(i)); next < end; ++next) {
      if (is_new) functions_.push_back({ours[message.function(next)], ours[message.file(next)], message.line(next)});
    }
  }
  return absl::OkStatus();
}

void ModuleSymbols::TakeFrom(const ModuleSymbols& other) {
  for (const auto& [address, place] : other.places_) {
    if (!Has(address)) Add(address, other.At(address));
  }
}

std::string ModuleSymbols::Serialize(uint32_t module_id) const {
  trace::ModuleSymbols message;
  message.set_module(module_id);
  for (const std::string& text : texts_) message.add_text(text);
  uint64_t before = 0;
  for (const uint64_t address : Addresses()) {
    const Place place = places_.find(address)->second;
    message.add_address_delta(address - before);
    message.add_depth(place.count);
    before = address;
    for (uint32_t i = place.begin; i < place.begin + place.count; ++i) {
      message.add_function(functions_[i].function);
      message.add_file(functions_[i].file);
      message.add_line(functions_[i].line);
    }
  }
  return message.SerializeAsString();
}

}  // namespace gpumem
