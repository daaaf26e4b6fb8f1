// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/load/find_traces.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "import/import.h"
#include "trace/reader.h"
#include "trace/ring/ring_file.h"
#include "trace/ring/ring_recovery.h"
#include "trace/series.h"

namespace gpumem {
namespace {

namespace fs = std::filesystem;

struct FoundFile {
  fs::path path;
  fs::file_time_type time;
};

// The regular files that are wanted, in no order. `error` is set where the folder cannot be listed.
std::vector<FoundFile> ListFolder(const std::string& folder, const std::function<bool(const fs::path&)>& wants,
                                  std::error_code* error) {
  std::vector<FoundFile> files;
  for (fs::directory_iterator entry(folder, fs::directory_options::skip_permission_denied, *error), end;
       !*error && entry != end; entry.increment(*error)) {
    std::error_code ignored;
    if (entry->is_regular_file(ignored) && wants(entry->path()))
      files.push_back({entry->path(), entry->last_write_time(ignored)});
  }
  return files;
}

std::vector<FoundFile> ListFolder(const std::string& folder, absl::string_view extension, std::error_code* error) {
  return ListFolder(
      folder, [extension](const fs::path& path) { return path.extension() == std::string(extension); }, error);
}

// Recorded by others. A folder may hold thousands of files: only those that are named so are looked into.
std::vector<FoundFile> ListOthers(const std::string& folder, std::error_code* error) {
  return ListFolder(
      folder,
      [](const fs::path& path) {
        constexpr std::array<absl::string_view, 9> kEndings = {".pickle", ".pkl",  ".pt", ".json",  ".gz",
                                                               ".csv",    ".prof", ".pb", ".sqlite"};
        const std::string ending = path.extension().string();
        return std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end() && IsSurelyOfOthers(path.string());
      },
      error);
}

// The newest one that begins as a trace does; where none does, the newest one, so that it is said what is wrong with
// it. A file of others is no trace and has been looked at.
fs::path NewestReadable(std::vector<FoundFile> files) {
  constexpr size_t kMostOpened = 100;
  std::stable_sort(files.begin(), files.end(), [](const FoundFile& a, const FoundFile& b) { return a.time > b.time; });
  for (size_t i = 0; i < std::min(files.size(), kMostOpened); ++i) {
    if (files[i].path.extension() != ".gmtrace" || TraceReader::Open(files[i].path.string()).ok()) return files[i].path;
  }
  return files.front().path;
}

std::vector<std::string> NamesOf(const std::vector<FoundFile>& files) {
  std::vector<std::string> names;
  for (const FoundFile& file : files) names.push_back(file.path.string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

// What can be done where no NVIDIA GPU is: under WSL it is another device file.
std::string WithoutGpuText() {
  std::error_code ignored;
  if (fs::exists("/dev/nvidiactl", ignored) || fs::exists("/dev/dxg", ignored)) return "";
  return ". No GPU is here: gpumemshim run -- gpumemshim simulate -- python train.py records on a simulated one, "
         "gpumemshim plan -- python train.py says what it needs";
}

absl::StatusOr<std::string> FindTrace(const std::string& argument) {
  std::error_code error;
  const std::string place = argument.empty() ? "." : argument;
  if (!fs::is_directory(place, error)) return place;
  std::vector<FoundFile> files = ListFolder(place, ".gmtrace", &error);
  if (files.empty() && !error && !argument.empty()) files = ListOthers(place, &error);
  if (error)
    return absl::PermissionDeniedError(
        absl::StrCat("cannot list ", place, ": ", error.message(), ". Name the trace file."));
  if (files.empty()) {
    const std::vector<FoundFile> others = argument.empty() ? ListOthers(place, &error) : std::vector<FoundFile>();
    if (!others.empty())
      return absl::NotFoundError(
          absl::StrCat("no *.gmtrace in the working directory. To read what is here: gpumemshim ", "report ",
                       ShellQuoted(NewestReadable(others).filename().string())));
    return absl::NotFoundError(absl::StrCat("no *.gmtrace in ", argument.empty() ? "the working directory" : argument,
                                            ". Make one with: gpumemshim run -- python train.py", WithoutGpuText(),
                                            ". To see an answer before: gpumemshim report --example oom"));
  }
  const fs::path newest = NewestReadable(std::move(files));
  return argument.empty() ? newest.filename().string() : newest.string();
}

std::vector<std::string> FilesOfFolder(const std::string& folder, absl::string_view extension) {
  std::error_code error;
  return fs::is_directory(folder, error) ? NamesOf(ListFolder(folder, extension, &error)) : std::vector<std::string>();
}

std::vector<std::string> TracesOfFolder(const std::string& folder) {
  std::vector<std::string> traces = OneOfEachSeries(FilesOfFolder(folder, ".gmtrace"));
  std::error_code error;
  if (!traces.empty() || !fs::is_directory(folder, error)) return traces;
  return NamesOf(ListOthers(folder, &error));
}

namespace {

// "run.gmtrace.1f3a.ring", of a process that was killed before the ring knew its trace: that trace is read with it.
bool IsReadWithTrace(const std::string& ring) {
  const size_t id = ring.rfind('.', ring.size() - std::string(".ring").size() - 1);
  return id != std::string::npos && RingsOfTrace(ring.substr(0, id)).Recover(0).ring_path == ring;
}

}  // namespace

std::vector<std::string> RingsWithoutTrace(const std::string& folder) {
  std::vector<std::string> rings = FilesOfFolder(folder, ".ring");
  std::erase_if(rings, [](const std::string& path) {
    const absl::StatusOr<RingFile> ring = RingFile::Peek(path);
    return !ring.ok() || ring->header().moved == 0 || ring->header().trace_inode != 0 || IsReadWithTrace(path);
  });
  return rings;
}

}  // namespace gpumem
