// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "query/cell_text.h"

#include <charconv>
#include <cmath>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gpumem {
namespace {

struct ListEntry {
  uint64_t offset, length;
};
struct Interval {
  int32_t months, days;
  int64_t micros;
};
struct Huge {
  uint64_t lower;
  int64_t upper;
};

template <typename T>
T ValueAt(const void* data, uint64_t row) {
  return static_cast<const T*>(data)[row];
}

std::string HugeText(absl::uint128 magnitude, bool is_negative) {
  std::string digits;
  do {
    digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(absl::Uint128Low64(magnitude % 10))));
    magnitude /= 10;
  } while (magnitude != 0);
  return is_negative ? "-" + digits : digits;
}

std::string SignedText(absl::int128 value) {
  const bool is_negative = value < 0;
  const auto bits = static_cast<absl::uint128>(value);
  return HugeText(is_negative ? absl::uint128(0) - bits : bits, is_negative);
}

std::string UHugeText(const Huge& huge) {
  return HugeText(absl::MakeUint128(static_cast<uint64_t>(huge.upper), huge.lower), false);
}

absl::int128 SignedAt(int storage, const void* data, uint64_t row) {
  switch (storage) {
    case kDuckTinyInt:
      return ValueAt<int8_t>(data, row);
    case kDuckSmallInt:
      return ValueAt<int16_t>(data, row);
    case kDuckInteger:
      return ValueAt<int32_t>(data, row);
    case kDuckBigInt:
      return ValueAt<int64_t>(data, row);
    default: {
      const Huge huge = ValueAt<Huge>(data, row);
      return absl::MakeInt128(huge.upper, huge.lower);
    }
  }
}

uint64_t UnsignedAt(int storage, const void* data, uint64_t row) {
  if (storage == kDuckUTinyInt) return ValueAt<uint8_t>(data, row);
  if (storage == kDuckUSmallInt) return ValueAt<uint16_t>(data, row);
  return storage == kDuckUInteger ? ValueAt<uint32_t>(data, row) : ValueAt<uint64_t>(data, row);
}

// The shortest text that reads back as the same value.
template <typename T>
std::string FloatText(T value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char text[64];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  const std::string shortest(text, end);
  return shortest.find_first_of(".e") == std::string::npos ? shortest + ".0" : shortest;
}

std::string DecimalText(absl::int128 value, uint8_t scale) {
  std::string digits = SignedText(value < 0 ? -value : value);
  if (digits.size() <= scale) digits.insert(0, scale + 1 - digits.size(), '0');
  if (scale > 0) digits.insert(digits.size() - scale, 1, '.');
  return value < 0 ? "-" + digits : digits;
}

// Days since 1970 as a date (Howard Hinnant's civil_from_days, in the proleptic Gregorian calendar).
std::string DateText(int64_t days) {
  days += 719468;
  const int64_t era = (days >= 0 ? days : days - 146096) / 146097;
  const int64_t day_of_era = days - era * 146097;
  const int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  const int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t shifted = (5 * day_of_year + 2) / 153;
  const int64_t month = shifted < 10 ? shifted + 3 : shifted - 9;
  return absl::StrFormat("%04d-%02d-%02d", year_of_era + era * 400 + (month <= 2 ? 1 : 0), month,
                         day_of_year - (153 * shifted + 2) / 5 + 1);
}

std::string TimeText(int64_t micros) {
  const int64_t seconds = micros / 1'000'000;
  std::string text = absl::StrFormat("%02d:%02d:%02d", seconds / 3600, seconds / 60 % 60, seconds % 60);
  if (micros % 1'000'000 != 0) absl::StrAppendFormat(&text, ".%06d", micros % 1'000'000);
  return text;
}

std::string TimestampText(int64_t micros) {
  constexpr int64_t kDay = 86'400'000'000;
  const int64_t days = micros / kDay - (micros % kDay < 0 ? 1 : 0);
  return absl::StrCat(DateText(days), " ", TimeText(micros - days * kDay));
}

std::string IntervalText(const Interval& interval) {
  std::string text;
  if (interval.months != 0) absl::StrAppend(&text, interval.months, " months ");
  if (interval.days != 0) absl::StrAppend(&text, interval.days, " days ");
  const int64_t micros = interval.micros;
  return absl::StrCat(text, micros < 0 ? "-" : "", TimeText(micros < 0 ? -micros : micros));
}

