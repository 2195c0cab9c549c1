//===- MCFTypes.td - The expansion type --------------------*- tablegen -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_MCF_IR_MCFTYPES_TD
#define TANDEM_DIALECT_MCF_IR_MCFTYPES_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinTypeInterfaces.td"
include "tandem/Dialect/MCF/IR/MCFDialect.td"

def MCF_ExpansionType : TypeDef<MCF_Dialect, "Expansion",
    [VectorElementTypeInterface]> {
  let mnemonic = "expansion";
  let summary = "an unevaluated sum of floating-point components";
  let description = [{
    A scalar value x1 + x2 + ... + xn of components in decreasing magnitude,
    normalized (|x(i+1)| <= ulp(x(i))/2). Components share one format

    ```mlir
    !mcf.expansion<bf16 x 2>
    ```

    or are *mixed*: a leading bf16, f16 or f32 followed by one 8-bit float,

    ```mlir
    !mcf.expansion<bf16, f8E5M2>
    ```

    whose trailing component is stored scaled by the leading component's
    exponent (value = lo * 2^(e-8), e = max(exponent(hi), -126)), because a
    residual of a small number would otherwise fall among FP8's subnormals.
    Mixed expansions compute in the leading format.

    Constraints: (C1) 2 or 3 components; (C2) each of bf16, f16, f32, f8E4M3FN,
    f8E5M2; (C3) one format, or exactly two with an 8-bit trailing one.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::Type">:$components);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Returns the number of components.
    unsigned getLength() const { return getComponents().size(); }
    /// Returns the format that all arithmetic rounds to.
    Type getLeading() const { return getComponents().front(); }
    /// Returns whether the trailing component has a different format from the leading
    /// one.
    bool isMixed() const { return getComponents().back() != getLeading(); }
    /// Returns the expansion of `length` components of one format.
    static ExpansionType get(Type component, unsigned length);
  }];
}

/// A scalar expansion, or a vector or tensor of them.
def MCF_ExpansionLike : Type<
    CPred<"::llvm::isa<::tandem::mcf::ExpansionType>(::mlir::getElementTypeOrSelf($_self))">,
    "an expansion, or a vector or tensor of expansions">;

/// A component, or a vector or tensor of them.
def MCF_ComponentLike : Type<
    CPred<"::tandem::mcf::isComponentFormat(::mlir::getElementTypeOrSelf($_self))">,
    "a bf16, f16, f32, f8E4M3FN or f8E5M2 value, or a vector or tensor of them">;

#endif // TANDEM_DIALECT_MCF_IR_MCFTYPES_TD
