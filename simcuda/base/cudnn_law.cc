// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/base/cudnn_law.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>
#include <tuple>
#include <vector>

namespace simcuda {
namespace {

constexpr uint64_t kMultiprocessors = 132, kTileBytes = 64 << 10;  // of an H100; 128 x 128 sums in 32 bits
constexpr uint64_t kMostScratch = 64ull << 20;                     // the largest of an engine's own that tiles explain
constexpr uint64_t kUsualScratch = 17ull << 20;                    // one or two tiles a multiprocessor
constexpr uint64_t kConstant = 131, kSlicesTail = 272;             // what Hopper's kernels ask beside

using Numbers = std::vector<int64_t>;

uint64_t Up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

Numbers NumbersOf(const std::string& text) {
  Numbers numbers;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) numbers.push_back(std::strtoll(part.c_str(), nullptr, 10));
  return numbers;
}

uint64_t Product(const Numbers& numbers, size_t from) {
  uint64_t product = 1;
  for (size_t i = from; i < numbers.size(); ++i) product *= static_cast<uint64_t>(std::max<int64_t>(numbers[i], 0));
  return product;
}

// A convolution as the stubs describe it, in the letters of the formulas: N images, Ci channels, K results.
struct Shape {
  std::string type, layout;
  Numbers x, w, padding, stride, dilation;
  uint64_t element = 4, n = 0, ci = 0, k = 0, group_inputs = 0, groups = 1;
  uint64_t image = 0, result = 0, taps = 0;  // pixels, and those of a filter

  bool Parse(const std::string& parameters);
  bool is_first() const { return layout == "nchw"; }  // channels-first
  bool is_depthwise() const { return groups > 1 && group_inputs == 1; }
  bool strides() const {
    return std::any_of(stride.begin(), stride.end(), [](int64_t step) { return step > 1; });
  }
  uint64_t alignment() const { return element == 2 ? 8 : 4; }  // of channels that kernels take as they are
};

bool Shape::Parse(const std::string& parameters) {
  std::istringstream words(parameters);
  words >> type;
  const std::map<std::string, Numbers*> named = {
      {"x", &x}, {"w", &w}, {"padding", &padding}, {"stride", &stride}, {"dilation", &dilation}};
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    const auto found = named.find(word.substr(0, equals));
    if (equals == std::string::npos) layout = word;
    if (equals != std::string::npos && found != named.end()) *found->second = NumbersOf(word.substr(equals + 1));
  }
  const size_t spatial = x.size() < 3 ? 0 : x.size() - 2;
  const bool is_type = type == "f32" || type == "f16" || type == "bf16", is_layout = is_first() || layout == "nhwc";
  if (!is_type || !is_layout || spatial == 0 || w.size() != x.size() || padding.size() != spatial ||
      stride.size() != spatial || dilation.size() != spatial) {
    return false;
  }
  for (const Numbers* numbers : {&x, &w, &stride, &dilation}) {
    if (std::any_of(numbers->begin(), numbers->end(), [](int64_t each) { return each < 1 || each > 1 << 30; }))
      return false;
  }
  element = type == "f32" ? 4 : 2;
  n = static_cast<uint64_t>(x[0]);
  ci = static_cast<uint64_t>(x[1]);
  k = static_cast<uint64_t>(w[0]);
  group_inputs = static_cast<uint64_t>(w[1]);
  groups = std::max<uint64_t>(1, ci / group_inputs);
  image = Product(x, 2);
  taps = Product(w, 2);
  result = 1;
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t reach = dilation[i] * (w[2 + i] - 1) + 1, room = x[2 + i] + 2 * padding[i] - reach;
    result *= static_cast<uint64_t>(std::max<int64_t>(1, room / stride[i] + 1));
  }
  return true;
}

// Bytes of the tensors with each group's channels filled up to a multiple.
struct Tensors {
  uint64_t x, y, w;
};

Tensors Padded(const Shape& s, uint64_t to) {
  const uint64_t in = Up(s.group_inputs, to), out = Up(s.k / s.groups, to);
  return {s.n * in * s.groups * s.image * s.element, s.n * out * s.groups * s.result * s.element,
          in * out * s.groups * s.taps * s.element};
}

