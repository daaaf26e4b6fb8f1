// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/leaks/keeper.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
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

// A function of a file, with the lines of it that stand on stacks.
struct KeepingFunction {
  UserFrame frame;
  std::set<uint32_t> lines;
};

std::vector<KeepingFunction> FunctionsOf(const std::vector<std::vector<UserFrame>>& stacks) {
  std::vector<KeepingFunction> functions;
  std::map<std::pair<std::string, std::string>, size_t> known;
  for (const std::vector<UserFrame>& stack : stacks) {
    for (auto frame = stack.rbegin(); frame != stack.rend(); ++frame) {
      if (!frame->is_python) continue;
      const auto [it, is_new] = known.try_emplace({frame->file, frame->function}, functions.size());
      if (is_new) functions.push_back({*frame, {}});
      functions[it->second].lines.insert(frame->line);
    }
  }
  return functions;
}

class KeeperSearch {
 public:
  KeeperSearch(Kept kept, const KeepingFunction& function, const std::vector<PythonStatement>& body)
      : kept_(kept), function_(function), body_(body) {
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
    const auto line = function_.lines.lower_bound(statement.first_line);
    return line != function_.lines.end() && *line <= statement.last_line;
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
      if (at != absl::string_view::npos &&
          IsGraph(absl::string_view(statement.text).substr(at + call.size()), statement))
        return true;
    }
    return false;
  }

  Kept kept_;
  const KeepingFunction& function_;
  const std::vector<PythonStatement>& body_;
  std::set<std::string> names_;
};

}  // namespace

std::vector<Keeper> FindKeepers(Kept kept, const std::vector<std::vector<UserFrame>>& stacks,
                                const SourceLines& source) {
  std::vector<Keeper> keepers;
  for (const KeepingFunction& function : FunctionsOf(stacks)) {
    const std::vector<std::string> lines = source(function.frame.file);
    const std::vector<PythonStatement> statements = PythonStatements(lines);
    const std::vector<PythonStatement> body = BodyAround(statements, *function.lines.begin());
    for (Keeper& keeper : KeeperSearch(kept, function, body).Find()) {
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
