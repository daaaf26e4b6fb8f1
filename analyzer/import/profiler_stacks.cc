// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/profiler_stacks.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace gpumem {
namespace {

using Kind = ProfilerSpan::Kind;

constexpr size_t kMostOpen = 1024;      // spans around one another: readers show no deeper stack
constexpr size_t kMostElsewhere = 128;  // callers that the profile has on another thread
constexpr uint64_t kTickNs = 1000;      // older profiles have whole microseconds

}  // namespace

void ProfilerStacks::SortSpans() {
  std::sort(events_.spans.begin(), events_.spans.end(), [](const ProfilerSpan& a, const ProfilerSpan& b) {
    return std::tie(a.thread, a.begin_ns, b.end_ns, a.kind, a.order) <
           std::tie(b.thread, b.begin_ns, a.end_ns, b.kind, b.order);
  });
  const auto is_python = [](const ProfilerSpan& span) { return span.kind == Kind::kPython && span.python_id != 0; };
  by_python_id_.reserve(static_cast<size_t>(std::count_if(events_.spans.begin(), events_.spans.end(), is_python)));
  for (const ProfilerSpan& span : events_.spans) {
    if (is_python(span)) by_python_id_.emplace_back(span.python_id, &span);
  }
  std::sort(by_python_id_.begin(), by_python_id_.end());
}

uint64_t ProfilerStacks::With(uint64_t caller, uint32_t frame) {
  return frame == 0 ? caller : writer_.definitions().Stack(caller, frame);
}

uint64_t ProfilerStacks::Cut() { return With(0, writer_.definitions().CutMark()); }

void ProfilerStacks::Push(const ProfilerSpan& span) {
  size_t depth = open_.size();
  bool touches = false;
  while (depth > 0 && open_[depth - 1].end_ns <= span.begin_ns) {
    const bool holds_moment = span.end_ns == span.begin_ns && open_[depth - 1].end_ns == span.begin_ns;
    if (holds_moment) break;
    touches |= open_[depth - 1].end_ns == span.begin_ns;
    --depth;
  }
  open_.resize(depth);
  if (touches) {
    touched_ns_ = span.begin_ns;
    touched_depth_ = depth;
  }
  if (depth >= kMostOpen) return;
  const uint64_t around_ns = depth == 0 ? UINT64_MAX : open_[depth - 1].end_ns;
  if (span.end_ns > around_ns && span.end_ns - around_ns > kTickNs) return;  // asynchronous
  open_.push_back({&span, std::min(span.end_ns, around_ns)});
}

// How many of open_ the moment lies in.
size_t ProfilerStacks::Around(uint64_t time_ns) {
  while (!open_.empty() && open_.back().end_ns < time_ns) open_.pop_back();
  return time_ns == touched_ns_ ? std::min(touched_depth_, open_.size()) : open_.size();
}

template <typename Take>
absl::Status ProfilerStacks::Sweep(std::vector<Point>* points, Take take) {
  std::sort(points->begin(), points->end(), [](const Point& a, const Point& b) {
    return std::tie(a.thread, a.time_ns, a.index) < std::tie(b.thread, b.time_ns, b.index);
  });
  auto span = events_.spans.begin();
  uint32_t thread = UINT32_MAX;
  for (const Point& point : *points) {
    if (point.thread != thread) {
      thread = point.thread;
      open_.clear();
      touched_ns_ = 0;
      touched_depth_ = 0;
      span = std::partition_point(span, events_.spans.end(),
                                  [&](const ProfilerSpan& each) { return each.thread < thread; });
    }
    for (; span != events_.spans.end() && span->thread == thread && span->begin_ns <= point.time_ns; ++span)
      Push(*span);
    GPUMEM_RETURN_IF_ERROR(take(point, Around(point.time_ns)));
  }
  return absl::OkStatus();
}

absl::Status ProfilerStacks::Spend() {
  const uint64_t bytes = writer_.definitions().bytes();
  if (!memory_.Spend(bytes - spent_for_definitions_)) return memory_.TooMuch();
  spent_for_definitions_ = bytes;
  return writer_.FlushDefinitions();
}

