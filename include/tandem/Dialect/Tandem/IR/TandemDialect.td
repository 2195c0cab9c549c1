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
  let cppNamespace = "::tandem";
  let summary = "Roles, stored tensors, strategies and fused kernels";
  let description = [{
    The dialect is the vocabulary in which a training graph says what its values *are*
    (roles), a strategy says how each is *stored* and *computed*, and the resulting
    fused kernel is written.

    A graph is an ordinary function over `tensor<...xf32>` values, where `f32`
    stands for a real number: nothing in a graph fixes a precision. Its
    arguments carry a `tandem.role`; its results are the new values of the
    `param`, `state` and `output` arguments, in the arguments' order. Hyperparameters are
    f64 (or f32) scalars, the step an i64. A layer's forward pass keeps values by
    `tandem.save`, and the function with the attribute `tandem.forward = @name` restores
    them.

    Attributes of the dialect on other dialects' operations:

    | attribute | on | value |
    | :--- | :--- | :--- |
    | `tandem.role` | an argument of a function | a `#tandem.role` |
    | `tandem.forward` | a function, a backward pass | the symbol of its forward pass |
    | `tandem.kept` | a function, a forward pass | for each input or output that is kept, by name, the `saved` role that it stands for |
    | `tandem.compute` | a function under a strategy | its `#tandem.compute` |
    | `tandem.scope` | a `linalg.reduce` over all elements | `"tensor"` (the default) or `"model"` |

    Any other attribute is an error, as is one of these in another place or with another
    value.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect", "::tandem::mcf::MCFDialect",
                           "::tandem::scaled::ScaledDialect"];
  let extraClassDeclaration = [{
    /// Returns the name of the argument attribute that gives a graph argument its role.
    static constexpr StringRef getRoleAttrName() { return "tandem.role"; }
    /// Returns the name of a backward pass's attribute that names its forward pass.
    static constexpr StringRef getForwardAttrName() { return "tandem.forward"; }
    /// Returns the name of a forward pass's attribute that names the inputs and outputs
    /// which it keeps.
    static constexpr StringRef getKeptAttrName() { return "tandem.kept"; }
    /// Returns the name of the function attribute that gives a graph its compute
    /// policy.
    static constexpr StringRef getComputeAttrName() { return "tandem.compute"; }
    /// Returns the name of a reduction's attribute that says which tensors' elements it
    /// combines.
    static constexpr StringRef getScopeAttrName() { return "tandem.scope"; }
    void registerAttributes();
    void registerTypes();
  }];
}

class Tandem_Op<string mnemonic, list<Trait> traits = []>
    : Op<Tandem_Dialect, mnemonic, traits>;

#endif // TANDEM_DIALECT_TANDEM_IR_TANDEMDIALECT_TD
