// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "import/device_memory_profile.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/format.h"
#include "base/status_macros.h"
#include "import/wire.h"
#include "shared/event.h"
#include "trace/import_info.h"

namespace gpumem {
namespace {

// Fields of pprof's messages.
enum ProfileField : uint32_t {
  kProfileSampleType = 1,
  kProfileSample = 2,
  kProfileLocation = 4,
  kProfileFunction = 5,
  kProfileString = 6,
  kProfileTimeNs = 9
};

constexpr uint64_t kMostBuffers = 1000000;  // of one sample that are shown apart
constexpr size_t kMostRows = 4000000;
constexpr uint64_t kBytesForOne = 24;  // that a byte of the file may take, as numbers of a sample's

struct ProfileLine {
  uint64_t function = 0, line = 0;
};

struct ProfileFunction {
  uint64_t name = 0, file = 0;
};

struct ProfileSample {
  std::vector<uint64_t> locations, values;
  uint64_t device = 0, kind = 0;  // strings
};

struct Profile {
  std::vector<absl::string_view> strings;
  std::vector<uint64_t> units;  // strings: of each value
  std::vector<ProfileSample> samples;
  absl::flat_hash_map<uint64_t, std::vector<ProfileLine>> locations;
  absl::flat_hash_map<uint64_t, ProfileFunction> functions;
  uint64_t time_ns = 0;
  bool ok = true;

  absl::string_view Text(uint64_t index) const { return index < strings.size() ? strings[index] : absl::string_view(); }
};

void ReadSampleType(absl::string_view message, Profile* profile) {
  profile->units.push_back(0);
  WireFields fields(message);
  while (fields.Next()) {
    if (fields.number() == 2) profile->units.back() = fields.value();
  }
}

void ReadSample(absl::string_view message, Profile* profile) {
  ProfileSample sample;
  WireFields fields(message);
  while (fields.Next()) {
    if (fields.number() == 1) fields.AppendTo(&sample.locations);
    if (fields.number() == 2) fields.AppendTo(&sample.values);
    if (fields.number() != 3) continue;
    uint64_t key = 0, value = 0;
    WireFields label(fields.bytes());
    while (label.Next()) {
      if (label.number() == 1) key = label.value();
      if (label.number() == 2) value = label.value();
    }
    if (profile->Text(key) == "device") sample.device = value;
    if (profile->Text(key) == "kind") sample.kind = value;
  }
  profile->ok &= fields.ok() && sample.values.size() == profile->units.size();
  profile->samples.push_back(std::move(sample));
}

void ReadLocation(absl::string_view message, Profile* profile) {
  uint64_t id = 0;
  std::vector<ProfileLine> lines;
  WireFields fields(message);
  while (fields.Next()) {
    if (fields.number() == 1) id = fields.value();
    if (fields.number() != 4) continue;
    lines.emplace_back();
    WireFields line(fields.bytes());
    while (line.Next()) {
      if (line.number() == 1) lines.back().function = line.value();
      if (line.number() == 2) lines.back().line = line.value();
    }
  }
  profile->ok &= fields.ok();
  profile->locations[id] = std::move(lines);
}

void ReadFunction(absl::string_view message, Profile* profile) {
  uint64_t id = 0;
  ProfileFunction function;
  WireFields fields(message);
  while (fields.Next()) {
    if (fields.number() == 1) id = fields.value();
    if (fields.number() == 2) function.name = fields.value();
    if (fields.number() == 4) function.file = fields.value();
  }
  profile->ok &= fields.ok();
  profile->functions[id] = function;
}

// Strings come last in the file, and samples name them: two passes.
Profile ReadProfile(absl::string_view bytes) {
  Profile profile;
  WireFields strings(bytes);
  while (strings.Next()) {
    if (strings.number() == kProfileString) profile.strings.push_back(strings.bytes());
  }
  profile.ok = strings.ok();
  WireFields fields(bytes);
  while (fields.Next()) {
    if (fields.number() == kProfileSampleType) ReadSampleType(fields.bytes(), &profile);
    if (fields.number() == kProfileSample) ReadSample(fields.bytes(), &profile);
    if (fields.number() == kProfileLocation) ReadLocation(fields.bytes(), &profile);
    if (fields.number() == kProfileFunction) ReadFunction(fields.bytes(), &profile);
    if (fields.number() == kProfileTimeNs) profile.time_ns = fields.value();
  }
  return profile;
}

// "cuda:0", "gpu:1", "rocm:0": its number; -1 = of a CPU ("TFRT_CPU_0") or a TPU ("TPU_0(process=0,...)"), or unnamed.
int DeviceOf(absl::string_view name) {
  const std::string kind = absl::AsciiStrToLower(name.substr(0, name.find('(')));
  if (name.empty() || absl::StrContains(kind, "cpu") || absl::StrContains(kind, "tpu")) return -1;
  name = name.substr(0, name.find('('));
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  uint32_t number = 0;
  return absl::SimpleAtoi(name.substr(digits), &number) && number < kMostGpus ? static_cast<int>(number) : 0;
}

class DeviceProfileImport {
 public:
  DeviceProfileImport(const Profile& profile, TraceWriter::Sink sink) : profile_(profile), writer_(std::move(sink)) {}

