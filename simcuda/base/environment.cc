// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "simcuda/base/environment.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <numeric>

namespace simcuda {
namespace {

constexpr int kKiB = 1024;

constexpr Multiprocessor kTable[] = {
    {70, 2048, 32, 96 * kKiB, 96 * kKiB, 0},       {72, 2048, 32, 96 * kKiB, 96 * kKiB, 0},
    {75, 1024, 16, 64 * kKiB, 64 * kKiB, 0},       {80, 2048, 32, 164 * kKiB, 163 * kKiB, kKiB},
    {86, 1536, 16, 100 * kKiB, 99 * kKiB, kKiB},   {87, 1536, 16, 164 * kKiB, 163 * kKiB, kKiB},
    {89, 1536, 24, 100 * kKiB, 99 * kKiB, kKiB},   {90, 2048, 32, 228 * kKiB, 227 * kKiB, kKiB},
    {100, 2048, 32, 228 * kKiB, 227 * kKiB, kKiB}, {103, 2048, 32, 228 * kKiB, 227 * kKiB, kKiB},
    {110, 1536, 24, 228 * kKiB, 227 * kKiB, kKiB}, {120, 1536, 24, 100 * kKiB, 99 * kKiB, kKiB},
    {121, 1536, 24, 100 * kKiB, 99 * kKiB, kKiB},
};

}  // namespace

const Multiprocessor& MultiprocessorOf(int capability) {
  const Multiprocessor* found = std::begin(kTable);
  for (const Multiprocessor& row : kTable) {
    if (row.capability <= capability) found = &row;
  }
  return *found;
}

namespace {

constexpr uint64_t kBytesOfMiB = uint64_t{1} << 20;
constexpr int kMaxDevices = 64;

std::atomic<const Environment*> g_environment;

uint64_t Number(const char* variable, uint64_t fallback) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return fallback;
  char* end = nullptr;
  const uint64_t value = std::strtoull(text, &end, 10);
  return end == text ? fallback : value;
}

std::string Text(const char* variable, const char* fallback) {
  const char* text = std::getenv(variable);
  return text != nullptr && *text != '\0' ? text : fallback;
}

bool Flag(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr && *text != '\0' && *text != '0';
}

// "upper" is all of them, "zero" none, else a number between 0 and 1.
double Share(const char* variable) {
  const std::string text = Text(variable, "zero");
  if (text == "upper") return 1;
  const double value = std::strtod(text.c_str(), nullptr);
  return value >= 0 && value <= 1 ? value : 0;
}

void ReadFailurePlan(Environment* environment) {
  const char* text = std::getenv("SIMCUDA_FAIL_ALLOC");
  if (text == nullptr) return;
  char* end = nullptr;
  environment->fail_first = std::strtoull(text, &end, 10);
  if (*end == ',') environment->fail_count = std::strtoull(end + 1, nullptr, 10);
}

// A multiprocessor is what its capability says; where a setting gives a block other shared memory, the multiprocessor
// has room for that block.
void ReadProcessor(Environment* environment) {
  Multiprocessor& multiprocessor = environment->multiprocessor;
  multiprocessor = MultiprocessorOf(environment->compute_capability);
  const int by_capability = multiprocessor.block_shared_bytes;
  environment->multiprocessors = static_cast<int>(Number("SIMCUDA_SMS", 132));
  environment->shared_memory = static_cast<int>(Number("SIMCUDA_SMEM", static_cast<uint64_t>(by_capability)));
  multiprocessor.shared_bytes += environment->shared_memory - by_capability;
  environment->l2_bytes = static_cast<int>(Number("SIMCUDA_L2", 62914560));
  environment->memory_bus_bits = static_cast<int>(Number("SIMCUDA_MEMORY_BUS", 6144));
  environment->memory_clock_khz = static_cast<int>(Number("SIMCUDA_MEMORY_CLOCK", 3201000));
  environment->clock_khz = static_cast<int>(Number("SIMCUDA_CLOCK", 1980000));
}

// What a context and loaded code take: a setting, else a measured row, else a guess.
void ReadContext(Environment* environment) {
  const bool is_set = std::getenv("SIMCUDA_CTX_MB") != nullptr,
             is_module_set = std::getenv("SIMCUDA_MODULE_KB") != nullptr;
  environment->context_bytes = Number("SIMCUDA_CTX_MB", 512) * kBytesOfMiB;
  environment->module_bytes = (Number("SIMCUDA_MODULE_KB", 2048) + 2047) / 2048 * 2 * kBytesOfMiB;
  environment->context_known = is_set ? Known::kSet : Known::kNothing;
  environment->module_known = is_module_set ? Known::kSet : Known::kNothing;
  if ((is_set && is_module_set) || environment->workspaces == "none") return;
  const WorkspaceTable table = ReadWorkspaceTable(WorkspaceTablePath());
  WorkspaceKey key{
      "CUDA", "context", "", environment->name, environment->cuda_version, environment->compute_capability};
  const FoundSize context = table.Find(key);
  key.operation = "module";
  const FoundSize module = table.Find(key);
  if (!is_set && context.known != Known::kNothing) {
    environment->context_bytes = context.bytes;
    environment->context_known = context.known;
  }
  if (!is_module_set && module.known != Known::kNothing) {
    environment->module_bytes = module.bytes;
    environment->module_known = module.known;
  }
}

}  // namespace

