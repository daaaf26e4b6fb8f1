// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/saved/saved_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace gpumem {
namespace {

constexpr char kMagic[] = "gpumem saved 1\n";
constexpr int kLevel = 1;  // of zstd: these bytes are read more often than kept
constexpr uint64_t kMostBlockBytes = uint64_t{64} << 20;

struct Trailer {
  uint64_t main_offset = 0, main_size = 0, main_checksum = 0;
};

uint64_t Checksum(absl::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

// Which build this is: its file's size, time and inode.
std::string ThisProgram() {
  struct stat info {};
  if (stat("/proc/self/exe", &info) != 0) return "";
  return absl::StrCat(info.st_size, ".", info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec, ".", info.st_ino);
}

}  // namespace

absl::StatusOr<IndexFile> SavedFileOf(const std::string& trace, const std::string& what) {
  const std::string program = ThisProgram();
  if (program.empty()) return absl::UnavailableError("/proc cannot be read");
  return IndexFileOf(trace, "", program, what);
}

absl::StatusOr<std::unique_ptr<SavedFileWriter>> SavedFileWriter::Create(const IndexFile& file) {
  GPUMEM_RETURN_IF_ERROR(MakeIndexFolder(file.folder));
  RemoveStaleIndexes(file);
  GPUMEM_ASSIGN_OR_RETURN(std::unique_ptr<OutputFile> output, OutputFile::Create(file.path, {.hint = ""}));
  auto writer = absl::WrapUnique(new SavedFileWriter(std::move(output)));
  writer->Write(absl::string_view(kMagic, sizeof kMagic));
  return writer;
}

void SavedFileWriter::Write(absl::string_view bytes) {
  if (status_.ok()) status_ = output_->Write(bytes);
  size_ += bytes.size();
}

SavedBlock SavedFileWriter::Append(absl::string_view bytes) {
  compressed_.resize(ZSTD_compressBound(bytes.size()));
  const size_t size = ZSTD_compress(compressed_.data(), compressed_.size(), bytes.data(), bytes.size(), kLevel);
  if (ZSTD_isError(size) != 0) {
    if (status_.ok()) status_ = absl::InternalError("zstd failed");
    return {};
  }
  const absl::string_view written(compressed_.data(), size);
  const SavedBlock block{size_, size, Checksum(written)};
  Write(written);
  return block;
}

absl::Status SavedFileWriter::Finish(absl::string_view main) {
  const Trailer trailer{size_, main.size(), Checksum(main)};
  Write(main);
  Write(absl::string_view(reinterpret_cast<const char*>(&trailer), sizeof trailer));
  if (status_.ok()) status_ = output_->Commit();
  return status_;
}

std::unique_ptr<SavedFile> SavedFile::Open(const IndexFile& file) {
  if (!file.exists()) return nullptr;
  const int descriptor = open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  struct stat info {};
  if (descriptor < 0) return nullptr;
  const bool is_large_enough =
      fstat(descriptor, &info) == 0 && static_cast<size_t>(info.st_size) >= sizeof kMagic + sizeof(Trailer);
  const auto size = static_cast<size_t>(info.st_size);
  void* const mapped = is_large_enough ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0) : MAP_FAILED;
  close(descriptor);
  if (mapped == MAP_FAILED) return nullptr;
  auto saved = absl::WrapUnique(new SavedFile());
  saved->bytes_ = absl::string_view(static_cast<const char*>(mapped), size);
  Trailer trailer;
  std::memcpy(&trailer, saved->bytes_.data() + size - sizeof trailer, sizeof trailer);
  const uint64_t end = size - sizeof trailer;
  if (std::memcmp(mapped, kMagic, sizeof kMagic) != 0 || trailer.main_offset > end ||
      trailer.main_size != end - trailer.main_offset) {
    return nullptr;
  }
  saved->main_ = saved->bytes_.substr(trailer.main_offset, trailer.main_size);
  if (Checksum(saved->main_) != trailer.main_checksum) return nullptr;
  TouchIndex(file.path);
  return saved;
}

SavedFile::~SavedFile() {
  if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

bool SavedFile::IsIntact(const SavedBlock& block) const {
  return block.offset <= bytes_.size() && block.size <= bytes_.size() - block.offset &&
         Checksum(bytes_.substr(block.offset, block.size)) == block.checksum;
}

std::optional<std::string> SavedFile::Block(const SavedBlock& block) const {
  if (!IsIntact(block)) return std::nullopt;
  const absl::string_view compressed = bytes_.substr(block.offset, block.size);
  const unsigned long long size = ZSTD_getFrameContentSize(compressed.data(), compressed.size());
  if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR || size > kMostBlockBytes) return std::nullopt;
  std::string bytes(size, '\0');
  const size_t got = ZSTD_decompress(bytes.data(), bytes.size(), compressed.data(), compressed.size());
  if (ZSTD_isError(got) != 0 || got != size) return std::nullopt;
  return bytes;
}

}  // namespace gpumem
