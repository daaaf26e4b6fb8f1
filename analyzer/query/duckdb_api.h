// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// DuckDB's C API, as far as it is used here, behind dlopen: gpumemshim starts and works without the library; only SQL
// and Parquet need it. Types and functions are declared from the public documentation of the C API, whose functions
// keep their meaning from version to version. Thread-safe: loaded once, then constant. Never unloaded.
//
//   GPUMEM_ASSIGN_OR_RETURN(const DuckApi* const duck, LoadDuckDb());
//   duck->query(connection, "SELECT 42", &result);
//
// NotFound says where the library was looked for and how to get it.

#ifndef GPUMEM_ANALYZER_QUERY_DUCKDB_API_H_
#define GPUMEM_ANALYZER_QUERY_DUCKDB_API_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace gpumem {

using DuckHandle = void*;  // databases, connections, types, chunks, vectors, ...: DuckDB's opaque pointers
using DuckState = int;     // 0 = success

// What a query returns; passed by value to some functions. Only the last member is in use.
struct DuckResult {
  uint64_t column_count = 0, row_count = 0, rows_changed = 0;
  void* columns = nullptr;
  char* error = nullptr;
  void* internal = nullptr;
};

// A string inside of a vector.
struct DuckString {
  static constexpr uint32_t kInlined = 12;
  uint32_t length;
  char prefix[4];
  union {
    char rest[8];  // of an inlined one, behind the prefix
    const char* pointer;
  };
  const char* data() const { return length <= kInlined ? prefix : pointer; }
};

// duckdb_type.
enum DuckType : int {
  kDuckBoolean = 1,
  kDuckTinyInt = 2,
  kDuckSmallInt = 3,
  kDuckInteger = 4,
  kDuckBigInt = 5,
  kDuckUTinyInt = 6,
  kDuckUSmallInt = 7,
  kDuckUInteger = 8,
  kDuckUBigInt = 9,
  kDuckFloat = 10,
  kDuckDouble = 11,
  kDuckTimestamp = 12,
  kDuckDate = 13,
  kDuckTime = 14,
  kDuckInterval = 15,
  kDuckHugeInt = 16,
  kDuckVarchar = 17,
  kDuckBlob = 18,
  kDuckDecimal = 19,
  kDuckTimestampS = 20,
  kDuckTimestampMs = 21,
  kDuckTimestampNs = 22,
  kDuckEnum = 23,
  kDuckList = 24,
  kDuckStruct = 25,
  kDuckMap = 26,
  kDuckTimestampTz = 31,
  kDuckUHugeInt = 32,
};

// duckdb_statement_type. What a COPY, a PRAGMA, an EXPORT or an ATTACH is has other numbers.
enum DuckStatement : int {
  kDuckSelect = 1,
  kDuckInsert = 2,
  kDuckUpdate = 3,
  kDuckExplain = 4,
  kDuckDelete = 5,
  kDuckCreate = 7,
  kDuckAlter = 9,
  kDuckDrop = 15,
};

