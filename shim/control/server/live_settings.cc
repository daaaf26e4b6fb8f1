// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/server/live_settings.h"

#include <cstring>

#include "shim/control/progress.h"
#include "shim/control/stderr_lines.h"
#include "shim/python/owners.h"
#include "shim/settings/settings.h"
#include "shim/settings/text.h"

namespace gpumemshim::control {
namespace {

constexpr char kLog[] = "GPUMEMSHIM_LOG", kStatus[] = "GPUMEMSHIM_STATUS", kOwners[] = "GPUMEMSHIM_OWNERS_MS";
constexpr const char* kNames[kLiveSettings] = {kLog, kStatus, kOwners};

bool SetLog(const char* value) {
  // No level is both of these.
  const LogLevel level = ParseLogLevel(value, LogLevel::kOff);
  if (level != ParseLogLevel(value, LogLevel::kInfo)) return false;
  SetLogLevel(level);
  return true;
}

bool SetStatus(const char* value) {
  const uint32_t interval_ms = ParseInterval(value);
  if (interval_ms == 0 && std::strcmp(value, "0") != 0) return false;
  SetProgressInterval(interval_ms);
  return true;
}

bool SetOwners(const char* value) {
  const uint32_t limit_ms = ParseMilliseconds(value, UINT32_MAX);
  if (limit_ms == UINT32_MAX) return false;
  python::SetOwnersLimit(limit_ms);
  return true;
}

struct Live {
  const char* name;
  bool (*set)(const char* value);
  const char* allowed;
};
constexpr Live kLive[] = {{kLog, &SetLog, "off, error, warning, info or debug"},
                          {kStatus, &SetStatus, "0, or an interval such as 10s, 5m, 1h"},
                          {kOwners, &SetOwners, "milliseconds; 0 = no look at owners"}};

bool IsSetting(const char* name) {
  for (const char* known : kSettingNames) {
    if (std::strcmp(known, name) == 0) return true;
  }
  return false;
}

// Why a setting that nobody can change here is refused.
const char* Refused(const char* name) {
  static char why[384];
  Text text(why, sizeof why);
  if (std::strcmp(name, "GPUMEMSHIM_START") == 0 || std::strcmp(name, "GPUMEMSHIM_DISABLE") == 0)
    return "recording is switched by start and stop";
  if (std::strcmp(name, "GPUMEMSHIM_QUIET") == 0) return "GPUMEMSHIM_LOG=off has taken its place";
  if (IsSetting(name)) {
    text.AddPrintable(name).Add(" is read once, when the program first uses CUDA: start the program with it. ");
  } else {
    text.AddPrintable(name).Add(" is not a setting");
    const char* nearest = NearestSetting(name, std::strlen(name));
    if (nearest != nullptr) text.Add(" (").Add(nearest).Add(" is)");
    text.Add(". ");
  }
  text.Add("What can be changed: ");
  for (const char* live : kNames) text.Add(live == kNames[0] ? "" : ", ").Add(live);
  return why;
}

}  // namespace

const char* SetLiveSetting(const char* text, size_t size) {
  static char name[128], why[256];
  const auto* const equals = static_cast<const char*>(std::memchr(text, '=', size));
  if (equals == nullptr) return "set needs NAME=VALUE, such as GPUMEMSHIM_LOG=debug";
  char value[64];
  Text(name, sizeof name).Add(text, static_cast<size_t>(equals - text));
  Text held(value, sizeof value);
  held.Add(equals + 1, size - static_cast<size_t>(equals + 1 - text));
  for (const Live& live : kLive) {
    if (std::strcmp(live.name, name) != 0) continue;
    if (!held.overflowed() && live.set(value)) return nullptr;
    Text(why, sizeof why).Add(name).Add(" may be ").Add(live.allowed);
    return why;
  }
  return Refused(name);
}

void GetLiveSettings(LiveValues* out) {
  for (uint32_t i = 0; i < kLiveSettings; ++i) out->settings[i] = {kNames[i], out->room[i], true};
  Text(out->room[0], sizeof out->room[0]).Add(LogLevelName(GetLogLevel()));
  Text status(out->room[1], sizeof out->room[1]);
  status.Add(uint64_t{ProgressInterval() / 1000});
  if (ProgressInterval() != 0) status.Add('s');
  Text(out->room[2], sizeof out->room[2]).Add(uint64_t{python::GetOwnersLimit()});
}

}  // namespace gpumemshim::control
