// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What a query sees beside the tables of the indexes: the tables of all traces as one, the views that users of other
// tools know, and functions. SQL text; constant.
//
//   for (const std::string& sql : ViewStatements({{"t0", 0}, {"t1", 1}})) database->Execute(sql);

#ifndef GPUMEM_ANALYZER_QUERY_VIEWS_H_
#define GPUMEM_ANALYZER_QUERY_VIEWS_H_

#include <string>
#include <vector>

namespace gpumem {

// A trace whose index is attached.
struct AttachedTrace {
  std::string schema;         // as it is attached
  std::string events_schema;  // of its other part; "" = that is not attached
  int rank = -1;              // -1 = not known
  std::string host;           // "" = not known
  std::string role;           // "pp 1/4, tp 0/2"; "" = not known
};

// "3 AS rank, 3 AS _rank, 'node0' AS _host, 'tp 0/2' AS _role": where rows are from.
std::string TagColumns(const AttachedTrace& trace);

// Without what stands on events where these are not attached.
std::vector<std::string> ViewStatements(const std::vector<AttachedTrace>& traces);

// A view or function, as .tables and docs/sql.md list it.
struct ViewInfo {
  const char* name;
  const char* about;
};
const std::vector<ViewInfo>& Views();
const std::vector<ViewInfo>& Functions();

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_QUERY_VIEWS_H_
