// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "replay/process_info.h"

#include <map>
#include <string>

#include "base/secrets.h"

namespace gpumem {
namespace {

template <typename Map>
std::map<std::string, std::string> WithoutSecretsIn(const Map& map) {
  std::map<std::string, std::string> masked;
  for (const auto& [name, value] : map) masked.emplace(name, WithoutSecrets(name, value));
  return masked;
}

}  // namespace

ProcessInfo ProcessInfoOf(const trace::Header& header) {
  ProcessInfo info;
  info.program = header.program();
  info.executable = header.executable();
  info.hostname = header.hostname();
  info.working_directory = header.working_directory();
  info.writer_version = header.writer_version();
  info.command_line = WithoutSecrets({header.command_line().begin(), header.command_line().end()});
  info.pid = header.pid();
  info.parent_pid = header.parent_pid();
  info.start_ticks = header.process_start_ticks();
  info.pid_namespace = header.pid_namespace();
  info.boot_id = header.boot_id();
  for (const trace::Ancestor& above : header.ancestors())
    info.ancestors.push_back({above.pid(), above.start_ticks(), above.name()});
  if (header.has_rank()) info.rank = static_cast<int>(header.rank());
  if (header.has_world_size()) info.world_size = static_cast<int>(header.world_size());
  info.settings = WithoutSecretsIn(header.settings());
  info.environment = WithoutSecretsIn(header.environment());
  info.anchor_monotonic_ns = header.anchor_monotonic_ns();
  info.anchor_realtime_ns = header.anchor_realtime_ns();
  return info;
}

}  // namespace gpumem
