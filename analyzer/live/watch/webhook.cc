// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "live/watch/webhook.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace gpumem {
namespace {

constexpr absl::string_view kThisMachine[] = {"localhost", "127.0.0.1", "[::1]"};

bool IsHostCharacter(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-'; }

bool IsPort(absl::string_view port) {
  uint32_t number = 0;
  return absl::SimpleAtoi(port, &number) && number >= 1 && number <= 65535;
}

bool IsPrintable(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f && c != '\\'; });
}

// As curl reads a value of its configuration.
std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}}), "\"");
}

}  // namespace

std::string WebhookHost(absl::string_view url) {
  const std::string lower = absl::AsciiStrToLower(url);
  absl::string_view rest = lower;
  if (absl::StartsWith(rest, "http://")) {
    rest.remove_prefix(7);
  } else if (absl::StartsWith(rest, "https://")) {
    rest.remove_prefix(8);
  } else {
    return "";
  }
  if (!IsPrintable(rest)) return "";
  absl::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  // An address with a user in it can look like another host's.
  if (absl::StrContains(authority, "@")) return "";
  if (absl::StartsWith(authority, "[")) {
    const size_t end = authority.find(']');
    if (end == absl::string_view::npos) return "";
    const absl::string_view port = authority.substr(end + 1);
    const bool is_fine = port.empty() || (port[0] == ':' && IsPort(port.substr(1)));
    return is_fine ? std::string(authority.substr(0, end + 1)) : "";
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(authority, ':');
  if (parts.size() > 2 || (parts.size() == 2 && !IsPort(parts[1]))) return "";
  const bool is_host = !parts[0].empty() && std::all_of(parts[0].begin(), parts[0].end(), IsHostCharacter);
  return is_host ? std::string(parts[0]) : "";
}

absl::Status CheckWebhook(absl::string_view url, const std::vector<std::string>& hosts) {
  const std::string host = WebhookHost(url);
  if (host.empty())
    return absl::InvalidArgumentError("--webhook takes an http:// or https:// address without a user in it.");
  for (const absl::string_view own : kThisMachine) {
    if (host == own) return absl::OkStatus();
  }
  for (const std::string& allowed : hosts) {
    if (absl::AsciiStrToLower(allowed) == host) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--webhook may not go to ", host, ". Allow it: --allow-host ", host, "."));
}

// -q: no file of the user's home may add anything, for instance redirects.
std::vector<std::string> WebhookCommand() { return {"curl", "-q", "--config", "-"}; }

std::string WebhookInput(absl::string_view url, absl::string_view json, double timeout_s) {
  return absl::StrCat(
      "silent\nshow-error\nfail\ngloboff\nproto = \"=http,https\"\nmax-redirs = 0\nmax-time = ", timeout_s,
      "\noutput = \"/dev/null\"\nheader = \"Content-Type: application/json\"\nurl = ", Quoted(url),
      "\ndata-raw = ", Quoted(json), "\n");
}

}  // namespace gpumem
