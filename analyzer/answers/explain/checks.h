// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The four checklists. Each returns all of its checks, in the order in which one would walk them, whatever they find;
// every sentence carries the numbers that it rests on. docs/explain.md lists them. Pure functions of the input.
//
//   for (const Check& check : PeakChecks(subject)) ...

#ifndef GPUMEM_ANALYZER_ANSWERS_EXPLAIN_CHECKS_H_
#define GPUMEM_ANALYZER_ANSWERS_EXPLAIN_CHECKS_H_

#include <string>
#include <vector>

#include "answers/explain/check.h"
#include "answers/report/what_if.h"
#include "ledger/load/input.h"
#include "trace/object_table.h"

namespace gpumem {

struct Moment;

// What the checklists look at. All of it outlives them.
struct ExplainSubject {
  const ReportInput* input = nullptr;      // with attribution (the peak's moment, steps, modules), leaks, `without`
  const DeviceAnalysis* device = nullptr;  // the one to speak of; nullptr: no GPU memory at all
  const ObjectTable* objects = nullptr;    // of the program's tensors
  const WhatIfAnswer* what_if = nullptr;   // other settings of PyTorch's allocator; nullptr: nobody was asked

  // The moment of the device's peak; nullptr where it was not attributed.
  const Moment* PeakMoment() const;
};

// Whether other processes are on the device and it is nearly full: only then does what is kept idle hurt anybody.
bool IsContended(const DeviceAnalysis& device);

// "; most: train.py:42 main, 1.20 GiB": the line with most of `stacks`; "" of none.
std::string MostText(const std::vector<StackUse>& stacks, const ReportInput& input);

// The line that holds most of the device's peak, as reports show it; "" = not known.
std::string LargestLine(const DeviceAnalysis& device, const ReportInput& input);

std::vector<Check> PeakChecks(const ExplainSubject& subject);
std::vector<Check> OomChecks(const ExplainSubject& subject);
std::vector<Check> LeakChecks(const ExplainSubject& subject);
std::vector<Check> FragmentationChecks(const ExplainSubject& subject);

}  // namespace gpumem

#endif  // GPUMEM_ANALYZER_ANSWERS_EXPLAIN_CHECKS_H_