// "/a/b.py(12): f;/a/c.py(3): <module>", innermost first.
uint64_t ProfilerStacks::CallStack(uint32_t name) {
  const auto [known, is_new] = call_stacks_.try_emplace(name, 0);
  if (!is_new) return known->second;
  const std::vector<absl::string_view> calls = absl::StrSplit(events_.names.Text(name), ';', absl::SkipEmpty());
  uint64_t stack = 0;
  for (size_t i = std::min(calls.size(), kMostOpen); i-- > 0;) {
    uint32_t module = 0;
    stack = With(stack,
                 IsModuleCall(calls[i]) ? frames_.ModuleCall(calls[i], 0, &module) : frames_.PythonFunction(calls[i]));
  }
  return known->second = stack;
}

// The profile may have the outermost functions of a thread, which ran when it began, on a thread without a number.
uint64_t ProfilerStacks::CallersElsewhere(const ProfilerSpan& span) {
  std::vector<const ProfilerSpan*> callers;
  const ProfilerSpan* at = &span;
  while (at->python_parent != 0 && callers.size() < kMostElsewhere) {
    const auto found = std::partition_point(by_python_id_.begin(), by_python_id_.end(),
                                            [&](const auto& each) { return each.first < at->python_parent; });
    if (found == by_python_id_.end() || found->first != at->python_parent) break;
    const ProfilerSpan* const caller = found->second;
    if (caller->begin_ns > at->begin_ns || caller->end_ns < at->begin_ns) break;
    callers.push_back(at = caller);
  }
  uint64_t stack = Cut();
  for (size_t i = callers.size(); i-- > 0;) {
    const absl::string_view name = events_.names.Text(callers[i]->name);
    if (!IsModuleCall(name)) stack = With(stack, frames_.PythonFunction(name));
  }
  return stack;
}

// What an operator's "Module Hierarchy" says beyond that of the operators around it. Calls of modules that are spans
// say the same.
uint64_t ProfilerStacks::WithModules(uint64_t caller, const ProfilerSpan& span, Open* open) {
  if (span.modules == 0 || (open->module != 0 && open->modules == 0)) return caller;
  absl::string_view rest = events_.names.Text(span.modules), instance, type;
  if (!absl::ConsumePrefix(&rest, events_.names.Text(open->modules))) return caller;
  open->modules = span.modules;
  for (size_t i = 0; i < kMostOpen && NextModule(&rest, &instance, &type); ++i)
    caller = With(caller, frames_.ScriptModule(instance, type, open->module, &open->module));
  return caller;
}

// The stack of open_[i], whose callers have theirs.
void ProfilerStacks::Make(size_t i) {
  Open& open = open_[i];
  const ProfilerSpan& span = *open.span;
  const absl::string_view name = events_.names.Text(span.name);
  // Which line comes back is only known of a "Call stack": all others are cut, so that nobody sees loops in them.
  uint64_t caller = i == 0 ? Cut() : open_[i - 1].stack;
  open.module = i == 0 ? 0 : open_[i - 1].module;
  open.modules = i == 0 ? 0 : open_[i - 1].modules;
  open.is_made = true;
  if (span.kind == Kind::kPython) {
    if (i == 0) caller = CallersElsewhere(span);
    open.stack = With(caller, IsModuleCall(name) ? frames_.ModuleCall(name, open.module, &open.module)
                                                 : frames_.PythonFunction(name));
    return;
  }
  if (span.kind == Kind::kAnnotation) {
    open.stack = With(caller, frames_.Annotation(name));
    return;
  }
  if (const auto forward = forward_.find({span.thread, span.begin_ns}); forward != forward_.end()) {
    const absl::string_view node = events_.names.Text(forward->second.node);
    caller = With(forward->second.stack, writer_.definitions().ForwardMark(node));
  } else if (span.call_stack != 0) {
    const bool has_same = i > 0 && open_[i - 1].span->call_stack == span.call_stack;
    if (!has_same) caller = CallStack(span.call_stack);
  }
  caller = WithModules(caller, span, &open);
  open.stack = With(caller, frames_.Operator(name));
}

