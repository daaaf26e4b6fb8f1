// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// WorkInParallel: the same work on many things, in child processes, one a core: for readers that are not thread-safe. A
// child copies this process as it is; what it changes there is gone, its answer comes back as text.
//
//   std::vector<bool> answered = WorkInParallel(files.size(), UsableCores(), [&](size_t i) { return Read(files[i]); },
//                                               [&](size_t i, std::string answer) { Add(i, answer); });
//   // What is not answered is the caller's: a child was killed, or there was no process to be had.
//
// Answers come in no order. This process must have one thread. Children end with it.

#ifndef GPUMEM_ANALYZER_BASE_PARALLEL_WORK_H_
#define GPUMEM_ANALYZER_BASE_PARALLEL_WORK_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace gpumem {

// Cores that this process may use; at least 1.
size_t UsableCores();

// Whether each of `count` things was answered; none where `processes` is less than 2.
std::vector<bool> WorkInParallel(size_t count, size_t processes, const std::function<std::string(size_t index)>& work,
                                 const std::function<void(size_t index, std::string answer)>& take);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_PARALLEL_WORK_H_
