// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shim/writer/fields.h"

#include <gpumem/trace.pb.h>
#include <gtest/gtest.h>

namespace gpumemshim::writer {
namespace {

namespace pb = gpumem::trace;

template <typename Message>
uint32_t Number(const char* name) {
  const auto* field = Message::descriptor()->FindFieldByName(name);
  EXPECT_NE(field, nullptr) << name;
  return field == nullptr ? 0 : static_cast<uint32_t>(field->number());
}

#define SAME(message, constant, name) EXPECT_EQ(fields::message::constant, Number<pb::message>(name))

TEST(FieldsTest, Cupti) {
  SAME(Cupti, kState, "state");
  SAME(Cupti, kLibrary, "library");
  SAME(Cupti, kVersion, "version");
  SAME(Cupti, kError, "error");
  SAME(Cupti, kBeganNs, "began_ns");
  SAME(Cupti, kCompleteUntilNs, "complete_until_ns");
  SAME(Cupti, kEndedNs, "ended_ns");
  SAME(Cupti, kDroppedRecords, "dropped_records");
  SAME(Cupti, kLostRecords, "lost_records");
  SAME(Cupti, kUnknownRecords, "unknown_records");
  SAME(Cupti, kRecords, "records");
  SAME(CuptiRecord, kPool, "pool");
  SAME(CuptiRecord, kOperation, "operation");
  SAME(CuptiRecord, kMemory, "memory");
  SAME(CuptiRecord, kCorrelation, "correlation");
  SAME(CuptiRecord, kAddress, "address");
  SAME(CuptiRecord, kBytes, "bytes");
  SAME(CuptiRecord, kTimeNs, "time_ns");
  SAME(CuptiRecord, kDevice, "device");
  SAME(CuptiRecord, kContext, "context");
  SAME(CuptiRecord, kStream, "stream");
  SAME(CuptiRecord, kPoolAddress, "pool_address");
}

TEST(FieldsTest, PacketsAndCompressed) {
  SAME(Trace, kPacket, "packet");
  SAME(Packet, kSync, "sync");
  SAME(Packet, kSequence, "sequence");
  SAME(Packet, kHeader, "header");
  SAME(Packet, kDefinitions, "definitions");
  SAME(Packet, kEvents, "events");
  SAME(Packet, kCounters, "counters");
  SAME(Packet, kLosses, "losses");
  SAME(Packet, kEnd, "end");
  SAME(Packet, kCompressed, "compressed");
  SAME(Packet, kLiveSnapshot, "live_snapshot");
  SAME(Packet, kContinued, "continued");
  SAME(Packet, kChecksum, "checksum");
  SAME(Compressed, kCodec, "codec");
  SAME(Compressed, kUncompressedSize, "uncompressed_size");
  SAME(Compressed, kPayload, "payload");
  EXPECT_EQ(fields::kCodecLz4Block, static_cast<uint32_t>(pb::CODEC_LZ4_BLOCK));
  EXPECT_EQ(fields::kCodecLz4Chained, static_cast<uint32_t>(pb::CODEC_LZ4_CHAINED));
}

TEST(FieldsTest, Header) {
  SAME(Header, kFormatVersion, "format_version");
  SAME(Header, kWriterVersion, "writer_version");
  SAME(Header, kPid, "pid");
  SAME(Header, kParentPid, "parent_pid");
  SAME(Header, kProcessStartTicks, "process_start_ticks");
  SAME(Header, kHostname, "hostname");
  SAME(Header, kProgram, "program");
  SAME(Header, kExecutable, "executable");
  SAME(Header, kCommandLine, "command_line");
  SAME(Header, kWorkingDirectory, "working_directory");
  SAME(Header, kEnvironment, "environment");
  SAME(Header, kRank, "rank");
  SAME(Header, kWorldSize, "world_size");
  SAME(Header, kLocalRank, "local_rank");
  SAME(Header, kAnchorMonotonicNs, "anchor_monotonic_ns");
  SAME(Header, kAnchorRealtimeNs, "anchor_realtime_ns");
  SAME(Header, kRing, "ring");
  SAME(Header, kSettings, "settings");
  SAME(Header, kAncestors, "ancestors");
  SAME(Header, kPidNamespace, "pid_namespace");
  SAME(Header, kBootId, "boot_id");
  SAME(Header, kPart, "part");
  SAME(Part, kSeries, "series");
  SAME(Part, kNumber, "number");
  SAME(Part, kEventsBefore, "events_before");
  SAME(Part, kContiguous, "contiguous");
  SAME(LiveSnapshot, kEvents, "events");
  SAME(LiveSnapshot, kTorchSegments, "torch_segments");
  SAME(LiveSnapshot, kBegins, "begins");
  SAME(LiveSnapshot, kLost, "lost");
  SAME(Continued, kNextNumber, "next_number");
  SAME(Continued, kTimeNs, "time_ns");
  SAME(Ring, kPath, "path");
  SAME(Ring, kSizeBytes, "size_bytes");
}

TEST(FieldsTest, Ancestor) {
  SAME(Ancestor, kPid, "pid");
  SAME(Ancestor, kStartTicks, "start_ticks");
  SAME(Ancestor, kName, "name");
}

TEST(FieldsTest, Definitions) {
  SAME(Definitions, kModules, "modules");
  SAME(Definitions, kStrings, "strings");
  SAME(Definitions, kPythonCodes, "python_codes");
  SAME(Definitions, kFrames, "frames");
  SAME(Definitions, kStacks, "stacks");
  SAME(Definitions, kThreads, "threads");
  SAME(Definitions, kDevices, "devices");
  SAME(Definitions, kTags, "tags");
  SAME(Definitions, kVersions, "versions");
  SAME(Definitions, kStackKeys, "stack_keys");
  SAME(StackKeys, kKey, "key");
  SAME(StackKeys, kStack, "stack");
  SAME(InternedString, kId, "id");
  SAME(InternedString, kValue, "value");
  SAME(Module, kId, "id");
  SAME(Module, kPath, "path");
  SAME(Module, kBuildId, "build_id");
  SAME(Module, kLoadBias, "load_bias");
  SAME(Module, kStart, "start");
  SAME(Module, kEnd, "end");
  SAME(Module, kTimeNs, "time_ns");
  SAME(PythonCode, kId, "id");
  SAME(PythonCode, kFilename, "filename");
  SAME(PythonCode, kName, "name");
  SAME(PythonCode, kFirstLine, "first_line");
  SAME(PythonCode, kLineTable, "line_table");
  SAME(PythonCode, kPythonMinor, "python_minor");
  SAME(PythonCode, kKey, "key");
  SAME(Frame, kId, "id");
  SAME(Frame, kPc, "pc");
  SAME(Frame, kPythonCode, "python_code");
  SAME(Frame, kInstruction, "instruction");
  SAME(StackNodes, kFirstId, "first_id");
  SAME(StackNodes, kParent, "parent");
  SAME(StackNodes, kFrame, "frame");
  SAME(Thread, kId, "id");
  SAME(Thread, kTid, "tid");
  SAME(Thread, kName, "name");
  SAME(Device, kIndex, "index");
  SAME(Device, kName, "name");
  SAME(Device, kUuid, "uuid");
  SAME(Device, kTotalBytes, "total_bytes");
  SAME(Device, kComputeMajor, "compute_major");
  SAME(Device, kComputeMinor, "compute_minor");
  SAME(Device, kPciBusId, "pci_bus_id");
}

TEST(FieldsTest, EventsAndNumbers) {
  SAME(EventBatch, kCount, "count");
  SAME(EventBatch, kFirstTimeNs, "first_time_ns");
  SAME(EventBatch, kTimeDeltaNs, "time_delta_ns");
  SAME(EventBatch, kKind, "kind");
  SAME(EventBatch, kLayer, "layer");
  SAME(EventBatch, kMemory, "memory");
  SAME(EventBatch, kDevice, "device");
  SAME(EventBatch, kAddressShift, "address_shift");
  SAME(EventBatch, kAddressDelta, "address_delta");
  SAME(EventBatch, kSizeShift, "size_shift");
  SAME(EventBatch, kSize, "size");
  SAME(EventBatch, kRequestedSize, "requested_size");
  SAME(EventBatch, kStream, "stream");
  SAME(EventBatch, kHandle, "handle");
  SAME(EventBatch, kThread, "thread");
  SAME(EventBatch, kStack, "stack");
  SAME(EventBatch, kTag, "tag");
  SAME(EventBatch, kResult, "result");
  SAME(EventBatch, kDurationNs, "duration_ns");
  SAME(EventBatch, kApi, "api");
  SAME(EventBatch, kText, "text");
  SAME(EventBatch, kTimeShift, "time_shift");
  SAME(Losses, kDroppedAllocs, "dropped_allocs");
  SAME(Losses, kDroppedFrees, "dropped_frees");
  SAME(Losses, kDroppedDefinitions, "dropped_definitions");
  SAME(Losses, kUnwrittenEvents, "unwritten_events");
  SAME(Losses, kTruncatedStacks, "truncated_stacks");
  SAME(Losses, kUnreadPythonFrames, "unread_python_frames");
  SAME(Losses, kWriteError, "write_error");
  SAME(Losses, kUnseen, "unseen");
  SAME(Unseen, kCause, "cause");
  SAME(Unseen, kObject, "object");
  SAME(Unseen, kFunctionCount, "function_count");
  SAME(Unseen, kFunctions, "functions");
  SAME(End, kTimeNs, "time_ns");
  SAME(End, kEvents, "events");
  SAME(End, kTorchEvents, "torch_events");
  SAME(End, kRuntimeEvents, "runtime_events");
  SAME(End, kDriverEvents, "driver_events");
}

TEST(FieldsTest, Counters) {
  SAME(Counters, kTimeNs, "time_ns");
  SAME(Counters, kDevices, "devices");
  SAME(Counters, kProcessRssBytes, "process_rss_bytes");
  SAME(Counters, kShimCpuNs, "shim_cpu_ns");
  SAME(Counters, kShimRingHighBytes, "shim_ring_high_bytes");
  SAME(Counters, kCause, "cause");
  SAME(Counters, kTookNs, "took_ns");
  SAME(Counters, kSystemTotalBytes, "system_total_bytes");
  SAME(Counters, kSystemAvailableBytes, "system_available_bytes");
  SAME(Counters, kProcessCpuNs, "process_cpu_ns");
  SAME(Counters, kSource, "source");
  SAME(Counters, kSourceError, "source_error");
  SAME(Counters, kCrossings, "crossings");
  SAME(DeviceCounters, kUsedBytes, "used_bytes");
  SAME(DeviceCounters, kFreeBytes, "free_bytes");
  SAME(DeviceCounters, kTotalBytes, "total_bytes");
  SAME(DeviceCounters, kDriverReservedBytes, "driver_reserved_bytes");
  SAME(DeviceCounters, kOwnBytes, "own_bytes");
  SAME(DeviceCounters, kOwnProcess, "own_process");
  SAME(DeviceCounters, kOthers, "others");
  SAME(DeviceCounters, kOtherCount, "other_count");
  SAME(DeviceCounters, kPoolReservedBytes, "pool_reserved_bytes");
  SAME(DeviceCounters, kPoolUsedBytes, "pool_used_bytes");
  SAME(DeviceProcess, kPid, "pid");
  SAME(DeviceProcess, kUsedBytes, "used_bytes");
  SAME(DeviceProcess, kName, "name");
  SAME(ThresholdCrossing, kDevice, "device");
  SAME(ThresholdCrossing, kPercent, "percent");
  SAME(ThresholdCrossing, kBytes, "bytes");
  SAME(ThresholdCrossing, kUsedBytes, "used_bytes");
  SAME(ThresholdCrossing, kTotalBytes, "total_bytes");
  SAME(ThresholdCrossing, kOwnBytes, "own_bytes");
  SAME(DeviceCounters, kDevice, "device");
  SAME(DeviceCounters, kTorchAllocatedBytes, "torch_allocated_bytes");
  SAME(DeviceCounters, kTorchReservedBytes, "torch_reserved_bytes");
}

}  // namespace
}  // namespace gpumemshim::writer
