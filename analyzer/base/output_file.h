// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// OutputFile: the one way in which gpumemshim makes a file. It appears under its name whole or not at all: it is
// written without a name into the same folder (under another name where the file system has no such files) and gets its
// own at the end. Without Commit nothing is left of it, and nothing where a signal ends the program.
//
// What is at the name and no plain file is never replaced, renamed over or removed. Into a device for characters and a
// pipe it is written, where the user named them (opening a pipe waits for its reader, as the shell's > does);
// /dev/stdout and /dev/fd/N are the descriptors that they stand for; folders, sockets and disks are refused. A link
// stays, and what it leads to is replaced; one that another user made is refused. scripts/check_outputs finds files
// that are made in other ways. Not thread-safe.
//
//   GPUMEM_ASSIGN_OR_RETURN(const auto file, OutputFile::Create("run.csv", {.is_named = true}));
//   GPUMEM_RETURN_IF_ERROR(file->Write(rows));
//   GPUMEM_RETURN_IF_ERROR(file->Commit());
//
// Failure: InvalidArgument where the name is refused, AlreadyExists where a file is to be kept, Internal with the
// system's reason where it cannot be written. Each ends with `hint`.

#ifndef GPUMEM_ANALYZER_BASE_OUTPUT_FILE_H_
#define GPUMEM_ANALYZER_BASE_OUTPUT_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_output.h"

namespace gpumem {

// What a name stands for, links followed.
struct OutputPlace {
  enum class Kind : uint8_t { kNothing, kPlain, kPipe, kDevice, kDescriptor, kRefused };

  Kind kind = Kind::kNothing;
  std::string path;      // where the links lead; the name itself where it is not a link
  bool is_link = false;  // the name itself
  int descriptor = -1;   // kDescriptor: our own
  std::string why;       // of all but kNothing and kPlain: "is a pipe"
};

OutputPlace FindOutputPlace(const std::string& path);

struct OutputOptions {
  bool is_named = false;    // by the user, so that devices and pipes are meant
  bool keeps = false;       // a file that is there
  bool is_durable = false;  // on disk before it has its name
  std::string like = {};    // a new file gets mode and owner of this one where they can be had; else its mode is 0600,
                            // as a trace's, as what is made of a trace tells as much as it does. A file of the user's
                            // own that is replaced keeps its mode.
  std::string hint = "Name another file with -o";
};

class OutputFile {
 public:
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& path, OutputOptions options = {});
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  int descriptor() const { return descriptor_; }
  const std::string& path() const { return path_; }
  // Under which what is written so far can be read; of a plain file.
  std::string readable_path() const;

  // The first failure is remembered, and Commit returns it.
  absl::Status Write(absl::string_view bytes);
  // Up to `bytes` of the rest of a file. Fewer are no failure here: `copied` says how many.
  absl::Status CopyFrom(int source, uint64_t bytes, uint64_t* copied = nullptr);
  absl::Status Commit();

 private:
  OutputFile(std::string path, OutputOptions options) : path_(std::move(path)), options_(std::move(options)) {}

  absl::Status Open();
  absl::Status Failed() const;
  absl::Status GiveName();
  absl::Status Close();

  std::string path_;
  OutputOptions options_;
  OutputPlace place_;
  std::unique_ptr<HalfWritten> half_;  // where it has a name meanwhile
  int descriptor_ = -1;
  absl::Status status_;
};

// All at once.
//
//   GPUMEM_RETURN_IF_ERROR(WriteOutput("run.flame.html", page, {.is_named = true, .like = "run.gmtrace"}));
absl::Status WriteOutput(const std::string& path, absl::string_view bytes, OutputOptions options = {});

// The plain file `from` as an output: renamed where that can be, else copied. `from` is gone afterwards.
absl::Status MoveToOutput(const std::string& from, const std::string& to, OutputOptions options = {});

// Removes the plain file at `path`; true where nothing, or nothing any more, is there. What is not a plain file stays:
// false, with errno.
bool RemovePlainFile(const std::string& path);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_OUTPUT_FILE_H_
