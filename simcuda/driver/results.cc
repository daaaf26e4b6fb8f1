// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/driver/results.h"

#include <cxxabi.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "simcuda/base/environment.h"
#include "simcuda/driver/driver.h"

namespace simcuda {
namespace {

using Kind = Recipe::Kind;
using Type = Recipe::Type;

bool Contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

bool EndsWith(std::string_view text, std::string_view part) {
  return text.size() >= part.size() && text.substr(text.size() - part.size()) == part;
}

// The kernels of interest, before anything is spelled out.
bool MayCompute(std::string_view name) {
  for (const char* part : {"DeviceReduceKernel", "DeviceReduceSingleTileKernel", "DeviceSelectSweepKernel",
                           "DeviceReduceByKeyKernel", "compare_scalar_kernel", "CompareEqFunctor", "CompareFunctor"}) {
    if (Contains(name, part)) return true;
  }
  return false;
}

std::string Demangled(const std::string& name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  if (text == nullptr) return "";
  std::string result = text;
  std::free(text);
  return result;
}

// The types between the last pair of parentheses.
std::vector<std::string_view> Parameters(std::string_view text) {
  std::vector<std::string_view> found;
  if (text.empty() || text.back() != ')') return found;
  int depth = 0;
  size_t end = text.size() - 1;
  for (size_t i = text.size(); i-- > 0;) {
    const char c = text[i];
    if (c == ')' || c == '>' || c == ']' || c == '}') ++depth;
    if (c == '(' || c == '<' || c == '[' || c == '{') --depth;
    const bool begins = depth == 0 && c == '(';
    if (!begins && !(depth == 1 && c == ',')) continue;
    const size_t start = i + (c == ',' ? 2 : 1);
    if (start <= end) found.insert(found.begin(), text.substr(start, end - start));
    if (begins) break;
    end = i;
  }
  return found;
}

uint8_t IntegerBytes(std::string_view type) {
  if (type == "int" || type == "unsigned int") return 4;
  if (type == "long" || type == "unsigned long" || type == "long long" || type == "unsigned long long") return 8;
  return 0;
}

uint8_t PointedBytes(std::string_view type) {
  return type.empty() || type.back() != '*' ? 0 : IntegerBytes(type.substr(0, type.size() - 1));
}

Recipe Counting(Kind kind, const std::vector<std::string_view>& parameters, size_t output, size_t count) {
  Recipe recipe;
  if (output >= parameters.size() || count >= parameters.size()) return recipe;
  recipe.output = static_cast<uint8_t>(output);
  recipe.count = static_cast<uint8_t>(count);
  recipe.output_bytes = PointedBytes(parameters[output]);
  recipe.count_bytes = IntegerBytes(parameters[count]);
  if (recipe.output_bytes != 0 && recipe.count_bytes != 0) recipe.kind = kind;
  return recipe;
}

// The first integer from `from` on, or the last one.
size_t IntegerParameter(const std::vector<std::string_view>& parameters, size_t from, bool last) {
  size_t found = parameters.size();
  for (size_t i = from; i < parameters.size(); ++i) {
    if (IntegerBytes(parameters[i]) == 0) continue;
    found = i;
    if (!last) break;
  }
  return found;
}

// thrust::find of a value: (bool, position) of it. PyTorch's mode looks for the value that it found most of; a functor
// of another kind, as of thrust::equal, looks for what may not be there.
Recipe RecipeOfFind(std::string_view name, const std::vector<std::string_view>& parameters) {
  Recipe recipe;
  if (parameters.size() < 2 || !EndsWith(parameters[1], "tuple<bool, long>*")) return recipe;
  const bool has_value = Contains(name, "EqualsMode") || Contains(name, "functional::argument<0u>");
  const bool is_last = Contains(name, "DeviceReduceSingleTileKernel");
  recipe.output = 1;
  if (has_value) {
    recipe.kind = is_last ? Kind::kFind : Kind::kFindPart;
  } else if (is_last && EndsWith(parameters[0], "tuple<bool, long>*")) {
    recipe.kind = Kind::kFindFirst;
  }
  return recipe;
}

// CUB: counting what a condition finds (nonzero, masks), selecting the first of equals (unique), run lengths (unique
// with counts).
Recipe RecipeOfCub(std::string_view name, const std::vector<std::string_view>& parameters) {
  const bool counts = Contains(name, "NonZeroOp");
  if (Contains(name, "__find_if::functor<")) return RecipeOfFind(name, parameters);
  if (Contains(name, "DeviceReduceSingleTileKernel")) {
    if (counts) return Counting(Kind::kCount, parameters, 1, 2);
    return PointedBytes(parameters.empty() ? "" : parameters[0]) == 0 ? Recipe{}
                                                                      : Counting(Kind::kCountSum, parameters, 1, 2);
  }
  if (Contains(name, "DeviceReduceKernel")) return counts ? Counting(Kind::kCountPart, parameters, 1, 2) : Recipe{};
  Recipe recipe;
  if (Contains(name, "DeviceReduceByKeyKernel"))
    recipe = Counting(Kind::kCount, parameters, 4, IntegerParameter(parameters, 5, true));
  if (Contains(name, "DeviceSelectSweepKernel") && parameters.size() > 1 && Contains(parameters[1], "NullType"))
    recipe = Counting(Kind::kCount, parameters, 3, IntegerParameter(parameters, 5, false));
  recipe.least = 1;
  return recipe;
}

Type TypeOf(std::string_view name) {
  static constexpr struct {
    std::string_view name;
    Type type;
  } kTypes[] = {{"bool", Type::kBool},           {"signed char", Type::kInt8},
                {"unsigned char", Type::kUint8}, {"short", Type::kInt16},
                {"int", Type::kInt32},           {"long", Type::kInt64},
                {"float", Type::kFloat},         {"double", Type::kDouble},
                {"c10::Half", Type::kHalf},      {"c10::BFloat16", Type::kBfloat16}};
  for (const auto& each : kTypes) {
    if (each.name == name) return each.type;
  }
  return Type::kNone;
}

// Of the first template argument behind `prefix`.
Type TypeBehind(std::string_view text, std::string_view prefix) {
  const size_t at = text.find(prefix);
  if (at == std::string_view::npos) return Type::kNone;
  const std::string_view rest = text.substr(at + prefix.size());
  return TypeOf(rest.substr(0, rest.find_first_of(",>")));
}

// Of two tensors: functors of two arguments of one type.
Recipe RecipeOfTwo(std::string_view functor) {
  Recipe recipe;
  recipe.type = TypeBehind(functor, "::CompareFunctor<");
  recipe.kind = Kind::kCompareOrder;
  if (recipe.type == Type::kNone && Contains(functor, "CompareEqFunctor<")) {
    recipe.type = TypeBehind(functor, "BinaryFunctor<");
    recipe.kind = Kind::kCompareEquality;
  }
  return recipe.type == Type::kNone ? Recipe{} : recipe;
}

// PyTorch: `kernel(int count, functor, array of output and inputs)`.
Recipe RecipeOfComparison(std::string_view name, const std::vector<std::string_view>& parameters) {
  Recipe recipe;
  // More parameters follow where an address is not aligned; elements are converted where they say so.
  if (!Contains(name, "elementwise_kernel<") || parameters.size() < 3 || IntegerBytes(parameters[0]) != 4 ||
      (parameters.size() > 3 && !Contains(name, "LoadWithoutCast")))
    return recipe;
  const std::string_view functor = parameters[1];
  if (Contains(parameters[2], "rray<char*, 3")) return RecipeOfTwo(functor);
  if (!Contains(parameters[2], "rray<char*, 2")) return recipe;
  const bool is_order = Contains(functor, "compare_scalar_kernel<");
  if (is_order) {
    recipe.type = recipe.scalar = TypeBehind(functor, "compare_scalar_kernel<");
  } else {
    recipe.type = TypeBehind(functor, "AUnaryFunctor<");
    recipe.scalar = TypeBehind(functor, "CompareEqFunctor<");
  }
  if (recipe.type == Type::kNone || recipe.scalar == Type::kNone) return recipe;
  recipe.kind = is_order ? Kind::kCompareScalar : Kind::kCompareToScalar;
  return recipe;
}

uint64_t Integer(const void* at, uint8_t bytes) {
  uint64_t value = 0;
  std::memcpy(&value, at, bytes);
  return value;
}

// The argument itself is a pointer.
uint64_t Pointer(void** arguments, uint8_t index) { return Integer(arguments[index], sizeof(void*)); }

// What is assumed is not known.
void Write(uint64_t target, const void* value, size_t bytes, bool is_known = false) {
  Machine& machine = GetSimulation()->machine;
  if (!machine.addresses.Contains(target)) return;
  machine.Copy(target, reinterpret_cast<uint64_t>(value), bytes);
  if (!is_known) machine.Doubt(target, bytes);
}

thread_local uint64_t t_counted = 0;
thread_local bool t_counting = false;
thread_local uint64_t t_found = UINT64_MAX;

void WriteCount(const Recipe& recipe, void** arguments, uint64_t elements) {
  const auto share = GetEnvironment().data_dependent_share;
  const auto part = static_cast<uint64_t>(std::ceil(static_cast<double>(elements) * share));
  const bool is_known = t_found != UINT64_MAX;
  const uint64_t assumed = std::max(part, std::min<uint64_t>(elements, recipe.least));
  const uint64_t count = is_known ? std::min(t_found, elements) : assumed;
  Write(Pointer(arguments, recipe.output), &count, recipe.output_bytes, is_known);  // little endian: the low bytes
}

thread_local bool t_finding = false;

// A value that is there; at which place no simulation knows: the first.
void WriteFirst(const Recipe& recipe, void** arguments) {
  const struct {
    bool is_found;
    int64_t position;
  } found{true, 0};
  Write(Pointer(arguments, recipe.output), &found, sizeof found);
}

// Holds every 64-bit integer.
using Number = long double;

template <typename T>
Number As(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<Number>(value);
}

Number HalfAsNumber(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const Number mantissa = bits & 1023;
  const Number size = exponent == 31  ? (mantissa != 0 ? NAN : INFINITY)
                      : exponent == 0 ? std::ldexp(mantissa, -24)
                                      : std::ldexp(mantissa + 1024, exponent - 25);
  return bits & 0x8000 ? -size : size;
}

Number BfloatAsNumber(const char* at) {
  char wide[4] = {0, 0, at[0], at[1]};
  return As<float>(wide);
}

// A value of `type`, and how many bytes it takes.
Number Value(Type type, const char* at, size_t* bytes) {
  switch (type) {
    case Type::kInt8:
      return *bytes = 1, As<int8_t>(at);
    case Type::kBool:
    case Type::kUint8:
      return *bytes = 1, As<uint8_t>(at);
    case Type::kInt16:
      return *bytes = 2, As<int16_t>(at);
    case Type::kInt32:
      return *bytes = 4, As<int32_t>(at);
    case Type::kInt64:
      return *bytes = 8, As<int64_t>(at);
    case Type::kHalf:
      return *bytes = 2, HalfAsNumber(static_cast<uint16_t>(Integer(at, 2)));
    case Type::kBfloat16:
      return *bytes = 2, BfloatAsNumber(at);
    case Type::kFloat:
      return *bytes = 4, As<float>(at);
    case Type::kDouble:
      return *bytes = 8, As<double>(at);
    case Type::kNone:
      break;
  }
  return *bytes = 0, 0;
}

// What the functor's first member says, in the order of PyTorch's enumerations (CompareKernels.cu, CompareEQKernel.cu).
bool Holds(Kind kind, int operation, Number a, Number b) {
  if (kind == Kind::kCompareToScalar || kind == Kind::kCompareEquality) return operation == 0 ? a == b : a != b;
  return operation == 0 ? a >= b : operation == 1 ? a > b : operation == 2 ? a <= b : a < b;
}

// The element at a device address; false for an address that is none.
bool Element(Type type, uint64_t address, Number* value) {
  size_t bytes = 0;
  char element[8] = {};
  Value(type, element, &bytes);
  Machine& machine = GetSimulation()->machine;
  if (!machine.addresses.Contains(address)) return false;
  machine.Copy(reinterpret_cast<uint64_t>(element), address, bytes);
  *value = Value(type, element, &bytes);
  return true;
}

// Of one element: tensors have no contents, but what is left of a reduction of zeros is zero.
void Compare(const Recipe& recipe, void** arguments) {
  if (Integer(arguments[0], 4) != 1) return;
  const auto* functor = static_cast<const char*>(arguments[1]);
  const auto* pointers = static_cast<const char*>(arguments[2]);
  const uint64_t output = Integer(pointers, 8), input = Integer(pointers + 8, 8);
  Number value = 0, other = 0;
  if (!Element(recipe.type, input, &value)) return;
  if (recipe.scalar == Type::kNone) {
    if (!Element(recipe.type, Integer(pointers + 16, 8), &other)) return;
  } else {
    // The scalar stands behind the operation, a 4-byte enumeration.
    const size_t offset = recipe.scalar == Type::kInt64 || recipe.scalar == Type::kDouble ? 8 : 4;
    size_t bytes = 0;
    other = Value(recipe.scalar, functor + offset, &bytes);
  }
  const bool holds = Holds(recipe.kind, static_cast<int>(Integer(functor, 4)), value, other);
  Write(output, &holds, 1);
}

}  // namespace

void SetFound(uint64_t count) { t_found = count; }

Recipe RecipeOf(const std::string& kernel_name) {
  Recipe recipe;
  // The reduction, by its mangled name with its length: not logical_and_kernel_cuda, which goes element by element.
  if (Contains(kernel_name, "15and_kernel_cuda")) {
    recipe.kind = Kind::kAllTrue;
    return recipe;
  }
  if (!MayCompute(kernel_name)) return recipe;
  const std::string name = Demangled(kernel_name);
  const std::vector<std::string_view> parameters = Parameters(name);
  return Contains(name, "cub::") ? RecipeOfCub(name, parameters) : RecipeOfComparison(name, parameters);
}

void ComputeResult(const Recipe& recipe, void** arguments) {
  if (arguments == nullptr) return;
  switch (recipe.kind) {
    case Kind::kNothing:
    case Kind::kAllTrue:
      break;
    case Kind::kCountPart:
      t_counted = Integer(arguments[recipe.count], recipe.count_bytes);
      t_counting = true;
      break;
    case Kind::kCountSum:
      if (t_counting) WriteCount(recipe, arguments, t_counted);
      t_counting = false;
      break;
    case Kind::kCount:
      WriteCount(recipe, arguments, Integer(arguments[recipe.count], recipe.count_bytes));
      break;
    case Kind::kFindPart:
      t_finding = true;
      break;
    case Kind::kFindFirst:
      if (t_finding) WriteFirst(recipe, arguments);
      t_finding = false;
      break;
    case Kind::kFind:
      WriteFirst(recipe, arguments);
      break;
    case Kind::kCompareScalar:
    case Kind::kCompareToScalar:
    case Kind::kCompareOrder:
    case Kind::kCompareEquality:
      Compare(recipe, arguments);
      break;
  }
}

}  // namespace simcuda
