// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/sweep/constraint.h"

#include <cctype>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace gpumem::plan {
namespace {

constexpr int kDeepest = 50;
constexpr size_t kLongest = 2000;  // characters

bool IsNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsNamePart(char c) { return IsNameStart(c) || std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.'; }

// A number or a text.
struct Value {
  std::string text;
  std::optional<double> number;
};

std::optional<double> Number(const std::string& text) {
  double value = 0;
  if (absl::SimpleAtod(text, &value) && std::isfinite(value)) return value;
  return std::nullopt;
}

}  // namespace

// Walks the tokens and computes on the way; both sides of `and` and `or`, so that a mistake shows whatever the values.
class Constraint::Evaluation {
 public:
  Evaluation(const Constraint& constraint, const Configuration* values) : constraint_(constraint), values_(values) {}

  absl::StatusOr<bool> Run() {
    GPUMEM_ASSIGN_OR_RETURN(const bool holds, Or());
    if (Now().kind != Token::Kind::kEnd) return Wrong(absl::StrCat("\"", Now().text, "\" is too much"));
    return holds;
  }

 private:
  const Token& Now() const { return constraint_.tokens_[at_]; }
  bool IsWord(absl::string_view word) const {
    return (Now().kind == Token::Kind::kName || Now().kind == Token::Kind::kSign) && Now().text == word;
  }
  bool Take(absl::string_view word) {
    if (!IsWord(word)) return false;
    ++at_;
    return true;
  }
  absl::Status Wrong(absl::string_view why) const {
    return absl::InvalidArgumentError(
        absl::StrCat("constraint '", constraint_.text_, "', character ", Now().at + 1, ": ", why));
  }

  absl::StatusOr<bool> Or() {
    if (++depth_ > kDeepest) return Wrong("too many parentheses");
    GPUMEM_ASSIGN_OR_RETURN(bool holds, And());
    while (Take("or")) {
      GPUMEM_ASSIGN_OR_RETURN(const bool other, And());
      holds = holds || other;
    }
    --depth_;
    return holds;
  }

  absl::StatusOr<bool> And() {
    GPUMEM_ASSIGN_OR_RETURN(bool holds, Not());
    while (Take("and")) {
      GPUMEM_ASSIGN_OR_RETURN(const bool other, Not());
      holds = holds && other;
    }
    return holds;
  }

  absl::StatusOr<bool> Not() {
    if (Take("not")) {
      GPUMEM_ASSIGN_OR_RETURN(const bool holds, Not());
      return !holds;
    }
    // "(" begins a condition or a sum: where no comparison follows the condition, it was one.
    const size_t here = at_;
    const int depth = depth_;
    if (Take("(")) {
      const absl::StatusOr<bool> inner = Or();
      if (inner.ok() && Take(")") && !IsOperator()) return *inner;
      at_ = here;
      depth_ = depth;
    }
    return Comparison();
  }

  bool IsOperator() const {
    for (const char* sign : {"<", "<=", ">", ">=", "==", "!=", "+", "-", "*", "/", "%"}) {
      if (IsWord(sign)) return true;
    }
    return false;
  }

  absl::StatusOr<bool> Comparison() {
    GPUMEM_ASSIGN_OR_RETURN(Value left, Sum());
    bool holds = true, is_any = false;
    while (true) {
      std::string sign;
      for (const char* candidate : {"<=", ">=", "==", "!=", "<", ">"}) {
        if (sign.empty() && Take(candidate)) sign = candidate;
      }
      if (sign.empty()) break;
      is_any = true;
      GPUMEM_ASSIGN_OR_RETURN(Value right, Sum());
      GPUMEM_ASSIGN_OR_RETURN(const bool part, Compare(left, sign, right));
      holds = holds && part;
      left = std::move(right);
    }
    if (!is_any) return Wrong("a comparison is missing, as in \"a <= b\"");
    return holds;
  }

  absl::StatusOr<bool> Compare(const Value& left, const std::string& sign, const Value& right) {
    if (sign == "==" || sign == "!=") {
      const bool same =
          left.number.has_value() && right.number.has_value() ? *left.number == *right.number : left.text == right.text;
      return same == (sign == "==");
    }
    GPUMEM_ASSIGN_OR_RETURN(const double a, AsNumber(left));
    GPUMEM_ASSIGN_OR_RETURN(const double b, AsNumber(right));
    return sign == "<" ? a < b : sign == "<=" ? a <= b : sign == ">" ? a > b : a >= b;
  }

  absl::StatusOr<double> AsNumber(const Value& value) const {
    if (value.number.has_value()) return *value.number;
    return Wrong(absl::StrCat("\"", value.text, "\" is not a number"));
  }

