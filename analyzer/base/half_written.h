// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// HalfWritten: a name under which something is written that is to get its own name when it is whole. What is there, a
// file or a folder, is removed with this object, and where SIGINT, SIGTERM or SIGHUP ends the program; never what is
// neither. Children of a fork remove nothing. Not thread-safe; the file itself is the owner's to make.
//
//   HalfWritten half(HalfWritten::NameFor("x.duckdb"));   // "x.duckdb.tmp.4242"
//   ...;                                                  // written
//   if (rename(half.path().c_str(), "x.duckdb") == 0) half.Keep();

#ifndef GPUMEM_ANALYZER_BASE_HALF_WRITTEN_H_
#define GPUMEM_ANALYZER_BASE_HALF_WRITTEN_H_

#include <string>

#include "absl/status/status.h"

namespace gpumem {

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

#endif  // GPUMEM_ANALYZER_BASE_HALF_WRITTEN_H_
