//===- Run.h - Run compiled kernels on arrays -------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the creation of runtime kernels from compiled ones, and
// runs of a graph on the arrays of files.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TARGET_RUN_H
#define TANDEM_TARGET_RUN_H

#include "tandem-runtime/tandem_runtime.h"
#include "tandem/Support/LLVM.h"
#include "tandem/Target/Compiler.h"
#include <map>

namespace tandem {

/// Creates the runtime's kernel on a device, or on the CPU if `device` is null.
/// The caller destroys it before `kernel`.
llvm::Expected<tdm_kernel *>
createRuntimeKernel(const CompiledKernel &kernel,
                    const tdm_device *device = nullptr);

/// Prints "adamw under collage-plus (component bf16), 12 bytes a parameter",
/// then one line per array and scalar.
void printSignature(const tdm_kernel_info &info, llvm::raw_ostream &os);

struct RunOptions {
  /// Files and directories of arrays named as planes. A gradient may be one
  /// array NAME for all steps, or NAME.1, NAME.2... for consecutive ones.
  std::vector<std::string> inputs;
  /// The path that the param and state planes are written to after the last
  /// step; may be empty.
  std::string output;
  /// Hyperparameters by name.
  std::map<std::string, double> hypers;
  int64_t steps = 1, seed = 0;
  /// The number of the first step. Without it, runs begin after the step that
  /// the files of the states name, or with step 1.
  std::optional<int64_t> firstStep;
  /// The tensor's random-number key, and its first element's index in the
  /// unsharded tensor.
  int64_t key = 0, first = 0;
  int32_t threads = 0;
  /// Whether state planes that no input has are initialized with the param's
  /// value.
  bool initialize = false;
};

/// Runs steps of a CPU kernel and reports on `os`. The output is written only
/// after all steps succeeded.
llvm::Error run(const CompiledKernel &kernel, const RunOptions &options,
                llvm::raw_ostream &os);

} // namespace tandem

#endif // TANDEM_TARGET_RUN_H
