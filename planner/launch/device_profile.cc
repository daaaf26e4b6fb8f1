// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "planner/launch/device_profile.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "planner/launch/embedded.h"

namespace gpumem::plan {
namespace {

std::string Plain(absl::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)))
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return plain;
}

std::vector<DeviceProfile> ReadDevices() {
  const nlohmann::json file = nlohmann::json::parse(EmbeddedDevices());
  std::vector<DeviceProfile> devices;
  for (const nlohmann::json& row : file.at("devices")) {
    DeviceProfile device;
    device.name = row.at("name");
    device.full_name = row.at("full_name");
    device.aliases = row.at("aliases").get<std::vector<std::string>>();
    device.memory_mib = row.at("memory_mib");
    device.capability = ParseCapability(row.at("capability").get<std::string>()).value_or(0);
    device.multiprocessors = row.at("multiprocessors");
    device.shared_memory = row.at("shared_memory");
    device.l2_cache = row.at("l2_cache");
    device.memory_bus = row.at("memory_bus");
    device.memory_clock_mhz = row.at("memory_clock_mhz");
    device.clock_mhz = row.at("clock_mhz");
    device.source = row.at("source");
    devices.push_back(std::move(device));
  }
  return devices;
}

bool IsCalled(const DeviceProfile& device, const std::string& plain) {
  if (Plain(device.name) == plain || Plain(device.full_name) == plain) return true;
  return std::any_of(device.aliases.begin(), device.aliases.end(),
                     [&](const std::string& alias) { return Plain(alias) == plain; });
}

}  // namespace

const std::vector<DeviceProfile>& AllDevices() {
  static const auto* const devices = new std::vector<DeviceProfile>(ReadDevices());
  return *devices;
}

absl::StatusOr<DeviceProfile> FindDevice(absl::string_view name) {
  const std::string plain = Plain(name);
  std::vector<std::string> names;
  for (const DeviceProfile& device : AllDevices()) {
    if (IsCalled(device, plain)) return device;
    names.push_back(device.name);
  }
  return absl::NotFoundError(absl::StrCat("no device \"", name, "\". Known are ", absl::StrJoin(names, ", "),
                                          "; any other one by --memory and --capability, as in --memory 40GiB "
                                          "--capability 8.6"));
}

absl::StatusOr<int> ParseCapability(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '.');
  int major = 0, minor = 0;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &major) || !absl::SimpleAtoi(parts[1], &minor) || major < 5 ||
      major > 99 || minor < 0 || minor > 9) {
    return absl::InvalidArgumentError(
        absl::StrCat("--capability ", text, " is none. Like this: --capability 8.6 (major and minor number)"));
  }
  return major * 10 + minor;
}

std::string CapabilityText(int capability) { return absl::StrCat(capability / 10, ".", capability % 10); }

}  // namespace gpumem::plan
