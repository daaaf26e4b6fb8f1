// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <vector>

// The part of cuDNN's public API under test.
extern "C" {
size_t cudnnGetVersion();
int cudnnCreateTensorDescriptor(void**);
int cudnnDestroyTensorDescriptor(void*);
int cudnnSetTensorNdDescriptor(void*, int, int, const int*, const int*);
int cudnnGetTensorNdDescriptor(void*, int, int*, int*, int*, int*);
int cudnnGetTensorSizeInBytes(void*, size_t*);
int cudnnBackendCreateDescriptor(int, void**);
int cudnnBackendDestroyDescriptor(void*);
int cudnnBackendSetAttribute(void*, int, int, int64_t, const void*);
int cudnnBackendGetAttribute(void*, int, int, int64_t, int64_t*, void*);
int cudnnBackendFinalize(void*);
int cudnnCreateRNNDescriptor(void**);
int cudnnDestroyRNNDescriptor(void*);
int cudnnSetRNNDescriptor_v8(void*, int, int, int, int, int, int, int, int, int, int, int, int, void*, unsigned);
int cudnnGetRNNWeightSpaceSize(void*, void*, size_t*);
int cudnnGetRNNWeightParams(void*, void*, int, size_t, const void*, int, void*, void**, void*, void**);
int cudnnGetConvolutionForwardAlgorithm_v7(void*, void*, void*, void*, void*, int, int*, void*);
}

namespace {

constexpr int kFloat = 0, kHalf = 2, kSuccess = 0;
constexpr int kInt64Type = 3, kDescriptorType = 15, kInt32Type = 23;
constexpr int kLstm = 2, kGru = 3, kDoubleBias = 2, kNoBias = 0;

class Tensor {
 public:
  Tensor() { EXPECT_EQ(cudnnCreateTensorDescriptor(&handle_), kSuccess); }
  ~Tensor() { cudnnDestroyTensorDescriptor(handle_); }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  void* get() const { return handle_; }
  // Its dimensions; empty for a descriptor of nothing.
  std::vector<int> Dims() const {
    int type = -1, rank = -1, dims[8] = {}, strides[8] = {};
    EXPECT_EQ(cudnnGetTensorNdDescriptor(handle_, 8, &type, &rank, dims, strides), kSuccess);
    return {dims, dims + rank};
  }

 private:
  void* handle_ = nullptr;
};

TEST(CudnnTensor, GivesBackWhatWasSet) {
  const Tensor tensor;
  const int dims[] = {2, 3, 4}, strides[] = {12, 1, 3};
  ASSERT_EQ(cudnnSetTensorNdDescriptor(tensor.get(), kHalf, 3, dims, strides), kSuccess);
  int type = -1, rank = -1, got_dims[2] = {}, got_strides[2] = {};
  ASSERT_EQ(cudnnGetTensorNdDescriptor(tensor.get(), 2, &type, &rank, got_dims, got_strides), kSuccess);
  EXPECT_EQ(type, kHalf);
  EXPECT_EQ(rank, 3);
  EXPECT_EQ(got_dims[1], 3);
  EXPECT_EQ(got_strides[0], 12);
  size_t bytes = 0;
  ASSERT_EQ(cudnnGetTensorSizeInBytes(tensor.get(), &bytes), kSuccess);
  EXPECT_EQ(bytes, 2u * 3 * 4 * 2);
}

TEST(CudnnTensor, RefusesMoreDimensionsThanExist) {
  const Tensor tensor;
  const int dims[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  EXPECT_NE(cudnnSetTensorNdDescriptor(tensor.get(), kFloat, 9, dims, dims), kSuccess);
}

class CudnnBackend : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(cudnnBackendCreateDescriptor(0, &descriptor_), kSuccess); }
  void TearDown() override { EXPECT_EQ(cudnnBackendDestroyDescriptor(descriptor_), kSuccess); }
  int64_t Count(int name, int type = kInt64Type) {
    int64_t count = -1;
    EXPECT_EQ(cudnnBackendGetAttribute(descriptor_, name, type, 0, &count, nullptr), kSuccess);
    return count;
  }
  void* descriptor_ = nullptr;
};

TEST_F(CudnnBackend, EchoesAnAttributeAndItsReplacement) {
  const int64_t first[] = {1, 2, 3}, second[] = {9, 8};
  ASSERT_EQ(cudnnBackendSetAttribute(descriptor_, 902, kInt64Type, 3, first), kSuccess);
  ASSERT_EQ(cudnnBackendSetAttribute(descriptor_, 902, kInt64Type, 2, second), kSuccess);
  int64_t out[3] = {-1, -1, -1}, count = 0;
  ASSERT_EQ(cudnnBackendGetAttribute(descriptor_, 902, kInt64Type, 3, &count, out), kSuccess);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(out[0], 9);
  EXPECT_EQ(out[1], 8);
  EXPECT_EQ(out[2], -1);
}

TEST_F(CudnnBackend, WritesNoMoreThanRequested) {
  const int64_t dims[] = {1, 2, 3};
  ASSERT_EQ(cudnnBackendSetAttribute(descriptor_, 902, kInt64Type, 3, dims), kSuccess);
  int64_t out[2] = {0, -1}, count = 0;
  ASSERT_EQ(cudnnBackendGetAttribute(descriptor_, 902, kInt64Type, 1, &count, out), kSuccess);
  EXPECT_EQ(count, 3);
  EXPECT_EQ(out[0], 1);
  EXPECT_EQ(out[1], -1);
}

TEST_F(CudnnBackend, HeuristicOffersOneResultAndLeavesTheCallersDescriptor) {
  void* mine = this;
  int64_t count = 0;
  ASSERT_EQ(cudnnBackendGetAttribute(descriptor_, 202, kDescriptorType, 1, &count, &mine), kSuccess);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(mine, this);
}

