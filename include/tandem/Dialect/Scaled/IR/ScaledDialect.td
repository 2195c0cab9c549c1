//===- ScaledDialect.td - Scaled low-precision numbers -----*- tablegen -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SCALED_IR_SCALEDDIALECT_TD
#define TANDEM_DIALECT_SCALED_IR_SCALEDDIALECT_TD

include "mlir/IR/OpBase.td"

def Scaled_Dialect : Dialect {
  let name = "scaled";
  let cppNamespace = "::tandem::scaled";
  let summary = "Scaled low-precision numbers: codes of a few bits and a scale for many";
  let description = [{
    A group of numbers is stored as one *scale* and a *code* of a few bits for
    each number: an 8-bit float, a companded integer. The scale comes from the
    group's largest finite magnitude (*current* scaling), rounded up to the
    scale's type, so that no finite value of the group lies beyond the code's
    range.

    The operations work on one element (or vectors of elements). The maximum that the
    elements of a group share is made by the `reduce` operation of the `tandem` dialect,
    from i32 values and into an i32. Each operation *is* the sequence of correctly
    rounded f32 operations that its description gives; `-convert-scaled-to-arith` spells
    it out.
  }];
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
  let extraClassDeclaration = [{
    void registerAttributes();
  }];
}

#endif // TANDEM_DIALECT_SCALED_IR_SCALEDDIALECT_TD