  absl::StatusOr<ImportResult> Run(const std::string& path);

 private:
  void Sort();
  std::vector<std::string> Notes() const;
  uint64_t StackOf(const ProfileSample& sample);
  void AddRows(int device, const ProfileSample& sample, std::vector<EventRow>* rows);

  const Profile& profile_;
  TraceWriter writer_;
  std::vector<std::pair<int, const ProfileSample*>> kept_;  // with their devices
  std::map<int, absl::string_view> devices_;
  uint64_t elsewhere_ = 0, executables_ = 0, executable_bytes_ = 0, next_address_ = 0x700000000000;
  bool shares_ = false;
};

void DeviceProfileImport::Sort() {
  for (const ProfileSample& sample : profile_.samples) {
    const int device = DeviceOf(profile_.Text(sample.device));
    if (profile_.Text(sample.kind) == "executable") {
      executables_ += sample.values[0];
      executable_bytes_ += sample.values[1];
    } else if (device < 0) {
      elsewhere_ += sample.values[0];
    } else {
      kept_.emplace_back(device, &sample);
      devices_.try_emplace(device, profile_.Text(sample.device));
      shares_ |= sample.values[0] > 1;
    }
  }
}

std::vector<std::string> DeviceProfileImport::Notes() const {
  std::vector<std::string> notes = {
      "A device memory profile shows what was alive when it was taken. It knows JAX's buffers alone: what XLA reserved "
      "beyond them, and memory inside of a compiled program, are in no number."};
  if (shares_)
    notes.push_back(
        "Buffers from one stack are stated with their sum: where there are several, each is shown with the mean.");
  if (executables_ != 0)
    notes.push_back(absl::StrCat(FormatCountOf(executables_, "compiled program", "compiled programs"), ", ",
                                 FormatBytes(executable_bytes_), " of code on no named device, ",
                                 executables_ == 1 ? "was" : "were", " left out."));
  if (elsewhere_ != 0)
    notes.push_back(absl::StrCat(FormatCountOf(elsewhere_, "buffer", "buffers"), " of CPUs or TPUs ",
                                 elsewhere_ == 1 ? "was" : "were", " left out."));
  return notes;
}

// The profile's locations are innermost first.
uint64_t DeviceProfileImport::StackOf(const ProfileSample& sample) {
  DefinitionBuilder& definitions = writer_.definitions();
  uint64_t stack = 0;
  for (auto location = sample.locations.rbegin(); location != sample.locations.rend(); ++location) {
    const auto lines = profile_.locations.find(*location);
    if (lines == profile_.locations.end()) continue;
    for (auto line = lines->second.rbegin(); line != lines->second.rend(); ++line) {
      const auto found = profile_.functions.find(line->function);
      const ProfileFunction function = found == profile_.functions.end() ? ProfileFunction() : found->second;
      stack =
          definitions.Stack(stack, definitions.PythonFrame(profile_.Text(function.file), profile_.Text(function.name),
                                                           static_cast<uint32_t>(line->line)));
    }
  }
  return stack;
}

void DeviceProfileImport::AddRows(int device, const ProfileSample& sample, std::vector<EventRow>* rows) {
  EventRow row;
  row.kind = trace::ALLOC;
  row.layer = trace::RUNTIME;
  row.device = device;
  row.time_ns = kMadeTimeNs;
  // Arrays of the program, no library's: what for is not known.
  row.stack = writer_.definitions().Stack(StackOf(sample), StatedFrame("unknown", &writer_.definitions()));
  row.api = writer_.definitions().String("XLA buffer");
  const uint64_t bytes = sample.values[1];
  const uint64_t count = std::clamp<uint64_t>(std::min(sample.values[0], bytes), 1, kMostBuffers);
  for (uint64_t i = 0; i < count; ++i) {
    row.size = bytes / count + (i < bytes % count ? 1 : 0);
    row.address = next_address_;
    next_address_ += (row.size + 511) / 512 * 512;
    rows->push_back(row);
  }
}

absl::StatusOr<ImportResult> DeviceProfileImport::Run(const std::string& path) {
  Sort();
  if (kept_.empty() && elsewhere_ != 0) {
    return absl::DataLossError(absl::StrCat("is a device memory profile of JAX, but holds no buffer of a GPU (",
                                            elsewhere_, " of CPUs or TPUs). Take it where JAX uses a GPU"));
  }
  ImportResult result;
  result.format = "JAX device memory profile";
  result.covers = kept_.empty() ? "nothing" : "moment";
  result.devices = static_cast<uint32_t>(devices_.size());
  result.has_failures = false;
  result.notes = Notes();
  trace::Header header = ImportHeader(path, result, "JAX");
  header.set_anchor_monotonic_ns(kMadeTimeNs);
  if (profile_.time_ns > kYear2001Ns) header.set_anchor_realtime_ns(profile_.time_ns);
  GPUMEM_RETURN_IF_ERROR(writer_.Begin(std::move(header)));
  for (const auto& [index, name] : devices_) {
    trace::Device* const device = writer_.definitions().pending()->add_devices();
    device->set_index(index);
    device->set_name(ValidText(name));
  }
  std::vector<EventRow> rows;
  for (const auto& [device, sample] : kept_) {
    AddRows(device, *sample, &rows);
    if (rows.size() > kMostRows) return absl::DataLossError("states more buffers than a device can hold");
  }
  if (!rows.empty()) GPUMEM_RETURN_IF_ERROR(writer_.AddLiveSnapshot(rows, {}));
  EventRow moment;  // a state without a history is a history of one moment
  moment.time_ns = kMadeTimeNs;
  moment.kind = trace::MARK;
  moment.handle = format::kMarkSnapshot;
  moment.device = -1;
  GPUMEM_RETURN_IF_ERROR(writer_.Add(moment));
  GPUMEM_RETURN_IF_ERROR(writer_.End());
  result.events = writer_.events();
  return result;
}

}  // namespace

bool IsDeviceMemoryProfile(absl::string_view begin) {
  // A ValueType: two small numbers, one of which may be left out.
  if (begin.size() < 4 || begin[0] != 0x0a || begin[1] < 2 || begin[1] > 12) return false;
  WireFields type(begin.substr(2, static_cast<size_t>(begin[1])));
  bool any = false;
  while (type.Next()) {
    any = true;
    if (type.number() > 2 || !type.bytes().empty()) return false;
  }
  return any && type.ok();
}

absl::StatusOr<ImportResult> ImportDeviceMemoryProfile(ByteSource* source, const std::string& path,
                                                       TraceWriter::Sink sink) {
  ImportMemory memory = ImportMemory::OfProcess();
  GPUMEM_ASSIGN_OR_RETURN(const std::string bytes, ReadWhole(source, kBytesForOne, &memory));
  const Profile profile = ReadProfile(bytes);
  const auto has_unit = [&](size_t i, absl::string_view unit) {
    return i < profile.units.size() && profile.Text(profile.units[i]) == unit;
  };
  if (!profile.ok || !has_unit(0, "count") || !has_unit(1, "bytes") || profile.units.size() != 2) {
    return absl::DataLossError(
        absl::StrCat(profile.ok ? "is a pprof profile, but none of memory: its values are not counts and bytes"
                                : "is a pprof profile that is damaged or cut short",
                     ". JAX writes one with jax.profiler.save_device_memory_profile()"));
  }
  return DeviceProfileImport(profile, std::move(sink)).Run(path);
}

}  // namespace gpumem
