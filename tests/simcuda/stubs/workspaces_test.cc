// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the stubs ask the table of workspaces for, and the bounds that they know: against numbers worked out by
// hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

// The parts of the libraries' public API under test, and the simulated driver's own.
extern "C" {
int cudnnBackendCreateDescriptor(int, void**);
int cudnnBackendDestroyDescriptor(void*);
int cudnnBackendSetAttribute(void*, int, int, int64_t, const void*);
int cudnnBackendGetAttribute(void*, int, int, int64_t, int64_t*, void*);
int cudnnCreateRNNDescriptor(void**);
int cudnnDestroyRNNDescriptor(void*);
int cudnnSetRNNDescriptor_v8(void*, int, int, int, int, int, int, int, int, int, int, int, int, void*, unsigned);
int cudnnSetRNNDataDescriptor(void*, int, int, int, int, int, const int*, void*);
int cudnnGetRNNTempSpaceSizes(void*, void*, int, void*, size_t*, size_t*);
int cufftXtMakePlanMany(int, int, long long*, long long*, long long, long long, int, long long*, long long, long long,
                        int, long long, size_t*, int);
int cusolverDnSpotrf_bufferSize(void*, int, int, void*, int, int*);
int cusolverDnXsyevd_bufferSize(void*, void*, int, int, long, int, void*, long, int, void*, int, size_t*, size_t*);
uint64_t simcuda_workspaces(char*, uint64_t);
}

namespace {

using ::testing::HasSubstr;
using Numbers = std::vector<int64_t>;

constexpr int kInt64 = 3, kDataType = 1, kPointer = 15;
constexpr int kSinglePrecision = 0, kHalfPrecision = 2;
constexpr int kConvolution = 1, kEngineConfig = 3, kHeuristics = 4, kPlan = 5, kForward = 10, kGraph = 15, kTensor = 17;

std::string AllAsked() {
  std::string text(simcuda_workspaces(nullptr, 0) + 1, '\0');
  simcuda_workspaces(text.data(), text.size());
  return text;
}

// What was asked last, without how often.
std::string LastAsked() {
  std::string text = AllAsked();
  text.resize(text.find('\0'));
  text.pop_back();  // the end of the line
  const size_t begin = text.rfind('\n') + 1;
  return text.substr(begin, text.rfind('\t') - begin);
}

class Bag {
 public:
  explicit Bag(int type) { EXPECT_EQ(cudnnBackendCreateDescriptor(type, &handle_), 0); }
  ~Bag() { cudnnBackendDestroyDescriptor(handle_); }
  Bag(const Bag&) = delete;
  Bag& operator=(const Bag&) = delete;
  void Set(int name, const Numbers& numbers) {
    EXPECT_EQ(cudnnBackendSetAttribute(handle_, name, kInt64, static_cast<int64_t>(numbers.size()), numbers.data()), 0);
  }
  void SetType(int name, int type) { EXPECT_EQ(cudnnBackendSetAttribute(handle_, name, kDataType, 1, &type), 0); }
  void Set(int name, const Bag& other) {
    EXPECT_EQ(cudnnBackendSetAttribute(handle_, name, kPointer, 1, &other.handle_), 0);
  }
  void Fill(int name, Bag* other) {
    int64_t count = 0;
    EXPECT_EQ(cudnnBackendGetAttribute(handle_, name, kPointer, 1, &count, &other->handle_), 0);
    EXPECT_EQ(count, 1);
  }
  int64_t Number(int name) const {
    int64_t number = -1, count = 0;
    EXPECT_EQ(cudnnBackendGetAttribute(handle_, name, kInt64, 1, &count, &number), 0);
    return number;
  }

