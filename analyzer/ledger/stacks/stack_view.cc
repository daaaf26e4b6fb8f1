// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/stacks/stack_view.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/utf8.h"
#include "ledger/stacks/frame_class.h"

namespace gpumem {
namespace {

using Frames = std::vector<ResolvedFrame>;

// A native frame is telling only with a name; "myext.so+0x1f20" is not.
bool IsTellingUserFrame(const ResolvedFrame& frame) {
  if (ClassifyFrame(frame) != FrameClass::kUser) return false;
  return frame.python || frame.line != 0 || !absl::StrContains(frame.function, "+0x");
}

template <typename Predicate>
std::optional<size_t> FirstWhere(const Frames& frames, Predicate predicate) {
  const auto found = std::find_if(frames.begin(), frames.end(), predicate);
  if (found == frames.end()) return std::nullopt;
  return static_cast<size_t>(found - frames.begin());
}

bool IsTellingLibraryFrame(const ResolvedFrame& frame) {
  return ClassifyFrame(frame) == FrameClass::kLibrary && !IsTrampoline(frame);
}

// Where more frames of packages than this lie inside the user's innermost one, that line only started a library which
// runs the show (a trainer and its model): `trainer.train()` would stand for everything.
constexpr std::ptrdiff_t kMaxLibraryFrames = 5;

std::optional<size_t> FindSite(const Frames& frames) {
  const auto user = FirstWhere(frames, IsTellingUserFrame);
  const auto library = FirstWhere(frames, IsTellingLibraryFrame);
  if (!user) return library;
  const auto inside = frames.begin() + static_cast<std::ptrdiff_t>(*user);
  return std::count_if(frames.begin(), inside, IsTellingLibraryFrame) > kMaxLibraryFrames ? library : user;
}

std::string FindAutogradNode(const Frames& frames, size_t end) {
  for (size_t i = 0; i < end; ++i) {
    if (frames[i].python) continue;
    std::string node = AutogradNode(frames[i].function);
    if (!node.empty()) return node;
  }
  return "";
}

// "backward of AddmmBackward0" for the innermost forward mark, "" where there is none.
std::string FindMark(const Frames& frames, size_t end) {
  for (size_t i = 0; i < end; ++i) {
    if (!frames[i].forward) continue;
    return std::string(absl::StripSuffix(absl::StripPrefix(frames[i].function, "<"), ">"));
  }
  return "";
}

// The operator that Python called: the outermost one inside the innermost Python frame. Those further in are how it is
// made.
std::string FindOperator(const Frames& frames, size_t end) {
  std::string found;
  for (size_t i = 0; i < end && !frames[i].python; ++i) {
    std::string name = AtenOperator(frames[i].function);
    if (!name.empty()) found = std::move(name);
  }
  return found;
}

// What ran inside the site: operator or autograd node, and the innermost line of PyTorch's Python code.
std::string FindThrough(const Frames& frames, size_t site, absl::string_view working_directory) {
  std::string what = FindMark(frames, site);
  if (what.empty()) what = FindAutogradNode(frames, site);
  if (what.empty()) what = FindOperator(frames, site);
  for (size_t i = 0; i < site; ++i) {
    const FrameClass kind = ClassifyFrame(frames[i]);
    if ((kind != FrameClass::kTorch && kind != FrameClass::kLibrary) || IsTrampoline(frames[i])) continue;
    return absl::StrCat(what, what.empty() ? "" : " in ", FrameText(frames[i], working_directory));
  }
  return what;
}

std::vector<std::string> FindCallers(const Frames& frames, size_t site, absl::string_view working_directory) {
  const FrameClass kind = ClassifyFrame(frames[site]);
  std::vector<std::string> callers;
  for (size_t i = site + 1; i < frames.size(); ++i) {
    const FrameClass outer = ClassifyFrame(frames[i]);
    if (outer != FrameClass::kUser && !(kind == FrameClass::kLibrary && outer == kind)) continue;
    if (!frames[i].python && !IsTellingUserFrame(frames[i])) continue;
    std::string text = EscapeControls(FrameText(frames[i], working_directory));
    if (callers.empty() || callers.back() != text) callers.push_back(std::move(text));
  }
  return callers;
}

// "cuBLAS workspace" where a library asks for memory of its own, inside the innermost line of the program.
absl::string_view FindWorkspace(const Frames& frames) {
  for (const ResolvedFrame& frame : frames) {
    if (frame.python || ClassifyFrame(frame) == FrameClass::kUser) break;
    if (const absl::string_view workspace = WorkspaceOf(frame); !workspace.empty()) return workspace;
  }
  return "";
}

// Whose call it was, in one clause: "asked for by aten::linear at train.py:42 main".
StackView ViewWorkspace(const Frames& frames, absl::string_view workspace, absl::string_view working_directory) {
  StackView view;
  view.is_workspace = true;
  view.site = std::string(workspace);
  const std::optional<size_t> site = FindSite(frames);
  std::string what = FindMark(frames, site.value_or(frames.size()));
  if (what.empty()) what = FindAutogradNode(frames, site.value_or(frames.size()));
  if (what.empty()) what = FindOperator(frames, site.value_or(frames.size()));
  const std::string where = site ? FrameText(frames[*site], working_directory) : "";
  if (what.empty() && where.empty()) return view;
  view.through = absl::StrCat("asked for by ", what, what.empty() || where.empty() ? "" : " at ", where);
  return view;
}

bool IsAutogradEngine(const ResolvedFrame& frame) {
  return absl::StartsWith(frame.function, "torch::autograd::Engine::");
}

// A stack in which nothing is the user's nor a package's: an autograd thread, a library's own thread, a stripped
// program.
StackView ViewForeignStack(const Frames& frames, absl::string_view api, absl::string_view working_directory) {
  StackView view;
  if (const std::string mark = FindMark(frames, frames.size()); !mark.empty()) {
    view.site = absl::StrCat(mark, " (autograd thread)");
    return view;
  }
  const std::string node = FindAutogradNode(frames, frames.size());
  if (!node.empty()) {
    view.site = absl::StrCat("backward of ", node, " (autograd thread)");
    return view;
  }
  if (const std::string name = FindOperator(frames, frames.size()); !name.empty()) {
    const bool engine = FirstWhere(frames, IsAutogradEngine).has_value();
    view.site = absl::StrCat(name, engine ? " (autograd thread)" : " (no Python frame)");
    return view;
  }
  auto pick = FirstWhere(frames, [](const ResolvedFrame& f) { return f.python && !IsTrampoline(f); });
  if (!pick) {
    pick = FirstWhere(frames, [](const ResolvedFrame& f) {
      return !f.function.empty() && !IsMark(f) && !absl::StrContains(f.function, "+0x") &&
             !absl::StrContains(f.module, "libgpumemshim");
    });
  }
  view.site = pick ? FrameText(frames[*pick], working_directory) : FrameText(frames.front(), working_directory);
  if (!pick && !api.empty()) view.site = absl::StrCat(api, " from ", view.site);
  return view;
}

}  // namespace

StackView ViewStack(const Frames& frames, absl::string_view api, absl::string_view working_directory) {
  StackView view;
  const auto is_no_call = [](const ResolvedFrame& frame) { return IsMark(frame) && !frame.forward; };
  if (std::all_of(frames.begin(), frames.end(), is_no_call)) {
    // Of imports: what is from before has no line, and says so in place of a function.
    const bool says_why = absl::StartsWith(api, "allocated before ");
    view.site = api.empty() ? "(stack not known)" : absl::StrCat(api, says_why ? "" : " (stack not known)");
  } else if (const absl::string_view workspace = FindWorkspace(frames); !workspace.empty()) {
    view = ViewWorkspace(frames, workspace, working_directory);
  } else if (const auto site = FindSite(frames)) {
    view.site = FrameText(frames[*site], working_directory);
    view.through = FindThrough(frames, *site, working_directory);
    view.callers = FindCallers(frames, *site, working_directory);
  } else {
    view = ViewForeignStack(frames, api, working_directory);
  }
  view.site = EscapeControls(view.site);
  view.through = EscapeControls(view.through);
  return view;
}

std::vector<std::string> ListFrames(const Frames& frames, NativeFrames native, absl::string_view working_directory) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < frames.size(); ++i) {
    const ResolvedFrame& frame = frames[i];
    const bool is_end = i + 1 == frames.size() && IsMark(frame);
    if (native == NativeFrames::kNone && !frame.python && !is_end && !frame.forward) continue;
    if (native == NativeFrames::kTelling) {
      const bool deeper = i + 1 < frames.size() && IsInsideAllocator(frame) && IsInsideAllocator(frames[i + 1]);
      if (deeper || !IsTelling(frame)) continue;
    }
    std::string text = frame.python || frame.file.empty()
                           ? FrameText(frame, working_directory)
                           : absl::StrCat(frame.file, ":", frame.line, " ", frame.function);
    texts.push_back(EscapeControls(text));
  }
  if (texts.empty() && native != NativeFrames::kFull) return ListFrames(frames, NativeFrames::kFull, working_directory);
  return texts;
}

}  // namespace gpumem
