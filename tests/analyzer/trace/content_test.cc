// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Packets that are whole, with right checksums, and say what no packet of their kind can: each one is damage, and what
// is around it is read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lz4.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "testing/trace_builder.h"
#include "trace/reader.h"

namespace gpumem {
namespace {

using testing::Framed;
using ::testing::HasSubstr;
using testing::TraceBuilder;

constexpr uint64_t kEventsOfAPacket = 4, kPacketsOfEvents = 6;
const char* const kNoProtobuf = "\x0f\x0f\x0f";

struct Outcome {
  bool opened = false, ended = false;
  uint64_t events = 0, missing_events = 0, headers = 0;
  std::string damage;
};

Outcome ReadAll(const std::string& bytes) {
  const std::string path = absl::StrCat(::testing::TempDir(), "content_test.", getpid(), ".gmtrace");
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  Outcome outcome;
  absl::StatusOr<TraceReader> reader = TraceReader::Open(path);
  outcome.opened = reader.ok();
  if (reader.ok()) {
    while (reader->Next() != ItemType::kEndOfStream) {
      outcome.headers += reader->type() == ItemType::kHeader ? 1 : 0;
      outcome.ended |= reader->type() == ItemType::kEnd;
      outcome.events += reader->type() == ItemType::kEvents ? reader->batch().count() : 0;
    }
    outcome.damage = reader->damage();
    outcome.missing_events = reader->missing_events();
  }
  std::remove(path.c_str());
  return outcome;
}

// A packet of each kind.
std::vector<trace::Packet> Packets() {
  TraceBuilder trace(kEventsOfAPacket);
  trace.Device(0, "GPU", 1 << 30);
  for (uint64_t i = 1; i <= kEventsOfAPacket * kPacketsOfEvents; ++i) {
    if (i == kEventsOfAPacket + 1) {
      trace::Counters counters;
      counters.set_time_ns(trace.time_ns());
      trace.Counters(counters);
      trace.Losses(trace::Losses());
      trace::Packet packet;
      packet.mutable_cupti()->set_state(trace::CUPTI_NO_LIBRARY);
      trace.Append(packet);
      packet.mutable_live_snapshot();
      trace.Append(packet);
    }
    trace.CudaAlloc(i << 21, 512, trace.PythonStack({{"f", "m.py", 7}}));
  }
  trace::Trace parsed;
  EXPECT_TRUE(parsed.ParseFromString(trace.End().Bytes()));
  return {parsed.packet().begin(), parsed.packet().end()};
}

int KindOf(const trace::Packet& packet) { return packet.data_case(); }

trace::Packet WithContent(trace::Packet packet, const std::string& content) {
  const int kind = KindOf(packet);
  packet.clear_data();
  packet.GetReflection()->MutableUnknownFields(&packet)->AddLengthDelimited(kind, content);
  return packet;
}

std::string FileOf(const std::vector<trace::Packet>& packets) {
  std::string bytes;
  for (const trace::Packet& packet : packets) bytes += Framed(packet);
  return bytes;
}

TEST(ContentTest, EachKindIsDamageAndTheOthersAreRead) {
  const std::vector<trace::Packet> packets = Packets();
  const Outcome whole = ReadAll(FileOf(packets));
  ASSERT_TRUE(whole.ended);
  ASSERT_EQ(whole.damage, "");
  ASSERT_EQ(whole.events, kEventsOfAPacket * kPacketsOfEvents);
  for (size_t i = 0; i < packets.size(); ++i) {
    std::vector<trace::Packet> changed = packets;
    changed[i] = WithContent(packets[i], kNoProtobuf);
    const Outcome read = ReadAll(FileOf(changed));
    const int kind = KindOf(packets[i]);
    const uint64_t lost = kind == trace::Packet::kEvents ? kEventsOfAPacket : 0;
    EXPECT_TRUE(read.opened) << "packet " << i;
    EXPECT_THAT(read.damage, HasSubstr("at byte ")) << "packet " << i << " of kind " << kind;
    EXPECT_EQ(read.events, whole.events - lost) << "packet " << i << " of kind " << kind;
    EXPECT_EQ(read.headers, 1u) << "packet " << i;
    EXPECT_EQ(read.ended, kind != trace::Packet::kEnd) << "packet " << i;
    if (i + 1 < packets.size()) {
      EXPECT_EQ(read.missing_events, lost) << "packet " << i;
    }
  }
}

TEST(ContentTest, AHeaderWithoutAVersionSaysNothing) {
  std::vector<trace::Packet> packets = Packets();
  packets[0] = WithContent(packets[0], "");
  const Outcome read = ReadAll(FileOf(packets));
  EXPECT_THAT(read.damage, HasSubstr("a header is broken at byte 0"));
  EXPECT_EQ(read.events, kEventsOfAPacket * kPacketsOfEvents);
}

TEST(ContentTest, ABrokenHeaderFurtherOnBeginsAnotherProcess) {
  std::vector<trace::Packet> packets = Packets();
  const std::string first = FileOf(packets);
  packets[0] = WithContent(packets[0], kNoProtobuf);
  const Outcome read = ReadAll(first + FileOf(packets));
  EXPECT_EQ(read.headers, 2u);
  EXPECT_EQ(read.events, 2 * kEventsOfAPacket * kPacketsOfEvents);
  EXPECT_THAT(read.damage, HasSubstr("a header is broken"));
}

// In one compressed packet with what is broken.
TEST(ContentTest, WhatWasCompressedWithItIsRead) {
  std::vector<trace::Packet> packets = Packets();
  trace::Trace inner;
  *inner.add_packet() = WithContent(packets[1], kNoProtobuf);
  *inner.add_packet() = packets[2];
  ASSERT_EQ(KindOf(packets[1]), trace::Packet::kDefinitions);
  for (trace::Packet& each : *inner.mutable_packet()) {
    each.clear_sync();
    each.clear_checksum();
    each.clear_sequence();
  }
  const std::string plain = inner.SerializeAsString();
  std::string payload(static_cast<size_t>(LZ4_compressBound(static_cast<int>(plain.size()))), '\0');
  payload.resize(static_cast<size_t>(LZ4_compress_default(plain.data(), payload.data(), static_cast<int>(plain.size()),
                                                          static_cast<int>(payload.size()))));
  trace::Packet outer = packets[1];
  outer.mutable_compressed()->set_codec(trace::CODEC_LZ4_BLOCK);
  outer.mutable_compressed()->set_uncompressed_size(static_cast<uint32_t>(plain.size()));
  outer.mutable_compressed()->set_payload(payload);
  packets[1] = outer;
  packets.erase(packets.begin() + 2);
  for (size_t i = 2; i < packets.size(); ++i) packets[i].set_sequence(i);
  const Outcome read = ReadAll(FileOf(packets));
  EXPECT_THAT(read.damage, HasSubstr("definitions are broken"));
  EXPECT_EQ(read.events, kEventsOfAPacket * kPacketsOfEvents);
  EXPECT_EQ(read.missing_events, 0u);
}

}  // namespace
}  // namespace gpumem