uint64_t ProfilerStacks::StackOf(size_t depth) {
  if (depth == 0) return 0;
  size_t first = depth;
  while (first > 0 && !open_[first - 1].is_made) --first;
  for (size_t i = first; i < depth; ++i) Make(i);
  return open_[depth - 1].stack;
}

// The operator that begins at this moment; null where none does.
const ProfilerSpan* ProfilerStacks::BeginningAt(uint64_t time_ns, size_t* depth) const {
  *depth = open_.size();
  while (*depth > 0 && open_[*depth - 1].span->begin_ns > time_ns) --*depth;
  const ProfilerSpan* const span = *depth == 0 ? nullptr : open_[*depth - 1].span;
  return span != nullptr && span->begin_ns == time_ns && span->kind == Kind::kOperator ? span : nullptr;
}

// Of each link the stack of its forward operator, kept for the span at the link's end, or for the engine's around it:
// that also sums and checks gradients for the node.
absl::Status ProfilerStacks::JoinLinks() {
  absl::flat_hash_map<uint64_t, uint64_t> stacks;  // by link
  std::vector<Point> begins, ends;
  for (const ProfilerLink& link : events_.links)
    (link.is_end ? ends : begins).push_back({link.thread, link.time_ns, link.id});
  GPUMEM_RETURN_IF_ERROR(Sweep(&begins, [&](const Point& point, size_t) -> absl::Status {
    size_t depth = 0;
    if (BeginningAt(point.time_ns, &depth) != nullptr) stacks[point.index] = StackOf(depth);
    return Spend();
  }));
  return Sweep(&ends, [&](const Point& point, size_t) -> absl::Status {
    size_t depth = 0;
    const ProfilerSpan* const node = BeginningAt(point.time_ns, &depth);
    const auto stack = stacks.find(point.index);
    if (node == nullptr || stack == stacks.end()) return absl::OkStatus();
    const ProfilerSpan* const around = depth > 1 ? open_[depth - 2].span : node;
    const bool is_engine = IsEngine(events_.names.Text(around->name));
    forward_[{node->thread, (is_engine ? around : node)->begin_ns}] = {stack->second, node->name};
    return absl::OkStatus();
  });
}

std::vector<ProfilerStacks::Point> ProfilerStacks::PointsOfMemory() const {
  std::vector<Point> points;
  points.reserve(events_.memory.size());
  for (size_t i = 0; i < events_.memory.size(); ++i)
    points.push_back({events_.memory[i].thread, events_.memory[i].time_ns, i});
  return points;
}

absl::Status ProfilerStacks::Look() {
  // Of a link's two maps and its point, of an event's point, and what finds functions by their numbers.
  const uint64_t bytes = events_.links.size() * (3 * sizeof(Point) + 4 * sizeof(uint64_t)) +
                         events_.memory.size() * 2 * sizeof(Point) + events_.spans.size() * sizeof(by_python_id_[0]);
  if (!memory_.Spend(bytes)) return memory_.TooMuch();
  SortSpans();
  std::vector<Point> points = PointsOfMemory();
  return Sweep(&points, [&](const Point&, size_t depth) {
    for (size_t i = depth; i-- > 0 && !std::exchange(open_[i].is_made, true);) {
      const ProfilerSpan& span = *open_[i].span;
      const absl::string_view name = events_.names.Text(span.name);
      const bool is_function = span.kind == Kind::kPython && IsFunction(name);
      has_functions_ |= is_function;
      has_python_ |= is_function || span.call_stack != 0;
      has_any_ |= is_function || span.kind != Kind::kPython || IsModuleCall(name);
    }
    return absl::OkStatus();
  });
}

absl::Status ProfilerStacks::Join() {
  GPUMEM_RETURN_IF_ERROR(JoinLinks());
  std::vector<Point> points = PointsOfMemory();
  return Sweep(&points, [&](const Point& point, size_t depth) {
    const uint64_t stack = StackOf(depth);
    if (stack != Cut()) events_.memory[point.index].stack = stack;
    return Spend();
  });
}

}  // namespace gpumem
