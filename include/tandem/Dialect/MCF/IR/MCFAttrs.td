//===- MCFAttrs.td - Attributes of the mcf dialect ---------*- tablegen -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_MCF_IR_MCFATTRS_TD
#define TANDEM_DIALECT_MCF_IR_MCFATTRS_TD

include "mlir/IR/EnumAttr.td"
include "tandem/Dialect/MCF/IR/MCFDialect.td"

def MCF_ComparePredicate : I32EnumAttr<"ComparePredicate",
    "ordered comparison of two expansions", [
      I32EnumAttrCase<"eq", 0>, I32EnumAttrCase<"lt", 1>,
      I32EnumAttrCase<"le", 2>, I32EnumAttrCase<"gt", 3>,
      I32EnumAttrCase<"ge", 4>]> {
  let cppNamespace = "::tandem::mcf";
}

#endif // TANDEM_DIALECT_MCF_IR_MCFATTRS_TD
