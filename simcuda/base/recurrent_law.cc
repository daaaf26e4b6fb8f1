// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/base/recurrent_law.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <sstream>

namespace simcuda {
namespace {

uint64_t RoundedUp(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

// A recurrent net: S steps, B samples, I inputs, H hidden, L layers, D directions.
struct Net {
  std::string cell, type;
  bool trains = false;
  uint64_t s = 0, b = 0, i = 0, h = 0, l = 0, d = 0, element = 4, gates = 1;
  uint64_t tokens = 0;   // of packed sequences; 0: they are not
  uint64_t dropout = 0;  // 1: between layers

  bool Parse(const std::string& parameters);
  uint64_t Weights() const {
    return RoundedUp(gates * element * h * d * (i + h + (l - 1) * (d * h + h)), 32) + (8ull << 20) * l * d + 256;
  }
  uint64_t State() const { return b * h * element; }
};

bool Net::Parse(const std::string& parameters) {
  std::istringstream words(parameters);
  words >> cell >> type;
  const std::map<std::string, uint64_t*> named = {{"input", &i},       {"hidden", &h},       {"layers", &l},
                                                  {"directions", &d},  {"steps", &s},        {"batch", &b},
                                                  {"tokens", &tokens}, {"dropout", &dropout}};
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) trains = word == "training";
    const auto found = named.find(word.substr(0, equals));
    if (equals != std::string::npos && found != named.end())
      *found->second = std::strtoull(word.c_str() + equals + 1, nullptr, 10);
  }
  element = type == "f32" ? 4 : 2;
  gates = cell == "lstm" ? 4 : cell == "gru" ? 3 : 1;
  const bool is_type = type == "f32" || type == "f16" || type == "bf16";
  const bool is_cell = cell == "lstm" || cell == "gru" || cell == "tanh" || cell == "relu";
  constexpr uint64_t kMost = 1 << 24;
  for (const uint64_t each : {i, h, l, d, s, b}) {
    if (each == 0 || each > kMost) return false;
  }
  return is_type && is_cell;
}

// The factors of a S + min(S, 256) + S I + L D + ceil(S / 256), each times the state's bytes.
struct Factors {
  uint64_t steps, short_steps, inputs, layers;
};

uint64_t Evaluate(const Net& net, const Factors& f) {
  return net.Weights() + 8 * net.b +
         (f.steps * net.s + f.short_steps * std::min<uint64_t>(net.s, 256) + f.layers * net.l * net.d) * net.State() +
         f.inputs * net.s * net.i * net.b * net.element;
}

// Which kernel is taken: small states stay in registers ("persistent").
bool IsPersistent(const Net& net) {
  const bool one = net.element == 2 && net.d == 1 && net.l == 1 && net.h % 64 == 0 && net.h <= 1024;
  if (net.cell == "lstm") return net.h <= 64 || one;
  return net.cell == "gru" ? net.h <= 64 : one || net.h <= 256;
}

Factors Persistent(const Net& net) {
  const bool both = net.d == 2, trains = net.trains;
  if (net.cell == "lstm") return both ? Factors{30, 0, 1, 9} : Factors{21 + (trains ? net.dropout : 0), 0, 1, 8};
  if (net.cell == "gru") {
    if (both) return trains ? Factors{26, 0, 2, 7} : Factors{24, 0, 1, 5};
    return trains ? Factors{net.l == 1 ? 18u : 19u, 0, 2, 6} : Factors{16, 0, 1, 4};
  }
  if (both) return trains ? Factors{21, 0, 2, 7} : Factors{12, 0, 1, 5};
  return trains ? Factors{net.l == 1 ? 13u : 14u, 0, 2, 6} : Factors{6, 0, 1, 4};
}

uint64_t PlainBothWays(const Net& net) {
  if (net.cell == "lstm") return Evaluate(net, {14, 0, 1, 12});
  if (net.cell == "gru") return Evaluate(net, {12, 0, net.trains ? 2u : 1u, 7});
  return Evaluate(net, net.trains ? Factors{12, 0, 2, 7} : Factors{8, 0, 1, 5});
}

uint64_t Plain(const Net& net) {
  if (net.d == 2) return PlainBothWays(net);
  const bool is_lstm = net.cell == "lstm", is_gru = net.cell == "gru";
  const uint64_t dropped = net.trains && net.dropout != 0 ? 1 : 0;
  const uint64_t forward = Evaluate(net, {1 + dropped,
                                          is_lstm  ? 4u
                                          : is_gru ? 3u
                                                   : 1u,
                                          1,
                                          is_lstm  ? 10u
                                          : is_gru ? 5u
                                                   : 3u});
  if (!net.trains) return forward;
  const uint64_t layers = is_lstm ? 11 : 5;
  if (net.l == 1) return std::max(forward, Evaluate(net, {4, 0, 2, layers}));
  const uint64_t parts = net.s <= 64 ? 16 : net.s <= 512 ? 24 : 12 * ((net.s + 255) / 256);
  const uint64_t more = net.s > 256 || !is_lstm ? parts * net.State() : 0;
  return std::max(forward, Evaluate(net, {3, 0, 2, layers}) + more);
}

// Packed sequences have another law, known of these two alone (one program, exact in all its requests).
std::optional<uint64_t> Packed(const Net& net) {
  uint64_t tokens = 0, layers = 0;
  if (net.cell == "lstm" && net.d == 2) tokens = 12, layers = 8;
  if (net.cell == "gru" && net.d == 1) tokens = 3, layers = 3;
  if (tokens == 0) return std::nullopt;
  return net.Weights() + tokens * net.tokens * net.h * net.element + layers * net.l * net.d * net.State();
}

LawSize OfWorkspace(const Net& net) {
  const uint64_t whole = IsPersistent(net) ? Evaluate(net, Persistent(net)) : Plain(net);
  if (net.tokens == 0) return {true, whole, whole, whole};
  if (const std::optional<uint64_t> packed = Packed(net); packed.has_value()) return {true, *packed, *packed, *packed};
  return {true, whole, net.Weights(), whole};
}

// What the forward pass leaves; with dropout between layers its mask beside.
LawSize OfReserve(const Net& net) {
  if (!net.trains) return {true, 0, 0, 0};
  const uint64_t kept = net.cell == "lstm" ? 5 : net.cell == "gru" ? 6 : 1;
  const uint64_t tokens = net.tokens != 0 ? net.tokens : net.s * net.b;
  const uint64_t without = 256 + tokens * net.h * net.d * net.element * (kept * net.l + net.l - 1);
  const uint64_t mask = RoundedUp((net.l - 1) * net.d * net.d * net.s * net.b * net.h / 8, 32);
  const uint64_t size = without + (net.dropout != 0 ? mask : 0);
  return {true, size, size, size};
}

}  // namespace

LawSize LawOfRecurrentNet(const std::string& operation, const std::string& parameters) {
  Net net;
  if (operation.rfind("rnn_", 0) != 0 || !net.Parse(parameters)) return {};
  return operation == "rnn_workspace" ? OfWorkspace(net) : operation == "rnn_reserve" ? OfReserve(net) : LawSize{};
}

}  // namespace simcuda
