// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/leaks/keeper.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/secrets.h"
#include "ledger/leaks/python_statements.h"

namespace gpumem {
namespace {

constexpr size_t kMaxKeepers = 3;
constexpr size_t kMaxStatement = 2000;  // longer ones are data
constexpr size_t kMaxCode = 100;

// What takes no tensor along.
constexpr std::array<absl::string_view, 12> kNumbers = {".item(", ".tolist(", ".numpy(",    "float(",
                                                        "int(",   ".shape",   ".size(",     "len(",
                                                        ".dtype", ".device",  ".backward(", "print("};
// What ends a graph besides.
constexpr std::array<absl::string_view, 2> kCuts = {".detach(", "str("};
// What an expression that is a number for certain begins or ends with.
constexpr std::array<absl::string_view, 5> kNumberCalls = {"float(", "int(", "len(", "str(", "bool("};
constexpr std::array<absl::string_view, 3> kNumberMethods = {".item()", ".tolist()", ".shape"};
constexpr std::array<absl::string_view, 9> kKeepingCalls = {
    ".append(", ".extend(", ".add(", ".insert(", ".update(", ".setdefault(", ".put(", ".push(", ".appendleft("};

bool IsCut(absl::string_view text, Kept kept) {
  const auto is_in = [&](absl::string_view word) { return absl::StrContains(text, word); };
  return std::any_of(kNumbers.begin(), kNumbers.end(), is_in) ||
         (kept == Kept::kGraph && std::any_of(kCuts.begin(), kCuts.end(), is_in));
}

bool Mentions(absl::string_view text, const std::set<std::string>& names) {
  const std::vector<absl::string_view> words = NamesIn(text);
  // "out" is mentioned by "out.mean", too.
  return std::any_of(words.begin(), words.end(), [&](absl::string_view word) {
    for (size_t end = word.find('.'); end != absl::string_view::npos; end = word.find('.', end + 1)) {
      if (names.count(std::string(word.substr(0, end))) != 0) return true;
    }
    return names.count(std::string(word)) != 0;
  });
}

// What a line does on stacks.
struct LineOnStack {
  bool allocates = false;                                            // by itself: it has the memory then
  std::map<std::pair<std::string, std::string>, UserFrame> callees;  // by file and function
};

// A function of a file, with the lines of it that stand on stacks.
struct KeepingFunction {
  UserFrame frame;
  std::map<uint32_t, LineOnStack> lines;
};

std::vector<KeepingFunction> FunctionsOf(const std::vector<std::vector<UserFrame>>& stacks) {
  std::vector<KeepingFunction> functions;
  std::map<std::pair<std::string, std::string>, size_t> known;
  for (const std::vector<UserFrame>& stack : stacks) {
    for (auto frame = stack.rbegin(); frame != stack.rend(); ++frame) {
      if (!frame->is_python) continue;
      const auto [it, is_new] = known.try_emplace({frame->file, frame->function}, functions.size());
      if (is_new) functions.push_back({*frame, {}});
      LineOnStack& line = functions[it->second].lines[frame->line];
      const auto callee = std::next(frame);
      if (callee != stack.rend() && callee->is_python)
        line.callees.try_emplace({callee->file, callee->function}, *callee);
      else
        line.allocates = true;
    }
  }
  return functions;
}

// The part behind the class: "update" of "Learner.update".
absl::string_view MethodName(absl::string_view function) { return function.substr(function.rfind('.') + 1); }

bool IsNumber(absl::string_view expression) {
  const std::vector<absl::string_view> names = NamesIn(expression);
  const bool is_constant = std::all_of(names.begin(), names.end(), [](absl::string_view each) {
    return each == "None" || each == "True" || each == "False";
  });
  const auto is_of = [](const auto& words, const auto& matches) {
    return std::any_of(words.begin(), words.end(), matches);
  };
  return is_constant ||
         is_of(kNumberCalls, [&](absl::string_view call) { return absl::StartsWith(expression, call); }) ||
         is_of(kNumberMethods, [&](absl::string_view method) { return absl::EndsWith(expression, method); });
}

// Whether a call may give its caller memory. Not where each of its returns is a number, or it has none.
bool MayReturnMemory(const UserFrame& callee, const SourceLines& source) {
  const absl::string_view name = MethodName(callee.function);
  const bool is_object = absl::StartsWith(name, "__") || absl::StartsWith(name, "<");  // __init__, <lambda>, <listcomp>
  const std::vector<std::string> lines = is_object ? std::vector<std::string>() : source(callee.file);
  if (lines.empty()) return true;
  for (const PythonStatement& statement : BodyAround(PythonStatements(lines), callee.line)) {
    absl::string_view value = statement.text;
    if (absl::StrContains(value, "yield")) return true;
    if (!absl::ConsumePrefix(&value, "return")) continue;
    for (const absl::string_view part : absl::StrSplit(value, ',')) {
      if (!IsNumber(absl::StripAsciiWhitespace(part))) return true;
    }
  }
  return false;
}

class KeeperSearch {
 public:
  KeeperSearch(Kept kept, const KeepingFunction& function, const std::vector<PythonStatement>& body,
               const SourceLines& source)
      : kept_(kept), function_(function), body_(body) {
    for (const auto& [number, line] : function.lines) {
      const bool gives =
          line.allocates || std::any_of(line.callees.begin(), line.callees.end(),
                                        [&](const auto& callee) { return MayReturnMemory(callee.second, source); });
      if (gives) lines_.insert(number);
    }
    for (const PythonStatement& statement : body) {
      if (IsOnStack(statement)) AddTargets(statement);
    }
    // A name may be handed on a few times.
    for (int i = 0; i < 3; ++i) {
      for (const PythonStatement& statement : body) {
        if (!statement.target.empty() && statement.op.empty() && !IsCut(statement.value, kept_) &&
            Mentions(statement.value, names_))
          AddTargets(statement);
      }
    }
  }

