//===- PTXInstructions.h - A reader of PTX text -----------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares how PTX text is split into functions and instructions.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_PTX_PTXINSTRUCTIONS_H
#define TANDEM_LIB_TARGET_PTX_PTXINSTRUCTIONS_H

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <vector>

namespace tandem {

/// One instruction. All strings point into the module's text.
struct PTXInstruction {
  unsigned line;
  /// The instruction without its predicate: "add.rn.f32 %r1, %r2, %r3".
  llvm::StringRef text;
  /// Its name with all modifiers: "add.rn.f32".
  llvm::StringRef mnemonic;
  /// The text after the name: "%r1, %r2, %r3".
  llvm::StringRef operands;

  /// Splits the mnemonic at its dots.
  llvm::SmallVector<llvm::StringRef, 6> getParts() const;
  /// Splits the operands at the commas outside of braces and brackets.
  llvm::SmallVector<llvm::StringRef, 4> getOperands() const;
};

struct PTXFunction {
  llvm::StringRef name;
  std::vector<PTXInstruction> instructions;
};

/// Parses the entry functions of a module.
std::vector<PTXFunction> readEntries(llvm::StringRef ptx);

/// The registers of a function that have one constant value wherever they are
/// set.
class PTXConstants {
public:
  explicit PTXConstants(const PTXFunction &function);

  /// Returns the bits of a literal or of a constant register, if the operand is
  /// one.
  std::optional<uint64_t> lookup(llvm::StringRef operand) const;

private:
  void define(llvm::StringRef name, std::optional<uint64_t> value);

  llvm::DenseMap<llvm::StringRef, std::optional<uint64_t>> registers;
};

} // namespace tandem

#endif // TANDEM_LIB_TARGET_PTX_PTXINSTRUCTIONS_H
