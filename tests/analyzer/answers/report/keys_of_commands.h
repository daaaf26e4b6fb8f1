// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Keys of the answers that the example of answers_test.cc does not give: of commands that another test runs, which
// compares them with the program's output as said at each.

#ifndef GPUMEM_TESTS_ANALYZER_ANSWERS_REPORT_KEYS_OF_COMMANDS_H_
#define GPUMEM_TESTS_ANALYZER_ANSWERS_REPORT_KEYS_OF_COMMANDS_H_

#include <set>
#include <string>

namespace gpumem::testing {

// Keys of `ctl tensors`, `gradients`, `gc` and `eval`, which tests/e2e/live_test.py looks at, and of stages
// (stages_test.py).
inline const std::set<std::string> kKeysOfLiveTensors = {
    "gradients",  "holders",   "inf",           "left_out", "max",     "mean",          "min",
    "nan",        "norm",      "requires_grad", "shares",   "tensors", "derived",       "unlisted_stages",
    "cache_kept", "collected", "evaluated",     "chain",    "took_ms", "without_values"};

// Keys of ctl, which tests/hosts/control_test.py compares with the program's output, and of marks, which the example
// has not.
inline const std::set<std::string> kKeysOfCtlAndMarks = {"was_there",
                                                         "stopped_ns",
                                                         "existing_blocks",
                                                         "existing_bytes",
                                                         "asked",
                                                         "processes",
                                                         "state",
                                                         "recording_for_ns",
                                                         "lost_events",
                                                         "ring_bytes",
                                                         "ring_used_bytes",
                                                         "ring_high_bytes",
                                                         "snapshot_file",
                                                         "snapshot_bytes",
                                                         "text",
                                                         "number",
                                                         "tid"};

// Keys of doctor and dump, which tests/analyzer/cli compares with the program's output.
inline const std::set<std::string> kOtherCommandsKeys = {
    "recorded", "conclusion", "change",      "health",     "findings", "check", "found",
    "next",     "sequence",   "file_offset", "compressed", "type",     "data",  "kind",
    "address",  "size_bytes", "stream",      "handle",     "took_ns",  "stack", "tag"};

// Keys of serve, which tests/e2e/serve_test.py reads.
inline const std::set<std::string> kKeysOfServe = {"port", "token"};

// Keys of bundle (tests/analyzer/cli/bundle_test.cc).
inline const std::set<std::string> kKeysOfBundle = {"bytes",  "failed",   "files", "kind",
                                                    "masked", "replaced", "text",  "with"};

// Keys of doctor --cross-check, which tests/hosts/cross_check_test.py compares with its answers.
inline const std::set<std::string> kKeysOfCrossCheck = {
    "cross_check",  "compared",        "both",   "only_us", "only_cupti",
    "unexplained",  "seen_by",         "api",    "calls",   "other_size",
    "library",      "version",         "error",  "records", "dropped_records",
    "lost_records", "unknown_records", "traces", "rows",    "bytes",
    "cause",        "processes",       "state"};

// Keys of diff, compare and check, which tests/e2e/diff_test.py compares with their answers.
inline const std::set<std::string> kKeysOfDiff = {"headline",
                                                  "runs",
                                                  "unused_share",
                                                  "growth_per_step",
                                                  "checks",
                                                  "subject",
                                                  "delta_bytes",
                                                  "cause",
                                                  "doubts",
                                                  "a",
                                                  "b",
                                                  "trace",
                                                  "moment",
                                                  "found",
                                                  "ended",
                                                  "damaged",
                                                  "peak_allocated_bytes",
                                                  "peak_reserved_bytes",
                                                  "peak_total_bytes",
                                                  "settings",
                                                  "renamed",
                                                  "totals",
                                                  "lines"};

// Keys of forecast, which tests/e2e/explain_test.py compares with its answers.
inline const std::set<std::string> kKeysOfForecast = {"sentence",
                                                      "sure",
                                                      "callbacks",
                                                      "event",
                                                      "failed",
                                                      "failed_callbacks",
                                                      "first",
                                                      "realtime_ns",
                                                      "kind",
                                                      "phase",
                                                      "risk",
                                                      "steps",
                                                      "last_step",
                                                      "level_bytes",
                                                      "limit_low_bytes",
                                                      "limit_high_bytes",
                                                      "overhead_bytes",
                                                      "growing_steps",
                                                      "bytes_per_step",
                                                      "confidence",
                                                      "earliest_steps",
                                                      "likely_steps",
                                                      "latest_steps",
                                                      "step_ns",
                                                      "settles_at_bytes",
                                                      "range_share"};

// Keys of import (tests/e2e/import_test.py).
inline const std::set<std::string> kKeysOfImport = {"format", "map"};

// Keys of tree, table, sizes and stacks, which tests/analyzer/answers/views compares with their answers.
inline const std::set<std::string> kViewKeys = {"view",
                                                "window_ns",
                                                "mode",
                                                "temporary_threshold",
                                                "shown_bytes",
                                                "shown_count",
                                                "stack_count",
                                                "merged_bytes",
                                                "merged_count",
                                                "nodes",
                                                "id",
                                                "parent",
                                                "label",
                                                "self_bytes",
                                                "self_count",
                                                "by",
                                                "rows",
                                                "name",
                                                "labels",
                                                "smallest_bytes",
                                                "median_bytes",
                                                "largest_bytes",
                                                "buckets",
                                                "from_bytes",
                                                "below_bytes",
                                                "sizes",
                                                "lines_by_bytes",
                                                "lines_by_count",
                                                "measure"};

// Keys of flame, which tests/analyzer/cli/flame_test.cc compares with the program's output.
inline const std::set<std::string> kFlameKeys = {
    "about", "generator", "simulated", "lossless", "facts",   "warnings", "start",        "mode",         "invert",
    "flame", "split",     "depth",     "views",    "label",   "meaning",  "empty",        "counted",      "moments",
    "text",  "rows",      "nodes",     "frames",   "strings", "threads",  "merged_bytes", "merged_stacks"};

// Keys of html, which tests/e2e/html_test.py reads.
inline const std::set<std::string> kHtmlKeys = {
    "answers", "born",   "category_colors", "changes_in_row", "color", "died_ns",       "diff", "hatch",  "highest",
    "keys",    "layers", "palette",         "requested",      "row",   "single_events", "size", "traces", "words"};

// Keys of symbolize, and of series of files, which the example is not.
inline const std::set<std::string> kKeysOfSymbolizeAndSeries = {
    "addresses",     "build_id", "events_before",           "files",
    "first_number",  "from",     "goes_on_elsewhere",       "last_number",
    "missing_files", "named",    "objects_not_in_snapshot", "problem",
    "with_lines"};

}  // namespace gpumem::testing

#endif  // GPUMEM_TESTS_ANALYZER_ANSWERS_REPORT_KEYS_OF_COMMANDS_H_
