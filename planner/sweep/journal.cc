// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file_output.h"
#include "base/json_reader.h"
#include "base/output_file.h"
#include "planner/sweep/row_json.h"

namespace gpumem::plan {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestName = 120;
constexpr size_t kMaxRowBytes = 64 << 20;

// FNV-1a, 64 bits: a name for a text, the same on every machine.
std::string ShortName(const std::string& text) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return absl::StrFormat("%016x", hash);
}

// What has its name and is not a folder is somebody else's.
void RemoveFolder(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(fs::symlink_status(path, ignored))) fs::remove_all(path, ignored);
}

}  // namespace

SweepJournal::SweepJournal(std::string directory, int lock)
    : directory_(std::move(directory)), working_(directory_ + "/running"), lock_(lock) {}

SweepJournal::SweepJournal(SweepJournal&& other) noexcept
    : directory_(std::move(other.directory_)),
      working_(std::move(other.working_)),
      lock_(std::exchange(other.lock_, -1)) {}

SweepJournal::~SweepJournal() {
  if (lock_ < 0) return;
  RemoveFolder(working_);
  close(lock_);
}

absl::StatusOr<SweepJournal> SweepJournal::Open(const std::string& directory) {
  std::error_code error;
  for (const char* part : {"", "/rows", "/traces"}) {
    fs::create_directories(directory + part, error);
    if (error) {
      return absl::UnavailableError(absl::StrCat("cannot make ", directory, part, ": ", error.message(),
                                                 ". Give another place with --results-dir."));
    }
  }
  const int lock = open((directory + "/rows/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0) return absl::UnavailableError(absl::StrCat("cannot write into ", directory, ": ", strerror(errno)));
  if (flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(lock);
    return absl::UnavailableError(absl::StrCat("another sweep is at work in ", directory,
                                               ". Wait for it, or give another place with --results-dir."));
  }
  SweepJournal journal(fs::absolute(directory, error).lexically_normal().string(), lock);
  RemoveFolder(journal.working_);
  fs::create_directories(journal.working_, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot make ", journal.working_, ": ", error.message()));
  return journal;
}

std::string SweepJournal::PathOf(const std::string& identity) const {
  return absl::StrCat(directory_, "/rows/", ShortName(identity), ".json");
}

std::optional<SweepRow> SweepJournal::Find(const std::string& identity) const {
  const absl::StatusOr<std::string> text = ReadRegularFile(PathOf(identity), kMaxRowBytes);
  if (!text.ok()) return std::nullopt;
  const absl::StatusOr<nlohmann::json> kept = ParseJson(*text);
  if (!kept.ok()) return std::nullopt;
  JsonReader reader(*kept);
  std::string kept_identity;
  reader.Read("identity", &kept_identity);
  if (!reader.ok() || kept_identity != identity || !reader.Has("row")) return std::nullopt;
  absl::StatusOr<SweepRow> row = ParseRow((*kept)["row"].dump());
  if (!row.ok()) return std::nullopt;
  std::error_code error;
  if (!row->trace.empty() && !fs::exists(fs::path(directory_) / row->trace, error)) return std::nullopt;
  return *std::move(row);
}

absl::Status SweepJournal::Keep(const std::string& identity, const SweepRow& row) {
  const std::string text = absl::StrCat(
      "{\"identity\": ", nlohmann::json(identity).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
      ",\n \"row\": ", RowJson(row), "}\n");
  return WriteOutput(PathOf(identity), text, {.hint = "Give another place with --results-dir"});
}

std::string FileNameOf(const Configuration& values) {
  std::string name, exact;
  for (const auto& [axis, value] : values) {
    absl::StrAppend(&exact, axis, "=", value, "\n");
    absl::StrAppend(&name, name.empty() ? "" : "_", axis, "-", value);
  }
  bool is_exact = name.size() <= kLongestName && !name.empty();
  for (char& c : name) {
    const bool stays = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
    is_exact = is_exact && stays;
    if (!stays) c = '-';
  }
  // Where something of it was left out, two of them may look alike.
  return is_exact ? name : absl::StrCat(name.substr(0, kLongestName), name.empty() ? "" : "_", ShortName(exact));
}

}  // namespace gpumem::plan
