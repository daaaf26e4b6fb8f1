// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/compare/matching.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "answers/compare/names.h"

namespace gpumem {
namespace {

using Names = std::set<std::string>;
using NameMap = std::map<std::string, std::string>;

constexpr size_t kMaxCandidates = 2000;  // pairs of names that are looked at; more are no evidence
constexpr size_t kMaxLines = 200;        // of a function that are put in order; more are matched by number alone

size_t Shared(const Names& a, const Names& b) {
  return static_cast<size_t>(std::count_if(a.begin(), a.end(), [&](const auto& each) { return b.contains(each); }));
}

// Pairs names that one side alone has: those whose descriptions agree in at least half, each pair the best of both.
NameMap PairLeftOvers(const std::map<std::string, Names>& a, const std::map<std::string, Names>& b) {
  std::vector<std::tuple<size_t, std::string, std::string>> candidates;
  for (const auto& [was, of_was] : a) {
    if (b.contains(was)) continue;
    for (const auto& [now, of_now] : b) {
      const size_t shared = a.contains(now) ? 0 : Shared(of_was, of_now);
      if (shared > 0 && 2 * shared >= std::max(of_was.size(), of_now.size())) candidates.emplace_back(shared, was, now);
    }
  }
  NameMap pairs;
  if (candidates.size() > kMaxCandidates) return pairs;
  std::sort(candidates.rbegin(), candidates.rend());
  Names taken, doubtful;
  for (const auto& [shared, was, now] : candidates) {
    // Two that fit equally well are no evidence.
    for (const auto& [other_shared, other_was, other_now] : candidates) {
      if (other_shared == shared && (other_was == was) != (other_now == now)) doubtful.insert(was);
    }
    if (doubtful.contains(was) || pairs.contains(was) || taken.contains(now)) continue;
    pairs[was] = now;
    taken.insert(now);
  }
  return pairs;
}

std::map<std::string, Names> FunctionsByFile(const RunFacts& facts) {
  std::map<std::string, Names> result;
  for (const LiveGroup& group : facts.groups) {
    if (group.place.line != 0) result[group.place.file].insert(group.place.function);
  }
  return result;
}

// What the functions of a file do.
std::map<std::string, Names> DeedsByFunction(const RunFacts& facts, const std::string& file) {
  std::map<std::string, Names> result;
  for (const LiveGroup& group : facts.groups) {
    if (group.place.file != file || group.place.line == 0) continue;
    result[group.place.function].insert(
        absl::StrCat(group.place.through, "|", CategoryName(group.category), "|", FoldNumbers(group.module)));
  }
  return result;
}

using FunctionOfFile = std::pair<std::string, std::string>;  // file, function
using Lines = std::map<uint32_t, Names>;                     // what each calls

std::map<FunctionOfFile, Lines> LinesByFunction(const RunFacts& facts) {
  std::map<FunctionOfFile, Lines> result;
  for (const LiveGroup& group : facts.groups) {
    if (group.place.line == 0) continue;
    result[{group.place.file, group.place.function}][group.place.line].insert(
        absl::StrCat(group.place.through, "|", FoldNumbers(group.module)));
  }
  return result;
}

// The longest common order of two functions' lines, where two fit if they call the same.
std::map<uint32_t, uint32_t> AlignLines(const Lines& was, const Lines& now) {
  std::map<uint32_t, uint32_t> result;
  if (was.size() > kMaxLines || now.size() > kMaxLines) return result;
  const std::vector<std::pair<uint32_t, Names>> a(was.begin(), was.end()), b(now.begin(), now.end());
  std::vector<std::vector<size_t>> best(a.size() + 1, std::vector<size_t>(b.size() + 1));
  const auto score = [&](size_t i, size_t j) -> size_t {
    const size_t shared = Shared(a[i].second, b[j].second);
    return shared == 0 ? 0 : 2 * shared + (a[i].first == b[j].first ? 1 : 0);
  };
  for (size_t i = a.size(); i-- > 0;) {
    for (size_t j = b.size(); j-- > 0;) {
      best[i][j] = std::max(best[i + 1][j], best[i][j + 1]);
      if (const size_t here = score(i, j); here > 0) best[i][j] = std::max(best[i][j], here + best[i + 1][j + 1]);
    }
  }
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (const size_t here = score(i, j); here > 0 && best[i][j] == here + best[i + 1][j + 1]) {
      result[a[i++].first] = b[j++].first;
    } else if (best[i][j] == best[i + 1][j]) {
      ++i;
    } else {
      ++j;
    }
  }
  return result;
}

void RenameFiles(RunFacts* a, const RunFacts& b, std::vector<Renamed>* renamed) {
  const NameMap files = PairLeftOvers(FunctionsByFile(*a), FunctionsByFile(b));
  for (const auto& [was, now] : files) renamed->push_back({Renamed::Kind::kFile, was, now});
  for (LiveGroup& group : a->groups) {
    if (const auto found = files.find(group.place.file); found != files.end()) group.place.file = found->second;
  }
}

void RenameFunctions(RunFacts* a, const RunFacts& b, std::vector<Renamed>* renamed) {
  for (const auto& [file, functions] : FunctionsByFile(*a)) {
    const NameMap pairs = PairLeftOvers(DeedsByFunction(*a, file), DeedsByFunction(b, file));
    for (const auto& [was, now] : pairs)
      renamed->push_back({Renamed::Kind::kFunction, absl::StrCat(file, " ", was), absl::StrCat(file, " ", now)});
    for (LiveGroup& group : a->groups) {
      if (group.place.file != file) continue;
      if (const auto found = pairs.find(group.place.function); found != pairs.end())
        group.place.function = found->second;
    }
  }
}

void MoveLines(RunFacts* a, const RunFacts& b, std::vector<Renamed>* renamed) {
  const std::map<FunctionOfFile, Lines> of_a = LinesByFunction(*a), of_b = LinesByFunction(b);
  std::map<FunctionOfFile, std::map<uint32_t, uint32_t>> moves;
  for (const auto& [function, lines] : of_a) {
    const auto found = of_b.find(function);
    if (found == of_b.end()) continue;
    for (const auto& [was, now] : moves[function] = AlignLines(lines, found->second)) {
      if (was == now) continue;
      renamed->push_back({Renamed::Kind::kLine, PlaceText({function.first, function.second, was, ""}),
                          PlaceText({function.first, function.second, now, ""})});
    }
  }
  for (LiveGroup& group : a->groups) {
    const auto function = moves.find({group.place.file, group.place.function});
    if (function == moves.end() || group.place.line == 0) continue;
    if (const auto line = function->second.find(group.place.line); line != function->second.end())
      group.place.line = line->second;
  }
}

// What tells modules: class, how many there are, what they hold.
std::map<std::string, Names> DeedsByModule(const RunFacts& facts) {
  std::map<std::string, Names> modules;
  std::map<std::string, Names> instances;
  for (const LiveGroup& group : facts.groups) {
    if (group.module.empty()) continue;
    const std::string folded = FoldNumbers(group.module);
    instances[folded].insert(group.module);
    modules[folded].insert(absl::StrCat(group.module_class, "|", CategoryName(group.category), "|",
                                        group.category == Category::kParameter ? group.largest : 0));
  }
  for (auto& [folded, deeds] : modules) deeds.insert(absl::StrCat("count ", instances[folded].size()));
  return modules;
}

// What lies inside a renamed module is renamed with it.
void PairInside(const std::map<std::string, Names>& of_a, const std::map<std::string, Names>& of_b, NameMap* pairs) {
  Names taken;
  for (const auto& [was, now] : *pairs) taken.insert(now);
  for (const auto& [name, deeds] : of_a) {
    if (of_b.contains(name) || pairs->contains(name)) continue;
    for (size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0; dot = name.rfind('.', dot - 1)) {
      const auto around = pairs->find(name.substr(0, dot));
      if (around == pairs->end()) continue;
      const std::string now = around->second + name.substr(dot);
      if (of_b.contains(now) && !of_a.contains(now) && taken.insert(now).second) (*pairs)[name] = now;
      break;
    }
  }
}

NameMap PairModules(const RunFacts& a, const RunFacts& b) {
  std::map<std::string, Names> of_a = DeedsByModule(a), of_b = DeedsByModule(b);
  NameMap pairs;
  for (size_t before = SIZE_MAX; before != pairs.size();) {
    before = pairs.size();
    std::map<std::string, Names> left_a = of_a, left_b = of_b;
    for (const auto& [was, now] : pairs) {
      left_a.erase(was);
      left_b.erase(now);
    }
    for (const auto& [was, now] : PairLeftOvers(left_a, left_b)) {
      if (std::count(was.begin(), was.end(), '*') == std::count(now.begin(), now.end(), '*')) pairs[was] = now;
    }
    PairInside(of_a, of_b, &pairs);
  }
  return pairs;
}

// The numbers in a module's name.
std::vector<std::string> NumbersIn(const std::string& module) {
  std::vector<std::string> numbers;
  for (const absl::string_view part : absl::StrSplit(module, '.')) {
    if (FoldNumbers(part) == "*") numbers.emplace_back(part);
  }
  return numbers;
}

void RenameModules(RunFacts* a, const RunFacts& b, std::vector<Renamed>* renamed) {
  const NameMap modules = PairModules(*a, b);
  for (const auto& [was, now] : modules) renamed->push_back({Renamed::Kind::kModule, was, now});
  for (LiveGroup& group : a->groups) {
    const auto found = modules.find(FoldNumbers(group.module));
    if (found == modules.end()) continue;
    // The layers keep their numbers.
    const std::vector<std::string> numbers = NumbersIn(group.module);
    std::string name;
    size_t at = 0;
    for (const char c : found->second) name += c == '*' && at < numbers.size() ? numbers[at++] : std::string(1, c);
    group.module = name;
  }
}

}  // namespace

absl::string_view RenamedKindName(Renamed::Kind kind) {
  switch (kind) {
    case Renamed::Kind::kLine:
      return "line";
    case Renamed::Kind::kFunction:
      return "function";
    case Renamed::Kind::kFile:
      return "file";
    case Renamed::Kind::kModule:
      return "module";
  }
  return "";
}

std::vector<Renamed> MatchNames(RunFacts* a, const RunFacts& b) {
  std::vector<Renamed> renamed;
  RenameModules(a, b, &renamed);
  RenameFiles(a, b, &renamed);
  RenameFunctions(a, b, &renamed);
  MoveLines(a, b, &renamed);
  std::sort(renamed.begin(), renamed.end(), [](const Renamed& x, const Renamed& y) {
    return std::tie(x.kind, x.was, x.now) < std::tie(y.kind, y.was, y.now);
  });
  return renamed;
}

}  // namespace gpumem
