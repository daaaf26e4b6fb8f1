// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/compare/plan_parts.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "answers/compare/cause.h"
#include "base/format.h"

namespace gpumem {
namespace {

constexpr int64_t kLeast = int64_t{1} << 20;  // what is less is not named in a sentence
constexpr size_t kMaxNamed = 3;

uint64_t Less(uint64_t from, uint64_t what) { return from - std::min(from, what); }

uint64_t Size(int64_t delta) { return static_cast<uint64_t>(std::abs(delta)); }

// The settings of one kind that differ, the run's first: what `SettingChange` has as A and B.
std::string SettingText(const Diff& diff, bool a_is_plan, absl::string_view what, absl::string_view title) {
  for (const SettingChange& change : diff.settings) {
    if (change.what != what) continue;
    const std::string &plan = a_is_plan ? change.a : change.b, &run = a_is_plan ? change.b : change.a;
    const auto shown = [](const std::string& text) { return text.empty() ? std::string("none") : text; };
    return absl::StrCat(title, " ", shown(run), " instead of ", shown(plan));
  }
  return "";
}

std::string Joined(std::vector<std::string> texts) {
  texts.erase(std::remove(texts.begin(), texts.end(), ""), texts.end());
  return absl::StrJoin(texts, ", ");
}

class Parts {
 public:
  Parts(const Diff& diff, bool a_is_plan)
      : diff_(diff), a_is_plan_(a_is_plan), plan_(a_is_plan ? diff.a : diff.b), run_(a_is_plan ? diff.b : diff.a) {}

  std::vector<PlanPart> Find() {
    const std::string gpu = Setting("GPU", "on"),
                      versions = Joined({Setting("version torch", "PyTorch"), Setting("version driver", "driver")});
    AddContext(gpu, versions);
    Add("memory past PyTorch's allocator", plan_.peak_other, run_.peak_other, BesideText());
    AddTensors(versions);
    AddAllocator();
    AddOthers();
    std::stable_sort(parts_.begin(), parts_.end(), [](const PlanPart& x, const PlanPart& y) {
      return x.is_own != y.is_own ? x.is_own : Size(x.delta()) > Size(y.delta());
    });
    return std::move(parts_);
  }

 private:
  std::string Setting(absl::string_view what, absl::string_view title) const {
    return SettingText(diff_, a_is_plan_, what, title);
  }

  void Add(absl::string_view name, uint64_t plan, uint64_t run, std::string why) {
    parts_.push_back({std::string(name), plan, run, plan == run ? "" : std::move(why)});
  }

  // The making of a device's first context cannot be measured: then the device tells what all of it takes together.
  void AddContext(const std::string& gpu, const std::string& versions) {
    if (plan_.context > plan_.code && run_.context > run_.code) {
      Add("CUDA context", Less(plan_.context, plan_.code), Less(run_.context, run_.code),
          Joined({gpu, Setting("version driver", "driver")}));
      return Add("loaded code", plan_.code, run_.code, versions);
    }
    Add("CUDA context and loaded code", plan_.beyond, run_.beyond, Joined({gpu, versions}));
    parts_.back().known = plan_.beyond != 0 && run_.beyond != 0;
  }

  // Where the line beside PyTorch is that differs most.
  std::string BesideText() const {
    std::string best;
    int64_t most = 0;
    for (const auto& [site, bytes] : run_.beside) {
      uint64_t before = 0;
      for (const auto& [other, had] : plan_.beside) before += other == site ? had : 0;
      const int64_t delta = static_cast<int64_t>(bytes) - static_cast<int64_t>(before);
      if (Size(delta) <= Size(most)) continue;
      most = delta;
      best = site;
    }
    return best;
  }

  // Workspaces are PyTorch's blocks too, but the library says how large they are.
  void AddTensors(const std::string& versions) {
    const uint64_t in_plan = std::min(plan_.categories[Index(Category::kWorkspace)], plan_.peak_allocated);
    const uint64_t in_run = std::min(run_.categories[Index(Category::kWorkspace)], run_.peak_allocated);
    Add("workspaces", in_plan, in_run, versions);
    const bool other_data = plan_.inputs != run_.inputs;
    Add(other_data ? "batch and data" : "tensors", Less(plan_.peak_allocated, in_plan),
        Less(run_.peak_allocated, in_run), TensorsText());
  }

