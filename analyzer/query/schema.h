// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The tables of `gpumemshim sql`, once: their columns with type, unit and meaning. The index is written by it, .schema
// and docs/sql.md are printed from it. Constant; thread-safe.
//
//   for (const TableColumn& column : EventsTable().columns) Print(column.name, column.unit, column.about);

#ifndef GPUMEM_ANALYZER_QUERY_SCHEMA_H_
#define GPUMEM_ANALYZER_QUERY_SCHEMA_H_

#include <cstdint>
#include <string>
#include <vector>

namespace gpumem {

enum class ColumnType : uint8_t {
  kBoolean,
  kInteger,  // 32 bits
  kBigInt,   // 64 bits
  kUBigInt,  // 64 bits without sign: addresses, handles
  kText,
  kEnum,  // text out of a list that the index knows
};

struct TableColumn {
  const char* name;
  ColumnType type;
  const char* unit;   // "bytes", "ns", "" = none
  const char* about;  // one sentence
};

struct TableSchema {
  const char* name;
  const char* about;
  std::vector<TableColumn> columns;
};

// One row each: an event of the trace, a piece of memory, a segment of PyTorch, ...
const TableSchema& EventsTable();
const TableSchema& BlocksTable();
const TableSchema& SegmentsTable();
const TableSchema& StacksTable();
const TableSchema& FramesTable();
const TableSchema& StepsTable();
const TableSchema& ModulesTable();
const TableSchema& CountersTable();
const TableSchema& SamplesTable();
const TableSchema& OwnersTable();
const TableSchema& LossesTable();
const TableSchema& ProcessesTable();

// Whether a table is one of those that are read from the trace itself: events, counters, samples.
bool IsOfEvents(const TableSchema& table);

// All of these, in the order of the documentation.
std::vector<const TableSchema*> AllTables();

// "VARCHAR"; of an ENUM as people see it.
const char* TypeName(ColumnType type);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_QUERY_SCHEMA_H_
