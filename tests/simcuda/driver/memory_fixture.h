// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Tests of the driver's memory functions: what is free, and what the log says.
#ifndef TESTS_SIMCUDA_DRIVER_MEMORY_FIXTURE_H_
#define TESTS_SIMCUDA_DRIVER_MEMORY_FIXTURE_H_

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/simcuda/driver/driver_fixture.h"
#include "tests/simcuda/driver/log_reader.h"

namespace simcuda {

inline constexpr size_t kMebibyte = 1 << 20;

inline size_t FreeBytes() {
  size_t free_bytes = 0, total_bytes = 0;
  EXPECT_EQ(cuMemGetInfo(&free_bytes, &total_bytes), CUDA_SUCCESS);
  return free_bytes;
}

inline CUmemAllocationProp OnDevice(int device = 0) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

inline CUmemGenericAllocationHandle CreateMemory(size_t bytes, int device = 0) {
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp properties = OnDevice(device);
  EXPECT_EQ(cuMemCreate(&handle, bytes, &properties, 0), CUDA_SUCCESS);
  return handle;
}

// Runs the body in a child with a log; returns the log's kinds, contexts left out.
inline std::vector<std::string> KindsOf(const char* name, const std::function<void()>& body, Settings settings = {}) {
  const std::string path = TemporaryPath(name);
  settings.emplace_back("SIMCUDA_LOG", path);
  EXPECT_EQ(RunInChild(settings, body), 0);
  std::vector<std::string> kinds;
  for (const LogLine& line : ReadLog(path)) {
    if (line.at("kind").find("context") == std::string::npos) kinds.push_back(line.at("kind"));
  }
  ::unlink(path.c_str());
  return kinds;
}

}  // namespace simcuda

#endif  // TESTS_SIMCUDA_DRIVER_MEMORY_FIXTURE_H_