  std::string TensorsText() const {
    const std::string inputs = Setting("inputs of the model", "inputs are");
    if (!inputs.empty()) return inputs;
    const std::string command = Setting("command line", "started with");
    if (!command.empty()) return command;
    if (diff_.subject == "allocated" && diff_.cause.kind != CauseKind::kUnknown &&
        diff_.cause.kind != CauseKind::kNone && diff_.cause.kind != CauseKind::kInputs)
      return absl::StrCat("A to B: ", diff_.cause.text);
    return plan_.steps == run_.steps ? ""
                                     : absl::StrCat("the run made ", FormatCountOf(run_.steps, "step", "steps"),
                                                    ", the plan ", FormatCount(plan_.steps));
  }

  void AddAllocator() {
    const std::string settings =
        Joined({Setting("environment PYTORCH_CUDA_ALLOC_CONF", "they are"),
                Setting("environment PYTORCH_ALLOC_CONF", "they are"),
                Setting("environment PYTORCH_NO_CUDA_MEMORY_CACHING", "PYTORCH_NO_CUDA_MEMORY_CACHING is")});
    const RunFacts& more = run_.peak_reserved >= plan_.peak_reserved ? run_ : plan_;
    Add(settings.empty() ? "the allocator's unused part" : "allocator settings",
        Less(plan_.peak_reserved, plan_.peak_allocated), Less(run_.peak_reserved, run_.peak_allocated),
        settings.empty() ? more.stranded : settings);
  }

  // No plan knows of them.
  void AddOthers() {
    if (run_.others == plan_.others) return;
    Add("other processes on the GPU", plan_.others, run_.others, "");
    parts_.back().is_own = false;
  }

  const Diff& diff_;
  const bool a_is_plan_;
  const RunFacts &plan_, &run_;
  std::vector<PlanPart> parts_;
};

std::string PartText(const PlanPart& part) {
  return absl::StrCat(part.name, " ", SignedChange(part.delta()),
                      part.why.empty() ? "" : absl::StrCat(" (", part.why, ")"));
}

}  // namespace

PlanSide PlanOf(const RunFacts& a, const RunFacts& b) {
  // A plan of an older version does not say that it is one: it is what was simulated, held against what was not.
  const auto is_plan = [](const RunFacts& one, const RunFacts& other) {
    return one.is_planned ? !other.is_planned : one.is_simulated && !other.is_simulated && other.knows_host;
  };
  if (is_plan(a, b)) return PlanSide::kA;
  return is_plan(b, a) ? PlanSide::kB : PlanSide::kNone;
}

std::vector<PlanPart> FindPlanParts(const Diff& diff) {
  const PlanSide side = PlanOf(diff.a, diff.b);
  if (side == PlanSide::kNone || !diff.a.has_moment || !diff.b.has_moment || !ArePeaks(diff)) return {};
  return Parts(diff, side == PlanSide::kA).Find();
}

std::string PlanSentence(const Diff& diff) {
  int64_t sum = 0;
  uint64_t needed = 0;
  std::vector<std::string> named, unknown;
  for (const PlanPart& part : diff.parts) {
    if (part.is_own && !part.known) unknown.push_back(part.name);
    if (part.is_own && part.known) {
      sum += part.delta();
      needed += part.run;
    }
    const bool counts = part.known && std::abs(part.delta()) >= kLeast;
    if (counts && named.size() < kMaxNamed) named.push_back(PartText(part));
  }
  std::string text = std::abs(sum) < kLeast ? absl::StrCat("the run needed what its plan says, ", FormatBytes(needed))
                                            : absl::StrCat("the run needed ", FormatBytes(Size(sum)),
                                                           sum < 0 ? " less" : " more", " than its plan says");
  if (!named.empty()) absl::StrAppend(&text, ": ", absl::StrJoin(named, "; "));
  if (!unknown.empty()) absl::StrAppend(&text, "; not known in both and left out: ", absl::StrJoin(unknown, ", "));
  return text;
}

}  // namespace gpumem
