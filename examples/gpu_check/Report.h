//===- Report.h - What the check of a GPU has found -------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the results of the check of kernels on a GPU, as text and
// as JSON.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_EXAMPLES_GPUCHECK_REPORT_H
#define TANDEM_EXAMPLES_GPUCHECK_REPORT_H

#include "GPUCheck.h"

#include <utility>

namespace gpucheck {

/// The result of a kernel. Parts that were not requested or not reached are
/// empty.
struct Row {
  std::string title;
  /// "equal", or what differs.
  std::string verdict;
  /// The error that kept the verdict from being reached, or an empty string.
  std::string error;
  /// Whether the error is only that there was nothing to check.
  bool isAbsent = false;
  double bytesPerElement = 0;
  std::vector<Times> times;
  StartTimes start;
  LargeResult large;
};

/// The results of a run.
struct Report {
  tdm_device_info device = {};
  /// The rate of a copy within the device's memory.
  double bytesPerSecond = 0;
  /// The images that were run; empty for the runtime's choice.
  std::string image;
  /// The times of launches of few and of many tensors, by the number of
  /// tensors.
  std::vector<std::pair<int, HostTimes>> host;
  std::vector<Row> rows;
  std::vector<ProductRow> products;
  /// The reason why nothing ran.
  std::string error;

  /// Replaces the file at \p path atomically.
  bool write(const std::string &path) const;
};

/// Prints lines for a row as soon as it is complete.
void print(const Report &report, const Row &row);
void print(const ProductRow &row);
void printDevice(const Report &report);
/// Prints the times of the host and the results that all kernels share.
void printEnd(const Report &report);

} // namespace gpucheck

#endif // TANDEM_EXAMPLES_GPUCHECK_REPORT_H
