// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// CUPTI: one subscriber, no activity records, the host's clock.
// Thread-safety: all functions. Failure mode: 1 (CUPTI_ERROR_INVALID_PARAMETER) for null outputs, 39
// (CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) for a second subscriber.
#include <time.h>

#include "stub.h"

namespace {

enum Result { kSuccess = 0, kInvalidParameter = 1, kMaxLimitReached = 12, kMultipleSubscribers = 39 };

int subscribed = 0;

}  // namespace

STUB_API int cuptiGetVersion(uint32_t* version) {
  if (version == nullptr) return kInvalidParameter;
  *version = STUB_CUDA_MAJOR == 12 ? 28 : 130000;  // 12.9 still counted by ones
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
  if (timestamp_ns == nullptr) return kInvalidParameter;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  *timestamp_ns = static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
  return kSuccess;
}
STUB_API int cuptiSubscribe(void** subscriber, void*, void*) {
  if (subscriber == nullptr) return kInvalidParameter;
  if (__atomic_exchange_n(&subscribed, 1, __ATOMIC_ACQ_REL) != 0) return kMultipleSubscribers;
  *subscriber = stub_handle();
  return kSuccess;
}
STUB_API int cuptiUnsubscribe(void* subscriber) {
  stub_release(subscriber);
  __atomic_store_n(&subscribed, 0, __ATOMIC_RELEASE);
  return kSuccess;
}
STUB_API int cuptiActivityGetNextRecord(uint8_t*, size_t, void** record) {
  if (record != nullptr) *record = nullptr;
  return kMaxLimitReached;  // no record (more)
}
