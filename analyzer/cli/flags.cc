// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/flags.h"

#include <CLI/CLI.hpp>

namespace gpumem {
namespace {

// CLI11 would put what a validator wants behind the flag's own words.
CLI::Validator Silent(CLI::Validator validator) { return validator.description(""); }

}  // namespace

Flag Flag::Value(const char* name) const {
  option_->type_name(name);
  return *this;
}

Flag Flag::OneOf(const std::vector<std::string>& values) const {
  option_->check(Silent(CLI::IsMember(values)));
  return *this;
}

Flag Flag::Between(uint64_t least, uint64_t most) const {
  option_->check(Silent(CLI::Range(least, most)));
  return *this;
}

Flag Flag::Percentage() const {
  option_->check(Silent(CLI::Range(0.0, 100.0)));
  return *this;
}

Flag Flag::AtLeastZero() const {
  option_->check(Silent(CLI::NonNegativeNumber));
  return *this;
}

Flag Flag::Repeats() const {
  option_->expected(1)->take_all()->allow_extra_args(false);
  return *this;
}

Flag Flag::Excludes(Flag other) const {
  option_->excludes(other.option_);
  return *this;
}

bool Flag::given() const { return option_ != nullptr && option_->count() > 0; }

std::string FlagGroup::first_given() const {
  if (app_ == nullptr) return "";
  for (const CLI::Option* const option : app_->get_options()) {
    if (option->get_group() == title_ && option->count() > 0) return option->get_name();
  }
  return "";
}

FlagGroup Flags::Begin(const char* title) {
  group_ = title;
  return {app_, group_};
}

Flag Flags::Add(const char* names, bool* value, const std::string& help) {
  return Flag(app_->add_flag(names, *value, help)->group(group_));
}

Flag Flags::Add(const char* names, std::string* value, const std::string& help) {
  return Flag(app_->add_option(names, *value, help)->group(group_));
}

Flag Flags::Add(const char* names, double* value, const std::string& help) {
  return Flag(app_->add_option(names, *value, help)->group(group_));
}

Flag Flags::Add(const char* names, int* value, const std::string& help) {
  return Flag(app_->add_option(names, *value, help)->group(group_));
}

Flag Flags::Add(const char* names, std::optional<int>* value, const std::string& help) {
  return Flag(app_->add_option(names, *value, help)->group(group_));
}

Flag Flags::Add(const char* names, int64_t* value, const std::string& help) {
  return Flag(app_->add_option(names, *value, help)->group(group_));
}

Flag Flags::Add(const char* names, uint32_t* value, const std::string& help) {
  return Flag(app_->add_option(names, *value, help)->group(group_));
}

Flag Flags::Add(const char* names, uint64_t* value, const std::string& help) {
  return Flag(app_->add_option(names, *value, help)->group(group_));
}

Flag Flags::Add(const char* names, std::vector<std::string>* value, const std::string& help) {
  return Flag(app_->add_option(names, *value, help)->group(group_));
}

Flag Flags::Add(const char* names, std::vector<int64_t>* value, const std::string& help) {
  return Flag(app_->add_option(names, *value, help)->group(group_));
}

}  // namespace gpumem
