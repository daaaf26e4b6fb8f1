// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/summary_only.h"

#include <initializer_list>

#include "shim/control/summary_folder.h"
#include "shim/settings/output_path.h"
#include "shim/settings/text.h"
#include "shim/writer/output_file.h"

namespace gpumemshim::control {
namespace {

constexpr char kSuffix[] = ".summary";

char g_folder[1100];
char g_target[4096];

}  // namespace

bool BeginSummaryOnly(const ProcessFacts& facts, Settings* settings) {
  g_target[0] = g_folder[0] = '\0';
  if (!OutputPath(settings->output, facts, g_target, sizeof g_target - sizeof kSuffix)) return false;
  if (writer::IsDevice(g_target) &&
      !FallbackPath(0, settings->fallback, facts, g_target, sizeof g_target - sizeof kSuffix))
    return false;
  Text(g_target + std::strlen(g_target), sizeof kSuffix).Add(kSuffix);
  const uint64_t asked_bytes = settings->size_limit.max_bytes;
  const bool is_smaller = asked_bytes != 0 && asked_bytes < kSummaryTraceBytes;
  settings->size_limit = {is_smaller ? asked_bytes : kSummaryTraceBytes, writer::OnFull::kLast};
  for (const char* place : {static_cast<const char*>(settings->ring_directory), "/dev/shm",
                            static_cast<const char*>(settings->fallback), "/tmp"}) {
    ClearDeadSummaryFolders(place);
    if (MakeSummaryFolder(place, facts.pid, facts.start_ticks, g_folder, sizeof g_folder)) return true;
  }
  g_target[0] = g_folder[0] = '\0';
  return false;
}

void EndSummaryOnly() {
  if (g_folder[0] != '\0') RemoveSummaryFolder(g_folder);
  g_folder[0] = '\0';
}

bool SummaryTracePath(char* out, size_t capacity) {
  if (g_target[0] == '\0') return false;
  Text text(out, capacity);
  text.Add(g_folder).Add("/trace.gmtrace");
  return !text.overflowed();
}

const char* SummaryTarget() { return g_target; }

}  // namespace gpumemshim::control
