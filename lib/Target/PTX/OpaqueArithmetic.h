//===- OpaqueArithmetic.h - Arithmetic that nothing simplifies --*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares how arithmetic is hidden from LLVM's simplifications.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_PTX_OPAQUEARITHMETIC_H
#define TANDEM_LIB_TARGET_PTX_OPAQUEARITHMETIC_H

#include "llvm/IR/Module.h"

namespace tandem {

/// Passes the operands and the result of each floating-point operation through
/// moves that LLVM knows nothing about and may neither delete nor merge. So no
/// two operations share an operand, each operand could be anything, and each
/// result is needed: no operation can be folded, merged or dropped. The values
/// are the same. An operation that nothing depends on is left for LLVM to
/// delete, since the check of the PTX must not count it.
void makeArithmeticOpaque(llvm::Module &module);

} // namespace tandem

#endif // TANDEM_LIB_TARGET_PTX_OPAQUEARITHMETIC_H
