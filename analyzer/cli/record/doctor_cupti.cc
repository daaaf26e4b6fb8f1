// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What `gpumemshim doctor` says of CUPTI (doctor_checks.h, docs/cross-check.md).

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "answers/report/cupti_words.h"
#include "cli/record/doctor_checks.h"
#include "replay/crosscheck/evidence.h"

namespace gpumem {
namespace {

// libcupti of the newest CUDA that the loader finds by name; "" where it finds none.
std::string FindByName() {
  for (const char* name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8"}) {
    void* handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) continue;
    link_map* map = nullptr;
    const bool known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0;
    std::string path = known ? map->l_name : name;
    dlclose(handle);
    return path;
  }
  return "";
}

}  // namespace

Finding CheckCupti() {
  const char* asked = std::getenv("GPUMEMSHIM_CUPTI");
  if (asked == nullptr || *asked == '\0' || absl::string_view(asked) == "0") {
    return {"cupti", Health::kOk, "not asked: GPUMEMSHIM_CUPTI is not set (gpumemshim doctor --cross-check sets it)",
            ""};
  }
  const std::string path = FindByName();
  if (!path.empty()) return {"cupti", Health::kOk, absl::StrCat("will be asked: ", path), ""};
  return {
      "cupti", Health::kWarning, "will be asked, but no libcupti is found by name",
      "install CUDA's extras/CUPTI or the nvidia-cuda-cupti wheel of the CUDA version in use, unless it is beside the "
      "program's libcudart, where the recorder looks too"};
}

Finding CheckCuptiOf(const std::string& trace) {
  const absl::StatusOr<CrossEvidence> evidence = ReadCrossEvidence(trace);
  if (!evidence.ok() || !evidence->has_cupti) return {"cupti", Health::kOk, "not asked, as far as the trace says", ""};
  const trace::CuptiState state = evidence->cupti.state();
  const bool watches = state == trace::CUPTI_RECORDING || state == trace::CUPTI_ENDED;
  const std::string found = state == trace::CUPTI_RECORDING ? absl::StrCat("watches (", evidence->cupti.library(), ")")
                                                            : CuptiSentence(ToInfo(evidence->cupti));
  return {"cupti", watches ? Health::kOk : Health::kWarning, found, ""};
}

}  // namespace gpumem
