// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Any text as a query of `gpumemshim sql`, the mcp tool and the Python package: split and judged; where DuckDB's
// library is there, also asked. Whatever it says, the index stays as it is and nothing appears beside it.

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "query/session.h"
#include "query/statements.h"
#include "testing/trace_builder.h"

// The library's own, which is not built for this.
extern "C" const char* __lsan_default_suppressions() { return "leak:libduckdb\n"; }

namespace {

namespace fs = std::filesystem;

// One session for all inputs; a statement that takes long is interrupted.
class Asked {
 public:
  Asked() {
    std::string name = "/tmp/sql_fuzz.XXXXXX";
    if (mkdtemp(name.data()) == nullptr) std::abort();
    folder_ = name;
    gpumem::testing::TraceBuilder().CudaAlloc(0x1000, 4096).CudaFree(0x1000).End().Write(folder_ + "/t.gmtrace");
    request_.traces = {folder_ + "/t.gmtrace"};
    request_.index_folder = folder_ + "/index";
    request_.memory = "256MB";
    auto opened = gpumem::SqlSession::Open(request_);
    if (!opened.ok()) return;  // no library: the text alone
    session_ = *std::move(opened);
    index_ = fs::directory_iterator(request_.index_folder)->path().string();
    state_ = State();
    std::thread([this] {
      for (;; std::this_thread::sleep_for(std::chrono::milliseconds(100))) {
        if (begun_ != 0 && Now() - begun_ > 1000) session_->Interrupt();
      }
    }).detach();
  }

  void Ask(const std::string& text) {
    if (session_ == nullptr) return;
    begun_ = Now();
    auto rows = session_->Run(absl::StrReplaceAll(text, {{"INDEX", index_}, {"FOLDER", folder_}}));
    for (int chunk = 0; rows.ok() && chunk < 3 && rows->Next(); ++chunk) {
    }
    begun_ = 0;
    if (State() != state_) __builtin_trap();
  }
  void End() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

 private:
  static int64_t Now() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  // Of all files there: the trace, the index, and no other.
  std::string State() const {
    std::string state;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      struct stat info {};
      stat(entry.path().c_str(), &info);
      absl::StrAppend(&state, entry.path().string(), "|", info.st_size, "|", info.st_mtim.tv_sec, ".",
                      info.st_mtim.tv_nsec, "|", info.st_ino, "\n");
    }
    return state;
  }

  std::string folder_, index_, state_;
  gpumem::SessionRequest request_;
  std::unique_ptr<gpumem::SqlSession> session_;
  std::atomic<int64_t> begun_{0};
};

Asked& TheSession() {
  static auto* const asked = new Asked();
  return *asked;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  TheSession();
  std::atexit([] { TheSession().End(); });
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const gpumem::SplitSql split = gpumem::SplitStatements(text);
  for (const std::string& statement : split.statements) {
    gpumem::FirstWord(statement);
    gpumem::CheckAllowed(statement).IgnoreError();
    TheSession().Ask(statement);
  }
  TheSession().Ask(split.rest);
  return 0;
}
