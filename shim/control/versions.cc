// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/control/versions.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "shim/base/calls/cuda_headers.h"
#include "shim/base/calls/real.h"
#include "shim/base/calls/scope.h"
#include "shim/base/descriptors.h"
#include "shim/base/symbol_lookup.h"
#include "shim/control/version_text.h"
#include "shim/python/inject.h"
#include "shim/settings/text.h"
#include "shim/stack/native_unwind.h"
#include "shim/stack/python_interpreter.h"

namespace gpumemshim::control {
namespace {

constexpr size_t kMaxVersion = 256;

// Each asks for one version; false: not known now.
bool DriverVersion(char* out) {
  const auto get = reinterpret_cast<decltype(&::cuDriverGetVersion)>(calls::DriverFunction("cuDriverGetVersion"));
  int version = 0;
  if (get == nullptr || get(&version) != CUDA_SUCCESS) return false;
  FormatCudaVersion(version, out, kMaxVersion);
  return true;
}

// The simulated driver has functions of its own beside CUDA's. `gpumemshim diff` holds what `plan` recorded against a
// run.
bool SimulatedBy(char* out) {
  if (calls::DriverFunction("simcuda_used_bytes") == nullptr) return false;
  Text(out, kMaxVersion).Add(getenv("GPUMEMSHIM_PLAN_FOLDER") == nullptr ? "simcuda" : "simcuda, planned");
  return true;
}

// What says that this process runs in a container: files and variables that their makers document.
bool ContainerKind(char* out) {
  const char* kind = nullptr;
  if (getenv("KUBERNETES_SERVICE_HOST") != nullptr) {
    kind = "kubernetes";
  } else if (getenv("APPTAINER_CONTAINER") != nullptr || getenv("SINGULARITY_CONTAINER") != nullptr) {
    kind = "apptainer";
  } else if (access("/run/.containerenv", F_OK) == 0) {
    kind = "podman";
  } else if (access("/.dockerenv", F_OK) == 0) {
    kind = "docker";
  } else if (getenv("container") != nullptr) {  // systemd-nspawn, LXC
    kind = "other";
  }
  if (kind == nullptr) return false;
  Text(out, kMaxVersion).Add(kind);
  return true;
}

bool RuntimeVersion(char* out) {
  const auto get =
      reinterpret_cast<decltype(&::cudaRuntimeGetVersion)>(FindInLoaded("libcudart", "cudaRuntimeGetVersion"));
  int version = 0;
  if (get == nullptr || get(&version) != cudaSuccess) return false;
  FormatCudaVersion(version, out, kMaxVersion);
  return true;
}

bool PythonVersion(char* out) {
  Text(out, kMaxVersion).Add(stack::InterpreterVersion());
  return out[0] != '\0';
}

// From the file that the wheel lays beside its libraries: torch itself is never asked.
bool TorchVersion(char* out) {
  constexpr const char* kLibrary = "/lib/libc10.so";
  constexpr char kVersionFile[] = "/version.py";
  char path[4096];
  if (!FindLoadedPath("libc10.so", path, sizeof path)) return false;
  char* library = std::strstr(path, kLibrary);
  if (library == nullptr || static_cast<size_t>(library - path) + sizeof kVersionFile > sizeof path) return false;
  std::memcpy(library, kVersionFile, sizeof kVersionFile);
  char text[1024];
  return descriptors::ReadText(path, text, sizeof text) != 0 && ParseTorchVersion(text, out, kMaxVersion);
}

bool UnwinderVersion(char* out) {
  Text(out, kMaxVersion).Add(stack::UnwinderName(stack::CurrentUnwinder()));
  return true;
}

bool PythonRefusal(char* out) {
  Text(out, kMaxVersion).Add(stack::Refusal());
  return out[0] != '\0';
}

// Handed over again when there are more of them.
uint32_t g_failures_reported;
bool HelperFailure(char* out) {
  const uint32_t count = python::CountFailures();
  if (count == g_failures_reported) return false;
  g_failures_reported = count;
  return python::DescribeFailures(out, kMaxVersion);
}

struct Source {
  const char* key;
  bool (*read)(char* out);
  bool may_change = false;
};
constexpr Source kSources[] = {
    {"driver", &DriverVersion},        {"simulated", &SimulatedBy},
    {"runtime", &RuntimeVersion},      {"python", &PythonVersion},
    {"torch", &TorchVersion},          {"unwinder", &UnwinderVersion},
    {"python_frames", &PythonRefusal}, {"python_helper", &HelperFailure, true},
    {"container", &ContainerKind},
};
constexpr uint32_t kSourceCount = sizeof kSources / sizeof *kSources;

bool g_handed_over[kSourceCount];
char g_texts[kSourceCount][kMaxVersion];

template <typename Function>
Function Driver(const char* name) {
  return reinterpret_cast<Function>(calls::DriverFunction(name));
}

int DeviceAttribute(CUdevice_attribute attribute, CUdevice device) {
  const auto get = Driver<decltype(&::cuDeviceGetAttribute)>("cuDeviceGetAttribute");
  int value = 0;
  return get != nullptr && get(&value, attribute, device) == CUDA_SUCCESS ? value : 0;
}

void DescribeUuid(CUdevice device, writer::DeviceInfo* info) {
  auto get = Driver<decltype(&::cuDeviceGetUuid_v2)>("cuDeviceGetUuid_v2");  // tells MIG instances apart
  if (get == nullptr) get = Driver<decltype(&::cuDeviceGetUuid_v2)>("cuDeviceGetUuid");
  CUuuid uuid;
  if (get == nullptr || get(&uuid, device) != CUDA_SUCCESS) return;
  std::memcpy(info->uuid, uuid.bytes, sizeof info->uuid);
  info->has_uuid = true;
}

}  // namespace

uint32_t NewVersions(writer::KeyValue* out, uint32_t capacity) {
  const calls::Scope scope;
  uint32_t count = 0;
  for (uint32_t i = 0; i < kSourceCount && count < capacity; ++i) {
    if (g_handed_over[i] || !kSources[i].read(g_texts[i])) continue;
    g_handed_over[i] = !kSources[i].may_change;
    out[count++] = {kSources[i].key, g_texts[i]};
  }
  return count;
}

void ForgetVersions() {
  std::memset(g_handed_over, 0, sizeof g_handed_over);
  g_failures_reported = 0;
}

bool DescribeDevice(int16_t ordinal, writer::DeviceInfo* info) {
  static char name[256];
  static char pci_bus_id[32];
  const calls::Scope scope;
  const auto get = Driver<decltype(&::cuDeviceGet)>("cuDeviceGet");
  CUdevice device = 0;
  if (get == nullptr || ordinal < 0 || get(&device, ordinal) != CUDA_SUCCESS) return false;

  const auto get_name = Driver<decltype(&::cuDeviceGetName)>("cuDeviceGetName");
  name[0] = '\0';
  if (get_name != nullptr && get_name(name, sizeof name - 1, device) == CUDA_SUCCESS) info->name = name;
  const auto get_total = Driver<decltype(&::cuDeviceTotalMem_v2)>("cuDeviceTotalMem_v2");
  size_t total = 0;
  if (get_total != nullptr && get_total(&total, device) == CUDA_SUCCESS) info->total_bytes = total;
  const auto get_bus = Driver<decltype(&::cuDeviceGetPCIBusId)>("cuDeviceGetPCIBusId");
  if (get_bus != nullptr && get_bus(pci_bus_id, sizeof pci_bus_id, device) == CUDA_SUCCESS) {
    info->pci_bus_id = pci_bus_id;
  }
  info->compute_major = static_cast<uint32_t>(DeviceAttribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  info->compute_minor = static_cast<uint32_t>(DeviceAttribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
  DescribeUuid(device, info);
  return true;
}

}  // namespace gpumemshim::control
