// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "answers/compare/cause.h"
#include "answers/compare/names.h"
#include "base/format.h"

namespace gpumem {
namespace {

constexpr double kLeastShare = 0.5;     // of the difference
constexpr double kMostShare = 1.5;      // more: something else takes back what this adds
constexpr uint64_t kMostRatio = 4;      // of two types' sizes
constexpr double kLeastOfFrozen = 0.2;  // of the difference: gradients and states, which frozen parameters have not

bool IsIn(Category category, std::initializer_list<Category> list) {
  return std::find(list.begin(), list.end(), category) != list.end();
}

TwoUses OfCategories(const Diff& diff, std::initializer_list<Category> list) {
  return SumOf(diff, [&](const LiveGroup& group) { return IsIn(group.category, list); });
}

// "gradients 496 MiB -> none, optimizer state 992 MiB -> none": those that changed in the difference's direction.
std::string ByCategory(const Diff& diff, const std::vector<Category>& categories) {
  std::vector<std::string> texts;
  for (const Category category : categories) {
    const TwoUses uses = OfCategories(diff, {category});
    if (uses.delta() == 0 || (uses.delta() < 0) != (diff.delta < 0)) continue;
    const auto side = [](uint64_t bytes) { return bytes == 0 ? std::string("none") : FormatBytes(bytes); };
    texts.push_back(absl::StrCat(CategoryTitle(category), " ", side(uses.a_bytes), " -> ", side(uses.b_bytes)));
  }
  return absl::StrJoin(texts, ", ");
}

// Layers by the name of their list ("blocks.*"), from the names of parameters.
std::map<std::string, std::set<std::string>> LayersOf(const RunFacts& facts) {
  std::map<std::string, std::set<std::string>> layers;
  for (const auto& [name, parameter] : facts.parameters) {
    const std::string folded = FoldNumbers(name);
    const size_t at = folded.find(".*.");
    if (at == std::string::npos) continue;
    const size_t end = name.find('.', at + 1);
    layers[name.substr(0, at)].insert(name.substr(at + 1, end - at - 1));
  }
  return layers;
}

std::optional<Cause> Layers(const Diff& diff) {
  const auto of_a = LayersOf(diff.a), of_b = LayersOf(diff.b);
  for (const auto& [list, in_b] : of_b) {
    const auto found = of_a.find(list);
    if (found == of_a.end() || found->second.size() == in_b.size()) continue;
    const std::set<std::string>& in_a = found->second;
    const TwoUses uses = SumOf(diff, [&, list = list, &in_b = in_b](const LiveGroup& group) {
      for (const auto* layers : {&in_a, &in_b}) {
        const auto* const others = layers == &in_a ? &in_b : &in_a;
        for (const std::string& number : *layers) {
          const std::string layer = absl::StrCat(list, ".", number);
          const bool is_in = group.module == layer || absl::StartsWith(group.module, layer + ".");
          if (is_in && !others->contains(number)) return true;
        }
      }
      return false;
    });
    const bool is_more = in_b.size() > in_a.size();
    const uint64_t count = is_more ? in_b.size() - in_a.size() : in_a.size() - in_b.size();
    return Cause{CauseKind::kLayers,
                 absl::StrCat(FormatCountOf(count, "layer", "layers"), is_more ? " more" : " fewer", " in ", list, ", ",
                              in_a.size(), " -> ", in_b.size(), ": ",
                              ByCategory(diff, {Category::kParameter, Category::kGradient, Category::kOptimizerState,
                                                Category::kActivation})),
                 uses.delta()};
  }
  return std::nullopt;
}

std::optional<Cause> Dtype(const Diff& diff) {
  uint64_t changed = 0, same = 0;
  std::string was, now;
  for (const auto& [name, of_b] : diff.b.parameters) {
    const auto found = diff.a.parameters.find(name);
    if (found == diff.a.parameters.end() || found->second.shape != of_b.shape) continue;
    if (found->second.dtype == of_b.dtype) {
      ++same;
      continue;
    }
    ++changed;
    was = found->second.dtype;
    now = of_b.dtype;
  }
  const int64_t parameters = OfCategories(diff, {Category::kParameter}).delta();
  if (changed <= same || parameters == 0 || (parameters < 0) != (diff.delta < 0)) return std::nullopt;
  std::vector<Category> categories;
  int64_t explained = 0;
  for (const Category category : {Category::kParameter, Category::kGradient, Category::kOptimizerState,
                                  Category::kActivation, Category::kTemporary}) {
    const TwoUses uses = OfCategories(diff, {category});
    // A type makes things at most so much larger or smaller; what comes or goes has another cause.
    if (uses.a_bytes > kMostRatio * uses.b_bytes || uses.b_bytes > kMostRatio * uses.a_bytes) continue;
    categories.push_back(category);
    explained += uses.delta();
  }
  return Cause{CauseKind::kDtype,
               absl::StrCat("parameters are ", now, " instead of ", was, ": ", ByCategory(diff, categories)),
               explained};
}

std::optional<Cause> Frozen(const Diff& diff) {
  uint64_t frozen = 0, thawed = 0;
  for (const auto& [name, of_b] : diff.b.parameters) {
    const auto found = diff.a.parameters.find(name);
    if (found == diff.a.parameters.end()) continue;
    frozen += found->second.trainable && !of_b.trainable ? 1 : 0;
    thawed += !found->second.trainable && of_b.trainable ? 1 : 0;
  }
  if (frozen + thawed == 0 || (frozen > thawed) != (diff.delta < 0)) return std::nullopt;
  const std::vector<Category> categories{Category::kGradient, Category::kOptimizerState, Category::kActivation};
  if (ShareOf(diff, OfCategories(diff, {Category::kGradient, Category::kOptimizerState}).delta()) < kLeastOfFrozen)
    return std::nullopt;
  const int64_t explained =
      OfCategories(diff, {Category::kGradient, Category::kOptimizerState, Category::kActivation}).delta();
  return Cause{CauseKind::kFrozen,
               absl::StrCat(FormatCountOf(std::max(frozen, thawed), "parameter is", "parameters are"),
                            frozen > thawed ? " frozen" : " no longer frozen", ": ", ByCategory(diff, categories)),
               explained};
}

std::optional<Cause> Optimizer(const Diff& diff) {
  if (diff.a.optimizers == diff.b.optimizers || diff.a.optimizers.empty() || diff.b.optimizers.empty())
    return std::nullopt;
  const TwoUses uses = OfCategories(diff, {Category::kOptimizerState});
  return Cause{CauseKind::kOptimizer,
               absl::StrCat("the optimizer is ", absl::StrJoin(diff.b.optimizers, ", "), " instead of ",
                            absl::StrJoin(diff.a.optimizers, ", "), ": optimizer state, ", UsesText(uses)),
               uses.delta()};
}

std::string Shape(const std::vector<uint64_t>& shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

double Elements(const std::vector<std::vector<uint64_t>>& shapes) {
  double sum = 0;
  for (const auto& shape : shapes) {
    double elements = 1;
    for (const uint64_t size : shape) elements *= static_cast<double>(size);
    sum += elements;
  }
  return sum;
}

// What else the group of blocks that changed most is called.
std::optional<Cause> Inputs(const Diff& diff) {
  const RunFacts &a = diff.a, &b = diff.b;
  if (a.inputs.size() != b.inputs.size() || a.inputs == b.inputs) return std::nullopt;
  if ((Elements(b.inputs) < Elements(a.inputs)) != (diff.delta < 0)) return std::nullopt;
  size_t first = 0;
  while (a.inputs[first] == b.inputs[first]) ++first;
  const TwoUses uses = OfCategories(diff, {Category::kActivation, Category::kInput, Category::kTemporary});
  const Cause group = FindGroup(diff);
  return Cause{
      CauseKind::kInputs,
      absl::StrCat("inputs are ", Shape(b.inputs[first]), " instead of ", Shape(a.inputs[first]), ": ",
                   group.text.empty() ? ByCategory(diff, {Category::kActivation, Category::kTemporary}) : group.text),
      uses.delta()};
}

std::optional<Cause> Recompute(const Diff& diff) {
  const bool in_a = diff.a.recomputes, in_b = diff.b.recomputes;
  if (in_a == in_b || in_a != (diff.delta > 0)) return std::nullopt;
  const TwoUses uses = OfCategories(diff, {Category::kActivation});
  // Without activations the peak is elsewhere, and what is alive there takes back a part of what they were.
  const int64_t explained = ShareOf(diff, uses.delta()) > 1 ? diff.delta : uses.delta();
  return Cause{CauseKind::kRecompute,
               absl::StrCat(in_a ? "activations are kept instead of recomputed (no checkpointing): activations, "
                                 : "activations are recomputed (checkpointing) instead of kept: activations, ",
                            UsesText(uses)),
               explained};
}

std::optional<Cause> Accumulation(const Diff& diff) {
  const uint64_t in_a = diff.a.backward_passes, in_b = diff.b.backward_passes;
  if (in_a == in_b || in_a == 0 || in_b == 0) return std::nullopt;
  const TwoUses uses = OfCategories(diff, {Category::kGradient});
  return Cause{CauseKind::kAccumulation,
               absl::StrCat(FormatCountOf(in_b, "backward pass", "backward passes"), " a step instead of ", in_a,
                            " (gradient accumulation): gradients, ", UsesText(uses)),
               uses.delta()};
}

// How often each tensor of the model is there.
uint64_t Copies(const RunFacts& facts) {
  std::set<uint32_t> roots;
  for (const LiveGroup& group : facts.groups) {
    if (group.category == Category::kParameter && group.root != 0) roots.insert(group.root);
  }
  return roots.size();
}

// Whether a place holds as many blocks, and as many bytes, as the model's tensors: within what rounding adds.
bool IsLikeModel(const TwoUses& tensors, uint64_t bytes, uint64_t count) {
  const uint64_t most = std::max(tensors.b_bytes, bytes), least = std::min(tensors.b_bytes, bytes);
  return count == tensors.b_count && count > 1 && most - least <= most / 20;
}

// One that nobody said anything of: no optimizer has its parameters, and it was not called yet.
std::optional<Cause> SilentCopy(const Diff& diff) {
  const TwoUses parameters = OfCategories(diff, {Category::kParameter});
  const TwoUses with_buffers = OfCategories(diff, {Category::kParameter, Category::kBuffer});
  if (with_buffers.a_count != with_buffers.b_count) return std::nullopt;
  const auto is_like_model = [&](uint64_t bytes, uint64_t count) {
    return IsLikeModel(parameters, bytes, count) || IsLikeModel(with_buffers, bytes, count);
  };
  std::map<CodePlace, TwoUses> places;
  for (const auto* facts : {&diff.a, &diff.b}) {
    for (const LiveGroup& group : facts->groups) {
      if (group.category == Category::kParameter || group.place.line == 0 || !IsOfSubject(diff, group)) continue;
      const CodePlace line{group.place.file, group.place.function, group.place.line, ""};
      facts == &diff.a ? places[line].AddA(group) : places[line].AddB(group);
    }
  }
  for (const auto& [place, uses] : places) {
    const bool is_new = uses.a_count == 0 && is_like_model(uses.b_bytes, uses.b_count);
    const bool is_gone = uses.b_count == 0 && is_like_model(uses.a_bytes, uses.a_count);
    if (!is_new && !is_gone) continue;
    return Cause{CauseKind::kModelCopy,
                 absl::StrCat(is_new ? "a second copy" : "no second copy",
                              " of the model (as many blocks as it has tensors, and as large) at ", PlaceText(place),
                              ": ", UsesText(uses)),
                 uses.delta()};
  }
  return std::nullopt;
}

std::optional<Cause> ModelCopy(const Diff& diff) {
  const uint64_t in_a = Copies(diff.a), in_b = Copies(diff.b);
  if (in_a == in_b || in_a == 0 || in_b == 0) return std::nullopt;
  const TwoUses uses = OfCategories(diff, {Category::kParameter, Category::kBuffer});
  return Cause{
      CauseKind::kModelCopy,
      absl::StrCat(FormatCountOf(in_b, "model", "models"), " instead of ", in_a, ": parameters, ", UsesText(uses)),
      uses.delta()};
}

std::optional<Cause> Leak(const Diff& diff) {
  if (!diff.a.judged_leaks || !diff.b.judged_leaks) return std::nullopt;
  const bool is_b = diff.b.growing.size() > diff.a.growing.size();
  const RunFacts &more = is_b ? diff.b : diff.a, &less = is_b ? diff.a : diff.b;
  for (const GrowingLine& line : more.growing) {
    const bool is_in_both = std::any_of(less.growing.begin(), less.growing.end(), [&](const GrowingLine& other) {
      return other.place.file == line.place.file && other.place.function == line.place.function;
    });
    if (is_in_both) continue;
    const TwoUses uses = SumOf(diff, [&](const LiveGroup& group) {
      return group.place.file == line.place.file && group.place.line == line.place.line;
    });
    if (uses.delta() == 0) continue;
    return Cause{CauseKind::kLeak,
                 absl::StrCat(PlaceText(line.place), is_b ? " keeps " : " no longer keeps ",
                              FormatBytes(static_cast<uint64_t>(std::llround(line.bytes_per_iteration))),
                              " more from step to step: ", UsesText(uses)),
                 uses.delta()};
  }
  return std::nullopt;
}

}  // namespace

std::string OtherShapes(const Diff& diff) {
  uint64_t changed = 0;
  double most = 0;
  std::string text;
  for (const auto& [name, of_b] : diff.b.parameters) {
    const auto found = diff.a.parameters.find(name);
    if (found == diff.a.parameters.end() || found->second.shape == of_b.shape) continue;
    ++changed;
    const double change = std::abs(Elements({of_b.shape}) - Elements({found->second.shape}));
    if (changed > 1 && change <= most) continue;
    most = change;
    text = absl::StrCat(FoldNumbers(name), " is ", Shape(of_b.shape), " instead of ", Shape(found->second.shape));
  }
  if (changed == 0) return "";
  if (changed == 1) return absl::StrCat("; ", text);
  return absl::StrCat("; ", FormatCount(changed), " parameters have other shapes: ", text);
}

std::vector<Cause> FindProgramChanges(const Diff& diff) {
  std::vector<Cause> causes;
  if (diff.same_trace) return causes;
  for (const auto& find :
       {Layers, ModelCopy, SilentCopy, Dtype, Frozen, Optimizer, Recompute, Accumulation, Inputs, Leak}) {
    std::optional<Cause> cause = find(diff);
    if (!cause) continue;
    const double share = ShareOf(diff, cause->explained);
    if (share >= kLeastShare && share <= kMostShare) causes.push_back(std::move(*cause));
  }
  return causes;
}

}  // namespace gpumem