// Of the types that name times; what else there is has to be cast by the query.
std::string TimeOrDateText(int id, const void* data, uint64_t row) {
  switch (id) {
    case kDuckDate:
      return DateText(ValueAt<int32_t>(data, row));
    case kDuckTime:
      return TimeText(ValueAt<int64_t>(data, row));
    case kDuckTimestamp:
    case kDuckTimestampTz:
      return TimestampText(ValueAt<int64_t>(data, row));
    case kDuckTimestampS:
      return TimestampText(ValueAt<int64_t>(data, row) * 1'000'000);
    case kDuckTimestampMs:
      return TimestampText(ValueAt<int64_t>(data, row) * 1'000);
    case kDuckTimestampNs:
      return TimestampText(ValueAt<int64_t>(data, row) / 1'000);
    case kDuckInterval:
      return IntervalText(ValueAt<Interval>(data, row));
    default:
      return "(cast it to VARCHAR to see it)";
  }
}

std::string StringAt(const void* data, uint64_t row) {
  const DuckString& value = static_cast<const DuckString*>(data)[row];
  return std::string(value.data(), value.length);
}

std::string Taken(const DuckApi& duck, char* text) {
  std::string taken = text == nullptr ? "" : text;
  if (text != nullptr) duck.free(text);
  return taken;
}

Cell CellOf(const DuckApi& duck, DuckHandle vector, DuckHandle type, uint64_t row);

std::string ListText(const DuckApi& duck, DuckHandle vector, DuckHandle type, uint64_t row) {
  const ListEntry entry = ValueAt<ListEntry>(duck.vector_get_data(vector), row);
  DuckHandle child_type = duck.list_type_child_type(type);
  std::string text = "[";
  for (uint64_t i = 0; i < entry.length; ++i) {
    const Cell cell = CellOf(duck, duck.list_vector_get_child(vector), child_type, entry.offset + i);
    absl::StrAppend(&text, i == 0 ? "" : ", ", cell.is_null ? "NULL" : cell.text);
  }
  duck.destroy_logical_type(&child_type);
  return text + "]";
}

std::string StructText(const DuckApi& duck, DuckHandle vector, DuckHandle type, uint64_t row) {
  std::string text = "{";
  for (uint64_t i = 0; i < duck.struct_type_child_count(type); ++i) {
    DuckHandle child_type = duck.struct_type_child_type(type, i);
    const Cell cell = CellOf(duck, duck.struct_vector_get_child(vector, i), child_type, row);
    duck.destroy_logical_type(&child_type);
    absl::StrAppend(&text, i == 0 ? "" : ", ", Taken(duck, duck.struct_type_child_name(type, i)), ": ",
                    cell.is_null ? "NULL" : cell.text);
  }
  return text + "}";
}

std::string BlobText(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) absl::StrAppendFormat(&text, "\\x%02X", static_cast<unsigned char>(c));
  return text;
}

void SetNumber(absl::int128 value, Cell* cell) {
  cell->is_number = true;
  cell->text = SignedText(value);
  cell->number = static_cast<int64_t>(value);
}

// JSON has no word for what is not finite.
template <typename T>
void SetFloat(T value, Cell* cell) {
  cell->is_number = std::isfinite(value);
  cell->text = FloatText(value);
}

Cell CellOf(const DuckApi& duck, DuckHandle vector, DuckHandle type, uint64_t row) {
  Cell cell;
  const uint64_t* const validity = duck.vector_get_validity(vector);
  cell.is_null = validity != nullptr && (validity[row / 64] >> (row % 64) & 1) == 0;
  if (cell.is_null) return cell;
  const void* const data = duck.vector_get_data(vector);
  const int id = duck.get_type_id(type);
  switch (id) {
    case kDuckBoolean:
      cell.is_boolean = true;
      cell.text = ValueAt<bool>(data, row) ? "true" : "false";
      break;
    case kDuckTinyInt:
    case kDuckSmallInt:
    case kDuckInteger:
    case kDuckBigInt:
    case kDuckHugeInt:
      SetNumber(SignedAt(id, data, row), &cell);
      break;
    case kDuckUTinyInt:
    case kDuckUSmallInt:
    case kDuckUInteger:
    case kDuckUBigInt:
      SetNumber(absl::int128(UnsignedAt(id, data, row)), &cell);
      break;
    case kDuckFloat:
      SetFloat(ValueAt<float>(data, row), &cell);
      break;
    case kDuckDouble:
      SetFloat(ValueAt<double>(data, row), &cell);
      break;
    case kDuckDecimal:
      cell.is_number = true;
      cell.text = DecimalText(SignedAt(duck.decimal_internal_type(type), data, row), duck.decimal_scale(type));
      break;
    case kDuckVarchar:
      cell.text = StringAt(data, row);
      break;
    case kDuckBlob:
      cell.text = BlobText(StringAt(data, row));
      break;
    case kDuckEnum:
      cell.text = Taken(duck, duck.enum_dictionary_value(type, UnsignedAt(duck.enum_internal_type(type), data, row)));
      break;
    case kDuckStruct:
      cell.text = StructText(duck, vector, type, row);
      break;
    case kDuckList:
    case kDuckMap:
      cell.text = ListText(duck, vector, type, row);
      break;
    default:
      cell.is_number = id == kDuckUHugeInt;
      cell.text = cell.is_number ? UHugeText(ValueAt<Huge>(data, row)) : TimeOrDateText(id, data, row);
      break;
  }
  return cell;
}

}  // namespace

Cell CellAt(const Rows& rows, size_t column, uint64_t row) {
  return CellOf(rows.duck(), rows.vector(column), rows.columns()[column].type, row);
}

bool IsNumeric(DuckType type) {
  return (type >= kDuckTinyInt && type <= kDuckDouble) || type == kDuckHugeInt || type == kDuckUHugeInt ||
         type == kDuckDecimal;
}

}  // namespace gpumem
