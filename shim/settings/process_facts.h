// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// What the trace's header says about this process. Read once at set-up, before the program changes its directory or
// its environment further.
//
// Thread-safety: filled by one thread, constant after. Ownership: the struct holds all its text. Failure: what cannot
// be read (no /proc, say) stays empty.

#ifndef GPUMEM_SHIM_SETTINGS_PROCESS_FACTS_H_
#define GPUMEM_SHIM_SETTINGS_PROCESS_FACTS_H_

#include <cstddef>
#include <cstdint>

#include "shim/writer/writer.h"

namespace gpumemshim::control {

inline constexpr size_t kMaxArguments = 256;
inline constexpr size_t kMaxVariables = 64;
inline constexpr uint32_t kMaxAncestors = 32;

// The environment that a trace may hold: never anything else, and what looks like a credential is masked even here.
// docs/environment.md says what each is good for.
inline constexpr const char* kRecordedVariables[] = {
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUBLAS_WORKSPACE_CONFIG",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "NCCL_CUMEM_ENABLE",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "SLURM_JOB_ID",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_LOCALID",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "PBS_JOBID",
    "LSB_JOBID",
    "RAY_JOB_ID",
    "JOB_NAME",
};

// Where the job's id is, the first one that is set first; the analyzer (ranks/read_rank.cc) has the same order.
inline constexpr const char* kJobVariables[] = {"SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "PBS_JOBID",
                                                "LSB_JOBID",    "RAY_JOB_ID",          "JOB_NAME"};

struct ProcessFacts {
  int32_t pid;
  uint64_t start_ticks;
  bool forked;  // and no exec since: its program is its parent's
  char hostname[256];
  char program[80];
  char executable[4096];
  char working_directory[4096];
  char argument_text[32768];  // masked, one after the other
  const char* arguments[kMaxArguments];
  uint32_t argument_count;
  int64_t rank;  // -1 = not known
  int64_t world_size;
  int64_t local_rank;
  char job[64];  // id of the job, masked; "" = not known
  char variable_text[16384];
  writer::KeyValue environment[kMaxVariables];
  uint32_t environment_count;
  writer::KeyValue settings[kMaxVariables];
  uint32_t settings_count;
  writer::Ancestor ancestors[kMaxAncestors];  // parent first
  uint32_t ancestor_count;
  uint64_t pid_namespace;  // 0 = not known
  uint8_t boot_id[16];
  bool has_boot_id;
};

void ReadProcessFacts(ProcessFacts* facts);

// Field 22 of a /proc/PID/stat line, whose second field may hold spaces and brackets; 0 where there is none.
uint64_t ParseStartTicks(const char* stat_line);

// Whether field 9 of such a line, the kernel's flags of the process, has PF_FORKNOEXEC.
bool ParseForked(const char* stat_line);

// Pid, name, start time and parent of a /proc/PID/stat line; 0 as pid where it is none.
writer::Ancestor ParseStat(const char* stat_line, uint32_t* parent_pid);

// "0123abcd-...": 16 bytes; false where the text is no such id.
bool ParseUuid(const char* text, uint8_t* out);

// GPUMEMSHIM_COMMAND_LINE as /proc/PID/cmdline has it: "PID:" and the arguments, separated by \x1f. Returns its size; 0
// where the text is another process's (it was inherited) or none.
size_t CommandLineOf(int32_t pid, const char* text, char* out, size_t capacity);

// Whether GPUMEMSHIM_COMMAND_LINE says that no argument is to be recorded: off, 0, no, but not a command line.
bool IsCommandLineOff(const char* text);

// A whole decimal number, or -1.
int64_t ParseRank(const char* text);

}  // namespace gpumemshim::control

#endif  // GPUMEM_SHIM_SETTINGS_PROCESS_FACTS_H_