uint64_t CopiesOf(const Shape& s, uint64_t to, bool x, bool y, bool w) {
  const Tensors tensors = Padded(s, to);
  return 16 + (x ? tensors.x : 0) + (y ? tensors.y : 0) + (w ? tensors.w : 0);
}

// A filter's gradient in 32 bits.
uint64_t Gradient(const Shape& s) { return Padded(s, s.groups == 1 ? s.alignment() : 1).w / s.element * 4; }

bool IsFilter(const std::string& operation) { return operation == "convolution_backward_filter"; }

// What the channels-last engine wants for itself: for a filter's gradient slices that are summed up in the end.
uint64_t Engine(const std::string& operation, const Shape& s) {
  if (!IsFilter(operation)) return s.taps == 1 ? 0 : kConstant;
  if (s.is_depthwise()) return 8 * s.n * Up(s.ci, 32) * s.taps * 4;
  if (s.result == 1) return 0;
  const uint64_t gradient = std::max<uint64_t>(1, Gradient(s));
  const uint64_t together = kMultiprocessors * kTileBytes * (s.element == 4 && s.taps == 1 ? 2 : 1);
  const uint64_t wanted = std::max<uint64_t>(1, (s.n * s.result + 63) / 64 / 22);
  const uint64_t slices = std::min({wanted, std::max<uint64_t>(1, together / gradient), uint64_t{600}});
  return slices > 1 ? slices * gradient + kSlicesTail : 0;
}

bool IsOdd(const Shape& s) { return s.groups == 1 && (s.ci % s.alignment() != 0 || s.k % s.alignment() != 0); }

uint64_t ChannelsFirst(const std::string& operation, const Shape& s) {
  if (s.is_depthwise()) return 0;
  if (s.taps == 1 && s.groups == 1) {
    if (IsFilter(operation)) {
      return s.strides() ? CopiesOf(s, s.alignment(), true, true, false) + Engine(operation, s) : s.n * Gradient(s);
    }
    return s.strides() ? CopiesOf(s, s.alignment(), true, true, false) + kConstant : 0;
  }
  if (s.ci <= 4 && (s.element == 4 || operation == "convolution_forward")) return 0;
  if (s.groups > 1) return CopiesOf(s, 16, true, true, true);
  return CopiesOf(s, IsOdd(s) ? s.alignment() : 1, true, true, true) + Engine(operation, s);
}

uint64_t ChannelsLast(const std::string& operation, const Shape& s) {
  if (s.is_depthwise()) return IsFilter(operation) ? Engine(operation, s) : 0;
  if (s.groups > 1) {
    const bool copies = s.group_inputs % 16 != 0 || (IsFilter(operation) && s.element == 4);
    return copies ? CopiesOf(s, 16, true, true, true) : 0;
  }
  if (s.result == 1) return 0;
  if (s.taps > 1 && s.k % s.alignment() != 0)
    return CopiesOf(s, s.alignment(), false, true, true) + Engine(operation, s);
  const bool reads_as_it_is = operation == "convolution_forward" && s.type == "f16";
  if (s.taps > 1 && s.ci % s.alignment() != 0 && !reads_as_it_is) {
    return CopiesOf(s, s.alignment(), true, false, true) + (IsFilter(operation) ? Engine(operation, s) : 0);
  }
  return Engine(operation, s);
}

uint64_t Rule(const std::string& operation, const Shape& s) {
  return s.is_first() ? ChannelsFirst(operation, s) : ChannelsLast(operation, s);
}

std::string WithWords(std::string parameters, const std::string& type, const std::string& layout) {
  return type + parameters.substr(parameters.find(' '), parameters.rfind(' ') - parameters.find(' ') + 1) + layout;
}

// The same shape in the other 16-bit type; or in the other layout, from which this one differs by copies.
std::optional<uint64_t> Neighbour(const std::string& operation, const std::string& parameters, const Shape& s,
                                  const FindRow& find) {
  if (s.element == 2) {
    const auto row = find(operation, WithWords(parameters, s.type == "f16" ? "bf16" : "f16", s.layout));
    if (row.has_value()) return row;
  }
  if (s.taps == 1 || s.groups > 1 || IsOdd(s)) return std::nullopt;
  const uint64_t copies = CopiesOf(s, 1, true, true, true);
  const auto row = find(operation, WithWords(parameters, s.type, s.is_first() ? "nhwc" : "nchw"));
  if (!row.has_value()) return std::nullopt;
  if (s.is_first()) return *row + copies;
  return *row >= copies ? std::optional<uint64_t>(*row - copies) : std::nullopt;
}

