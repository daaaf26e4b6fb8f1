// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// What is asked of PyTorch's allocator beside blocks (shim/hooks/torch_streams.cc).

#include "tests/shim/hooks/fake_stack.h"
#include "tests/shim/hooks/hook_fixture.h"

namespace gpumemshim::hooks {
namespace {

#define GPUMEM_STREAM_INT "_ZN3c104cuda17getStreamFromPoolEia"
#define GPUMEM_STREAM_BOOL "_ZN3c104cuda17getStreamFromPoolEba"
#define GPUMEM_RECORD_STREAM "_ZN2at4_ops13record_stream4callERNS_6TensorEN3c106StreamE"
#define GPUMEM_MEM_POOL "_ZN2at4cuda7MemPoolC1ESt10shared_ptrIN3c104cuda20CUDACachingAllocator13CUDAAllocatorEEbbb"

// c10::Stream as it is passed and returned.
struct PassedStream {
  uint64_t device;
  int64_t id;
};
constexpr uint64_t kCudaDevice2 = 1 | 2 << 8;
constexpr uint64_t kCpuDevice = 0xff00;

extern "C" {
PassedStream StreamOf(int, int8_t) asm(GPUMEM_STREAM_INT);
PassedStream StreamOfBool(bool, int8_t) asm(GPUMEM_STREAM_BOOL);
void RecordStream(void*, PassedStream) asm(GPUMEM_RECORD_STREAM);
void MemPool(void*, void*, bool, bool, bool) asm(GPUMEM_MEM_POOL);
}

std::vector<uint64_t> g_given;

PassedStream RealStream(int priority, int8_t device) {
  g_given = {static_cast<uint64_t>(priority), static_cast<uint64_t>(device)};
  errno = kErrnoOfCall;
  return {1u | static_cast<uint64_t>(device) << 8, 35};
}
PassedStream RealStreamOfBool(bool is_high, int8_t device) { return RealStream(is_high, device); }
void RealRecordStream(void* tensor, PassedStream stream) {
  g_given = {reinterpret_cast<uint64_t>(tensor), stream.device, static_cast<uint64_t>(stream.id)};
}
void RealMemPool(void* pool, void* allocator, bool is_users, bool on_oom, bool is_symmetric) {
  g_given = {reinterpret_cast<uint64_t>(pool), reinterpret_cast<uint64_t>(allocator), is_users, on_oom, is_symmetric};
}

class TorchStreams : public HookTest {
 protected:
  TorchStreams() {
    g_given.clear();
    g_around.next_in_scope = {
        {GPUMEM_STREAM_INT, reinterpret_cast<void*>(&RealStream)},
        {GPUMEM_STREAM_BOOL, reinterpret_cast<void*>(&RealStreamOfBool)},
        {GPUMEM_RECORD_STREAM, reinterpret_cast<void*>(&RealRecordStream)},
        {GPUMEM_MEM_POOL, reinterpret_cast<void*>(&RealMemPool)},
    };
  }
};

TEST_F(TorchStreams, AStreamThatIsTaken) {
  errno = 0;
  const PassedStream taken = StreamOf(-1, 2);
  EXPECT_EQ(errno, kErrnoOfCall);
  EXPECT_EQ(taken.device, kCudaDevice2);
  EXPECT_EQ(taken.id, 35);
  EXPECT_EQ(g_given, (std::vector<uint64_t>{UINT64_MAX, 2}));
  EXPECT_EQ(Recorded(), Lines{"AllocatorUse Device device=2 stream=0x23 handle=0x1"});
  EXPECT_EQ(StreamOfBool(true, 2).id, 35);
  EXPECT_EQ(Recorded(), Lines{"AllocatorUse Device device=2 stream=0x23 handle=0x1"});
}

TEST_F(TorchStreams, ATensorThatAnotherStreamUses) {
  RecordStream(reinterpret_cast<void*>(0x44), {kCudaDevice2, 35});
  EXPECT_EQ(g_given, (std::vector<uint64_t>{0x44, kCudaDevice2, 35}));
  const Lines lines = Recorded();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].substr(0, 28), "AllocatorUse Device device=2");
  RecordStream(reinterpret_cast<void*>(0x44), {kCpuDevice, 0});
  EXPECT_EQ(Recorded(), Lines{}) << "no stream of CUDA";
}

TEST_F(TorchStreams, AMemPool) {
  MemPool(reinterpret_cast<void*>(0x10), reinterpret_cast<void*>(0x20), true, false, true);
  EXPECT_EQ(g_given, (std::vector<uint64_t>{0x10, 0x20, 1, 0, 1}));
  EXPECT_EQ(Recorded(), Lines{"AllocatorUse Device handle=0x3"});
}

TEST_F(TorchStreams, NothingIsRecordedWhereRecordingIsOff) {
  session::g_off.store(true);
  EXPECT_EQ(StreamOf(0, 0).id, 35);
  EXPECT_EQ(Recorded(), Lines{});
}

}  // namespace
}  // namespace gpumemshim::hooks
