// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Writes small correct inputs for each fuzz target, as seeds, into a folder of the target's name.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "answers/ranks/summary_file.h"
#include "testing/ring_builder.h"
#include "testing/trace_builder.h"
#include "trace/module_symbols.h"

namespace {

using gpumem::testing::TraceBuilder;

void Write(const std::string& path, TraceBuilder& trace) {
  const std::string bytes = std::string(1, '\0') + trace.Bytes();
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// Every kind of event, so that the fuzzer need not guess their numbers.
void AddEveryKind(TraceBuilder* trace) {
  for (int kind = gpumem::trace::ALLOC; kind <= gpumem::trace::DEVICE_RESET; ++kind) {
    gpumem::EventRow row;
    row.kind = static_cast<gpumem::trace::EventKind>(kind);
    row.layer = gpumem::trace::DRIVER;
    row.device = 0;
    row.address = 0x7f0000000000;
    row.size = 2 << 20;
    row.handle = 77;
    row.result = 2;
    trace->Event(row);
    trace->TorchAlloc(0x7f0000000000, 512, 1);
  }
}

void WriteRings(const std::string& folder) {
  gpumem::testing::RingBuilder plain, marked;
  plain.Chunk(1, 1).Code(9, "m.py", "f").PythonStack(5, {9}).Stack(6, {16, 32}).Alloc(0x7f0000000000, 512, 5).Free(1);
  marked.Chunk(2, 1, gpumem::format::kChunkClosed).Alloc(1, 1).Mark(3).Alloc(2, 1).Mark(4).Alloc(3, 1);
  marked.Chunk(2, 2).Alloc(4, 1);
  int number = 0;
  for (gpumem::testing::RingBuilder* ring : {&plain, &marked}) {
    const std::string bytes = std::string(1, '\0') + ring->bytes();
    std::ofstream(folder + "/ring" + std::to_string(number++), std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
}

// One seed a kind of input that symbols_fuzz chooses by the first byte.
void WriteSymbols(const std::string& folder) {
  gpumem::ModuleSymbols names;
  names.Add(0x1000, {{"inner(int)", "a.h", 12}, {"outer()", "a.cc", 40}});
  std::ifstream self("/proc/self/exe", std::ios::binary);
  std::string elf(4096, '\0');
  self.read(elf.data(), static_cast<std::streamsize>(elf.size()));
  const std::string seeds[] = {elf, names.Serialize(1), std::string("\x80\x00\xf0\x02\x04\x01", 6),
                               "void at::native::(anonymous namespace)::add<float>(at::Tensor const&) const"};
  for (size_t kind = 0; kind < std::size(seeds); ++kind) {
    std::ofstream(folder + "/symbols" + std::to_string(kind), std::ios::binary)
        << static_cast<char>(kind) << seeds[kind];
  }
}

// The first byte chooses what the text is read as.
void WriteTexts(const std::string& folder, const std::vector<std::string>& texts) {
  for (size_t i = 0; i < texts.size(); ++i)
    std::ofstream(folder + "/seed" + std::to_string(i), std::ios::binary) << texts[i];
}

// Two ranks of a job, each with something in every list.
void WriteSummaries(const std::string& folder) {
  std::string lines;
  for (int number = 0; number < 2; ++number) {
    gpumem::RankSummary rank;
    rank.file = "r" + std::to_string(number) + ".gmtrace";
    rank.rank = number;
    rank.hostname = "node";
    rank.job = {"17", "train.py", 2};
    rank.device = number;
    rank.capacity = uint64_t{80} << 30;
    rank.peak_allocated = rank.peak_reserved = rank.peak_total = uint64_t{100 + 50u * number} << 20;
    rank.ancestors = {1};
    rank.other_devices[1 - number] = 512 << 20;
    rank.knows_peak_groups = true;
    rank.peak_groups = {{gpumem::Category::kActivation, "blocks.3.mlp", "train.py:42 forward", 70 << 20, 2}};
    rank.roles = {{"pp", 0, 1}};
    rank.parameters = {{11, 12, 4096}};
    rank.timeline = {{10, 20}, {30, 40}};
    for (uint64_t step = 1; step < 4; ++step) {
      rank.steps.Add({step, rank.peak_allocated, rank.peak_total}, true);
      rank.step_ends.push_back({step, step * 1000});
    }
    lines += gpumem::SummaryLine(rank, {7, 8});
  }
  std::ofstream(folder + "/job", std::ios::binary) << lines;
}

void WriteTraces(const std::string& folder) {
  int number = 0;
  for (const auto codec : {gpumem::trace::CODEC_NONE, gpumem::trace::CODEC_LZ4_BLOCK, gpumem::trace::CODEC_ZSTD,
                           gpumem::trace::CODEC_LZ4_CHAINED}) {
    TraceBuilder trace(8);
    trace.Compress(codec);
    trace.Device(0, "GPU", 1 << 30);
    trace.PythonStack({{"f", "m.py", 7}});
    AddEveryKind(&trace);
    trace.Losses({}).Counters({}).End();
    Write(folder + "/seed" + std::to_string(number++), trace);
  }
  TraceBuilder gap(4);
  for (uint64_t i = 1; i < 20; ++i) gap.TorchAlloc(i << 20, 512);
  gap.SkipSequence().FlushBatch();
  for (uint64_t i = 1; i < 20; ++i) gap.TorchFree(i << 20, 512);
  Write(folder + "/gap", gap.End());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  const std::string folder(argv[1]);
  for (const char* target : {"reader_fuzz", "ring_fuzz", "symbols_fuzz", "sweep_fuzz", "control_fuzz", "secrets_fuzz",
                             "check_fuzz", "summary_fuzz", "planner_fuzz", "reply_fuzz", "serve_fuzz", "sql_fuzz"})
    std::filesystem::create_directories(folder + "/" + target);
  WriteTraces(folder + "/reader_fuzz");
  WriteRings(folder + "/ring_fuzz");
  WriteSymbols(folder + "/symbols_fuzz");
  WriteSummaries(folder + "/summary_fuzz");
  using namespace std::string_literals;
  WriteTexts(
      folder + "/planner_fuzz",
      {"\0{\"pid\": 7, \"rank\": 1, \"reason\": \"stable\", \"steps\": 4, \"highest\": [5], \"changes\": [{\"name\": "s +
           "\"look\", \"batch\": [\"--batch\", 8]}], \"pinned\": {\"x\": 1}, \"workspaces\": {\"cuDNN\": {\"set\": "
           "1}}}",
       "\1{\"id\": 4, \"pid\": 4242}"s, "\1{\"id\": 4, \"status\": 256, \"rss_kib\": 7}"s,
       "\1{\"unfit\": \"jax\", \"why\": \"threads\"}"s,
       "\2{\"done\": 5, \"died\": {\"at\": 4, \"size\": 512}, \"notes\": [\"n\"], \"fit\": 9, \"stats\": {\"0\": "s +
           "{\"reserved_bytes.all.peak\": 7, \"num_alloc_retries\": 3}}}"});
  WriteTexts(folder + "/reply_fuzz",
             {"gpumemshim/1 ok\npid 7\nprogram train\\x1b.py\nstate recording\nevents 12\nend\n"s,
              "gpumemshim/1 error it is over\n"s});
  WriteTexts(
      folder + "/serve_fuzz",
      {"\0GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"s, "\1GET /live?token=TOKEN HTTP/1.1\r\nHost: localhost\r\n\r\n"s,
       "\1HEAD /metrics HTTP/1.0\r\nHost: [::1]:1\r\nAuthorization: Bearer TOKEN\r\n\r\n"s});
  WriteTexts(folder + "/sql_fuzz", {"SELECT count(*) FROM events"s, "EXPLAIN (ANALYZE) COPY (SELECT 1) TO 'INDEX.wal'"s,
                                    "CREATE TEMP TABLE t AS SELECT $$a$$, e'\\''; /* ; */ FROM t -- x"s,
                                    "EXPLAIN ANALYZE COPY (SELECT 'x') TO 'FOLDER/x' (FORMAT csv)"s});
  WriteTexts(folder + "/sweep_fuzz", {"\0command: a {x}\naxes: {x: [1, 2], y: 1..8x2}\nconstraints: [x < y]\n"s,
                                      "\1(a + 2) * b <= 8 and not c.d == \"x\""s});
  WriteTexts(
      folder + "/check_fuzz",
      {"\0max_peak: 70GiB\nmax_leak: 1MiB/step\nmax_fragmentation: 20%\ntolerance: 2%\n"s,
       "\1{\"command\": \"plan\", \"verdict\": \"fits\", \"peak\": {\"allocated_bytes\": 7, \"reserved_bytes\": 8, "s +
           "\"process_bytes\": 9}}"});
  WriteTexts(folder + "/control_fuzz",
             {"gpumemshim/1 status"s, "gpumemshim/1 mark epoch 3\r"s, "gpumemshim/1 snapshot /tmp/x"s});
  WriteTexts(folder + "/secrets_fuzz", {"\x40--token=abc\0--lr\0001"s, "\x10python\0-c\0print(1)"s,
                                        "\xffhttps://me:pw@host/?token=abc\0{\"api_key\": \"x y\"}"s,
                                        "\x20-p\0hunter2\0-H\0Authorization: Bearer eyJhbGciOi.x.y"s});
  return 0;
}
