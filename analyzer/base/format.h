// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Numbers as people read and type them. Machine output never uses these: it carries exact bytes and nanoseconds. Pure
// functions.
//
//   FormatBytes(1536)              // "1.50 KiB"
//   FormatTime(12'345'000'000)     // "12.345 s"
//   ParseTime("200ms")             // 200'000'000

#ifndef GPUMEM_ANALYZER_BASE_FORMAT_H_
#define GPUMEM_ANALYZER_BASE_FORMAT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace gpumem {

// Binary units with three significant digits or two decimals: "0 B", "512 B", "1.23 GiB", "512 MiB" (exact multiples
// carry no decimals).
std::string FormatBytes(uint64_t bytes);

// The same with three digits always, so that columns line up: "8.11 GiB", "65.0 MiB", "512 MiB", "0 B".
std::string FormatBytesAligned(uint64_t bytes);

// "12,345".
std::string FormatCount(uint64_t count);

// FormatCount with the noun that fits: "1 block", "12,345 blocks".
std::string FormatCountOf(uint64_t count, absl::string_view one, absl::string_view many);

// A time or duration: "0 s", "85 us", "12.3 ms", "12.345 s", "12 min 03 s", "3 h 02 min".
std::string FormatTime(uint64_t ns);

// "54 %", "0.4 %", "<0.1 %".
std::string FormatPercent(double ratio);

// Whether `part` is at least so many hundredths of `whole`; false of nothing.
inline bool HasPercent(uint64_t part, uint64_t whole, uint64_t percent) {
  return whole > 0 && static_cast<double>(part) * 100 >= static_cast<double>(whole) * static_cast<double>(percent);
}

// A wall-clock instant in UTC: "2026-03-14 15:09:26 UTC".
std::string FormatUtc(uint64_t realtime_ns);

// "90", "1.5s", "200ms", "1e9ns", "250us", "2m" or "2min", "1h": nanoseconds. A bare number is seconds. Nothing for
// anything else, for negative values and for what does not fit.
std::optional<uint64_t> ParseTime(absl::string_view text);

// "4096", "512B", "64K", "64KiB", "1.5G": bytes, in binary units (K, M, G, T; a following iB or B says the same).
// Nothing for anything else, for negative values and for what does not fit.
std::optional<uint64_t> ParseBytes(absl::string_view text);

// `text` so that a POSIX shell takes it as one word: 'it'\''s'.
std::string ShellQuoted(const std::string& text);

// How many rows of a list are shown where at most `top` are asked for; 0 = all.

inline size_t Shown(size_t all, size_t top) { return top == 0 ? all : std::min(all, top); }

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_BASE_FORMAT_H_
