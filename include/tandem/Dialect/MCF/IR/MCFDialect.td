//===- MCFDialect.td - Multi-component floats --------------*- tablegen -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_MCF_IR_MCFDIALECT_TD
#define TANDEM_DIALECT_MCF_IR_MCFDIALECT_TD

include "mlir/IR/OpBase.td"

def MCF_Dialect : Dialect {
  let name = "mcf";
  let cppNamespace = "::tandem::mcf";
  let summary = "Multi-component floats: unevaluated sums of low-precision numbers";
  let description = [{
    A multi-component float (MCF, also: floating-point expansion) represents a
    real number as an unevaluated sum of a few floating-point components in
    decreasing magnitude (Dekker 1971; Priest 1991; Yu et al., *Collage*,
    ICML 2024, section 4). The operations of this dialect are error-free
    transforms and the arithmetic built from them. Each one *is* an exact
    sequence of correctly rounded component operations, given in its
    description; `-convert-mcf-to-arith` spells it out, and nothing in Tandem
    may shorten, reassociate or contract it.

    All component operations round to nearest, ties to even, with gradual
    underflow. `u` is the unit roundoff 2^-p of the component format.
  }];
  let useDefaultTypePrinterParser = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

#endif // TANDEM_DIALECT_MCF_IR_MCFDIALECT_TD
