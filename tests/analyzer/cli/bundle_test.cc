// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

// What must not be in a bundle: a trace and an environment full of it are bundled, and every byte is searched.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <minizip/unzip.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "program.h"
#include "testing/sizes.h"
#include "testing/training_trace.h"

namespace gpumem {
namespace {

using nlohmann::json;
using testing::Call;
using testing::Code;
using ::testing::HasSubstr;
using testing::kMiB;
using testing::kSegment;
using ::testing::Not;
using testing::Outcome;
using testing::RunGpumem;
using testing::TrainingTrace;

constexpr char kMail[] = "chief@acme.example";

// What nobody else should read. Each is in several fields of the trace, alone and inside other texts.
const char* const kPrivate[] = {"hunter2",
                                "hf_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789",
                                "alice",
                                "node17",
                                "acme",
                                "top-secret",
                                "My Project",
                                "10.20.30.40",
                                "git.acme.example",
                                "chief"};

// All of it in one text, as a mark or the name of a tensor might have it.
std::string Everything() {
  return absl::StrCat("by alice on node17 at 10.20.30.40 from https://me:hunter2@git.acme.example/top-secret by ",
                      kMail, " in /home/alice/top-secret/data.bin, HF_TOKEN=hf_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789");
}

std::string PrivateTrace() {
  TrainingTrace training;
  testing::TraceBuilder& trace = training.builder();
  trace::Header& header = trace.header();
  header.set_hostname("node17.acme.example");
  header.set_program("train");
  header.set_executable("/home/alice/My Project/.venv/bin/python");
  header.set_working_directory("/home/alice/My Project");
  for (const std::string& word :
       {std::string("python"), std::string("/home/alice/My Project/train.py"), std::string("--password"),
        std::string("hunter2"), std::string("--note=") + Everything(),
        std::string("--out=/home/alice/My Project/top-secret/x.pt")})
    header.add_command_line(word);
  (*header.mutable_environment())["TORCHELASTIC_RUN_ID"] = Everything();
  (*header.mutable_settings())["GPUMEMSHIM_OUTPUT"] = "/home/alice/top-secret/";
  header.mutable_ring()->set_path("/home/alice/top-secret/ring");
  header.set_boot_id("0123456789abcdef");
  trace.Device(0, "GPU of alice", 64 * kMiB).Version("torch", "2.11.0+cu130").Version("cudnn", "9.1.0.70");
  trace.OnThread(trace.Thread(7, "alice"));
  const uint32_t root = training.Root("Net");
  const uint32_t layer = training.Module(root, "layers.0", "Linear");
  const uint32_t optimizer = training.Optimizer("AdamW");
  const uint64_t stack = training.Stack({Code("forward", "/home/alice/My Project/top-secret/model.py", 3), Call(layer),
                                         Call(root), Code("main", "/home/alice/My Project/train.py", 9)});
  training.Place(training.Parameter(root, "by alice", 256 * 1024), kSegment, kMiB);
  trace.CudaAlloc(kSegment, 32 * kMiB, stack);
  EventRow mark;
  mark.kind = trace::MARK;
  mark.text = trace.String(Everything());
  trace.Event(mark);
  training.Named(kSegment, trace.String(Everything()));
  for (uint64_t step = 0; step < 4; ++step) {
    for (uint64_t i = 0; i < 8; ++i) trace.TorchAlloc(kSegment + (16 * step + i) * 65536, 65536, stack);
    training.StepBegins(optimizer).StepEnds(optimizer);
    for (uint64_t i = 0; i < 7; ++i) trace.TorchFree(kSegment + (16 * step + i) * 65536, 65536);
  }
  return trace.End().Bytes();
}

std::map<std::string, std::string> Unzipped(const std::string& path) {
  std::map<std::string, std::string> files;
  const unzFile zip = unzOpen64(path.c_str());
  for (int state = zip == nullptr ? 1 : unzGoToFirstFile(zip); state == UNZ_OK; state = unzGoToNextFile(zip)) {
    char name[256] = {};
    unz_file_info64 info = {};
    unzGetCurrentFileInfo64(zip, &info, name, sizeof name - 1, nullptr, 0, nullptr, 0);
    std::string bytes(info.uncompressed_size, '\0');
    unzOpenCurrentFile(zip);
    EXPECT_EQ(unzReadCurrentFile(zip, bytes.data(), static_cast<unsigned>(bytes.size())),
              static_cast<int>(bytes.size()));
    EXPECT_EQ(unzCloseCurrentFile(zip), UNZ_OK) << name << " has another checksum";
    files[name] = bytes;
  }
  if (zip != nullptr) unzClose(zip);
  return files;
}

class BundleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::MakeFolder();
    testing::WriteFile(folder_ + "/run.gmtrace", PrivateTrace());
  }
  Outcome Bundle(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "bundle");
    return RunGpumem(arguments, folder_,
                     {{"HOME", "/home/alice"},
                      {"USER", "alice"},
                      {"TMPDIR", folder_},
                      {"HF_TOKEN", kPrivate[1]},
                      {"PYTORCH_CUDA_ALLOC_CONF", "backend:native"},
                      {"GPUMEMSHIM_OUTPUT", "/home/alice/top-secret/"}});
  }
  std::string folder_;
};

