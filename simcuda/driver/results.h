// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Kernels compute nothing, but for those few whose one number decides what a program does next: how many elements
// nonzero and unique found, which sizes their output, and comparisons of a single value. They are known by their names
// in PyTorch's and CUB's public sources, and their arguments by the parameter list that the name spells out.
//
//   Recipe recipe = RecipeOf(kernel_name);             // once a kernel
//   ComputeResult(recipe, arguments);                  // at each launch; arguments as of cuLaunchKernel
//
// How many were found no simulation can know: SIMCUDA_DATA_DEPENDENT says which share to assume.
//
// Thread-safety: any thread; a count under way is the launching thread's. Failure: a kernel whose parameters are not
// as expected computes nothing.
#ifndef SIMCUDA_DRIVER_RESULTS_H_
#define SIMCUDA_DRIVER_RESULTS_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace simcuda {

// What a kernel computes here, and where among its arguments its numbers lie.
struct Recipe {
  enum class Kind : uint8_t {
    kNothing,
    kAllTrue,          // "all elements are true": see copy.cc
    kCountPart,        // counts elements of a condition, block by block; kCountSum adds up
    kCountSum,         // writes the sum of the last kCountPart
    kCount,            // the same in one kernel
    kFindPart,         // looks for a value, block by block; kFindFirst, for those of all blocks
    kFindFirst,        // writes where it is
    kFind,             // the same in one kernel
    kCompareScalar,    // input < number and its like
    kCompareToScalar,  // input == number, input != number
    kCompareOrder,     // input < other and its like
    kCompareEquality   // input == other, input != other
  };
  enum class Type : uint8_t { kNone, kBool, kInt8, kUint8, kInt16, kInt32, kInt64, kHalf, kBfloat16, kFloat, kDouble };
  Kind kind = Kind::kNothing;
  Type type = Type::kNone;    // of what is compared
  Type scalar = Type::kNone;  // of what it is compared with
  uint8_t output = 0;         // index of the argument that says where the count goes
  uint8_t count = 0;          // index of the argument that says how many elements there are
  uint8_t output_bytes = 0;   // of the count
  uint8_t count_bytes = 0;
  uint8_t least = 0;  // that are found among any: different elements are at least one
};

Recipe RecipeOf(const std::string& kernel_name);

// `arguments` may be null, where the caller packed them in another way.
void ComputeResult(const Recipe& recipe, void** arguments);

// How many elements this thread's counts find from now on; UINT64_MAX: nobody knows, so a share is assumed.
void SetFound(uint64_t count);

}  // namespace simcuda

#endif  // SIMCUDA_DRIVER_RESULTS_H_