  std::vector<Keeper> Find() const {
    std::vector<Keeper> found;
    for (const PythonStatement& statement : body_) {
      if (statement.text.size() > kMaxStatement || !Keeps(statement)) continue;
      Keeper keeper{function_.frame, ""};
      keeper.frame.line = statement.first_line;
      found.push_back(std::move(keeper));
    }
    return found;
  }

 private:
  bool IsOnStack(const PythonStatement& statement) const {
    const auto line = lines_.lower_bound(statement.first_line);
    return line != lines_.end() && *line <= statement.last_line;
  }

  // `learner.update(batch)` runs the program's own method of that name, which is no dict's.
  bool IsOwnMethod(absl::string_view call, const PythonStatement& statement) const {
    call = call.substr(1, call.size() - 2);  // of ".update("
    for (auto line = function_.lines.lower_bound(statement.first_line);
         line != function_.lines.end() && line->first <= statement.last_line; ++line) {
      for (const auto& [name, callee] : line->second.callees)
        if (MethodName(callee.function) == call) return true;
    }
    return false;
  }

  void AddTargets(const PythonStatement& statement) {
    for (const absl::string_view target : absl::StrSplit(statement.target, absl::ByAnyChar(",=()"))) {
      const absl::string_view name = absl::StripAsciiWhitespace(target);
      if (!name.empty() && NamesIn(name).size() == 1) names_.insert(std::string(name));
    }
  }

  bool IsGraph(absl::string_view text, const PythonStatement& statement) const {
    return !IsCut(text, kept_) && (Mentions(text, names_) || IsOnStack(statement));
  }

  bool Keeps(const PythonStatement& statement) const {
    if (!statement.target.empty()) {
      if (!IsGraph(statement.value, statement)) return false;
      const bool is_element = absl::StrContains(statement.target, '[');
      const std::vector<absl::string_view> words = NamesIn(statement.value);
      const bool adds_to_itself = std::find(words.begin(), words.end(), statement.target) != words.end() &&
                                  absl::StrContains(statement.value, '+');
      return !statement.op.empty() || is_element || adds_to_itself;
    }
    for (const absl::string_view call : kKeepingCalls) {
      const size_t at = absl::string_view(statement.text).find(call);
      if (at != absl::string_view::npos && !IsOwnMethod(call, statement) &&
          IsGraph(absl::string_view(statement.text).substr(at + call.size()), statement))
        return true;
    }
    return false;
  }

  Kept kept_;
  const KeepingFunction& function_;
  const std::vector<PythonStatement>& body_;
  std::set<uint32_t> lines_;  // of the function, on the stacks, whose calls may give it memory
  std::set<std::string> names_;
};

}  // namespace

std::vector<Keeper> FindKeepers(Kept kept, const std::vector<std::vector<UserFrame>>& stacks,
                                const SourceLines& source) {
  std::vector<Keeper> keepers;
  for (const KeepingFunction& function : FunctionsOf(stacks)) {
    const std::vector<std::string> lines = source(function.frame.file);
    const std::vector<PythonStatement> statements = PythonStatements(lines);
    const std::vector<PythonStatement> body = BodyAround(statements, function.lines.begin()->first);
    for (Keeper& keeper : KeeperSearch(kept, function, body, source).Find()) {
      if (keepers.size() == kMaxKeepers) return keepers;
      const absl::string_view line = lines[keeper.frame.line - 1];
      const absl::string_view code = absl::StripAsciiWhitespace(line.substr(0, line.find("  #")));
      keeper.code = WithoutSecretsIn(code).substr(0, kMaxCode);
      keepers.push_back(std::move(keeper));
    }
  }
  return keepers;
}

}  // namespace gpumem
