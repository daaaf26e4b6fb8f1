// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/parts/library_parts.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "ledger/stacks/stack_view.h"

namespace gpumem {
namespace {

constexpr size_t kMaxParts = 8;  // of a library, of each kind
constexpr uint64_t kMostPercent = 90;
constexpr absl::string_view kNccl = "NCCL", kProgram = "the program";

struct Library {
  absl::string_view file;  // how its name begins
  absl::string_view name;
};
constexpr Library kLibraries[] = {
    {"libnccl", "NCCL"},
    {"libcublas", "cuBLAS"},
    {"libcudnn", "cuDNN"},
    {"libcusolver", "cuSOLVER"},
    {"libcusparse", "cuSPARSE"},
    {"libcufft", "cuFFT"},
    {"libcurand", "cuRAND"},
    {"libnvshmem", "NVSHMEM"},
    {"libnvinfer", "TensorRT"},
    {"libcutensor", "cuTENSOR"},
    {"librmm", "RAPIDS RMM"},
    {"libcudf", "RAPIDS"},
    {"libcupti", "CUPTI"},
    {"libnvrtc", "NVRTC"},
    {"libcufile", "cuFile"},
    {"libc10", "PyTorch past its cache"},
    {"libtorch", "PyTorch past its cache"},
};
// Between the caller and the driver: never who asked.
constexpr absl::string_view kPassedOver[] = {"libcuda.so", "libcudart", "libgpumemshim", "libc.so", "libpthread"};

absl::string_view FileOf(absl::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

std::string LibraryOf(const std::vector<ResolvedFrame>& frames) {
  for (const ResolvedFrame& frame : frames) {
    if (frame.python) return std::string(kProgram);
    const absl::string_view file = FileOf(frame.module);
    const auto begins = [&](absl::string_view name) { return absl::StartsWith(file, name); };
    if (file.empty() || std::any_of(std::begin(kPassedOver), std::end(kPassedOver), begins)) continue;
    for (const Library& library : kLibraries) {
      if (begins(library.file)) return std::string(library.name);
    }
    return std::string(kProgram);
  }
  return std::string(kProgram);
}

namespace {

// What one library, or the program, asked CUDA for.
struct Asked {
  std::string library;
  std::vector<const StackUse*> uses;
  uint64_t bytes = 0;
};

// Largest first.
std::vector<Asked> ByLibrary(const std::vector<StackUse>& uses, const ReportInput& input) {
  std::map<std::string, Asked> libraries;
  for (const StackUse& use : uses) {
    std::string library = LibraryOf(input.stacks->Frames(use.stack_id));
    Asked& asked = libraries[library];
    asked.library = std::move(library);
    asked.uses.push_back(&use);
    asked.bytes += use.bytes;
  }
  std::vector<Asked> sorted;
  for (auto& [library, asked] : libraries) sorted.push_back(std::move(asked));
  std::stable_sort(sorted.begin(), sorted.end(), [](const Asked& a, const Asked& b) { return a.bytes > b.bytes; });
  return sorted;
}

std::string SiteOf(uint64_t stack_id, absl::string_view api, const ReportInput& input) {
  return ViewStack(input.stacks->Frames(stack_id), api, input.analysis->process.working_directory).site;
}

// Which of a process's threads: a library keeps a handle in each.
enum class ThreadSort : uint8_t { kMain, kBackward, kOther, kUnknown };

ThreadSort SortOf(const ThreadInfo* thread, const ProcessInfo& process) {
  if (thread == nullptr || thread->tid == 0) return ThreadSort::kUnknown;
  if (thread->tid == process.pid) return ThreadSort::kMain;
  return absl::StartsWith(thread->name, "pt_autograd") ? ThreadSort::kBackward : ThreadSort::kOther;
}

// Largest first; of more than are shown, the smaller ones are one.
void KeepLargest(absl::string_view what, std::vector<LibraryPart>* parts) {
  std::stable_sort(parts->begin(), parts->end(),
                   [](const LibraryPart& a, const LibraryPart& b) { return a.bytes > b.bytes; });
  if (parts->size() <= kMaxParts + 1) return;
  LibraryPart rest;
  rest.library = parts->front().library;
  rest.label = absl::StrCat(rest.library, ", ", parts->size() - kMaxParts, " more ", what);
  rest.key = absl::StrCat(rest.library, ", more ", what);
  for (size_t i = kMaxParts; i < parts->size(); ++i) {
    rest.bytes += (*parts)[i].bytes;
    rest.pieces += (*parts)[i].pieces;
    rest.communicators += (*parts)[i].communicators;
    rest.threads.insert((*parts)[i].threads.begin(), (*parts)[i].threads.end());
  }
  parts->resize(kMaxParts);
  parts->push_back(std::move(rest));
}

std::string CommunicatorLabel(const LibraryPart& part) {
  std::string ranks;
  if (part.ranks == 1 || (part.ranks != 0 && part.rank < 0)) {
    ranks = absl::StrCat(" (", FormatCountOf(part.ranks, "rank", "ranks"), ")");
  } else if (part.ranks != 0) {
    ranks = absl::StrCat(" (rank ", part.rank, " of ", part.ranks, ")");
  }
  return absl::StrCat(kNccl, " communicator ", part.communicator, ranks,
                      part.line.empty() ? "" : absl::StrCat(", asked by ", part.line));
}

// Of what was allocated while communicators were made. Takes it out of `asked`.
std::vector<LibraryPart> TakeCommunicators(const ReportInput& input, Asked* asked) {
  std::map<uint32_t, LibraryPart> made;
  std::vector<const StackUse*> others;
  for (const StackUse* use : asked->uses) {
    if (use->communicator == 0) {
      others.push_back(use);
      continue;
    }
    LibraryPart& part = made[use->communicator];
    part.bytes += use->bytes;
    part.pieces += use->count;
  }
  asked->uses = std::move(others);
  const std::vector<Communicator>& known = input.analysis->communicators;
  std::vector<LibraryPart> parts;
  for (auto& [number, part] : made) {
    part.library = asked->library;
    part.communicator = number;
    part.communicators = 1;
    const auto it = std::find_if(known.begin(), known.end(),
                                 [of = part.communicator](const auto& each) { return each.number == of; });
    if (it != known.end()) {
      part.ranks = it->ranks;
      part.rank = it->rank;
      if (it->stack_id != 0) part.line = SiteOf(it->stack_id, "", input);
    }
    part.label = CommunicatorLabel(part);
    part.key = absl::StrCat("communicator ", number);
    parts.push_back(std::move(part));
  }
  KeepLargest("communicators", &parts);
  return parts;
}

std::string ThreadText(ThreadSort sort, size_t threads) {
  if (sort == ThreadSort::kBackward) return threads == 1 ? " in PyTorch's backward thread" : " in its backward threads";
  if (sort != ThreadSort::kOther) return "";
  return threads == 1 ? " in another thread" : absl::StrCat(" in ", threads, " other threads");
}

// A handle: what each line made the library ask for, by the sort of thread.
std::vector<LibraryPart> ByLine(const MemoryBreakdown& breakdown, const Asked& asked, const ReportInput& input) {
  std::map<std::pair<std::string, ThreadSort>, LibraryPart> lines;
  for (const StackUse* use : asked.uses) {
    const auto it = breakdown.threads.find(use->thread);
    const ThreadSort sort = SortOf(it == breakdown.threads.end() ? nullptr : &it->second, input.analysis->process);
    LibraryPart& part = lines[{SiteOf(use->stack_id, use->api, input), sort}];
    part.bytes += use->bytes;
    part.pieces += use->count;
    if (sort != ThreadSort::kUnknown) part.threads.insert(use->thread);
  }
  std::vector<LibraryPart> parts;
  for (auto& [key, part] : lines) {
    part.library = asked.library;
    part.line = key.first;
    const bool one_each = part.pieces == part.threads.size();
    part.label = absl::StrCat(asked.library, ", asked by ", part.line, ThreadText(key.second, part.threads.size()),
                              one_each || part.pieces < 2 ? "" : absl::StrCat(", ", part.pieces, " pieces"));
    part.key = absl::StrCat(asked.library, "\n", part.line, "\n", static_cast<int>(key.second));
    parts.push_back(std::move(part));
  }
  // What the program asked for itself in one place needs no line beside its name.
  if (parts.size() == 1 && asked.library == kProgram) parts.front().label = std::string(kProgram);
  KeepLargest("lines", &parts);
  return parts;
}

}  // namespace

std::vector<LibraryPart> LibraryParts(const MemoryBreakdown& breakdown, const ReportInput& input) {
  std::vector<LibraryPart> parts;
  for (Asked& asked : ByLibrary(breakdown.other, input)) {
    std::vector<LibraryPart> more;
    if (asked.library == kNccl) more = TakeCommunicators(input, &asked);
    for (LibraryPart& part : more) parts.push_back(std::move(part));
    for (LibraryPart& part : ByLine(breakdown, asked, input)) parts.push_back(std::move(part));
  }
  return parts;
}

bool IsLibrary(const std::string& library) { return library != kProgram; }

std::string LibraryTitle(const std::vector<LibraryPart>& parts, const std::string& library) {
  uint64_t communicators = 0;
  std::set<uint32_t> threads;
  for (const LibraryPart& part : parts) {
    if (part.library != library) continue;
    communicators += part.communicators;
    threads.insert(part.threads.begin(), part.threads.end());
  }
  if (communicators != 0)
    return absl::StrCat(library, " (", FormatCountOf(communicators, "communicator", "communicators"), ")");
  return threads.size() > 1 && library != kProgram ? absl::StrCat(library, " (", threads.size(), " threads)") : library;
}

std::string LibraryOfMost(const MemoryBreakdown& breakdown, const ReportInput& input) {
  const std::vector<LibraryPart> parts = LibraryParts(breakdown, input);
  if (parts.empty() || parts.front().library == kProgram) return "";
  const std::string& library = parts.front().library;  // the largest one's parts come first
  uint64_t bytes = 0;
  for (const LibraryPart& part : parts) bytes += part.library == library ? part.bytes : 0;
  return HasPercent(bytes, breakdown.values.other, kMostPercent) ? LibraryTitle(parts, library) : "";
}

}  // namespace gpumem
