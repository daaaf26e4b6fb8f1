// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/replay/request_file.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/file_output.h"

namespace gpumem {
namespace {

constexpr size_t kBufferBytes = 1 << 20;

template <typename T>
void Append(T value, std::string* to) {
  for (size_t i = 0; i < sizeof(T); ++i) to->push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

}  // namespace

absl::StatusOr<RequestFile> RequestFile::Create(const std::string& path) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (descriptor < 0) return FileError("write", path);
  return RequestFile(path, descriptor);
}

RequestFile::~RequestFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void RequestFile::Flush() {
  if (status_.ok() && !WriteAll(descriptor_, buffer_)) status_ = FileError("write", path_);
  buffer_.clear();
}

void RequestFile::Write(const Request& request) {
  Append(static_cast<uint8_t>(request.kind), &buffer_);
  Append(request.device, &buffer_);
  Append(request.stream, &buffer_);
  Append(request.pool, &buffer_);
  Append(request.block, &buffer_);
  Append(request.size, &buffer_);
  if (buffer_.size() >= kBufferBytes) Flush();
}

absl::Status RequestFile::Close() {
  Flush();
  if (close(std::exchange(descriptor_, -1)) != 0 && status_.ok()) status_ = FileError("write", path_);
  return status_;
}

}  // namespace gpumem
