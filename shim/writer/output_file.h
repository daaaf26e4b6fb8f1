// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// OutputFile: a file that is only ever appended to, whole pieces or nothing, in a process that is not ours. The program
// may close our descriptor and be given its number for a file of its own, delete or truncate the file, or run out of
// disk, quota or descriptors. Each piece is written only after a look at what the descriptor stands for.
//
// The name appears when the first piece is in the file, so that a kill leaves no empty file behind (where the
// filesystem knows nameless files; else it is created by its name and then written). Behind the end kKeptBack bytes are
// kept of the disk, where the filesystem can do that, for what must be said when the disk is full: the room of
// AppendLast.
//
// Nothing is ever opened that is not a plain file: a name that is a pipe's, a socket's or a link's gets a number, a
// device's is refused, and one that took the place of the file means that the file is gone.
//
// Thread-safety: the writer thread only, with all signals blocked (SIGXFSZ would end the program). Ownership: owns the
// descriptor. Failure: a call returns false and error() has its reason; the next call tries again.
//
//   OutputFile file;
//   if (file.Create("run.gmtrace", header, header_size) && !file.Append(bytes, size)) file.AppendLast(why, why_size);

#ifndef GPUMEM_SHIM_WRITER_OUTPUT_FILE_H_
#define GPUMEM_SHIM_WRITER_OUTPUT_FILE_H_

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>

#include "shim/base/descriptors.h"

namespace gpumemshim::writer {

// Makes the folders above `path` that are missing, as mkdir -p does. What cannot be made shows when the file is
// created.
void MakeFoldersOf(const char* path);

// A device, or, as /dev/stdout is, a link to one of a process's descriptors: in a folder of those a numbered name would
// be next to them.
bool IsDevice(const char* path);

class OutputFile {
 public:
  static constexpr uint64_t kKeptBack = 4096;

  // Creates it with `data` in it, never follows or overwrites what is there: "a.gmtrace" may become "a.1.gmtrace", and
  // where many are there, "a.x0123456789abcdef.gmtrace".
  // False: path() is "", and there is no file.
  bool Create(const char* path, const uint8_t* data, size_t size);

  // What could not be written as a whole is taken back.
  bool Append(const uint8_t* data, size_t size);

  // The same, into the room that is kept back.
  bool AppendLast(const uint8_t* data, size_t size);

  // Gives the room back that is kept, and closes.
  void Finish();

  // In a forked child, whose parent goes on with the file.
  void Close();

  bool Truncate(uint64_t bytes);

  bool opened() const { return path_[0] != '\0'; }
  // Deleted, truncated or replaced: nothing that is appended would be found.
  bool gone() const { return gone_; }
  uint64_t bytes() const { return bytes_; }
  const char* path() const { return path_; }
  const char* error() const { return error_; }

 private:
  bool Fail(const char* what, int error_number);
  bool CreateNameless(const char* path, const uint8_t* data, size_t size);
  bool CreateNamed(const char* path, const uint8_t* data, size_t size);
  bool KeepRoom(size_t size);
  bool Ready();
  bool Reopen(struct stat* status);
  bool IsOurs(struct stat* status) const;
  bool Gone(const char* how);

  int fd_ = -1;
  bool gone_ = false;
  bool keeps_room_ = true;  // the filesystem can
  descriptors::Identity identity_;
  uint64_t bytes_ = 0;
  char path_[4096] = {};
  char error_[256] = {};
};

}  // namespace gpumemshim::writer

#endif  // GPUMEM_SHIM_WRITER_OUTPUT_FILE_H_
