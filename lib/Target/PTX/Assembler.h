//===- Assembler.h - NVIDIA's assembler -------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the program that makes machine code of PTX.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_PTX_ASSEMBLER_H
#define TANDEM_LIB_TARGET_PTX_ASSEMBLER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace tandem {

/// NVIDIA's assembler.
class Assembler {
public:
  /// Finds it for a target, which messages name.
  static llvm::Expected<Assembler> find(llvm::StringRef target,
                                        llvm::StringRef chip);

  /// Such as "13.0.88".
  llvm::Expected<std::string> getVersion() const;
  /// Machine code of `ptx`.
  llvm::Expected<std::string>
  assemble(llvm::StringRef ptx, llvm::StringRef chip, unsigned level) const;

private:
  explicit Assembler(std::string program) : program(std::move(program)) {}

  /// Runs it; what it prints goes to a file.
  bool run(llvm::ArrayRef<llvm::StringRef> arguments,
           llvm::StringRef printed) const;

  std::string program;
};

} // namespace tandem

#endif // TANDEM_LIB_TARGET_PTX_ASSEMBLER_H
