// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// CUPTI: one subscriber, the host's clock. cupti_activity.cc has the records.
// Thread-safety: all functions. Failure mode: 1 (CUPTI_ERROR_INVALID_PARAMETER) for null outputs, 39
// (CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) for a second subscriber.
#include <stdlib.h>
#include <time.h>

#include "cupti_settings.h"
#include "stub.h"

namespace {

enum Result { kSuccess = 0, kInvalidParameter = 1, kMultipleSubscribers = 39 };

int subscribed = 0;
bool ended = false;

struct End {
  ~End() { ended = true; }
} end;

}  // namespace

void cupti_must_live() {
  if (ended) abort();
}

STUB_API int cuptiGetVersion(uint32_t* version) {
  if (version == nullptr) return kInvalidParameter;
  *version = cupti_version();
  return kSuccess;
}
STUB_API int cuptiGetResultString(int result, const char** text) {
  if (text == nullptr) return kInvalidParameter;
  *text = result == kSuccess ? "CUPTI_SUCCESS" : "simulated CUPTI error";
  return kSuccess;
}
STUB_API int cuptiGetCallbackName(int, uint32_t, const char** name) {
  if (name == nullptr) return kInvalidParameter;
  *name = "simulated";
  return kSuccess;
}
STUB_API int cuptiGetTimestamp(uint64_t* timestamp_ns) {
  cupti_must_live();
  if (timestamp_ns == nullptr) return kInvalidParameter;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  *timestamp_ns = static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
  return kSuccess;
}
STUB_API int cuptiSubscribe(void** subscriber, void*, void*) {
  cupti_must_live();
  if (subscriber == nullptr) return kInvalidParameter;
  if (cupti_setting("busy") != 0) return kMultipleSubscribers;
  if (__atomic_exchange_n(&subscribed, 1, __ATOMIC_ACQ_REL) != 0) return kMultipleSubscribers;
  *subscriber = stub_handle();
  return kSuccess;
}
STUB_API int cuptiUnsubscribe(void* subscriber) {
  cupti_must_live();
  stub_release(subscriber);
  __atomic_store_n(&subscribed, 0, __ATOMIC_RELEASE);
  return kSuccess;
}
