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
#include "tandem/Support/LLVM.h"

namespace tandem {

/// A place in a text on which MLIR 22.1's own parser crashes.
struct MalformedText {
  size_t place;
  /// The syntax expected there.
  StringRef expected;
};

/// Finds the first place in a text that crashes MLIR's parser, as far as it
/// shows without types: brackets nested so deeply, or affine expressions so
/// long, that recursion overflows the stack; malformed lists of linalg.reduce,
/// linalg.broadcast and linalg.transpose, such as `[1 0]` (the parser follows a
/// null pointer after its error); iterators of linalg.generic that are not
/// strings; and operands of linalg.reduce, linalg.map and vector.shuffle that
/// are not tensors or vectors (the parser casts them unchecked).
std::optional<MalformedText> findMalformedText(StringRef text);

/// Parses a module as mlir::parseSourceString does, except that malformed text
/// is an error rather than a crash. Diagnostics go to the context; the result
/// is null after one.
OwningOpRef<ModuleOp> parseModule(StringRef text, MLIRContext *context,
                                  StringRef name);

/// Parses a type as mlir::parseType does, except that it emits no diagnostics
/// and returns null for malformed text.
Type parseTypeText(StringRef text, MLIRContext *context);

} // namespace tandem

#endif // TANDEM_SUPPORT_PARSEMODULE_H
