//===- RoundingMode.td - Rounding as a parameter -----------*- tablegen -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_ROUNDINGMODE_TD
#define TANDEM_SUPPORT_ROUNDINGMODE_TD

include "mlir/IR/AttrTypeBase.td"

/// The rounding mode of a code or a storage: to nearest, unless another mode is
/// written.
def Tandem_RoundingMode : DefaultValuedParameter<"::tandem::RoundingMode",
    "::tandem::RoundingMode::nearest">;

#endif // TANDEM_SUPPORT_ROUNDINGMODE_TD