TEST_F(CudnnBackend, NotesAndKnobsAreNone) {
  for (const int name : {302, 1302, 1303, 1305}) EXPECT_EQ(Count(name), 0) << name;
}

TEST_F(CudnnBackend, PlanWorkspaceFollowsTheSetting) {
  int64_t bytes = -1, count = 0;
  ASSERT_EQ(cudnnBackendGetAttribute(descriptor_, 402, kInt64Type, 1, &count, &bytes), kSuccess);
  EXPECT_EQ(bytes, 0);
  ASSERT_EQ(setenv("SIMCUDA_CUDNN_WS", "64M", 1), 0);
  ASSERT_EQ(cudnnBackendGetAttribute(descriptor_, 402, kInt64Type, 1, &count, &bytes), kSuccess);
  EXPECT_EQ(bytes, int64_t{64} << 20);
  ASSERT_EQ(unsetenv("SIMCUDA_CUDNN_WS"), 0);
}

TEST_F(CudnnBackend, NarrowOutputIsNotOverrun) {
  int32_t out[2] = {-1, -1};
  int64_t count = 0;
  ASSERT_EQ(cudnnBackendGetAttribute(descriptor_, 304, kInt32Type, 1, &count, out), kSuccess);
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[1], -1);
}

TEST_F(CudnnBackend, NullIsRefused) {
  EXPECT_NE(cudnnBackendFinalize(nullptr), kSuccess);
  EXPECT_NE(cudnnBackendSetAttribute(descriptor_, 1, kInt64Type, 1, nullptr), kSuccess);
}

// Every matrix and bias of a net must lie in the weight space without overlap and fill it.
void ExpectTiling(int cell, int gates, int bias, int directions, int input, int hidden, int projection, int layers) {
  void* rnn = nullptr;
  ASSERT_EQ(cudnnCreateRNNDescriptor(&rnn), kSuccess);
  ASSERT_EQ(cudnnSetRNNDescriptor_v8(rnn, 0, cell, bias, directions - 1, 0, kHalf, 0, 0, input, hidden, projection,
                                     layers, nullptr, 0),
            kSuccess);
  size_t size = 0;
  ASSERT_EQ(cudnnGetRNNWeightSpaceSize(nullptr, rnn, &size), kSuccess);
  const uintptr_t base = 0x1000;
  std::map<uintptr_t, size_t> parts;
  const Tensor matrix, vector;
  for (int layer = 0; layer < layers * directions; ++layer) {
    for (int linear = 0; linear <= 2 * gates; ++linear) {
      void *matrix_at = nullptr, *vector_at = nullptr;
      ASSERT_EQ(cudnnGetRNNWeightParams(nullptr, rnn, layer, size, reinterpret_cast<void*>(base), linear, matrix.get(),
                                        &matrix_at, vector.get(), &vector_at),
                kSuccess);
      const std::pair<const Tensor*, void*> found[] = {{&matrix, matrix_at}, {&vector, vector_at}};
      for (const auto& [tensor, at] : found) {
        const std::vector<int> dims = tensor->Dims();
        EXPECT_EQ(at == nullptr, dims.empty());
        if (at != nullptr)
          parts[reinterpret_cast<uintptr_t>(at)] = size_t{2} * static_cast<size_t>(dims[0]) * dims[1] * dims[2];
      }
    }
  }
  uintptr_t end = base;
  for (const auto& [at, bytes] : parts) {
    EXPECT_EQ(at, end);
    end = at + bytes;
  }
  EXPECT_EQ(end, base + size);
  EXPECT_EQ(cudnnDestroyRNNDescriptor(rnn), kSuccess);
}

TEST(CudnnRnn, PartsTileTheWeightSpace) {
  ExpectTiling(kLstm, 4, kDoubleBias, 1, 8, 16, 16, 1);
  ExpectTiling(kLstm, 4, kDoubleBias, 2, 8, 16, 16, 3);
  ExpectTiling(kLstm, 4, kNoBias, 1, 8, 16, 16, 2);
  ExpectTiling(kLstm, 4, kDoubleBias, 2, 8, 16, 4, 2);
  ExpectTiling(kGru, 3, kDoubleBias, 1, 5, 7, 7, 2);
  ExpectTiling(1, 1, kDoubleBias, 1, 5, 7, 7, 2);
}

TEST(CudnnRnn, WeightsCountAsInPyTorch) {
  void* rnn = nullptr;
  ASSERT_EQ(cudnnCreateRNNDescriptor(&rnn), kSuccess);
  ASSERT_EQ(cudnnSetRNNDescriptor_v8(rnn, 0, kLstm, kDoubleBias, 0, 0, kFloat, 0, 0, 32, 64, 64, 2, nullptr, 0),
            kSuccess);
  size_t size = 0;
  ASSERT_EQ(cudnnGetRNNWeightSpaceSize(nullptr, rnn, &size), kSuccess);
  // torch.nn.LSTM(32, 64, 2): 4*64*(32+64) + 4*64*(64+64) weights and 2*2*4*64 biases
  EXPECT_EQ(size, 4u * (4 * 64 * 96 + 4 * 64 * 128 + 2 * 2 * 4 * 64));
  EXPECT_EQ(cudnnDestroyRNNDescriptor(rnn), kSuccess);
}

TEST(CudnnVersion, CanBeChosen) {
  EXPECT_EQ(cudnnGetVersion(), 91900u);
  ASSERT_EQ(setenv("SIMCUDA_CUDNN_VERSION", "90501", 1), 0);
  EXPECT_EQ(cudnnGetVersion(), 90501u);
  ASSERT_EQ(unsetenv("SIMCUDA_CUDNN_VERSION"), 0);
}

}  // namespace
