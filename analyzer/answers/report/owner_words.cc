// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/report/owner_words.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/format.h"

namespace gpumem {
namespace {

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// "history[*] (list of 60)".
std::string PathText(const SeenOwner& owner) {
  return owner.container.empty()
             ? owner.path
             : absl::StrCat(owner.path, " (", owner.container, " of ", FormatCount(owner.items), ")");
}

// Where nobody is seen to refer to the tensors.
std::string NativeText(const SeenOwner& owner) {
  if (owner.path == "grad.grad_fn")
    return "a gradient that has a graph of its own (create_graph=True): parameter and gradient keep each other in C++; "
           "set .grad to None once it is used, or use torch.autograd.grad";
  return "C++ code: no object of Python refers to the tensor";
}

bool IsOfError(const SeenOwner& owner) { return owner.name == "sys" && absl::StartsWith(owner.path, "last_"); }

// "last_traceback -> fit: outputs[*]" is how Python keeps the variables of the functions that failed last.
std::string OfLastErrorText(const SeenOwner& owner) {
  const size_t arrow = owner.path.rfind(" -> "), colon = owner.path.find(": ", arrow);
  if (arrow == std::string::npos || colon == std::string::npos)
    return absl::StrCat(PathText(owner), IsOfHandledError(owner) ? ", the error that is being handled"
                                                                 : ", the error that ended the program");
  SeenOwner variable = owner;
  variable.path = owner.path.substr(colon + 2);
  return absl::StrCat(PathText(variable), ", a variable of ", owner.path.substr(arrow + 4, colon - arrow - 4),
                      IsOfHandledError(owner) ? " when the error was raised that is being handled"
                                              : " when the error ended the program");
}

constexpr absl::string_view kAskWhileItRuns = "gpumemshim ctl PID owners looks while it runs";

bool IsMostOf(const LeakRow& row, uint64_t bytes, uint64_t blocks) {
  return bytes != 0 && 2 * bytes >= row.grown_bytes && 2 * blocks >= row.grown_blocks;
}

// "cache[0]['x']" -> "cache[*][*]".
std::string WithoutNumbers(absl::string_view path) {
  std::string out;
  while (!path.empty()) {
    const size_t open = path.find('['), close = path.find(']', open == absl::string_view::npos ? 0 : open);
    if (open == absl::string_view::npos || close == absl::string_view::npos) break;
    absl::StrAppend(&out, path.substr(0, open), "[*]");
    path.remove_prefix(close + 1);
  }
  return absl::StrCat(out, path);
}

std::string ThePath(absl::string_view path) { return std::string(path); }

// "models[*].0.output" -> "models[*]": what its elements keep in several ways.
std::string ToItsElements(absl::string_view path) {
  const std::string without = WithoutNumbers(path);
  const size_t elements = without.find("[*]");
  return elements == std::string::npos ? without : without.substr(0, elements + 3);
}

std::vector<SeenOwner> Joined(const std::vector<SeenOwner>& owners, std::string (*path_of)(absl::string_view)) {
  std::vector<SeenOwner> joined;
  for (const SeenOwner& owner : owners) {
    if (OwnerText(owner).empty()) continue;
    const std::string path = path_of(owner.path);
    const auto same = std::find_if(joined.begin(), joined.end(), [&](const SeenOwner& each) {
      return each.root == owner.root && each.path == path && each.file == owner.file && each.name == owner.name;
    });
    if (same == joined.end()) {
      joined.push_back(owner);
      joined.back().path = path;
    } else {
      same->bytes += owner.bytes;
      same->blocks += owner.blocks;
    }
  }
  return joined;
}

std::string NotSeenText(const LeakRow& row) {
  const SeenOwners& owners = row.owners;
  if (owners.cause == OwnersCause::kNone)
    return absl::StrCat("kept by something that was not seen (nobody looked before its end); ", kAskWhileItRuns);
  if (!owners.left_out.empty())
    return absl::StrCat("kept by something that was not seen (", owners.left_out,
                        "); GPUMEMSHIM_OWNERS_MS gives it more time");
  if (IsMostOf(row, owners.bytes_without, owners.blocks_without))
    return "kept by C++ code: Python has no tensor object for it (a graph of autograd, a cache of PyTorch's, a storage "
           "without a tensor)";
  return absl::StrCat("kept by something that was not seen (a variable in use, C code); ", kAskWhileItRuns);
}

}  // namespace

// shim/python/owners.py's name for it; where another error came meanwhile, that one has it as its context.
bool IsOfHandledError(const SeenOwner& owner) {
  return owner.name == "sys" &&
         (absl::StartsWith(owner.path, "last_handled") || absl::StrContains(owner.path, ".__context__"));
}

std::string OwnerText(const SeenOwner& owner) {
  const std::string file = owner.file.empty() ? owner.name : BaseName(owner.file);
  switch (owner.root) {
    case OwnerRoot::kGlobal:
      if (IsOfError(owner)) return OfLastErrorText(owner);
      return absl::StrCat(PathText(owner), ", a global of ", file);
    case OwnerRoot::kClass:
      return absl::StrCat(PathText(owner), " of the class ", owner.name);
    case OwnerRoot::kFunction:
      return absl::StrCat(PathText(owner), ", of the function ", owner.name, " in ", file);
    case OwnerRoot::kRunning:
      return owner.file.empty() ? "" : absl::StrCat(PathText(owner), ", a variable of ", owner.name, " in ", file);
    case OwnerRoot::kCycle:
      return absl::StrCat("nothing but a cycle of references (", owner.name, owner.path, ")");
    case OwnerRoot::kNative:
      return NativeText(owner);
    case OwnerRoot::kNone:
      break;
  }
  return "";
}

std::optional<SeenOwner> MainOwner(const LeakRow& row) {
  for (const auto path_of : {ThePath, WithoutNumbers, ToItsElements}) {
    for (const SeenOwner& owner : Joined(row.owners.owners, path_of))
      if (IsMostOf(row, owner.bytes, owner.blocks)) return owner;
  }
  return std::nullopt;
}

bool IsKeptByGraph(const LeakRow& row) {
  const std::optional<SeenOwner> owner = MainOwner(row);
  return owner.has_value() && absl::EndsWith(owner->path, ".grad_fn");
}

namespace {

// What a variable's object has, such as a layer's weight, may have other owners, too.
bool IsOfVariableItself(absl::string_view path) {
  const size_t variable = path.rfind(": ");
  absl::ConsumeSuffix(&path, ".grad_fn");
  return variable != absl::string_view::npos && !absl::StrContains(path.substr(variable), '.');
}

}  // namespace

std::optional<SeenOwner> KeptErrorsOf(const SeenOwners& seen) {
  constexpr absl::string_view kTraceback = ".__traceback__";
  std::vector<SeenOwner> variables;
  for (const SeenOwner& owner : seen.owners) {
    const size_t at = absl::string_view(owner.path).find(kTraceback);
    if (at == absl::string_view::npos || (IsOfError(owner) && !IsOfHandledError(owner)) ||
        !IsOfVariableItself(owner.path))
      continue;
    const std::string path = WithoutNumbers(absl::string_view(owner.path).substr(0, at + kTraceback.size()));
    const auto same = std::find_if(variables.begin(), variables.end(), [&](const SeenOwner& each) {
      return each.root == owner.root && each.path == path && each.file == owner.file && each.name == owner.name;
    });
    if (same == variables.end()) {
      variables.push_back(owner);
      variables.back().path = path;
    } else {
      same->bytes += owner.bytes;
      same->blocks += owner.blocks;
    }
  }
  const auto most = std::max_element(variables.begin(), variables.end(),
                                     [](const SeenOwner& a, const SeenOwner& b) { return a.bytes < b.bytes; });
  return most == variables.end() ? std::nullopt : std::optional<SeenOwner>(*most);
}

const OwnersMoment* OwnersAfter(const OomEvent& oom, const Analysis& analysis) {
  for (const OwnersMoment& moment : analysis.owners)
    if (moment.time_ns >= oom.time_ns) return &moment;
  return nullptr;
}

std::string KeptByText(const LeakRow& row) {
  const bool has_tensors = row.kind == LeakKind::kMemory || row.kind == LeakKind::kGraph || row.kind == LeakKind::kHost;
  if (!has_tensors || row.is_replaced) return "";
  const std::optional<SeenOwner> owner = MainOwner(row);
  if (!owner) return row.status == LeakStatus::kGrowing ? NotSeenText(row) : "";
  std::string text = absl::StrCat("kept by ", OwnerText(*owner));
  if (owner->root != OwnerRoot::kCycle) return text;
  constexpr absl::string_view kCollectors[] = {"", "; Python's collector has not run since",
                                               "; Python's collector is off (gc.disable())"};
  return absl::StrCat(text, kCollectors[row.owners.collector <= 2 ? row.owners.collector : 0]);
}

}  // namespace gpumem
