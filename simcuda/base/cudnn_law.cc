// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/base/cudnn_law.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>
#include <tuple>
#include <vector>

#include "simcuda/base/recurrent_law.h"

namespace simcuda {
namespace {

constexpr uint64_t kMultiprocessors = 132, kTileBytes = 64 << 10;  // of an H100; 128 x 128 sums in 32 bits
constexpr uint64_t kMostScratch = 64ull << 20;                     // the largest of an engine's own that tiles explain
constexpr uint64_t kLittle = 1ull << 20;                           // of a depthwise engine's own
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

// Images of up to four channels: small filters take them as they are, larger ones (a stem's 7 x 7, patches) copies.
std::optional<uint64_t> OfImage(const std::string& operation, const Shape& s) {
  constexpr uint64_t kSmall = 16, kLarge = 100;  // taps
  const bool is_f32 = s.element == 4, is_small = s.taps <= kSmall;
  if (operation == "convolution_forward") {
    if (is_small || (is_f32 && s.taps > kLarge)) return 0;
    return CopiesOf(s, is_f32 ? 1 : s.type == "f16" && s.taps <= kLarge ? 4 : 8, true, true, true);
  }
  if (!is_f32) return std::nullopt;
  if (IsFilter(operation) && (!is_small || s.ci == 4)) return std::nullopt;
  return 0;
}

uint64_t ChannelsFirst(const std::string& operation, const Shape& s) {
  if (s.is_depthwise()) return 0;
  if (s.taps == 1 && s.groups == 1) {
    const uint64_t copies = CopiesOf(s, s.alignment(), true, true, false);
    if (!IsFilter(operation)) return s.strides() ? copies + kConstant : 0;
    if (s.strides()) return copies + Engine(operation, s);
    // One gradient a sample, unless that is far more than copies of what it is made of.
    const uint64_t each = s.n * Gradient(s);
    return each <= copies * (s.element == 2 ? 2 : 5) ? each : copies;
  }
  const std::optional<uint64_t> of_image = s.ci <= 4 && s.groups == 1 ? OfImage(operation, s) : std::nullopt;
  if (of_image.has_value()) return *of_image;
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

// Between what a shape asks for that is like no measured one. With kernels of more than one tap all but one in a
// hundred of the channels-first shapes copy all three tensors; 32 bits forward may leave the result where it is. With
// one tap they copy where an image's pixels are no multiple of 8, or strides leave some out.
LawSize UnlikeFirst(const std::string& operation, const Shape& s, uint64_t rule) {
  const bool is_filter = IsFilter(operation), is_half = s.element == 2;
  const uint64_t to = s.groups == 1 ? s.alignment() : 16, whole = CopiesOf(s, to, true, true, true);
  if (s.is_depthwise()) return {true, rule, 0, whole + (is_half ? kLittle : kUsualScratch)};
  if (s.groups > 1) return {true, rule, 0, whole + (is_filter && !is_half ? kMostScratch : kUsualScratch)};
  if (s.x.size() > 4) return {true, rule, 0, whole + kMostScratch};
  if (s.taps == 1 && !is_filter) {
    const uint64_t copies = CopiesOf(s, to, true, true, false);
    if (s.strides()) return {true, rule, is_half ? copies : 0, copies + (is_half ? 1024 : kUsualScratch)};
    return {true, rule, 0, s.result % 8 == 0 ? 0 : copies + 1024};
  }
  if (s.taps == 1) {
    const uint64_t each = s.n * Gradient(s), most = whole + kUsualScratch;
    return {true, rule, 0, each <= 8 * whole ? std::max(each, most) : most};
  }
  if (s.ci <= 4) return {true, rule, 0, whole + kUsualScratch};
  const bool leaves_result = operation == "convolution_forward" && !is_half;
  return {true, rule, CopiesOf(s, 1, true, !leaves_result, true),
          whole + (is_filter && !is_half ? kMostScratch : kUsualScratch)};
}

// Channels-last, nothing need be copied; the engine's own scratch is small but for a filter's gradient.
LawSize UnlikeLast(const std::string& operation, const Shape& s, uint64_t rule) {
  const bool is_filter = IsFilter(operation), is_half = s.element == 2;
  const uint64_t whole = CopiesOf(s, s.groups == 1 ? s.alignment() : 16, true, true, true);
  if (s.is_depthwise()) return {true, rule, 0, rule + (is_filter && !is_half ? kMostScratch : kLittle)};
  if (s.x.size() > 4) return {true, rule, 0, whole + kMostScratch};
  if (s.groups > 1 || s.ci <= 4 || s.result == 1) return {true, rule, 0, whole + kUsualScratch};
  return {true, rule, 0, rule + (is_filter && !is_half ? kMostScratch : kUsualScratch)};
}

LawSize OfConvolution(const std::string& operation, const std::string& parameters, const FindRow& find) {
  Shape s;
  if (!s.Parse(parameters)) return {};
  const uint64_t rule = Rule(operation, s);
  if (const std::optional<uint64_t> row = Neighbour(operation, parameters, s, find); row.has_value())
    return {true, *row, std::min(*row, rule), std::max(*row, rule)};
  LawSize unlike = s.is_first() ? UnlikeFirst(operation, s, rule) : UnlikeLast(operation, s, rule);
  unlike.low = std::min(unlike.low, rule);
  unlike.high = std::max(unlike.high, rule);
  const std::optional<uint64_t> row = OtherBatch(operation, parameters, s, find);
  if (!row.has_value()) return unlike;
  const uint64_t least = std::min(*row, rule), most = std::max(*row, rule) + kUsualScratch;
  // With few channels the number of images decides whether they are copied at all.
  if (s.ci <= 4) return {true, *row, 0, std::max(most, unlike.high)};
  return {true, *row, least - std::min(least, kUsualScratch), most};
}

// 72 layers of three networks: nothing, but for the gradient channels-last in 32 bits, a 48th of the input and little
// more. In 16 bits that was not seen.
LawSize OfBatchNorm(const std::string& operation, const std::string& parameters) {
  std::istringstream words(parameters);
  std::string type, input, layout;
  words >> type >> input >> layout;
  const Numbers x = input.rfind("x=", 0) == 0 ? NumbersOf(input.substr(2)) : Numbers();
  if (x.size() < 2 || (layout != "nchw" && layout != "nhwc")) return {};
  if (operation != "batch_norm_backward" || layout == "nchw")
    return {true, 0, 0, operation == "batch_norm_backward" ? kLittle : 0};
  const uint64_t likely = Product(x, 0) / 12 + 4 * static_cast<uint64_t>(std::max<int64_t>(x[1], 0)) + 1024;
  return {true, likely, type == "f32" ? likely - likely / 50 : 0, likely + likely / 50};
}

// Attention's forward pass, as PyTorch's cudnn-frontend builds it, asked for 256 bytes or 512 at most.
bool IsAttention(const std::string& operation, const std::string& parameters) {
  return operation == "graph" && parameters.rfind("41 ", 0) == 0;
}

}  // namespace

uint64_t DrawnSize(const LawSize& law, const std::string& operation, const std::string& parameters, int draw) {
  uint64_t hash = 14695981039346656037ull + static_cast<uint64_t>(draw) * 1099511628211ull;  // FNV-1a
  for (const std::string* text : {&operation, &parameters}) {
    for (const char letter : *text) hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211ull;
  }
  const uint64_t percent = (hash >> 33) % 100;
  return percent < 70 ? law.likely : percent < 85 ? law.low : law.high;
}

LawSize LawOf(const std::string& operation, const std::string& parameters, const FindRow& find) {
  if (operation.rfind("convolution_", 0) == 0) return OfConvolution(operation, parameters, find);
  if (operation.rfind("batch_norm_", 0) == 0) return OfBatchNorm(operation, parameters);
  if (IsAttention(operation, parameters)) return {true, 256, 0, 512};
  return LawOfRecurrentNet(operation, parameters);
}

}  // namespace simcuda
