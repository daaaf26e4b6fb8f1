// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/live/ctl_memory.h"

#include <filesystem>
#include <string>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "answers/parts/attribution_answer.h"
#include "base/file_output.h"
#include "base/json_writer.h"
#include "base/status_macros.h"
#include "cli/trace_options.h"
#include "ledger/load/attribute.h"
#include "ledger/load/moment.h"
#include "live/ctl_answers.h"
#include "live/ctl_client.h"
#include "live/ctl_snapshot.h"
#include "render/draw.h"

namespace gpumem {
namespace {

constexpr size_t kRows = 10;

// A copy of the trace as far as it is. "" where nothing was recorded.
absl::StatusOr<std::string> CopyInto(const std::string& folder, int pid) {
  const absl::StatusOr<ControlAnswer> flushed = AskProcess(pid, "flush");
  if (absl::IsFailedPrecondition(flushed.status())) return "";
  GPUMEM_RETURN_IF_ERROR(flushed.status());
  const std::string path = absl::StrCat(folder, "/", SnapshotName(flushed->Text("file")));
  GPUMEM_RETURN_IF_ERROR(TakeSnapshot(pid, flushed->Text("file"), flushed->Number("file_bytes"), path, false).status());
  return path;
}

absl::Status PrintFrom(const std::string& trace, const ControlAnswer& status, bool json, Console* console) {
  std::string out;
  JsonWriter writer(&out);
  if (json) {
    writer.BeginObject();
    writer.Field("schema_version", kJsonSchemaVersion);
    writer.Field("command", "ctl");
    writer.Field("asked", "memory");
    WriteJsonStatus(status, &writer);
    writer.Key("memory");
  } else {
    out = StatusText(status);
  }
  if (trace.empty()) {
    json ? writer.Null()
         : absl::StrAppend(&out, "  memory  gpumemshim ctl ", status.Text("pid"), " start asks PyTorch\n");
  } else {
    TraceOptions options;
    options.json = json;
    GPUMEM_ASSIGN_OR_RETURN(const auto loaded, LoadTrace(options, {trace}, console));
    AttributionRequest request;
    request.moments = {ParseMoment("end", *loaded)};
    GPUMEM_ASSIGN_OR_RETURN(const auto attribution, AttributeLoaded(request, "", loaded.get()));
    TextOptions shown;
    shown.top = json ? 0 : kRows;
    const Document answer = MomentAnswer("this moment", loaded->input, shown);
    if (json) {
      writer.BeginObject();
      WriteMembers(answer, &writer);
      writer.EndObject();
    } else {
      out += ToText(answer, console->out_style());
    }
  }
  if (json) {
    writer.EndObject();
    out += "\n";
  }
  console->Print(out);
  return absl::OkStatus();
}

}  // namespace

absl::Status PrintMemoryNow(int pid, bool json, Console* console) {
  GPUMEM_ASSIGN_OR_RETURN(const std::string folder, NewTemporaryFolder("ctl"));
  const absl::Cleanup remover = [&folder] {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  };
  GPUMEM_ASSIGN_OR_RETURN(const std::string trace, CopyInto(folder, pid));
  GPUMEM_ASSIGN_OR_RETURN(const ControlAnswer status, AskProcess(pid, "status"));
  return PrintFrom(trace, status, json, console);
}

}  // namespace gpumem
