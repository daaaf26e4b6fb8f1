// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include <cstring>

#include "shim/control/server/requests.h"

namespace gpumemshim::control {
namespace {

constexpr char kProtocol[] = "gpumemshim/1 ";
constexpr size_t kProtocolSize = sizeof kProtocol - 1;

struct Word {
  const char* text;
  Command command;
  bool takes_argument;
};
constexpr Word kWords[] = {{"status", Command::kStatus, false},
                           {"start", Command::kStart, false},
                           {"stop", Command::kStop, false},
                           {"flush", Command::kFlush, false},
                           {"dump", Command::kDump, false},
                           {"mark", Command::kMark, true},
                           {"tensors", Command::kTensors, false},
                           {"gradients", Command::kGradients, false},
                           {"gc", Command::kGc, false},
                           {"backtrace", Command::kBacktrace, false},
                           {"owners", Command::kOwners, false},
                           {"eval", Command::kEval, true},
                           {"snapshot", Command::kSnapshot, true},
                           {"settings", Command::kSettings, false},
                           {"set", Command::kSet, true}};

}  // namespace

Request ParseRequest(const char* line, size_t size) {
  Request request;
  if (size > 0 && line[size - 1] == '\r') --size;
  if (size < kProtocolSize || std::memcmp(line, kProtocol, kProtocolSize) != 0) {
    request.error = "this process speaks gpumemshim/1: gpumemshim/1 status";
    return request;
  }
  line += kProtocolSize;
  size -= kProtocolSize;
  const auto* blank = static_cast<const char*>(std::memchr(line, ' ', size));
  const size_t word_size = blank == nullptr ? size : static_cast<size_t>(blank - line);
  for (const Word& word : kWords) {
    if (std::strlen(word.text) != word_size || std::memcmp(word.text, line, word_size) != 0) continue;
    const bool has_argument = word_size + 1 < size;
    if (has_argument != word.takes_argument) {
      request.error =
          word.takes_argument ? "mark, snapshot, eval and set need a text" : "that command takes no argument";
      return request;
    }
    request.command = word.command;
    if (has_argument) {
      request.argument = line + word_size + 1;
      request.argument_size = size - word_size - 1;
    }
    return request;
  }
  request.error =
      "unknown command; known are status, start, stop, flush, dump, tensors, gradients, gc, backtrace, owners, mark "
      "TEXT, snapshot TEXT, eval TEXT, settings and set NAME=VALUE";
  return request;
}

}  // namespace gpumemshim::control
