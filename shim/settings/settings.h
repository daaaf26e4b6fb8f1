// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The GPUMEMSHIM_* environment, read once at set-up. docs/environment.md is the table for people; kSettingNames is the
// same list for the trace's header and for the warning about unknown names. A test compares the two.
//
// Thread-safety: ReadSettings reads the environment, so it may race with a setenv of the host, as every getenv may.
// Failure: a value that makes no sense counts as absent.

#ifndef GPUMEM_SHIM_SETTINGS_SETTINGS_H_
#define GPUMEM_SHIM_SETTINGS_SETTINGS_H_

#include <cstddef>
#include <cstdint>

#include "shim/stack/native_unwind.h"
#include "shim/writer/writer.h"

namespace gpumemshim::control {

// One a line: a name added here needs a row in docs/environment.md, and nothing else to be known.
// clang-format off
inline constexpr const char* kSettingNames[] = {
    "GPUMEMSHIM_OUTPUT",
    "GPUMEMSHIM_LOG",
    "GPUMEMSHIM_QUIET",
    "GPUMEMSHIM_STATUS",
    "GPUMEMSHIM_DISABLE",
    "GPUMEMSHIM_START",
    "GPUMEMSHIM_CONTROL",
    "GPUMEMSHIM_SIGNAL",
    "GPUMEMSHIM_EVAL",
    "GPUMEMSHIM_NATIVE",
    "GPUMEMSHIM_HELPER",
    "GPUMEMSHIM_OWNERS_MS",
    "GPUMEMSHIM_AUTOGRAD",
    "GPUMEMSHIM_INJECTED_SCRIPT",
    "GPUMEMSHIM_FREE_STACKS",
    "GPUMEMSHIM_UNWINDER",
    "GPUMEMSHIM_PYTHON",
    "GPUMEMSHIM_RING_SIZE",
    "GPUMEMSHIM_RING_DIRECTORY",
    "GPUMEMSHIM_RING_WAIT_MS",
    "GPUMEMSHIM_OOM_REPORT",
    "GPUMEMSHIM_FORECAST",
    "GPUMEMSHIM_FORECAST_RISK",
    "GPUMEMSHIM_FORECAST_SIGNAL",
    "GPUMEMSHIM_SUMMARY",
    "GPUMEMSHIM_RANKS",
    "GPUMEMSHIM_PROGRAM",
    "GPUMEMSHIM_SAMPLE_MS",
    "GPUMEMSHIM_CUPTI",
    "GPUMEMSHIM_WARN_AT",
    "GPUMEMSHIM_LIMIT",
    "GPUMEMSHIM_MAX_SIZE",
    "GPUMEMSHIM_ON_FULL",
};
// clang-format on

// Between the library and the programs around it, so neither unknown nor part of the header (but for COMMAND_LINE=off).
inline constexpr const char* kToolSettingNames[] = {
    "GPUMEMSHIM_LIBRARY",
    "GPUMEMSHIM_FORECAST_EXEC",  // these may have secrets in them
    "GPUMEMSHIM_FORECAST_WEBHOOK", "GPUMEMSHIM_FORECAST_ALLOW_HOST",
    "GPUMEMSHIM_COMMAND_LINE",  // as a command line its secrets are not masked yet
};

// Read by the program gpumemshim alone. They have rows in docs/environment.md, too.
inline constexpr const char* kProgramSettingNames[] = {
    "GPUMEMSHIM_DUCKDB",    "GPUMEMSHIM_IMPORT_MEMORY", "GPUMEMSHIM_INDEX_ABOVE", "GPUMEMSHIM_INDEX_LIMIT",
    "GPUMEMSHIM_INDEX_DIR", "GPUMEMSHIM_INTERPRETER",   "GPUMEMSHIM_SIMCUDA",
};

// No setting of anybody's, and in no document: what plan and sweep tell the programs that they start and a forecast its
// callbacks, and what this project's own tests and scripts read. One that ends in _ stands for all that begin so.
inline constexpr const char* kInnerSettingNames[] = {
    "GPUMEMSHIM_PLAN_",      "GPUMEMSHIM_SWEEP_",        "GPUMEMSHIM_DEVICE",       "GPUMEMSHIM_FIRST",
    "GPUMEMSHIM_PID",        "GPUMEMSHIM_RISK",          "GPUMEMSHIM_SECONDS_LEFT", "GPUMEMSHIM_SENTENCE",
    "GPUMEMSHIM_STEP",       "GPUMEMSHIM_TRACE",         "GPUMEMSHIM_TEST_",        "GPUMEMSHIM_REAL_GPU_",
    "GPUMEMSHIM_TORCH_",     "GPUMEMSHIM_CASE_COUNTERS", "GPUMEMSHIM_FUZZ_SECONDS", "GPUMEMSHIM_JOBS",
    "GPUMEMSHIM_MEMORY_VIZ", "GPUMEMSHIM_UPDATE_GOLDEN",
};

// What the recorder says on stderr: lines of this level and of those before it.
enum class LogLevel : uint8_t {
  kOff,
  kError,    // what is lost, or not recorded
  kWarning,  // limits that are reached, settings that nobody reads
  kInfo,     // the line at the end, progress
  kDebug,    // when recording begins, and with which settings
};

struct Settings {
  char output[1024] = "";    // pattern; empty = the default name
  char fallback[1024] = "";  // TMPDIR
  LogLevel log = LogLevel::kInfo;
  uint32_t status_ms = 0;  // between lines of progress; 0 = none
  bool disabled = false;
  bool dormant = false;              // set up, but record only once told to
  bool control = true;               // the socket for `gpumemshim ctl`
  char control_directory[512] = "";  // empty = the usual place
  int signal = 0;                    // switches recording on and off; 0 = none
  stack::Unwinder unwinder = stack::Unwinder::kLibunwind;
  stack::NativeDepth native = stack::NativeDepth::kCut;
  bool python = true;
  bool helper = true;               // the part that runs in the program's Python
  uint32_t owners_ms = 300;         // that a look at who owns memory may take; 0 = none
  char injected_script[1024] = "";  // a Python file to run beside the helper; empty = none
  bool free_stacks = false;         // of PyTorch's frees; those of CUDA's are few
  bool autograd = true;             // where nodes are made and evaluated, and what they keep
  bool oom_report = false;
  bool forecast = false;                  // `gpumemshim forecast --watch` runs beside the program
  bool eval = false;                      // `gpumemshim ctl PID eval` may run code in the program's Python
  uint64_t ring_size_bytes = 0;           // 0 = the ring's default
  uint32_t ring_wait_ms = 0;              // for room in it; 0 = an event is lost instead
  char ring_directory[512] = "/dev/shm";  // empty = anonymous memory
  bool cupti = false;                     // CUPTI is asked too (shim/witness/cupti)
  uint32_t cupti_wait_ms = 150;           // how long the first use of CUDA waits for it; past it CUPTI begins late
  uint32_t sample_ms = 1000;              // between samples of the devices; 0 = none
  char warn_at[256] = "";                 // sampler/sample.h; empty = never
  uint64_t limit_bytes = 0;               // that PyTorch may reserve on each device; 0 = as the program has it
  writer::SizeLimit size_limit;
};

Settings ReadSettings();

// "USR1", "SIGUSR2", "12", "RTMIN+3" as a number; 0 where it is not a signal that a program may use as it likes.
int ParseSignal(const char* text);

// "8388608", "8M", "8MiB", "512k"; 0 where it is none of these.
uint64_t ParseSize(const char* text);

// "off", "error", "warning", "info", "debug" in any case; `otherwise` where it is none of them.
LogLevel ParseLogLevel(const char* text, LogLevel otherwise);
const char* LogLevelName(LogLevel level);  // "info"

// "90s", "10m", "1h" in milliseconds; 0 where the text is none, or more than a week.
uint32_t ParseInterval(const char* text);

// "1000"; `otherwise` where the text is not a number, or one beyond a day.
uint32_t ParseMilliseconds(const char* text, uint32_t otherwise);

// "1", "true", "yes", "on" in any case; `otherwise` where the text is absent or empty; all else is false.
bool ParseSwitch(const char* text, bool otherwise);

// Settings that `gpumemshim attach` brings along, since a program that runs has its environment already. They come
// before the environment's.
//
// Thread-safety: Give once, before any reader; Given from any thread. What is too long is cut.
//
//   GiveSettings("GPUMEMSHIM_OUTPUT=/tmp/x.gmtrace\nGPUMEMSHIM_QUIET=1\n");
//   GivenSetting("GPUMEMSHIM_QUIET");     // "1"; nullptr for what was not given

void GiveSettings(const char* lines);

const char* GivenSetting(const char* name);

// As it was given, else of the environment; nullptr where it is in neither.
const char* SettingOf(const char* name);

// Warns of GPUMEMSHIM_* variables that nobody reads: a misspelt one would be ignored in silence.
//
// Thread-safety: reads the environment as getenv does. Failure: none; what does not fit a line is cut.
//
//   UnknownSettingsLine(environ, line, sizeof line);
//   // "gpumemshim: GPUMEMSHIM_OUPUT is not a setting of this version (GPUMEMSHIM_OUTPUT is). docs/environment.md ..."

// The line for stderr that names all of them, and for each the known name that it is nearest to. Returns its size, 0
// where there is nothing to say.
size_t UnknownSettingsLine(const char* const* environment, char* out, size_t capacity);

// The known name that most likely was meant, or nullptr where none is near.
const char* NearestSetting(const char* name, size_t size);

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_SETTINGS_SETTINGS_H_
