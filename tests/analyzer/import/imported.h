// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Bytes of others' files, imported and analyzed.
//
//   const auto analysis = Import(Gzip(bytes), &result, &stacks);

#ifndef GPUMEM_TESTS_ANALYZER_IMPORT_IMPORTED_H_
#define GPUMEM_TESTS_ANALYZER_IMPORT_IMPORTED_H_

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "import/import.h"
#include "replay/analyze.h"

namespace gpumem {

class File {
 public:
  explicit File(const std::string& bytes) : descriptor_(memfd_create("file", MFD_CLOEXEC)) {
    EXPECT_EQ(write(descriptor_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  ~File() { close(descriptor_); }
  std::string path() const { return absl::StrCat("/proc/self/fd/", descriptor_); }

 private:
  int descriptor_;
};

// A file with a name, where the name matters.
class NamedFile {
 public:
  NamedFile(const std::string& name, const std::string& bytes)
      : folder_(absl::StrCat(::testing::TempDir(), "/importing_", getpid())), path_(folder_ + "/" + name) {
    std::filesystem::create_directories(folder_);
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~NamedFile() { std::filesystem::remove_all(folder_); }
  const std::string& path() const { return path_; }

 private:
  std::string folder_, path_;
};

inline absl::StatusOr<Analysis> ImportPath(const std::string& path, ImportResult* result = nullptr,
                                           StackTable* stacks = nullptr) {
  std::string trace;
  const auto imported = ImportFile(path, [&trace](absl::string_view part) {
    trace.append(part.data(), part.size());
    return absl::OkStatus();
  });
  if (!imported.ok()) return imported.status();
  if (result != nullptr) *result = *imported;
  const File to(trace);
  StackTable own;
  return Analyze(to.path(), {}, stacks == nullptr ? &own : stacks);
}

inline absl::StatusOr<Analysis> Import(const std::string& bytes, ImportResult* result = nullptr,
                                       StackTable* stacks = nullptr) {
  const File from(bytes);
  return ImportPath(from.path(), result, stacks);
}

inline std::string Gzip(const std::string& bytes) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, bytes.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(packed.size() - stream.avail_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace gpumem

#endif  // GPUMEM_TESTS_ANALYZER_IMPORT_IMPORTED_H_
