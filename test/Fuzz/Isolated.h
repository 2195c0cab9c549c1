//===- Isolated.h - Cases in separate processes -----------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the run of cases in a process that may crash or hang.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_FUZZ_ISOLATED_H
#define TANDEM_TEST_FUZZ_ISOLATED_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace tandem::fuzz {

struct Finding {
  /// The outcome of the case: "crash: Segmentation fault", "hang".
  std::string what;
  std::string text;
};

/// A case's reports about itself.
class Case {
public:
  virtual ~Case() = default;
  /// Saves the text, which would otherwise be lost with the process.
  virtual void begin(llvm::StringRef text) = 0;
  /// Records that the text was accepted.
  virtual void accept() = 0;
};

struct Limits {
  double seconds;
  /// The time after which a case counts as a hang.
  unsigned secondsPerCase = 20;
  uint64_t bytes = uint64_t(4) << 30;
};

struct Counts {
  uint64_t done = 0, accepted = 0;
  /// Whether memory or processes were missing for the remaining cases.
  bool isBroken = false;
};

/// Calls `run(number, case)` for each number from `first` on, in child
/// processes, until the time is up or `count` cases have run. `run` returns a
/// description of the fault, or an empty string. `report` is called for each
/// finding.
Counts runIsolated(uint64_t first, uint64_t count, const Limits &limits,
                   llvm::function_ref<std::string(uint64_t number, Case &)> run,
                   llvm::function_ref<void(const Finding &)> report);

} // namespace tandem::fuzz

#endif // TANDEM_TEST_FUZZ_ISOLATED_H
