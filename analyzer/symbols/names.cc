// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/names.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace gpumem {
namespace {

constexpr absl::string_view kAnonymous = "(anonymous namespace)";
constexpr absl::string_view kOperator = "operator";
// Longest first.
constexpr absl::string_view kOperatorSigns[] = {"<=>", "<<=", ">>=", "->*", "()", "[]", "<<", ">>", "<=", ">=", "->"};

bool IsNameChar(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$'; }

// The place behind the bracket that closes the one at `open`.
size_t SkipBrackets(absl::string_view text, size_t open) {
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '-' && i + 1 < text.size() && text[i + 1] == '>') {
      ++i;  // an arrow closes nothing
    } else if (c == '<' || c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if ((c == '>' || c == ')' || c == ']' || c == '}') && --depth == 0) {
      return i + 1;
    }
  }
  return text.size();
}

// Walks once through a demangled name and keeps the parts that name something.
class Shortener {
 public:
  explicit Shortener(absl::string_view text) : text_(text) {}

  std::string Run() {
    while (at_ < text_.size() && !done_) Step();
    return std::move(out_);
  }

 private:
  absl::string_view Rest() const { return text_.substr(at_); }

  void Step() {
    const char c = text_[at_];
    if (AtOperator()) {
      TakeOperator();
    } else if (absl::StartsWith(Rest(), kAnonymous)) {
      Take(kAnonymous.size());
    } else if (c == '{') {
      TakeBraces();
    } else if (c == '(' || c == '<' || c == '[') {
      at_ = SkipBrackets(text_, at_);
    } else if (c == ' ') {
      TakeSpace();
    } else {
      Take(1);
    }
  }

  void Take(size_t count) {
    out_.append(text_.data() + at_, count);
    at_ += count;
  }

  bool AtOperator() const {
    if (!absl::StartsWith(Rest(), kOperator) || Rest().size() == kOperator.size()) return false;
    return (at_ == 0 || !IsNameChar(text_[at_ - 1])) && !IsNameChar(Rest()[kOperator.size()]);
  }

  void TakeOperator() {
    Take(kOperator.size());
    for (const absl::string_view sign : kOperatorSigns) {
      if (!absl::StartsWith(Rest(), sign)) continue;
      Take(sign.size());
      if (absl::StartsWith(Rest(), " <")) ++at_;  // template arguments, held apart from the sign
      return;
    }
    if (text_[at_] == ' ') {
      // A conversion, new or delete: everything up to the parameters belongs to the name.
      const size_t end = text_.find('(', at_);
      return Take((end == absl::string_view::npos ? text_.size() : end) - at_);
    }
    Take(1);
    if (at_ < text_.size() && (text_[at_] == '=' || text_[at_] == text_[at_ - 1])) Take(1);  // ==, +=, &&, ++
  }

  // "{lambda(int)#1}" becomes "{lambda#1}".
  void TakeBraces() {
    const size_t end = SkipBrackets(text_, at_);
    while (at_ < end) {
      if (text_[at_] == '(') {
        at_ = SkipBrackets(text_, at_);
      } else {
        Take(1);
      }
    }
  }

  // What stands before a space is a return type, what stands behind the name's last one a qualifier.
  void TakeSpace() {
    ++at_;
    for (const absl::string_view qualifier : {"const", "volatile", "&", "[", "noexcept"}) {
      if (absl::StartsWith(Rest(), qualifier) && !out_.empty()) {
        // "const" may also belong to a return type, "char const* f()": then more names follow behind it.
        if (Rest().find("::", qualifier.size()) == absl::string_view::npos &&
            Rest().find('(', qualifier.size()) == absl::string_view::npos) {
          done_ = true;
          return;
        }
        break;
      }
    }
    if (!IsBehindParameters()) out_.clear();
  }

  // "f(int) const::{lambda()#1}": the qualifier stands inside the name.
  bool IsBehindParameters() const { return at_ >= 2 && text_[at_ - 2] == ')' && absl::StartsWith(Rest(), "const"); }

  absl::string_view text_;
  size_t at_ = 0;
  std::string out_;
  bool done_ = false;
};

}  // namespace

std::string Demangle(const std::string& symbol) {
  if (!absl::StartsWith(symbol, "_Z")) return symbol;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 && name != nullptr ? name.get() : symbol;
}

std::string ShortName(absl::string_view demangled) {
  std::string name = Shortener(demangled).Run();
  while (!name.empty() && (name.front() == '*' || name.front() == '&')) name.erase(0, 1);
  return name.empty() ? std::string(demangled) : name;
}

}  // namespace gpumem