 private:
  void* handle_ = nullptr;
};

void Shape(Bag* tensor, int type, const Numbers& dims) {
  Numbers strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * dims[i];
  tensor->SetType(901, type);
  tensor->Set(902, dims);
  tensor->Set(903, strides);
}

struct Case {
  int type = kSinglePrecision;
  Numbers x, w, y, padding = {1, 1}, stride = {1, 1};
};

// As cudnn-frontend does it: graph, heuristics, configuration, plan. The workspace that the plan states.
int64_t PlanFor(const Case& wanted) {
  Bag x(kTensor), w(kTensor), y(kTensor), convolution(kConvolution), operation(kForward), graph(kGraph);
  Shape(&x, wanted.type, wanted.x);
  Shape(&w, wanted.type, wanted.w);
  Shape(&y, wanted.type, wanted.y);
  convolution.Set(102, Numbers(wanted.padding.size(), 1));
  convolution.Set(103, wanted.stride);
  convolution.Set(105, wanted.padding);
  operation.Set(702, convolution);
  operation.Set(703, w);
  operation.Set(704, x);
  operation.Set(705, y);
  graph.Set(801, operation);
  Bag heuristics(kHeuristics), config(kEngineConfig), plan(kPlan);
  heuristics.Set(201, graph);
  heuristics.Fill(202, &config);
  plan.Set(401, config);
  return plan.Number(402);
}

TEST(Workspaces, AConvolutionIsAskedForByItsShape) {
  EXPECT_EQ(PlanFor({.x = {2, 8, 5, 5}, .w = {16, 8, 2, 2}, .y = {2, 16, 4, 4}, .padding = {0, 0}, .stride = {2, 2}}),
            0);
  // Stride 2 leaves a copy of all three and the matrix of patches: 2 * (8 * 25 + 16 * 16) + 16 * 8 * 4 = 1424 and
  // 2 * 8 * 4 * 16 = 1024 floats.
  EXPECT_EQ(LastAsked(),
            "cuDNN\tconvolution_forward\tf32 x=2,8,5,5 w=16,8,2,2 padding=0,0 stride=2,2 dilation=1,1 "
            "nchw\tnothing\t0\t5696");
}

TEST(Workspaces, OfTheAlgorithmsThatAConvolutionMayTakeTheLargestIsTheBound) {
  PlanFor({.x = {1, 8, 6, 6}, .w = {8, 8, 3, 3}, .y = {1, 8, 6, 6}});
  // Tiles of 32 x 32 points, 17 of them kept in a row: (8 + 8 + 64) * 32 * 17 complex numbers. Winograd has 36 * (4 *
  // 16
  // + 64) floats, the patches 8 * 9 * 36.
  EXPECT_THAT(LastAsked(), HasSubstr("\t348160"));
  PlanFor({.type = kHalfPrecision, .x = {4, 8, 64, 64}, .w = {8, 8, 1, 1}, .y = {4, 8, 64, 64}, .padding = {0, 0}});
  EXPECT_THAT(LastAsked(), HasSubstr("convolution_forward\tf16 "));
}

TEST(Workspaces, AConvolutionOfAnotherRankHasABoundToo) {
  PlanFor({.x = {1, 8, 10}, .w = {8, 8, 3}, .y = {1, 8, 10}, .padding = {1}, .stride = {1}});
  EXPECT_THAT(LastAsked(), HasSubstr("f32 x=1,8,10 w=8,8,3 padding=1 stride=1 dilation=1 nchw\tnothing\t0\t1408"));
}

TEST(Workspaces, ASettingGoesBeforeAllElse) {
  setenv("SIMCUDA_CUDNN_WS", "5K", 1);
  EXPECT_EQ(PlanFor({.x = {2, 8, 7, 7}, .w = {16, 8, 2, 2}, .y = {2, 16, 6, 6}, .padding = {0, 0}}), 5 << 10);
  unsetenv("SIMCUDA_CUDNN_WS");
  EXPECT_THAT(LastAsked(), HasSubstr("\tset\t5120\t"));
}

TEST(Workspaces, WhatHasNoGraphHasNoBound) {
  Bag plan(kPlan);
  EXPECT_EQ(plan.Number(402), 0);
  EXPECT_EQ(LastAsked(), "cuDNN\tplan\t\tnothing\t0\t-");
}

TEST(Workspaces, ARecurrentNetLeavesAReserveInTrainingAlone) {
  void *rnn = nullptr, *data = nullptr;
  ASSERT_EQ(cudnnCreateRNNDescriptor(&rnn), 0);
  ASSERT_EQ(cudnnCreateRNNDescriptor(&data), 0);
  ASSERT_EQ(cudnnSetRNNDescriptor_v8(rnn, 0, 2, 2, 0, 0, kSinglePrecision, 0, 0, 3, 4, 4, 1, nullptr, 0), 0);
  ASSERT_EQ(cudnnSetRNNDataDescriptor(data, 0, 0, 10, 2, 3, nullptr, nullptr), 0);
  size_t workspace = 1, reserve = 1;
  ASSERT_EQ(cudnnGetRNNTempSpaceSizes(nullptr, rnn, 1, data, &workspace, &reserve), 0);
  EXPECT_EQ(workspace + reserve, 0u);
  // 20 cells, each 4 gates twice, state, its tanh, output, mask, of 4 floats.
  EXPECT_EQ(LastAsked(),
            "cuDNN\trnn_reserve\tlstm f32 input=3 hidden=4 projection=4 layers=1 directions=1 steps=10 batch=2 bias=2 "
            "training\tnothing\t0\t3840");
  cudnnGetRNNTempSpaceSizes(nullptr, rnn, 0, data, &workspace, &reserve);
  EXPECT_THAT(LastAsked(), HasSubstr("inference\tnothing\t0\t0"));
  EXPECT_NE(cudnnGetRNNTempSpaceSizes(nullptr, rnn, 0, nullptr, &workspace, &reserve), 0);
  cudnnDestroyRNNDescriptor(rnn);
  cudnnDestroyRNNDescriptor(data);
}

TEST(Workspaces, ATransformMayTakeEightTimesItsElements) {
  long long n[] = {30, 17};
  size_t size = 1;
  constexpr int kComplex = 4;
  ASSERT_EQ(cufftXtMakePlanMany(1, 2, n, nullptr, 1, 1, kComplex, nullptr, 1, 1, kComplex, 3, &size, kComplex), 0);
  EXPECT_EQ(size, 0u);
  EXPECT_EQ(LastAsked(),
            "cuFFT\tplan\tn=30,17,0 batch=3 types=4,4,4\tnothing\t0\t" + std::to_string(8 * 3 * 30 * 17 * 8));
  EXPECT_NE(cufftXtMakePlanMany(1, 4, n, nullptr, 1, 1, 4, nullptr, 1, 1, 4, 3, &size, 4), 0);
}

TEST(Workspaces, AFactorisationCountsElementsOrBytes) {
  int elements = 1;
  ASSERT_EQ(cusolverDnSpotrf_bufferSize(nullptr, 0, 100, nullptr, 100, &elements), 0);
  EXPECT_EQ(elements, 0);
  EXPECT_EQ(LastAsked(), "cuSOLVER\tcusolverDnSpotrf_bufferSize\t0 100 100\tnothing\t0\t65600");
  setenv("SIMCUDA_CUSOLVER_LWORK", "77", 1);
  cusolverDnSpotrf_bufferSize(nullptr, 0, 101, nullptr, 101, &elements);
  EXPECT_EQ(elements, 77);
  unsetenv("SIMCUDA_CUSOLVER_LWORK");
  size_t device = 1, host = 1;
  constexpr int kDouble = 1;
  ASSERT_EQ(cusolverDnXsyevd_bufferSize(nullptr, nullptr, 1, 0, 10, kDouble, nullptr, 10, kDouble, nullptr, kDouble,
                                        &device, &host),
            0);
  EXPECT_EQ(device + host, 0u);
  EXPECT_THAT(LastAsked(), HasSubstr("\tnothing\t0\t8008"));
}

TEST(Workspaces, TheContextComesFirstAndTheTextFitsWhatIsThere) {
  EXPECT_EQ(AllAsked().find("CUDA\tcontext\t\tnothing\t536870912\t-\t1\n"), 0u);
  char few[5] = "----";
  EXPECT_GT(simcuda_workspaces(few, sizeof(few)), sizeof(few));
  EXPECT_STREQ(few, "CUDA");
}

}  // namespace
