// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "answers/compare/limits.h"

#include <yaml-cpp/yaml.h>

#include <cmath>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "answers/compare/text_file.h"
#include "base/format.h"
#include "base/status_macros.h"

namespace gpumem {
namespace {

absl::Status SetBytes(absl::string_view key, absl::string_view value, std::optional<uint64_t>* limit) {
  *limit = ParseBytes(value);
  if (limit->has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(key, ": ", value, " is not a size. Give bytes, 512MiB or 70GiB"));
}

absl::StatusOr<double> Percentage(absl::string_view key, absl::string_view value) {
  absl::string_view digits = absl::StripAsciiWhitespace(absl::StripSuffix(value, "%"));
  double percent = 0;
  if (absl::SimpleAtod(digits, &percent) && std::isfinite(percent) && percent >= 0 && percent <= 1000)
    return percent / 100;
  return absl::InvalidArgumentError(absl::StrCat(key, ": ", value, " is not a percentage. Give 20%"));
}

}  // namespace

absl::Status SetLimit(absl::string_view key, const std::string& value, Limits* limits) {
  if (key == "max_peak") return SetBytes(key, value, &limits->max_peak);
  if (key == "max_reserved") return SetBytes(key, value, &limits->max_reserved);
  if (key == "max_total") return SetBytes(key, value, &limits->max_total);
  if (key == "max_leak") {
    const absl::string_view bytes = absl::StripSuffix(absl::StripSuffix(value, "/step"), "/iteration");
    return SetBytes(key, bytes, &limits->max_leak);
  }
  if (key == "max_fragmentation") {
    GPUMEM_ASSIGN_OR_RETURN(limits->max_fragmentation, Percentage(key, value));
    return absl::OkStatus();
  }
  if (key == "tolerance") {
    GPUMEM_ASSIGN_OR_RETURN(limits->tolerance, Percentage(key, value));
    return absl::OkStatus();
  }
  if (key == "baseline") {
    limits->baseline = value;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", key,
                   "\" is not a limit; these are: max_peak, max_reserved, max_total, max_leak, "
                   "max_fragmentation, baseline, tolerance"));
}

absl::StatusOr<Limits> ParseLimits(const std::string& text, const std::string& name, const std::string& folder) {
  const auto wrong = [&](int line, absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(name, ":", line + 1, ": ", what, ". docs/ci.md has an example."));
  };
  Limits limits;
  try {
    const YAML::Node root = YAML::Load(text);
    if (!root.IsMap()) return wrong(0, "limits are lines like `max_peak: 70GiB`");
    std::set<std::string> seen;
    for (const auto& entry : root) {
      if (!entry.first.IsScalar() || !entry.second.IsScalar())
        return wrong(entry.first.Mark().line, "a limit is one value");
      const std::string key = entry.first.as<std::string>();
      if (!seen.insert(key).second) return wrong(entry.first.Mark().line, absl::StrCat(key, " is there twice"));
      const absl::Status status = SetLimit(key, entry.second.as<std::string>(), &limits);
      if (!status.ok()) return wrong(entry.first.Mark().line, status.message());
    }
  } catch (const YAML::Exception& error) {
    return wrong(error.mark.line, error.msg);
  }
  if (!limits.any()) return wrong(0, "no limit in it");
  if (!limits.baseline.empty() && limits.baseline.front() != '/' && !folder.empty())
    limits.baseline = absl::StrCat(folder, "/", limits.baseline);
  return limits;
}

absl::StatusOr<Limits> ReadLimits(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadTextFile(path);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  const size_t slash = path.rfind('/');
  return ParseLimits(*text, path, slash == std::string::npos ? "" : path.substr(0, slash));
}

void Override(const Limits& other, bool has_tolerance, Limits* limits) {
  if (other.max_peak) limits->max_peak = other.max_peak;
  if (other.max_reserved) limits->max_reserved = other.max_reserved;
  if (other.max_total) limits->max_total = other.max_total;
  if (other.max_leak) limits->max_leak = other.max_leak;
  if (other.max_fragmentation) limits->max_fragmentation = other.max_fragmentation;
  if (!other.baseline.empty()) limits->baseline = other.baseline;
  if (has_tolerance) limits->tolerance = other.tolerance;
}

}  // namespace gpumem
