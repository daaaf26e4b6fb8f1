// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/load/source_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file_output.h"
#include "ledger/load/load_trace.h"
#include "ledger/load/own_trace.h"
#include "symbols/elf_identity.h"

namespace gpumem {
namespace {

constexpr uint64_t kMaxSourceBytes = uint64_t{4} << 20;
constexpr uint64_t kNsPerSecond = 1'000'000'000;
constexpr size_t kDeepest = 32;  // folders of a path

// Of the file `parts` below the open folder; -1 where there is none, or a part is a link.
int OpenParts(int folder, const std::vector<std::string>& parts, size_t first) {
  int at = dup(folder);
  for (size_t i = first; at >= 0 && i < parts.size(); ++i) {
    const bool is_last = i + 1 == parts.size();
    const int flags = is_last ? O_RDONLY | O_NONBLOCK | O_NOCTTY : O_PATH | O_DIRECTORY;
    const int next = openat(at, parts[i].c_str(), flags | O_NOFOLLOW | O_CLOEXEC);
    close(at);
    at = next;
  }
  return at;
}

std::vector<std::string> LinesOf(int descriptor) {
  struct stat info {};
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) return {};
  if (info.st_size <= 0 || static_cast<uint64_t>(info.st_size) > kMaxSourceBytes) return {};
  std::string text(static_cast<size_t>(info.st_size), '\0');
  if (!ReadExactly(descriptor, text.data(), text.size())) return {};
  return absl::StrSplit(text, '\n');
}

}  // namespace

SourceFiles::SourceFiles(const LoadedTrace& loaded)
    : is_own_(IsOwnTrace(loaded.analysis.path, loaded.analysis.process)),
      folder_(loaded.sources),
      working_directory_(loaded.analysis.process.working_directory),
      started_ns_(loaded.input.StartRealtime()) {}

const std::vector<std::string>& SourceFiles::Lines(const std::string& file) {
  const auto [it, is_new] = files_.try_emplace(file);
  if (!is_new) return it->second;
  const int descriptor = Open(file);
  if (descriptor < 0) return it->second;
  const absl::Cleanup closer = [descriptor] { close(descriptor); };
  it->second = LinesOf(descriptor);
  return it->second;
}

int SourceFiles::Open(const std::string& file) const {
  const int below = folder_.empty() ? -1 : OpenBelow(file);
  return below < 0 && is_own_ ? OpenOwn(file) : below;
}

// One that was changed after the program had started is not the one that ran.
int SourceFiles::OpenOwn(const std::string& file) const {
  const int descriptor =
      OpenRegularFile(absl::StartsWith(file, "/") ? file : absl::StrCat(working_directory_, "/", file));
  struct stat info {};
  if (descriptor < 0 || fstat(descriptor, &info) != 0) return descriptor;
  const auto changed_ns =
      static_cast<uint64_t>(info.st_mtim.tv_sec) * kNsPerSecond + static_cast<uint64_t>(info.st_mtim.tv_nsec);
  if (started_ns_ == 0 || changed_ns <= started_ns_) return descriptor;
  close(descriptor);
  return -1;
}

// Of /srv/job/src/train.py in this order: srv/job/src/train.py, job/src/train.py, src/train.py, train.py.
int SourceFiles::OpenBelow(const std::string& file) const {
  const std::vector<std::string> parts = absl::StrSplit(file, '/', absl::SkipEmpty());
  if (parts.empty() || parts.size() > kDeepest || std::find(parts.begin(), parts.end(), "..") != parts.end()) return -1;
  const int folder = open(folder_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return -1;
  const absl::Cleanup closer = [folder] { close(folder); };
  for (size_t first = 0; first < parts.size(); ++first) {
    const int found = OpenParts(folder, parts, first);
    if (found >= 0) return found;
  }
  return -1;
}

}  // namespace gpumem
