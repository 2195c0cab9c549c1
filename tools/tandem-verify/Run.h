//===- Run.h - Runs of parts ------------------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares how units of a part are run in compiled code and compared
// with the expected results.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_VERIFY_RUN_H
#define TANDEM_VERIFY_RUN_H

#include "Part.h"
#include "llvm/Support/Error.h"

namespace tandem::verify {

struct ShardOptions {
  /// The units are begin, begin + stride, ... below end.
  uint64_t begin = 0, end = 0, stride = 1;
  unsigned threads = 1;
  std::string isa = "native";
  /// The part whose expected results are used.
  const Part *expectation = nullptr;
  /// A case, counted from the first of unit 0. The lowest bit of its result is
  /// flipped before the comparison.
  std::optional<uint64_t> flip;
};

/// Returns a hash of the LLVM IR of a part's kernel for several instruction
/// sets, which this machine need not support, or an empty string if the part
/// has no kernel.
llvm::Expected<std::string> hashCode(const Part &part);

llvm::Expected<Findings> run(const Part &part, const ShardOptions &options);

} // namespace tandem::verify

#endif // TANDEM_VERIFY_RUN_H
