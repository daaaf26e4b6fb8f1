// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "symbols/names.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace gpumem {
namespace {

constexpr absl::string_view kAnonymous = "(anonymous namespace)";
constexpr absl::string_view kOperator = "operator";
constexpr absl::string_view kStubOfKernel = "__device_stub_";  // what nvcc makes of a kernel's name on the host
constexpr absl::string_view kPlt = "@plt";                     // a stub of the dynamic linker
// Of one name. The longest of PyTorch 2.11's has 14,356 bytes.
constexpr size_t kMaxNameBytes = 32 << 10;
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
    } else if (AtDeclarator()) {
      at_ += 2;
      out_.clear();
    } else if (c == '(' || c == '<' || c == '[') {
      at_ = SkipBrackets(text_, at_);
    } else if (c == ')') {
      done_ = true;  // behind the declarator
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

  // "void (*make(int))(char)" is a function that returns a pointer to one.
  bool AtDeclarator() const { return absl::StartsWith(Rest(), "(*") && Rest().size() > 2 && IsNameChar(Rest()[2]); }

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

bool IsStubOfKernel(absl::string_view name) {
  return absl::StartsWith(name, kStubOfKernel) && absl::StartsWith(name.substr(kStubOfKernel.size()), "_Z");
}

// Of a name that no demangler takes (they refuse the longest ones): what can be read off its start, as in
// "cutlass::Kernel" of _ZN7cutlass6KernelI....
std::string StartOfMangled(absl::string_view symbol) {
  absl::ConsumePrefix(&symbol, "_Z");
  while (absl::ConsumePrefix(&symbol, "Z")) {
  }
  absl::ConsumePrefix(&symbol, "L");
  const bool is_nested = absl::ConsumePrefix(&symbol, "N");
  while (is_nested && (absl::ConsumePrefix(&symbol, "K") || absl::ConsumePrefix(&symbol, "V"))) {
  }
  std::string name = absl::ConsumePrefix(&symbol, "St") ? "std" : "";
  do {
    size_t digits = 0, size = 0;
    for (; digits < symbol.size() && digits < 6 && absl::ascii_isdigit(static_cast<unsigned char>(symbol[digits]));
         ++digits)
      size = size * 10 + static_cast<size_t>(symbol[digits] - '0');
    if (digits == 0 || size == 0 || size > symbol.size() - digits) break;
    absl::string_view part = symbol.substr(digits, size);
    symbol.remove_prefix(digits + size);
    if (IsStubOfKernel(part)) return StartOfMangled(part.substr(kStubOfKernel.size()));
    if (absl::StartsWith(part, "_GLOBAL__N_")) part = kAnonymous;
    absl::StrAppend(&name, name.empty() ? "" : "::", part);
  } while (is_nested);
  return name;
}

}  // namespace

std::string Demangle(const std::string& symbol) {
  const absl::string_view stub = absl::EndsWith(symbol, kPlt) ? kPlt : "";
  const std::string name = symbol.substr(0, symbol.size() - stub.size());
  if (!absl::StartsWith(name, "_Z")) return symbol.substr(0, kMaxNameBytes);
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> full(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                         &std::free);
  if (status != 0 || full == nullptr) return symbol.substr(0, kMaxNameBytes);
  return absl::StrCat(absl::string_view(full.get()).substr(0, kMaxNameBytes), stub);
}

std::string ShortName(absl::string_view demangled) {
  if (absl::StartsWith(demangled, "_Z") || IsStubOfKernel(demangled)) {
    const absl::string_view mangled = IsStubOfKernel(demangled) ? demangled.substr(kStubOfKernel.size()) : demangled;
    const std::string start = StartOfMangled(mangled);
    return start.empty() ? std::string(demangled) : start;
  }
  const bool is_stub = absl::ConsumeSuffix(&demangled, kPlt);
  std::string name = Shortener(demangled).Run();
  while (!name.empty() && (name.front() == '*' || name.front() == '&')) name.erase(0, 1);
  if (name.empty()) name = std::string(demangled);
  return is_stub ? absl::StrCat(name, kPlt) : name;
}

std::string WithoutResumption(absl::string_view python_name) {
  constexpr absl::string_view kBegin = "torch_dynamo_resume_in_", kEnd = "_at_";
  const size_t begin = python_name.rfind('.') == absl::string_view::npos ? 0 : python_name.rfind('.') + 1;
  absl::string_view name = python_name.substr(begin);
  while (absl::StartsWith(name, kBegin) && name.rfind(kEnd) != absl::string_view::npos)
    name = name.substr(kBegin.size(), name.rfind(kEnd) - kBegin.size());
  return absl::StrCat(python_name.substr(0, begin), name);
}

}  // namespace gpumem