TEST_F(BundleTest, NothingPrivateIsInIt) {
  const Outcome done = Bundle({"run.gmtrace", "--with-trace", "-o", "bug.zip"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const auto files = Unzipped(folder_ + "/bug.zip");
  for (const char* name :
       {"README.txt", "report.txt", "report.json", "info.txt", "info.json", "explain.txt", "leaks.json", "steps.json",
        "timeline.png", "peak.png", "doctor.txt", "doctor.json", "errors.txt"})
    EXPECT_EQ(files.count(name), 1u) << name << files.at("errors.txt");
  ASSERT_EQ(files.count("trace.gmtrace"), 1u);
  testing::WriteFile(folder_ + "/copy.gmtrace", files.at("trace.gmtrace"));
  std::string all = RunGpumem({"export", "packets", "copy.gmtrace"}, folder_).out;
  EXPECT_THAT(all, HasSubstr("/model.py")) << "names of files stay";
  EXPECT_THAT(all, HasSubstr("9.1.0.70")) << "versions stay";
  EXPECT_THAT(files.at("info.json"), HasSubstr("2.11.0+cu130"));
  for (const auto& [name, bytes] : files) absl::StrAppend(&all, "\n== ", name, "\n", bytes);
  for (const char* secret : kPrivate) {
    const size_t at = all.find(secret);
    EXPECT_EQ(at, std::string::npos) << secret << " in ..." << all.substr(at < 200 ? 0 : at - 200, 300);
  }
  struct stat archive = {}, trace = {};
  ASSERT_EQ(stat((folder_ + "/bug.zip").c_str(), &archive), 0);
  ASSERT_EQ(stat((folder_ + "/run.gmtrace").c_str(), &trace), 0);
  EXPECT_EQ(archive.st_mode, trace.st_mode);
}

TEST_F(BundleTest, NumbersAreThoseOfTheTrace) {
  ASSERT_EQ(Bundle({"run.gmtrace", "--with-trace"}).exit_code, 0);
  const auto files = Unzipped(folder_ + "/run.bundle.zip");
  const json before = json::parse(RunGpumem({"report", "--full", "--json", "run.gmtrace"}, folder_).out);
  const json after = json::parse(files.at("report.json"));
  EXPECT_EQ(after["devices"][0]["peak"]["allocated_bytes"], before["devices"][0]["peak"]["allocated_bytes"]);
  EXPECT_EQ(after["devices"][0]["end"], before["devices"][0]["end"]);
  EXPECT_EQ(after["losses"], before["losses"]);
  int entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) entries += entry.exists() ? 1 : 0;
  EXPECT_EQ(entries, 2) << "nothing is left beside";
  testing::WriteFile(folder_ + "/copy.gmtrace", files.at("trace.gmtrace"));
  EXPECT_EQ(RunGpumem({"export", "events", "copy.gmtrace"}, folder_).out,
            RunGpumem({"export", "events", "run.gmtrace"}, folder_).out);
}

TEST_F(BundleTest, WhatWasReplacedIsShownAndNotPutIn) {
  const Outcome done = Bundle({"--json", "--show-masked"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const json answer = json::parse(done.out);
  EXPECT_EQ(answer["file"], "run.bundle.zip");
  EXPECT_THAT(answer["failed"], ::testing::IsEmpty());
  EXPECT_GE(answer["masked"]["folders"], 2);
  EXPECT_EQ(answer["masked"]["mails"], 1);
  bool shown = false;
  for (const json& each : answer["replaced"])
    shown |= each["text"] == "/home/alice/My Project" && each["kind"] == "folders";
  EXPECT_TRUE(shown) << done.out;
  const auto files = Unzipped(folder_ + "/run.bundle.zip");
  EXPECT_EQ(files.count("trace.gmtrace"), 0u) << "only where it is asked for";
  EXPECT_THAT(files.at("README.txt"), HasSubstr("mails: 1"));
  EXPECT_THAT(RunGpumem({"bundle", "run.gmtrace"}, folder_).out, Not(HasSubstr("My Project")));
}

TEST_F(BundleTest, ADamagedTraceIsBundledToo) {
  std::string bytes = PrivateTrace();
  bytes.replace(bytes.size() / 2, 200, 200, '\0');
  testing::WriteFile(folder_ + "/damaged.gmtrace", bytes);
  ASSERT_EQ(Bundle({"damaged.gmtrace"}).exit_code, 0);
  const auto files = Unzipped(folder_ + "/damaged.bundle.zip");
  EXPECT_THAT(files.at("errors.txt"), HasSubstr("report.txt: exit code 4"));
  EXPECT_THAT(files.at("errors.txt"), Not(HasSubstr("alice")));
}

TEST_F(BundleTest, WrongUseIsSaid) {
  EXPECT_EQ(Bundle({"run.gmtrace", "-o", "run.gmtrace"}).exit_code, 2);
  testing::WriteFile(folder_ + "/no.gmtrace", "no trace");
  const Outcome none = Bundle({"no.gmtrace"});
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_THAT(none.err, HasSubstr("no.gmtrace"));
  EXPECT_FALSE(std::ifstream(folder_ + "/no.bundle.zip").good());
}

}  // namespace
}  // namespace gpumem
