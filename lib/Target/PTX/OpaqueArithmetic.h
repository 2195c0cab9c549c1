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

/// Sends the operands and the result of each floating-point operation through
/// moves that LLVM knows nothing about, and may neither delete nor join. So an
/// operation has operands that no other operation has, which could be anything,
/// and a result that is needed: it can be neither folded, merged nor dropped.
/// The values are the same. An operation that nothing depends on stays as it
/// is, and goes: it must not count.
void makeArithmeticOpaque(llvm::Module &module);

} // namespace tandem

#endif // TANDEM_LIB_TARGET_PTX_OPAQUEARITHMETIC_H
