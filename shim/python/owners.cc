// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/python/owners.h"

#include <time.h>

#include <atomic>
#include <cerrno>

#include "shim/python/growth.h"
#include "shim/python/inject.h"
#include "shim/python/objects.h"
#include "shim/ring/ring.h"

extern "C" __attribute__((visibility("hidden"))) const char gpumem_owners_source[];

namespace gpumemshim::python {
namespace {

using Number = unsigned long long;  // NOLINT(google-runtime-int): what the format "K" is for

constexpr int kMaxDrainMs = 20;  // at the end, for the writer to see what is in the ring
// A search for the largest batch that fits fails often: each of these looks costs up to the limit.
constexpr uint32_t kMaxAfterFailures = 6;

Growth g_growth;  // the writer's
std::atomic<bool> g_rises{false};
std::atomic<uint32_t> g_limit_ms{0};
std::atomic<uint32_t> g_cause{0};  // that is asked for; 0 = none
std::atomic<uint32_t> g_after_failures{0};
std::atomic<bool> g_fails{false};  // a request failed for good, and nobody has looked since
std::atomic<uint32_t> g_taken{0}, g_blocks{0}, g_took_ms{0};
std::atomic<uint32_t> g_passes{0};  // of the writer

const Api* g_api;  // with the GIL held, from here on
Object* g_record;
Object* g_source;  // the globals of owners.py

// A pending call.
int Take(void*) {
  const uint32_t cause = g_cause.load(std::memory_order_acquire);
  const Api* api = Load();
  if (api == nullptr || cause == 0) {
    g_cause.store(0, std::memory_order_release);
    return 0;
  }
  const int saved_errno = errno;
  const int result = TellOwners(cause);
  g_cause.store(0, std::memory_order_release);
  errno = saved_errno;
  return result;
}

Object* NewNumber(Number number) { return g_api->new_number(number); }

// Compiled when it is needed for the first time.
Object* Source(Object*, Object*) {
  if (g_source == nullptr) g_source = RunSource(g_api, gpumem_owners_source, g_record);
  if (g_source == nullptr) return nullptr;
  g_api->increment(g_source);
  return g_source;
}

Object* Taken(Object*, Object*) { return NewNumber(g_taken.load(std::memory_order_relaxed)); }

Object* Limit(Object*, Object*) { return NewNumber(g_limit_ms.load(std::memory_order_relaxed)); }

// What is still in the ring counts: a short run may be all in there.
Object* Grew(Object*, Object*) {
  const uint32_t before = g_passes.load(std::memory_order_acquire);
  // A pass may be under way that has seen less.
  for (int i = 0; i < kMaxDrainMs && g_passes.load(std::memory_order_acquire) - before < 2; ++i) {
    ring::Wake();
    const timespec millisecond{0, 1'000'000};
    nanosleep(&millisecond, nullptr);
  }
  // A run that fails and ends at once does so before its failure was looked at.
  const bool is_worth_a_look = g_rises.load(std::memory_order_acquire) || g_fails.load(std::memory_order_acquire);
  Object* const answer = is_worth_a_look ? g_api->true_object : g_api->false_object;
  g_api->increment(answer);
  return answer;
}

Object* End(Object*, Object* arguments) {
  Number blocks = 0, took_ns = 0;
  if (g_api->parse(arguments, "KK", &blocks, &took_ns) == 0) return nullptr;
  g_blocks.store(static_cast<uint32_t>(blocks), std::memory_order_relaxed);
  g_took_ms.store(static_cast<uint32_t>(took_ns / 1'000'000), std::memory_order_relaxed);
  g_fails.store(false, std::memory_order_relaxed);
  g_taken.fetch_add(1, std::memory_order_release);
  g_api->increment(g_api->none);
  return g_api->none;
}

Method g_methods[] = {
    {"owners_source", &Source, kVarArguments, "owners_source(): the globals of owners.py"},
    {"owners_limit", &Limit, kVarArguments, "owners_limit(): milliseconds; 0 = never"},
    {"owners_taken", &Taken, kVarArguments, "owners_taken(): snapshots so far"},
    {"grew", &Grew, kVarArguments,
     "grew(): whether what PyTorch holds rose to this moment, or a request failed since the last snapshot"},
    {"owners_end", &End, kVarArguments, "owners_end(blocks, took_ns): all was reported"},
};

}  // namespace

void ConfigureOwners(uint32_t limit_ms) {
  g_growth = Growth();
  g_rises.store(false, std::memory_order_relaxed);
  g_after_failures.store(0, std::memory_order_relaxed);
  g_fails.store(false, std::memory_order_relaxed);
  g_cause.store(0, std::memory_order_relaxed);
  g_limit_ms.store(limit_ms, std::memory_order_relaxed);
}

void SetOwnersLimit(uint32_t limit_ms) { g_limit_ms.store(limit_ms, std::memory_order_relaxed); }

uint32_t GetOwnersLimit() { return g_limit_ms.load(std::memory_order_relaxed); }

void SawTorch(const Event& event) {
  if (event.kind == EventKind::kAlloc) {
    g_growth.Add(static_cast<int64_t>(event.size));
  } else if (event.kind == EventKind::kFree) {
    g_growth.Add(-static_cast<int64_t>(event.size));
  } else if (event.kind == EventKind::kAllocFailed) {
    g_fails.store(true, std::memory_order_release);
    if (g_after_failures.load(std::memory_order_relaxed) >= kMaxAfterFailures) return;
    if (RequestOwners(OwnersCause::kOutOfMemory)) g_after_failures.fetch_add(1, std::memory_order_relaxed);
  }
}

void FinishedPass() {
  g_rises.store(g_growth.Rises(), std::memory_order_relaxed);
  g_passes.fetch_add(1, std::memory_order_release);
}

bool RequestOwners(OwnersCause cause) {
  if (!IsEnabled() || g_limit_ms.load(std::memory_order_relaxed) == 0) return false;
  const Api* api = Load();
  uint32_t none = 0;
  if (api == nullptr || !g_cause.compare_exchange_strong(none, static_cast<uint32_t>(cause))) return false;
  if (api->add_pending_call(&Take, nullptr) == 0) return true;
  g_cause.store(0, std::memory_order_release);
  return false;
}

OwnersState GetOwners() {
  return {g_taken.load(std::memory_order_acquire), g_blocks.load(std::memory_order_relaxed),
          g_took_ms.load(std::memory_order_relaxed), g_cause.load(std::memory_order_acquire) != 0};
}

bool AddOwnersFunctions(const Api* api, Object* record) {
  g_api = api;
  g_record = record;
  return AddFunctions(api, record, g_methods);
}

}  // namespace gpumemshim::python
