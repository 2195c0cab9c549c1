//===- TandemDialect.td - The tandem dialect --------------*- tablegen -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEM_IR_TANDEMDIALECT_TD
#define TANDEM_DIALECT_TANDEM_IR_TANDEMDIALECT_TD

include "mlir/IR/OpBase.td"

def Tandem_Dialect : Dialect {
  let name = "tandem";
  let cppNamespace = "::mlir::tandem";
  let summary = "Roles, stored tensors, strategies and fused kernels";
  let description = [{
    The vocabulary in which a training graph says what its values *are*
    (roles), a strategy says how each is *stored* and *computed*, and the fused
    kernel that results is written.

    A graph is an ordinary function over `tensor<...xf32>` values, where `f32`
    stands for a real number: nothing in a graph fixes a precision. Its
    arguments carry a `tandem.role`; its results are the new values of the
    `param`, `state` and `output` arguments, in the arguments' order. Hyperparameters are
    f64 (or f32) scalars, the step an i64. What a layer's forward pass keeps by
    `tandem.save` the function with the attribute `tandem.forward = @name` restores.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 0;
  let hasRegionArgAttrVerify = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::mcf::MCFDialect",
                           "::mlir::scaled::ScaledDialect"];
  let extraClassDeclaration = [{
    /// The argument attribute that gives a graph argument its role.
    static constexpr StringRef getRoleAttrName() { return "tandem.role"; }
    /// The attribute of a backward pass that names its forward pass.
    static constexpr StringRef getForwardAttrName() { return "tandem.forward"; }
    /// The attribute of a forward pass that names the inputs which it keeps.
    static constexpr StringRef getKeptAttrName() { return "tandem.kept"; }
    /// The function attribute that gives a graph its compute policy.
    static constexpr StringRef getComputeAttrName() { return "tandem.compute"; }
    void registerAttributes();
    void registerTypes();
  }];
}

#endif // TANDEM_DIALECT_TANDEM_IR_TANDEMDIALECT_TD
