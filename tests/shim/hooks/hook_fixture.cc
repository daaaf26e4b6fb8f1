// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "tests/shim/hooks/hook_fixture.h"

#include <cstdio>

#include "shim/hooks/capture.h"

namespace gpumemshim::hooks {
namespace {

constexpr const char* kKinds[] = {"Unspecified",     "Alloc",          "Free",         "AllocFailed",
                                  "FreeFailed",      "AddressReserve", "AddressFree",  "PhysicalCreate",
                                  "PhysicalRelease", "PhysicalRetain", "Map",          "Unmap",
                                  "Import",          "ImportClose",    "HostRegister", "HostUnregister",
                                  "PoolCreate",      "PoolDestroy",    "PoolTrim",     "DeviceReset",
                                  "ContextCreate",   "ContextDestroy", "ModuleLoad",   "ModuleUnload",
                                  "GraphNodeAlloc",  "GraphNodeFree",  "GraphMemory",  "MulticastBind",
                                  "MulticastUnbind", "PoolSetting"};
constexpr const char* kMemories[] = {"Device",  "StreamOrdered", "Managed",      "HostPinned", "Array",
                                     "Virtual", "Physical",      "PhysicalHost", "Multicast",  "External"};

std::string KindName(EventKind kind) {
  const auto number = static_cast<size_t>(kind);
  if (number < std::size(kKinds)) return kKinds[number];
  switch (kind) {
    case EventKind::kOomDevice:
      return "OomDevice";
    case EventKind::kOomAllocator:
      return "OomAllocator";
    case EventKind::kOomPool:
      return "OomPool";
    case EventKind::kContextGrowth:
      return "ContextGrowth";
    case EventKind::kAllocatorUse:
      return "AllocatorUse";
    case EventKind::kTensorData:
      return "TensorData";
    case EventKind::kSaved:
      return "Saved";
    case EventKind::kLocalMemory:
      return "LocalMemory";
    case EventKind::kCommunicator:
      return "Communicator";
    default:
      return "kind " + std::to_string(number);
  }
}

void Append(std::string* text, const char* name, uint64_t value, const char* format = " %s=%llu") {
  if (value == 0) return;
  char part[64];
  std::snprintf(part, sizeof part, format, name, static_cast<unsigned long long>(value));
  *text += part;
}
constexpr const char* kHex = " %s=0x%llx";

ring::Reader* g_reader = nullptr;
uint64_t g_packets = 0;

}  // namespace

std::string Describe(const Event& event) {
  std::string text = KindName(event.kind) + " " + kMemories[static_cast<size_t>(event.memory)];
  if (event.api != 0) text += std::string(" ") + ApiName(event.api);
  if (event.layer != ApiLayer(static_cast<ApiId>(event.api))) text += " of another layer";
  if (event.device != kNoDevice) text += " device=" + std::to_string(event.device);
  Append(&text, "address", event.address, kHex);
  Append(&text, "size", event.size);
  Append(&text, "requested", event.requested_size);
  Append(&text, "stream", event.stream, kHex);
  Append(&text, "handle", event.handle, kHex);
  Append(&text, "allocated", event.torch_allocated);
  Append(&text, "reserved", event.torch_reserved);
  Append(&text, "tag", event.tag);
  Append(&text, "result", static_cast<uint64_t>(event.result));
  if (event.stack != kStack) text += " no stack";
  if (event.time_ns == 0) text += " no time";
  return text;
}

std::vector<Event> TakeEvents() {
  std::vector<Event> events;
  g_reader->BeginPass(true);
  ring::EventView view;
  while (g_reader->NextEvent(&view)) events.push_back(*view.event);
  g_reader->MarkPending(++g_packets);
  g_reader->Commit();
  return events;
}

Lines Recorded() {
  Lines lines;
  for (const Event& event : TakeEvents()) lines.push_back(Describe(event));
  return lines;
}

HookTest::HookTest() {
  g_driver = {};
  g_around = {};
  for (auto& function : g_real_functions) function.store(nullptr);
  for (auto& foreign : g_foreign_runtime) foreign.store(false);
  for (CallSite& site : g_sites) {
    site.key.store(0);
    site.function.store(nullptr);
  }
  session::g_off.store(false);
  capture::g_active.store(0);
  stack::g_free_stacks.store(true);
  t_depth = 0;
  ring::Config config;
  config.size_bytes = ring::kMinSizeBytes;
  config.directory = nullptr;
  EXPECT_TRUE(ring::Start(config));
  g_reader = new ring::Reader;
  EXPECT_TRUE(g_reader->Attach());
}

HookTest::~HookTest() {
  ring::Stop(1000);
  delete g_reader;
  g_reader = nullptr;
}

}  // namespace gpumemshim::hooks
