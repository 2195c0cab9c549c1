//===- Run.h - Runs of parts ------------------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares how units of a part are run through compiled code and held
// against what they must give.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_VERIFY_RUN_H
#define TANDEM_VERIFY_RUN_H

#include "Part.h"
#include "llvm/Support/Error.h"

namespace tandem::verify {

struct ShardOptions {
  /// Units begin, begin + stride, ... below end.
  uint64_t begin = 0, end = 0, stride = 1;
  unsigned threads = 1;
  std::string isa = "native";
  /// The part whose expectations are used.
  const Part *expectation = nullptr;
  /// A case, counted from that of unit 0, whose result has its lowest bit
  /// flipped before it is looked at.
  std::optional<uint64_t> flip;
};

/// A hash of the LLVM IR of a part's kernel for some instruction sets, none of
/// which this machine need have; empty for a part without a kernel.
llvm::Expected<std::string> hashCode(const Part &part);

llvm::Expected<Findings> run(const Part &part, const ShardOptions &options);

} // namespace tandem::verify

#endif // TANDEM_VERIFY_RUN_H
