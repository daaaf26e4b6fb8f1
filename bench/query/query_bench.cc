// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What SQL over a long trace costs: the index of a made-up training with N events (10 million unless given), its size,
// time and memory; then every query of a document (its ```sql blocks), each as often as it takes to have a median.
//
//   build/release/bin/query_bench [EVENTS] [docs/sql.md]
//   build/release/bin/query_bench EVENTS --write run.gmtrace     the trace alone (peers.py)

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "query/output.h"
#include "query/session.h"
#include "testing/training_trace.h"

namespace gpumem {
namespace {

constexpr uint64_t kSegment = 0x7f0000000000, kSlot = 64u << 10;
constexpr int kRuns = 5;

double WallSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Steps of a thousand blocks that are born in the forward pass of 24 layers and die in the backward one.
void WriteTraining(uint64_t events, const std::string& path) {
  using testing::Call;
  using testing::Code;
  testing::TrainingTrace trace;
  testing::TraceBuilder& builder = trace.builder();
  builder.Compress(trace::CODEC_LZ4_BLOCK);
  builder.Device(0, "GPU", 80ull << 30);
  const uint32_t model = trace.Root("GPT"), optimizer = trace.Optimizer("AdamW");
  std::vector<uint64_t> stacks;
  for (uint32_t layer = 0; layer < 24; ++layer) {
    const uint32_t module = trace.Module(model, absl::StrCat("h.", layer, ".mlp"), "MLP");
    for (uint32_t line = 0; line < 20; ++line)
      stacks.push_back(trace.Stack({Code("MLP.forward", "/job/model.py", 10 + line), Call(module), Call(model),
                                    Code("train", "/job/train.py", 9)}));
  }
  builder.CudaAlloc(kSegment, 1ull << 30, stacks[0]);
  std::mt19937 random(1);
  std::vector<uint64_t> sizes(1000);
  while (builder.event_count() < events) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      sizes[i] = 512 * (1 + random() % 100);
      builder.TorchAlloc(kSegment + i * kSlot, sizes[i], stacks[i % stacks.size()]);
    }
    for (size_t i = sizes.size(); i-- > 0;) builder.TorchFree(kSegment + i * kSlot, sizes[i]);
    trace.StepBegins(optimizer).StepEnds(optimizer);
  }
  builder.End();
  builder.Write(path);
}

std::vector<std::string> QueriesOf(const std::string& document) {
  std::ifstream file(document);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::string> queries;
  for (size_t at = text.find("```sql\n"); at != std::string::npos; at = text.find("```sql\n", at + 1)) {
    const size_t begin = at + 7;
    queries.push_back(text.substr(begin, text.find("```", begin) - begin));
  }
  return queries;
}

double MedianSeconds(const std::string& query, SqlSession* session, uint64_t* rows_out) {
  std::vector<double> seconds;
  for (int run = 0; run < kRuns; ++run) {
    const double start = WallSeconds();
    absl::StatusOr<Rows> rows = session->Run(query);
    if (!rows.ok()) {
      std::fprintf(stderr, "%s\n%s\n", query.c_str(), std::string(rows.status().message()).c_str());
      return -1;
    }
    *rows_out = 0;
    while (rows->Next()) *rows_out += rows->size();
    seconds.push_back(WallSeconds() - start);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[kRuns / 2];
}

int Run(int argc, char** argv) {
  uint64_t events = 10'000'000;
  if (argc > 1 && !absl::SimpleAtoi(argv[1], &events)) {
    std::fprintf(stderr, "usage: %s [EVENTS] [DOCUMENT]\n", argv[0]);
    return 2;
  }
  if (argc == 4 && std::string(argv[2]) == "--write") {
    WriteTraining(events, argv[3]);
    return 0;
  }
  const char* const temporary = std::getenv("TMPDIR");
  const std::string folder =
      absl::StrCat(temporary == nullptr ? "/tmp" : temporary, "/gpumemshim_query_bench.", getpid());
  mkdir(folder.c_str(), 0700);
  const std::string path = folder + "/run.gmtrace";
  // In a child, so that making the trace does not count towards this process's memory.
  if (const pid_t child = fork(); child == 0) {
    WriteTraining(events, path);
    _exit(0);
  } else {
    waitpid(child, nullptr, 0);
  }
  SessionRequest request;
  request.traces = {path};
  request.index_folder = folder + "/index";
  double start = WallSeconds();
  auto session = SqlSession::Open(request);
  if (!session.ok()) {
    std::fprintf(stderr, "%s\n", std::string(session.status().message()).c_str());
    return 1;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("index: %.1f s, max RSS %ld MiB\n", WallSeconds() - start, usage.ru_maxrss / 1024);
  start = WallSeconds();
  session = SqlSession::Open(request);
  std::printf("opened again: %.3f s\n", WallSeconds() - start);
  std::fflush(stdout);
  std::system(("ls -l " + folder + "/index " + path).c_str());
  for (const std::string& query : QueriesOf(argc > 2 ? argv[2] : "docs/sql.md")) {
    uint64_t rows = 0;
    const double seconds = MedianSeconds(query, session->get(), &rows);
    std::printf("%.3f s  %8llu rows  %s\n", seconds, static_cast<unsigned long long>(rows),
                query.substr(0, query.find('\n')).c_str());
    std::fflush(stdout);
  }
  session->reset();
  return std::system(("rm -r " + folder).c_str());
}

}  // namespace
}  // namespace gpumem

int main(int argc, char** argv) { return gpumem::Run(argc, argv); }