  absl::StatusOr<Value> Sum() {
    GPUMEM_ASSIGN_OR_RETURN(Value value, Product());
    while (IsWord("+") || IsWord("-")) {
      const bool adds = Take("+");
      if (!adds) Take("-");
      GPUMEM_ASSIGN_OR_RETURN(const Value other, Product());
      GPUMEM_ASSIGN_OR_RETURN(const double a, AsNumber(value));
      GPUMEM_ASSIGN_OR_RETURN(const double b, AsNumber(other));
      value = {"", adds ? a + b : a - b};
    }
    return value;
  }

  absl::StatusOr<Value> Product() {
    GPUMEM_ASSIGN_OR_RETURN(Value value, Factor());
    while (IsWord("*") || IsWord("/") || IsWord("%")) {
      const char sign = Now().text[0];
      ++at_;
      GPUMEM_ASSIGN_OR_RETURN(const Value other, Factor());
      GPUMEM_ASSIGN_OR_RETURN(const double a, AsNumber(value));
      GPUMEM_ASSIGN_OR_RETURN(const double b, AsNumber(other));
      if (sign != '*' && b == 0) return Wrong("a division by zero");
      value = {"", sign == '*' ? a * b : sign == '/' ? a / b : std::fmod(a, b)};
    }
    return value;
  }

  absl::StatusOr<Value> Factor() {
    const Token token = Now();
    if (Take("-")) {
      GPUMEM_ASSIGN_OR_RETURN(const Value value, Factor());
      GPUMEM_ASSIGN_OR_RETURN(const double number, AsNumber(value));
      return Value{"", -number};
    }
    if (Take("(")) {
      if (++depth_ > kDeepest) return Wrong("too many parentheses");
      GPUMEM_ASSIGN_OR_RETURN(Value value, Sum());
      if (!Take(")")) return Wrong("a \")\" is missing");
      --depth_;
      return value;
    }
    if (token.kind == Token::Kind::kEnd || token.kind == Token::Kind::kSign)
      return Wrong("a name or a number is missing");
    ++at_;
    if (token.kind == Token::Kind::kText) return Value{token.text, std::nullopt};
    if (token.kind == Token::Kind::kNumber) return Value{token.text, Number(token.text)};
    if (values_ == nullptr) return Value{"1", 1};  // only the form is looked at
    for (const auto& [name, value] : *values_) {
      if (name == token.text) return Value{value, Number(value)};
    }
    --at_;
    return Wrong(absl::StrCat("\"", token.text, "\" is not an axis of this sweep"));
  }

  const Constraint& constraint_;
  const Configuration* const values_;
  size_t at_ = 0;
  int depth_ = 0;
};

absl::StatusOr<std::vector<Constraint::Token>> Constraint::Split(absl::string_view text) {
  std::vector<Token> tokens;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    const size_t begin = i;
    if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      ++i;
    } else if (c == '"' || c == '\'') {
      const size_t end = text.find(c, i + 1);
      if (end == absl::string_view::npos)
        return absl::InvalidArgumentError(absl::StrCat("constraint '", text, "': a quote is open"));
      tokens.push_back({Token::Kind::kText, std::string(text.substr(i + 1, end - i - 1)), begin});
      i = end + 1;
    } else if (IsNameStart(c)) {
      while (i < text.size() && IsNamePart(text[i])) ++i;
      tokens.push_back({Token::Kind::kName, std::string(text.substr(begin, i - begin)), begin});
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      while (i < text.size() && (IsNamePart(text[i]))) ++i;
      tokens.push_back({Token::Kind::kNumber, std::string(text.substr(begin, i - begin)), begin});
      if (!Number(tokens.back().text).has_value()) {
        return absl::InvalidArgumentError(
            absl::StrCat("constraint '", text, "': \"", tokens.back().text, "\" is not a number"));
      }
    } else {
      const bool is_long =
          i + 1 < text.size() && text[i + 1] == '=' && absl::string_view("<>=!").find(c) != absl::string_view::npos;
      const absl::string_view sign = text.substr(i, is_long ? 2 : 1);
      if (!is_long && absl::string_view("<>+-*/%()").find(c) == absl::string_view::npos)
        return absl::InvalidArgumentError(absl::StrCat("constraint '", text, "': \"", sign, "\" means nothing here"));
      tokens.push_back({Token::Kind::kSign, std::string(sign), begin});
      i += sign.size();
    }
  }
  tokens.push_back({Token::Kind::kEnd, "the end", text.size()});
  return tokens;
}

absl::StatusOr<Constraint> Constraint::Parse(absl::string_view text) {
  if (text.size() > kLongest) return absl::InvalidArgumentError("a constraint of more than 2,000 characters");
  Constraint constraint;
  constraint.text_ = std::string(text);
  GPUMEM_ASSIGN_OR_RETURN(constraint.tokens_, Split(text));
  GPUMEM_RETURN_IF_ERROR(Evaluation(constraint, nullptr).Run().status());
  return constraint;
}

absl::StatusOr<bool> Constraint::Holds(const Configuration& values) const { return Evaluation(*this, &values).Run(); }

}  // namespace gpumem::plan
