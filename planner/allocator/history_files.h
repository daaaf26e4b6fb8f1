// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// HistoryFiles: the three request files of a history: what is asked in it, and in two ways what comes before
// (history.h).
//
//   GPUMEM_ASSIGN_OR_RETURN(HistoryFiles files, HistoryFiles::Create(path));
//   files.requests.Write(request);
//   GPUMEM_RETURN_IF_ERROR(files.Close());
//
// Not thread-safe. Failure: as RequestFile has it.

#ifndef GPUMEM_PLANNER_ALLOCATOR_HISTORY_FILES_H_
#define GPUMEM_PLANNER_ALLOCATOR_HISTORY_FILES_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "planner/allocator/request_file.h"

namespace gpumem::plan {

inline std::string BeginningFile(const std::string& path) { return path + ".beginning"; }
inline std::string AnewFile(const std::string& path) { return path + ".anew"; }

struct HistoryFiles {
  RequestFile requests, beginning, anew;

  static absl::StatusOr<HistoryFiles> Create(const std::string& path) {
    GPUMEM_ASSIGN_OR_RETURN(RequestFile requests, RequestFile::Create(path));
    GPUMEM_ASSIGN_OR_RETURN(RequestFile beginning, RequestFile::Create(BeginningFile(path)));
    GPUMEM_ASSIGN_OR_RETURN(RequestFile anew, RequestFile::Create(AnewFile(path)));
    return HistoryFiles{std::move(requests), std::move(beginning), std::move(anew)};
  }
  absl::Status Close() {
    absl::Status status = requests.Close();
    status.Update(beginning.Close());
    status.Update(anew.Close());
    return status;
  }
};

}  // namespace gpumem::plan

#endif  // GPUMEM_PLANNER_ALLOCATOR_HISTORY_FILES_H_
