// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Asked: a trace and what SQL says of it, for tests. Without DuckDB's library a test is skipped and says so.
//
//   GPUMEM_NEEDS_DUCKDB();
//   Asked asked({trace.WriteTemporary()});
//   EXPECT_EQ(asked.One("SELECT count(*) FROM events"), "2");

#ifndef GPUMEM_TESTS_ANALYZER_QUERY_ASKED_H_
#define GPUMEM_TESTS_ANALYZER_QUERY_ASKED_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "query/cell_text.h"
#include "query/output.h"
#include "query/session.h"
#include "testing/index_folder.h"

#define GPUMEM_NEEDS_DUCKDB() \
  if (const auto duck = LoadDuckDb(); !duck.ok()) GTEST_SKIP() << duck.status().message()

namespace gpumem::testing {

class Asked {
 public:
  explicit Asked(const std::vector<std::string>& traces, bool is_unsafe = false) {
    SessionRequest request;
    request.traces = traces;
    request.index_folder = NewFolder();
    request.is_unsafe = is_unsafe;
    auto opened = SqlSession::Open(request);
    EXPECT_TRUE(opened.ok()) << opened.status();
    if (opened.ok()) session_ = *std::move(opened);
  }

  SqlSession& session() { return *session_; }

  // Rows as CSV; the error's text where there is one.
  std::string Csv(const std::string& sql) {
    auto rows = session_->Run(sql);
    if (!rows.ok()) return std::string(rows.status().message());
    std::string text;
    const auto count =
        WriteRows(RowFormat::kCsv, {}, &*rows, [&](absl::string_view part) { text.append(part.data(), part.size()); });
    return count.ok() ? text : std::string(count.status().message());
  }
  // Without the head and the last line end.
  std::string One(const std::string& sql) {
    const std::string text = Csv(sql);
    const size_t head = text.find('\n');
    return head == std::string::npos ? text : text.substr(head + 1, text.size() - head - 2);
  }
  absl::Status StatusOf(const std::string& sql) {
    auto rows = session_->Run(sql);
    if (!rows.ok()) return rows.status();
    while (rows->Next()) {
    }
    return rows->status();
  }

 private:
  std::unique_ptr<SqlSession> session_;
};

}  // namespace gpumem::testing

#endif  // GPUMEM_TESTS_ANALYZER_QUERY_ASKED_H_
