// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// RequestFile: the requests of a recorded history as a file of records of 24 bytes, which replay_driver.py reads back
// in pieces. Blocks have numbers from 0 that are used again, so that the reader needs a list and no table.
//
//   GPUMEM_ASSIGN_OR_RETURN(RequestFile file, RequestFile::Create(path));
//   file.Write({RequestKind::kAlloc, /*device=*/0, /*stream=*/1, /*pool=*/0, /*block=*/7, /*size=*/4096});
//   GPUMEM_RETURN_IF_ERROR(file.Close());
//
// Not thread-safe. Bounded memory. Failure: the first error of the file is what Close returns; nothing is written after
// it.

#ifndef GPUMEM_PLANNER_ALLOCATOR_REQUEST_FILE_H_
#define GPUMEM_PLANNER_ALLOCATOR_REQUEST_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/output_file.h"
#include "base/status_macros.h"

namespace gpumem::plan {

// The numbers are the file's: replay_driver.py has the same.
enum class RequestKind : uint8_t {
  kAlloc = 0,
  kFree = 1,
  kFailed = 2,        // a request that was turned down for good
  kEmptyCache = 3,    // torch.cuda.empty_cache()
  kOutsideAlloc = 4,  // device memory that is not PyTorch's: NCCL, cuBLAS, the program's own
  kOutsideFree = 5,
  kReleasePool = 6,  // nothing uses the private pool any more: its cache may go
  kPlace = 7,        // the device's next segment lay at the address `size`: it is to lie so again, by the others
  kCapture = 8,      // asks for nothing: what follows in private pools is of the capture `block`; 0 = of none
};

struct Request {
  RequestKind kind = RequestKind::kAlloc;
  uint8_t device = 0;
  uint16_t stream = 0;  // index into HistoryFacts::streams
  uint32_t pool = 0;    // private pool; 0 = none
  uint64_t block = 0;   // kAlloc, kFree and the two outside: a number in use at most once at a time
  uint64_t size = 0;    // bytes, as requested where that is known
};

class RequestFile {
 public:
  // In place of a file that is there.
  static absl::StatusOr<RequestFile> Create(const std::string& path);

  void Write(const Request& request);
  absl::Status Close();

 private:
  explicit RequestFile(std::unique_ptr<OutputFile> file) : file_(std::move(file)) {}
  void Flush();

  std::unique_ptr<OutputFile> file_;
  std::string buffer_;
};

// HistoryFiles: the three request files of a history: what is asked in it, and in two ways what comes before
// (history.h).
//
//   GPUMEM_ASSIGN_OR_RETURN(HistoryFiles files, HistoryFiles::Create(path));
//   files.requests.Write(request);
//   GPUMEM_RETURN_IF_ERROR(files.Close());
//
// Not thread-safe. Failure: as RequestFile has it.

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

#endif  // GPUMEM_PLANNER_ALLOCATOR_REQUEST_FILE_H_
