// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "ledger/stacks/names.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "gpumem/trace.pb.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

template <size_t N>
absl::string_view NameAt(const absl::string_view (&names)[N], size_t index) {
  return index < N ? names[index] : absl::string_view("unknown");
}

constexpr absl::string_view kPeakBounds[] = {"exact", "at_least", "about"};

}  // namespace

absl::string_view MeasureName(Measure measure) {
  static constexpr absl::string_view kNames[] = {"allocated", "reserved", "other", "total"};
  return NameAt(kNames, static_cast<size_t>(measure));
}

absl::string_view LayerName(uint8_t layer) {
  static constexpr absl::string_view kNames[] = {"unknown", "driver", "runtime", "torch"};
  return NameAt(kNames, layer);
}

absl::string_view MemoryName(uint8_t memory) {
  static constexpr absl::string_view kNames[] = {"device",    "stream_ordered", "managed",  "host_pinned",
                                                 "array",     "virtual",        "physical", "physical_host",
                                                 "multicast", "external"};
  return NameAt(kNames, memory);
}

std::string EventKindName(uint32_t kind) {
  if (kind == kTorchFreeCompleted) return "free_completed";
  if (kind == kTorchReserved) return "torch_reserved";
  const std::string& name = trace::EventKind_Name(static_cast<trace::EventKind>(kind));
  return name.empty() ? absl::StrCat(kind) : absl::AsciiStrToLower(name);
}

std::string DeviceLabel(int device) { return device < 0 ? "the host" : absl::StrCat("GPU ", device); }

std::string BoundedBytes(PeakBound bound, uint64_t bytes) {
  static constexpr absl::string_view kWords[] = {"", "at least ", "about "};
  return absl::StrCat(kWords[static_cast<size_t>(bound)], FormatBytes(bytes));
}

absl::string_view BoundSign(PeakBound bound) {
  static constexpr absl::string_view kSigns[] = {"", ">= ", "~ "};
  return kSigns[static_cast<size_t>(bound)];
}

absl::string_view PeakBoundName(PeakBound bound) { return kPeakBounds[static_cast<size_t>(bound)]; }

bool PeakBoundOf(absl::string_view name, PeakBound* bound) {
  const auto* const found = std::find(std::begin(kPeakBounds), std::end(kPeakBounds), name);
  if (found == std::end(kPeakBounds)) return false;
  *bound = static_cast<PeakBound>(found - std::begin(kPeakBounds));
  return true;
}

std::string ResultName(int result) {
  // The numbers that CUresult and cudaError_t share, as far as allocation calls return them.
  switch (result) {
    case 1:
      return "invalid value (1)";
    case 2:
      return "out of memory (2)";
    case 3:
      return "not initialized (3)";
    case 100:
      return "no device (100)";
    case 101:
      return "invalid device (101)";
    case 201:
      return "invalid context (201)";
    case 700:
      return "illegal address (700)";
    case 801:
      return "not supported (801)";
    default:
      return absl::StrCat("error ", result);
  }
}

}  // namespace gpumem
