// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Field numbers of proto/gpumem/trace.proto, by message. A test compares each with the schema.
//
//   writer.Varint(fields::Frame::kPc, pc);

#ifndef GPUMEM_SHIM_WRITER_FIELDS_H_
#define GPUMEM_SHIM_WRITER_FIELDS_H_

#include <cstdint>

namespace gpumemshim::writer::fields {

inline constexpr uint32_t kFormatVersion = 2;
inline constexpr uint32_t kSync = 0x31544D47;

struct Trace {
  enum : uint32_t { kPacket = 1 };
};
struct Packet {
  enum : uint32_t {
    kSync = 1,
    kSequence = 2,
    kHeader = 3,
    kDefinitions = 4,
    kEvents = 5,
    kCounters = 6,
    kLosses = 7,
    kEnd = 8,
    kCompressed = 9,
    kLiveSnapshot = 10,
    kContinued = 11,
    kCupti = 12,
    kChecksum = 15,
    kSection = 16,
    kEventsBefore = 17
  };
};
struct Compressed {
  enum : uint32_t { kCodec = 1, kUncompressedSize = 2, kPayload = 3 };
};
inline constexpr uint32_t kCodecNone = 0;
inline constexpr uint32_t kCodecLz4Block = 1;
inline constexpr uint32_t kCodecLz4Chained = 3;
struct Header {
  enum : uint32_t {
    kFormatVersion = 1,
    kWriterVersion = 2,
    kPid = 3,
    kParentPid = 4,
    kProcessStartTicks = 5,
    kHostname = 6,
    kProgram = 7,
    kExecutable = 8,
    kCommandLine = 9,
    kWorkingDirectory = 10,
    kEnvironment = 11,
    kRank = 12,
    kWorldSize = 13,
    kLocalRank = 14,
    kAnchorMonotonicNs = 15,
    kAnchorRealtimeNs = 16,
    kRing = 17,
    kSettings = 18,
    kAncestors = 19,
    kPidNamespace = 20,
    kBootId = 21,
    kPart = 23
  };
};
struct Ancestor {
  enum : uint32_t { kPid = 1, kStartTicks = 2, kName = 3 };
};
struct Part {
  enum : uint32_t { kSeries = 1, kNumber = 2, kEventsBefore = 3, kContiguous = 4 };
};
struct LiveSnapshot {
  enum : uint32_t { kEvents = 1, kTorchSegments = 2, kBegins = 3, kLost = 4 };
};
struct Continued {
  enum : uint32_t { kNextNumber = 1, kTimeNs = 2 };
};
struct Ring {
  enum : uint32_t { kPath = 1, kSizeBytes = 2 };
};
struct MapEntry {
  enum : uint32_t { kKey = 1, kValue = 2 };
};
struct Definitions {
  enum : uint32_t {
    kModules = 1,
    kStrings = 2,
    kPythonCodes = 3,
    kFrames = 4,
    kStacks = 5,
    kThreads = 6,
    kDevices = 7,
    kTags = 8,
    kVersions = 9,
    kStackKeys = 10
  };
};
struct StackKeys {
  enum : uint32_t { kKey = 1, kStack = 2 };
};
struct InternedString {
  enum : uint32_t { kId = 1, kValue = 2, kKey = 3 };
};
struct Module {
  enum : uint32_t { kId = 1, kPath = 2, kBuildId = 3, kLoadBias = 4, kStart = 5, kEnd = 6, kTimeNs = 7 };
};
struct PythonCode {
  enum : uint32_t { kId = 1, kFilename = 2, kName = 3, kFirstLine = 4, kLineTable = 5, kPythonMinor = 6, kKey = 7 };
};
struct Frame {
  enum : uint32_t {
    kId = 1,
    kPc = 2,
    kPythonCode = 3,
    kInstruction = 4,
    kModule = 5,
    kCut = 6,
    kNnModule = 7,
    kForward = 8,
    kNode = 9
  };
};
struct StackNodes {
  enum : uint32_t { kFirstId = 1, kParent = 2, kFrame = 3 };
};
struct Thread {
  enum : uint32_t { kId = 1, kTid = 2, kName = 3 };
};
struct Device {
  enum : uint32_t {
    kIndex = 1,
    kName = 2,
    kUuid = 3,
    kTotalBytes = 4,
    kComputeMajor = 5,
    kComputeMinor = 6,
    kPciBusId = 7
  };
};
struct EventBatch {
  enum : uint32_t {
    kCount = 1,
    kFirstTimeNs = 2,
    kTimeDeltaNs = 3,
    kKind = 4,
    kLayer = 5,
    kMemory = 6,
    kDevice = 7,
    kAddressShift = 8,
    kAddressDelta = 9,
    kSizeShift = 10,
    kSize = 11,
    kRequestedSize = 12,
    kStream = 13,
    kHandle = 14,
    kThread = 15,
    kStack = 16,
    kTag = 17,
    kResult = 18,
    kDurationNs = 19,
    kApi = 20,
    kText = 21,
    kTimeShift = 22
  };
};
struct Counters {
  enum : uint32_t {
    kTimeNs = 1,
    kDevices = 2,
    kProcessRssBytes = 3,
    kShimCpuNs = 4,
    kShimRingHighBytes = 5,
    kCause = 6,
    kTookNs = 7,
    kSystemTotalBytes = 8,
    kSystemAvailableBytes = 9,
    kProcessCpuNs = 10,
    kSource = 11,
    kSourceError = 12,
    kCrossings = 13
  };
};
struct DeviceCounters {
  enum : uint32_t {
    kDevice = 1,
    kTorchAllocatedBytes = 2,
    kTorchReservedBytes = 3,
    kUsedBytes = 4,
    kFreeBytes = 5,
    kTotalBytes = 6,
    kDriverReservedBytes = 7,
    kOwnBytes = 8,
    kOwnProcess = 9,
    kOthers = 10,
    kOtherCount = 11,
    kPoolReservedBytes = 12,
    kPoolUsedBytes = 13
  };
};
struct DeviceProcess {
  enum : uint32_t { kPid = 1, kUsedBytes = 2, kName = 3 };
};
struct ThresholdCrossing {
  enum : uint32_t { kDevice = 1, kPercent = 2, kBytes = 3, kUsedBytes = 4, kTotalBytes = 5, kOwnBytes = 6 };
};
struct Losses {
  enum : uint32_t {
    kDroppedAllocs = 1,
    kDroppedFrees = 2,
    kDroppedDefinitions = 3,
    kUnwrittenEvents = 4,
    kTruncatedStacks = 5,
    kUnreadPythonFrames = 6,
    kWriteError = 7,
    kUnseen = 9
  };
};
struct Unseen {
  enum : uint32_t { kCause = 1, kObject = 2, kFunctionCount = 3, kFunctions = 4 };
};
struct Cupti {
  enum : uint32_t {
    kState = 1,
    kLibrary = 2,
    kVersion = 3,
    kError = 4,
    kBeganNs = 5,
    kCompleteUntilNs = 6,
    kEndedNs = 7,
    kDroppedRecords = 8,
    kLostRecords = 9,
    kUnknownRecords = 10,
    kRecords = 11
  };
};
struct CuptiRecord {
  enum : uint32_t {
    kPool = 1,
    kOperation = 2,
    kMemory = 3,
    kCorrelation = 4,
    kAddress = 5,
    kBytes = 6,
    kTimeNs = 7,
    kDevice = 8,
    kContext = 9,
    kStream = 10,
    kPoolAddress = 11
  };
};
struct End {
  enum : uint32_t { kTimeNs = 1, kEvents = 2, kTorchEvents = 3, kRuntimeEvents = 4, kDriverEvents = 5 };
};

}  // namespace gpumemshim::writer::fields

#endif  // GPUMEM_SHIM_WRITER_FIELDS_H_
