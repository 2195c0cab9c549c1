//===- ParseModule.h - Read MLIR text ---------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the parser of modules in a host process.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_PARSEMODULE_H
#define TANDEM_SUPPORT_PARSEMODULE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace mlir::tandem {

/// A list that MLIR 22.1's own parser crashes on.
struct MalformedList {
  /// Where its text begins.
  size_t place;
  /// What is expected there.
  StringRef expected;
};

/// Finds the first malformed list of a text: what is no list of numbers, such
/// as `[1 0]`, where linalg.reduce, linalg.broadcast or linalg.transpose takes
/// one (the parser follows a null pointer behind its error), and what is no
/// list of strings for the iterators of linalg.generic (it takes any attribute
/// for a string).
std::optional<MalformedList> findMalformedList(StringRef text);

/// Parses a module as mlir::parseSourceString does, but for such a list, which
/// is an error. Diagnostics are the context's; null after one.
OwningOpRef<ModuleOp> parseModule(StringRef text, MLIRContext *context,
                                  StringRef name);

} // namespace mlir::tandem

#endif // TANDEM_SUPPORT_PARSEMODULE_H
