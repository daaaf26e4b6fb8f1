// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "trace/series.h"

#include <google/protobuf/stubs/logging.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "trace/packet_reader.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kExtension = ".gmtrace";

std::optional<trace::Header> HeaderOf(const std::string& path) {
  absl::StatusOr<PacketReader> reader = PacketReader::Open(path);
  RawPacket packet;
  if (!reader.ok() || reader->Next(&packet) != PacketReader::Outcome::kPacket || packet.type != PacketType::kHeader)
    return std::nullopt;
  const google::protobuf::LogSilencer silencer;
  trace::Header header;
  if (!header.ParseFromArray(packet.body.data(), static_cast<int>(packet.body.size()))) return std::nullopt;
  return header;
}

uint64_t SizeOf(const std::string& path) {
  std::error_code error;
  const uintmax_t bytes = fs::file_size(path, error);
  return error ? 0 : bytes;
}

bool IsSibling(const fs::directory_entry& entry, absl::string_view stem) {
  const std::string name = entry.path().filename().string();
  std::error_code ignored;
  return SeriesStem(name) == stem && absl::EndsWith(name, kExtension) && entry.is_regular_file(ignored);
}

fs::path FolderOf(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

// `path`; where it is not there, the latest file of a series whose first file it may have been: users name the file
// that they asked for, and the recorder removed it when the series became too large.
std::string StillThere(const std::string& path) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(path, error)) || !absl::EndsWith(path, kExtension)) return path;
  const std::string stem = SeriesStem(fs::path(path).filename().string());
  std::string latest = path;
  fs::file_time_type when = fs::file_time_type::min();
  for (fs::directory_iterator entry(FolderOf(path), error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    const fs::file_time_type written = entry->last_write_time(ignored);
    if (ignored || written <= when || !IsSibling(*entry, stem)) continue;
    const std::string sibling = (fs::path(path).parent_path() / entry->path().filename()).string();
    const std::optional<trace::Header> header = HeaderOf(sibling);
    if (!header || !header->has_part()) continue;
    latest = sibling;
    when = written;
  }
  return latest;
}

}  // namespace

std::string SeriesStem(absl::string_view name) {
  if (absl::EndsWith(name, kExtension)) name.remove_suffix(kExtension.size());
  const size_t part = name.rfind(".part");
  if (part != absl::string_view::npos && name.find_first_not_of("0123456789.", part + 5) == absl::string_view::npos)
    name = name.substr(0, part);
  return std::string(name);
}

std::vector<std::string> OneOfEachSeries(std::vector<std::string> paths) {
  absl::flat_hash_set<std::string> seen;
  std::erase_if(paths, [&](const std::string& path) { return !seen.insert(SeriesStem(path)).second; });
  return paths;
}

Series FindSeries(absl::string_view path) {
  Series series;
  const std::string named = StillThere(std::string(path));
  series.files.push_back({named, 0, SizeOf(named), 0});
  const std::optional<trace::Header> header = HeaderOf(named);
  if (!header || !header->has_part()) return series;
  series.files[0].number = header->part().number();
  const std::string stem = SeriesStem(fs::path(named).filename().string());
  std::vector<std::string> unreadable;
  std::error_code error;
  for (fs::directory_iterator entry(FolderOf(named), error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name == fs::path(named).filename() || !IsSibling(*entry, stem)) continue;
    const std::string sibling = (fs::path(named).parent_path() / name).string();
    const std::optional<trace::Header> other = HeaderOf(sibling);
    if (!other) {
      unreadable.push_back(name);
    } else if (other->has_part() && IsSameSeries(other->part(), header->part())) {
      series.files.push_back({sibling, other->part().number(), SizeOf(sibling), 0});
    }
  }
  std::sort(series.files.begin(), series.files.end(),
            [](const SeriesFile& a, const SeriesFile& b) { return a.number < b.number; });
  // A copy of a file of the series says nothing new.
  series.files.erase(std::unique(series.files.begin(), series.files.end(),
                                 [](const SeriesFile& a, const SeriesFile& b) { return a.number == b.number; }),
                     series.files.end());
  for (size_t i = 1; i < series.files.size(); ++i)
    series.files[i].bytes_before = series.files[i - 1].bytes_before + series.files[i - 1].bytes;
  const std::string next = absl::StrCat(stem, ".part", series.files.back().number + 1, kExtension);
  series.next_was_begun = std::count(unreadable.begin(), unreadable.end(), next) != 0;
  return series;
}

std::string SeriesFileName(absl::string_view path, uint32_t number) {
  const fs::path named{std::string(path)};
  const std::string part = number == 1 ? "" : absl::StrCat(".part", number);
  return (named.parent_path() / absl::StrCat(SeriesStem(named.filename().string()), part, kExtension)).string();
}

uint64_t InodeOf(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_ino) : 0;
}

bool IsSameSeries(const trace::Part& a, const trace::Part& b) { return a.series() == b.series() && a.series() != 0; }

bool IsBehind(const trace::Part& part, const trace::Part& before) {
  return IsSameSeries(part, before) && part.number() > before.number();
}

}  // namespace gpumem