// The same layer with another number of images: what is copied grows with that, an engine's own scratch does not.
std::optional<uint64_t> OtherBatch(const std::string& operation, const std::string& parameters, const Shape& s,
                                   const FindRow& find) {
  std::vector<uint64_t> batches = {1, 2, 4, 8, 16, 32, 64, 128, 256};
  const auto distance = [&s](uint64_t batch) { return batch > s.n ? batch * 1000 / s.n : s.n * 1000 / batch; };
  std::stable_sort(batches.begin(), batches.end(), [&](uint64_t a, uint64_t b) { return distance(a) < distance(b); });
  const size_t begin = parameters.find("x=") + 2, end = parameters.find(',', begin);
  for (const uint64_t batch : batches) {
    const auto row = find(operation, parameters.substr(0, begin) + std::to_string(batch) + parameters.substr(end));
    if (!row.has_value() || batch == s.n) continue;
    Shape other = s;
    other.n = batch;
    if (*row == batch * Gradient(s)) return s.n * Gradient(s);  // one gradient a sample
    if (*row == Rule(operation, other)) return Rule(operation, s);
    uint64_t copied = 0, here = 0;  // the most that may have been copied
    for (const uint64_t to : {uint64_t{1}, s.groups == 1 ? s.alignment() : uint64_t{16}, uint64_t{32}}) {
      for (const auto& [x, y, w] :
           {std::tuple{true, true, true}, {true, true, false}, {true, false, true}, {false, true, true}}) {
        const uint64_t copies = CopiesOf(other, to, x, y, w);
        if (copies > *row || copies <= copied || (s.taps > 1 && !w)) continue;
        copied = copies;
        here = CopiesOf(s, to, x, y, w);
      }
    }
    return here + *row - copied;
  }
  return std::nullopt;
}

LawSize OfConvolution(const std::string& operation, const std::string& parameters, const FindRow& find) {
  Shape s;
  if (!s.Parse(parameters)) return {};
  const uint64_t rule = Rule(operation, s);
  if (const std::optional<uint64_t> row = Neighbour(operation, parameters, s, find); row.has_value())
    return {true, *row, std::min(*row, rule), std::max(*row, rule)};
  if (const std::optional<uint64_t> row = OtherBatch(operation, parameters, s, find); row.has_value()) {
    const uint64_t least = std::min(*row, rule);
    return {true, *row, least - std::min(least, kUsualScratch), std::max(*row, rule) + kUsualScratch};
  }
  // Unlike any shape that was measured: which form is taken, and how much scratch, is cuDNN's choice.
  const uint64_t most = CopiesOf(s, s.groups == 1 ? s.alignment() : 16, true, true, true) + kMostScratch;
  return {true, rule, 0, std::max(rule, most)};
}

// A recurrent net: S steps, B samples, I inputs, H hidden, L layers, D directions.
struct Net {
  std::string cell, type;
  bool trains = false;
  uint64_t s = 0, b = 0, i = 0, h = 0, l = 0, d = 0, element = 4, gates = 1;
  uint64_t tokens = 0;   // of packed sequences; 0: they are not
  uint64_t dropout = 0;  // 1: between layers

  bool Parse(const std::string& parameters);
  uint64_t Weights() const {
    return Up(gates * element * h * d * (i + h + (l - 1) * (d * h + h)), 32) + (8ull << 20) * l * d + 256;
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
  const uint64_t mask = Up((net.l - 1) * net.d * net.d * net.s * net.b * net.h / 8, 32);
  const uint64_t size = without + (net.dropout != 0 ? mask : 0);
  return {true, size, size, size};
}

}  // namespace

LawSize LawOf(const std::string& operation, const std::string& parameters, const FindRow& find) {
  if (operation.rfind("convolution_", 0) == 0) return OfConvolution(operation, parameters, find);
  Net net;
  if (operation.rfind("rnn_", 0) != 0 || !net.Parse(parameters)) return {};
  return operation == "rnn_workspace" ? OfWorkspace(net) : operation == "rnn_reserve" ? OfReserve(net) : LawSize{};
}

}  // namespace simcuda
