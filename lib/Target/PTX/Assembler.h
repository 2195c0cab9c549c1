//===- Assembler.h - NVIDIA's assembler -------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the program that assembles PTX to machine code.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_PTX_ASSEMBLER_H
#define TANDEM_LIB_TARGET_PTX_ASSEMBLER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace tandem {

/// Calls ptxas, NVIDIA's assembler.
class Assembler {
public:
  /// Finds ptxas. Messages name `target`.
  static llvm::Expected<Assembler> find(llvm::StringRef target,
                                        llvm::StringRef chip);

  /// Returns the version, such as "13.0.88".
  llvm::Expected<std::string> getVersion() const;
  /// Assembles `ptx` to machine code for `chip` at an optimization level.
  llvm::Expected<std::string>
  assemble(llvm::StringRef ptx, llvm::StringRef chip, unsigned level) const;

private:
  explicit Assembler(std::string program) : program(std::move(program)) {}

  /// Runs ptxas with its output redirected to the file `printed`. Returns
  /// whether it succeeded.
  bool run(llvm::ArrayRef<llvm::StringRef> arguments,
           llvm::StringRef printed) const;

  std::string program;
};

} // namespace tandem

#endif // TANDEM_LIB_TARGET_PTX_ASSEMBLER_H