std::vector<int> VisibleDevices(const char* value, int device_count) {
  std::vector<int> devices;
  if (value == nullptr) {
    devices.resize(static_cast<size_t>(device_count));
    std::iota(devices.begin(), devices.end(), 0);
    return devices;
  }
  while (*value != '\0') {
    char* end = nullptr;
    const long index = std::strtol(value, &end, 10);
    const bool known = end != value && index >= 0 && index < device_count;
    if (!known || std::count(devices.begin(), devices.end(), static_cast<int>(index)) > 0) break;
    devices.push_back(static_cast<int>(index));
    if (*end != ',') break;
    value = end + 1;
  }
  return devices;
}

Environment ReadEnvironment() {
  Environment environment;
  const int devices = static_cast<int>(std::min<uint64_t>(Number("SIMCUDA_DEVICES", 1), kMaxDevices));
  environment.visible_devices = VisibleDevices(std::getenv("CUDA_VISIBLE_DEVICES"), devices);
  const uint64_t memory_mb = Number("SIMCUDA_MEM_MB", 143156);
  environment.memory_bytes = std::min(memory_mb, Number("SIMCUDA_CAPACITY_MB", memory_mb)) * kBytesOfMiB;
  environment.green_context_bytes = Number("SIMCUDA_GREEN_CTX_MB", 16) * kBytesOfMiB;
  environment.others_bytes = Number("SIMCUDA_OTHERS_MB", 0) * kBytesOfMiB;
  environment.shared_path = Text("SIMCUDA_SHARED", "");
  environment.content_bytes = Number("SIMCUDA_CONTENT_KB", 1024) << 10;
  environment.late_events = Text("SIMCUDA_EVENTS", "") == "late";
  environment.overcommit = Flag("SIMCUDA_OVERCOMMIT");
  environment.address_order = Text("SIMCUDA_ADDRESSES", "linux") == "wsl2" ? AddressOrder::kWsl2 : AddressOrder::kLinux;
  environment.data_dependent_share = Share("SIMCUDA_DATA_DEPENDENT");
  environment.name = Text("SIMCUDA_NAME", "SimCUDA H200");
  environment.compute_capability = static_cast<int>(Number("SIMCUDA_CC", 90));
  ReadProcessor(&environment);
  environment.driver_version = static_cast<int>(Number("SIMCUDA_DRIVER_VERSION", 13000));
  // The made-up device is not a GPU: sizes that were measured on one are not its own.
  const bool made_up = environment.name.rfind("SimCUDA", 0) == 0 && std::getenv("SIMCUDA_WORKSPACE_TABLE") == nullptr;
  const std::string workspaces = Text("SIMCUDA_WORKSPACES", "measured");
  environment.workspaces = made_up && workspaces == "measured" ? "none" : workspaces;
  environment.cuda_version = Text("SIMCUDA_CUDA_VERSION", "");
  ReadContext(&environment);
  ReadFailurePlan(&environment);
  environment.fail_result = static_cast<int>(Number("SIMCUDA_FAIL_RESULT", 2));
  environment.max_launches = Number("SIMCUDA_MAX_LAUNCHES", 0);
  environment.max_reads = Number("SIMCUDA_MAX_READS", 0);
  environment.max_seconds = Number("SIMCUDA_MAX_SECONDS", 0);
  environment.log_pattern = Text("SIMCUDA_LOG", "");
  environment.injection_path = Text("CUDA_INJECTION64_PATH", "");
  environment.verbose = Flag("SIMCUDA_VERBOSE");
  environment.print_statistics = Flag("SIMCUDA_STATS");
  return environment;
}

const Environment& GetEnvironment() {
  const Environment* known = g_environment.load(std::memory_order_acquire);
  if (known != nullptr) return *known;
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { g_environment.store(nullptr); }); });
  auto* read = new Environment(ReadEnvironment());  // never destroyed: used at exit
  if (g_environment.compare_exchange_strong(known, read, std::memory_order_acq_rel)) return *read;
  delete read;
  return *known;
}

}  // namespace simcuda