// Name in the library without "duckdb_", result, parameters.
#define GPUMEM_DUCKDB_FUNCTIONS(F)                                                                    \
  F(library_version, const char*, (void))                                                             \
  F(create_config, DuckState, (DuckHandle*))                                                          \
  F(set_config, DuckState, (DuckHandle, const char*, const char*))                                    \
  F(destroy_config, void, (DuckHandle*))                                                              \
  F(open_ext, DuckState, (const char*, DuckHandle*, DuckHandle, char**))                              \
  F(close, void, (DuckHandle*))                                                                       \
  F(connect, DuckState, (DuckHandle, DuckHandle*))                                                    \
  F(disconnect, void, (DuckHandle*))                                                                  \
  F(interrupt, void, (DuckHandle))                                                                    \
  F(free, void, (void*))                                                                              \
  F(query, DuckState, (DuckHandle, const char*, DuckResult*))                                         \
  F(destroy_result, void, (DuckResult*))                                                              \
  F(result_error, const char*, (DuckResult*))                                                         \
  F(result_return_type, int, (DuckResult))                                                            \
  F(column_count, uint64_t, (DuckResult*))                                                            \
  F(column_name, const char*, (DuckResult*, uint64_t))                                                \
  F(column_logical_type, DuckHandle, (DuckResult*, uint64_t))                                         \
  F(fetch_chunk, DuckHandle, (DuckResult))                                                            \
  F(extract_statements, uint64_t, (DuckHandle, const char*, DuckHandle*))                             \
  F(extract_statements_error, const char*, (DuckHandle))                                              \
  F(prepare_extracted_statement, DuckState, (DuckHandle, DuckHandle, uint64_t, DuckHandle*))          \
  F(destroy_extracted, void, (DuckHandle*))                                                           \
  F(prepare_error, const char*, (DuckHandle))                                                         \
  F(prepared_statement_type, int, (DuckHandle))                                                       \
  F(destroy_prepare, void, (DuckHandle*))                                                             \
  F(pending_prepared_streaming, DuckState, (DuckHandle, DuckHandle*))                                 \
  F(pending_error, const char*, (DuckHandle))                                                         \
  F(execute_pending, DuckState, (DuckHandle, DuckResult*))                                            \
  F(destroy_pending, void, (DuckHandle*))                                                             \
  F(create_logical_type, DuckHandle, (int))                                                           \
  F(create_enum_type, DuckHandle, (const char**, uint64_t))                                           \
  F(destroy_logical_type, void, (DuckHandle*))                                                        \
  F(get_type_id, int, (DuckHandle))                                                                   \
  F(decimal_scale, uint8_t, (DuckHandle))                                                             \
  F(decimal_internal_type, int, (DuckHandle))                                                         \
  F(enum_internal_type, int, (DuckHandle))                                                            \
  F(enum_dictionary_value, char*, (DuckHandle, uint64_t))                                             \
  F(list_type_child_type, DuckHandle, (DuckHandle))                                                   \
  F(struct_type_child_count, uint64_t, (DuckHandle))                                                  \
  F(struct_type_child_name, char*, (DuckHandle, uint64_t))                                            \
  F(struct_type_child_type, DuckHandle, (DuckHandle, uint64_t))                                       \
  F(create_data_chunk, DuckHandle, (DuckHandle*, uint64_t))                                           \
  F(destroy_data_chunk, void, (DuckHandle*))                                                          \
  F(data_chunk_reset, void, (DuckHandle))                                                             \
  F(data_chunk_get_vector, DuckHandle, (DuckHandle, uint64_t))                                        \
  F(data_chunk_get_size, uint64_t, (DuckHandle))                                                      \
  F(data_chunk_set_size, void, (DuckHandle, uint64_t))                                                \
  F(vector_size, uint64_t, (void))                                                                    \
  F(vector_get_data, void*, (DuckHandle))                                                             \
  F(vector_get_validity, uint64_t*, (DuckHandle))                                                     \
  F(vector_ensure_validity_writable, void, (DuckHandle))                                              \
  F(vector_assign_string_element_len, void, (DuckHandle, uint64_t, const char*, uint64_t))            \
  F(list_vector_get_child, DuckHandle, (DuckHandle))                                                  \
  F(struct_vector_get_child, DuckHandle, (DuckHandle, uint64_t))                                      \
  F(appender_create_ext, DuckState, (DuckHandle, const char*, const char*, const char*, DuckHandle*)) \
  F(appender_error, const char*, (DuckHandle))                                                        \
  F(append_data_chunk, DuckState, (DuckHandle, DuckHandle))                                           \
  F(appender_close, DuckState, (DuckHandle))                                                          \
  F(appender_destroy, DuckState, (DuckHandle*))

struct DuckApi {
#define GPUMEM_DUCKDB_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  GPUMEM_DUCKDB_FUNCTIONS(GPUMEM_DUCKDB_MEMBER)
#undef GPUMEM_DUCKDB_MEMBER
};

// From GPUMEMSHIM_DUCKDB where that is set, else from beside the program (../lib/gpumemshim), from where it was built,
// from where the loader looks.
absl::StatusOr<const DuckApi*> LoadDuckDb();

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_QUERY_DUCKDB_API_H_
