// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Writing whole texts to descriptors, reading what other processes wrote so, opening files that somebody else named,
// and saying which file failed and why.

#ifndef GPUMEM_ANALYZER_BASE_FILE_OUTPUT_H_
#define GPUMEM_ANALYZER_BASE_FILE_OUTPUT_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpumem {

// Writes all of `bytes`, going on after interruptions. False: errno says why.
bool WriteAll(int descriptor, absl::string_view bytes);

// Reads `size` bytes of a pipe or file into `data`, going on after interruptions. False: it ended before, or errno says
// why.
bool ReadExactly(int descriptor, void* data, size_t size);

// Opens for reading a file whose name the user did not give: what a process has mapped, what a trace names, what is
// beside a trace. -1 with errno; with EINVAL for what is not a plain file, since a pipe under such a name would never
// open and a device may act on it.
int OpenRegularFile(const std::string& path);

// All of such a file. NotFound where it cannot be opened, ResourceExhausted where it is larger than `most_bytes`.
absl::StatusOr<std::string> ReadRegularFile(const std::string& path, size_t most_bytes);

// "cannot WHAT PATH: REASON", the reason from errno.
//
//   if (!WriteAll(descriptor, text)) return FileError("write", path);
absl::Status FileError(absl::string_view what, absl::string_view path);

// A folder for what is made on the way, where TMPDIR says. Who asks for it removes it. Thread-safe.
//
//   GPUMEM_ASSIGN_OR_RETURN(const std::string folder, NewTemporaryFolder("plan"));   // /tmp/gpumemshim-plan-x3Tq0a
//
// Failure: Unavailable, with the reason and what to do.

// Empty, and readable for its owner alone.
absl::StatusOr<std::string> NewTemporaryFolder(absl::string_view purpose);

// HalfWritten: a name under which something is written that is to get its own name when it is whole. What is there, a
// file or a folder, is removed with this object, and where SIGINT, SIGTERM or SIGHUP ends the program; never what is
// neither. Children of a fork remove nothing. Not thread-safe; the file itself is the owner's to make.
//
//   HalfWritten half(HalfWritten::NameFor("x.duckdb"));   // "x.duckdb.tmp.4242"
//   ...;                                                  // written
//   if (rename(half.path().c_str(), "x.duckdb") == 0) half.Keep();
class HalfWritten {
 public:
  // A name beside `path` that nothing has: the process's number is in it, so that others can tell what is left over.
  static std::string NameFor(const std::string& path);

  explicit HalfWritten(std::string path);
  HalfWritten(const HalfWritten&) = delete;
  HalfWritten& operator=(const HalfWritten&) = delete;
  ~HalfWritten();

  const std::string& path() const { return path_; }
  // Makes it a folder that only its owner reads; folders above it that are missing, too.
  absl::Status MakeFolder() const;
  // It has its own name now.
  void Keep();
  // Gives a folder the name `path`, which nothing may have.
  absl::Status Become(const std::string& path);

 private:
  void Forget();

  std::string path_;
  int slot_ = -1;  // of the list that signals read; -1: in none
};

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_FILE_OUTPUT_H_
