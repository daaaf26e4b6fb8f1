// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include "simcuda/base/multiprocessor.h"

#include <iterator>

namespace simcuda {
namespace {

constexpr int kKiB = 1024;

constexpr Multiprocessor kTable[] = {
    {70, 2048, 32, 96 * kKiB, 96 * kKiB, 0},       {72, 2048, 32, 96 * kKiB, 96 * kKiB, 0},
    {75, 1024, 16, 64 * kKiB, 64 * kKiB, 0},       {80, 2048, 32, 164 * kKiB, 163 * kKiB, kKiB},
    {86, 1536, 16, 100 * kKiB, 99 * kKiB, kKiB},   {87, 1536, 16, 164 * kKiB, 163 * kKiB, kKiB},
    {89, 1536, 24, 100 * kKiB, 99 * kKiB, kKiB},   {90, 2048, 32, 228 * kKiB, 227 * kKiB, kKiB},
    {100, 2048, 32, 228 * kKiB, 227 * kKiB, kKiB}, {103, 2048, 32, 228 * kKiB, 227 * kKiB, kKiB},
    {110, 1536, 24, 228 * kKiB, 227 * kKiB, kKiB}, {120, 1536, 24, 100 * kKiB, 99 * kKiB, kKiB},
    {121, 1536, 24, 100 * kKiB, 99 * kKiB, kKiB},
};

}  // namespace

const Multiprocessor& MultiprocessorOf(int capability) {
  const Multiprocessor* found = std::begin(kTable);
  for (const Multiprocessor& row : kTable) {
    if (row.capability <= capability) found = &row;
  }
  return *found;
}

}  // namespace simcuda
