// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/allocator/request_file.h"

#include <utility>

#include "base/status_macros.h"

namespace gpumem::plan {
namespace {

constexpr size_t kBufferBytes = 1 << 20;

template <typename T>
void Append(T value, std::string* to) {
  for (size_t i = 0; i < sizeof(T); ++i) to->push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

}  // namespace

absl::StatusOr<RequestFile> RequestFile::Create(const std::string& path) {
  GPUMEM_ASSIGN_OR_RETURN(std::unique_ptr<OutputFile> file, OutputFile::Create(path, {.hint = ""}));
  return RequestFile(std::move(file));
}

void RequestFile::Flush() {
  file_->Write(buffer_).IgnoreError();  // Commit says so
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
  return file_->Commit();
}

}  // namespace gpumem::plan
