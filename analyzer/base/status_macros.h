// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// GPUMEM_RETURN_IF_ERROR and GPUMEM_ASSIGN_OR_RETURN: pass an error on to the caller. Abseil of Debian 12 ships none.
//
//   GPUMEM_RETURN_IF_ERROR(file.Seek(0));
//   GPUMEM_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::Open(path));

#ifndef GPUMEM_ANALYZER_BASE_STATUS_MACROS_H_
#define GPUMEM_ANALYZER_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define GPUMEM_RETURN_IF_ERROR(expression)                                                      \
  do {                                                                                          \
    if (::absl::Status gpumem_status = (expression); !gpumem_status.ok()) return gpumem_status; \
  } while (false)

#define GPUMEM_STATUS_CONCAT_INNER(a, b) a##b
#define GPUMEM_STATUS_CONCAT(a, b) GPUMEM_STATUS_CONCAT_INNER(a, b)

// `target` may be a declaration; it must not hold a comma outside parentheses.
#define GPUMEM_ASSIGN_OR_RETURN(target, expression) \
  GPUMEM_ASSIGN_OR_RETURN_INNER(GPUMEM_STATUS_CONCAT(gpumem_status_or_, __LINE__), target, expression)
// NOLINTBEGIN(bugprone-macro-parentheses): names that are declared cannot stand in parentheses
#define GPUMEM_ASSIGN_OR_RETURN_INNER(variable, target, expression) \
  auto variable = (expression);                                     \
  if (!variable.ok()) return std::move(variable).status();          \
  target = *std::move(variable)
// NOLINTEND(bugprone-macro-parentheses)

#endif  // GPUMEM_ANALYZER_BASE_STATUS_MACROS_H_
