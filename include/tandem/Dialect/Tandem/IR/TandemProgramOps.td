//===- TandemProgramOps.td - Kernels, steps and launches --*- tablegen -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEM_IR_TANDEMPROGRAMOPS_TD
#define TANDEM_DIALECT_TANDEM_IR_TANDEMPROGRAMOPS_TD

include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "tandem/Dialect/Tandem/IR/ProgramInterface.td"
include "tandem/Dialect/Tandem/IR/TandemAttrs.td"
include "tandem/Dialect/Tandem/IR/TandemTypes.td"

def Tandem_KernelOp : Tandem_Op<"kernel", [Symbol, IsolatedFromAbove, Tandem_ProgramOpInterface]> {
  let summary = "a fused kernel: a scalar prologue and a body for one element";
  let description = [{
    A kernel is the whole graph as one scalar program that runs for each element (SPMD).
    The *prologue* computes the uniform values from the hyperparameters in f64, once a
    launch; each value it yields becomes a 32-bit slot of the scalar row. The *body*
    loads, computes and stores one element. Its arguments are the stored tensors, then
    the prologue's values. `-tandem-split-phases` turns the kernel into a `tandem.step`,
    which says in which launches it runs.

    The tensors of a kernel are flat or matrices. They are matrices if a tensor has two dimensions
    or an entry per row or column, or if a storage has entries for rows or blocks. In a kernel of
    matrices groups begin anew in each row, and reductions may run along rows and columns and, if a
    storage has an entry for each block of B rows and B columns, over such blocks.

    Constraints: (C1) one body argument per tensor role, of stored type,
    followed by the types the prologue yields; (C2) one prologue argument per
    scalar role, f64 for a hyper, i64 for a step or seed; (C3) uniform values
    are f32, bf16, f16, f8E4M3FN, f8E5M2 or i32; (C4) each storage has a value under
    the compute policy; (C5) each metric has an index of its own, below 4096; (C6) reductions
    per row, column or block belong to a kernel of matrices, which has no metrics, and scales
    per row or block to a tensor with an entry per element; (C7) all blocks are of one size; (C8) a
    tensor with a transposed copy is an output or saved; (C9) a tensor is not read after it is
    written, since all elements read the old values.

    Example:

    ```mlir
    tandem.kernel @sgd compute(<f32, f32>)
        tensors [#tandem.role<param "param">, #tandem.role<grad "grad">]
        scalars [#tandem.role<hyper "lr">] prologue {
    ^bb0(%lr: f64):
      %0 = arith.negf %lr : f64
      %1 = arith.truncf %0 : f64 to f32
      tandem.yield %1 : f32
    } body {
    ^bb0(%param: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>,
         %grad: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>, %neg_lr: f32):
      %p = tandem.load %param : !tandem.stored<tensor<?xf32>, #tandem.float<f32>> -> f32
      %g = tandem.load %grad : !tandem.stored<tensor<?xf32>, #tandem.float<f32>> -> f32
      %d = arith.mulf %neg_lr, %g : f32
      %s = tandem.accumulate %p, %d : f32
      tandem.store %s, %param : f32, !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
      tandem.yield
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Tandem_ComputeAttr:$compute,
                       Tandem_RolesAttr:$tensor_roles, Tandem_RolesAttr:$scalar_roles);
  let regions = (region SizedRegion<1>:$prologue, SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `compute` `(` $compute `)` `tensors` $tensor_roles `scalars` $scalar_roles
    `prologue` $prologue `body` $body attr-dict-with-keyword
  }];
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// The largest number of reductions, and of metrics, that the runtime allows.
    static constexpr uint64_t maxSums = 4096;

    Block &getPrologueBlock() { return getPrologue().front(); }
    Block &getBodyBlock() { return getBody().front(); }
  }];
}

def Tandem_LaunchOp : Tandem_Op<"launch", [HasParent<"StepOp">, IsolatedFromAbove,
    Tandem_ProgramOpInterface]> {
  let summary = "one launch of a step: a body and what it runs once for";
  let description = [{
    A launch computes a part of a kernel's body. Its role is `reduction` (it makes
    reductions for later launches, and writes only what is sent to an external step), `main` (it writes the elements)
    or `epilogue` (it writes the entries that elements share, when no launch reads the
    old ones any more). The body runs once for each element, or `per` row, column, block
    or tensor; after `-tandem-widen` for `width` consecutive elements at once. Its
    arguments are those of the step's tensors, then the values that the step's prologue
    yields.

    A launch that is `fused_with_previous` needs only those reductions of the previous
    launch that are over its own rows and blocks: it can process some rows as soon as
    the previous one has, in the same launch of the device. When a launch with `externals` has
    ended, the host computes these steps (`tandem.external`), in their order.

    Constraints: (C1) one body argument per tensor role of the step, of stored type,
    followed by the types that the step's prologue yields; (C2) the width is a power of two
    up to 256; (C3) each partial and total is one of the step's `reductions`; (C4) a main
    launch runs per element, a reduction per element, row or column, an epilogue per row,
    column, block or tensor; rows, columns and blocks belong to matrices; (C5) a launch that is
    `fused_with_previous` runs over a matrix's elements and follows one that does, too; (C6) the
    constraints C4 to C9 of `tandem.kernel` hold; (C7) only a reduction has externals, which are
    those of the roles of the step's tensors.

    Example:

    ```mlir
    tandem.launch main width(8) body {
    ^bb0(%param: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>, %neg_lr: f32):
      %p = tandem.load_plane %param[0] : !tandem.stored<tensor<?xf32>, #tandem.float<f32>> -> vector<8xf32>
      tandem.yield
    }
    ```
  }];
  let arguments = (ins Tandem_LaunchRole:$role,
                       DefaultValuedAttr<Tandem_Granularity, "Granularity::element">:$per,
                       DefaultValuedAttr<I64Attr, "1">:$width,
                       UnitAttr:$fused_with_previous,
                       OptionalAttr<StrArrayAttr>:$externals);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $role (`per` `(` $per^ `)`)? (`width` `(` $width^ `)`)?
    (`fused_with_previous` $fused_with_previous^)? (`externals` $externals^)? `body` $body attr-dict-with-keyword
  }];
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// The largest number of elements that are computed at once, which is that of a
    /// group.
    static constexpr int64_t maxWidth = 256;
    static bool isWidth(int64_t width) {
      return width >= 1 && width <= maxWidth && llvm::isPowerOf2_64(width);
    }

    StepOp getStep();
    /// Returns the name of the launch's function: that of the step for its main launch,
    /// with `_phase0`, `_phase1`, ... for its reductions and `_commit`, `_commit_rows`, ...
    /// for its epilogues.
    std::string getFunctionName();
    /// Returns whether the body runs once for each tensor.
    bool isPerTensor() { return getPer() == Granularity::tensor; }
    /// Returns whether the body runs over the elements of a matrix, row by row.
    bool isAlongRows() { return isMatrix() && getPer() == Granularity::element; }
    Block &getBodyBlock() { return getBody().front(); }

    // These are the step's.
    ComputeAttr getCompute();
    ArrayAttr getTensorRoles();
    ArrayAttr getScalarRoles();
    uint64_t getReductions();
    Block &getPrologueBlock();
  }];
}

def Tandem_StepOp : Tandem_Op<"step", [Symbol, IsolatedFromAbove, NoTerminator, SingleBlock]> {
  let summary = "the launches of a kernel, in their order";
  let description = [{
    `-tandem-split-phases` replaces a `tandem.kernel` by a step: a value that all elements of a
    tensor share, such as a norm, exists only after a launch has ended, so that a step is a sequence
    of launches. First come those that make reductions, then the main one, which recomputes what it
    needs from the earlier ones and writes the elements, then the epilogues. All launches have the
    prologue's uniform values.

    Reductions over more than a group are numbered; `tandem.partial` makes one,
    `tandem.reduction_result` and `tandem.load_reduction_result` read its result in a later launch. No other
    value goes from launch to launch.

    Constraints: (C1) the launches are any number of reductions, one main launch, any
    number of epilogues; (C2) one prologue argument per scalar role, f64 for a hyper, i64
    for a step or seed; (C3) uniform values are f32, bf16, f16, f8E4M3FN, f8E5M2 or i32; (C4) there
    are at most 4096 `reductions`, each is made by one launch, and read by later ones only.

    Example: `test/Dialect/Tandem/split-phases.mlir`

    ```mlir
    tandem.step @clip compute(<f32, f32>) reductions(1) tensors [#tandem.role<param "p">] scalars [] prologue {
      tandem.yield
    } launches {
      tandem.launch reduction body {
      ^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>):
        %x = tandem.load_plane %p[0] : !tandem.stored<tensor<?xf32>, #tandem.float<f32>> -> f32
        tandem.partial sum %x[0] over tensor : f32
        tandem.yield
      }
      tandem.launch main body {
      ^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>):
        %sum = tandem.reduction_result[0] : f32
        tandem.store_plane %sum, %p[0] : f32, !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
        tandem.yield
      }
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Tandem_ComputeAttr:$compute,
                       Tandem_RolesAttr:$tensor_roles, Tandem_RolesAttr:$scalar_roles,
                       DefaultValuedAttr<I64Attr, "0">:$reductions);
  let regions = (region SizedRegion<1>:$prologue, SizedRegion<1>:$launches);
  let assemblyFormat = [{
    $sym_name `compute` `(` $compute `)` (`reductions` `(` $reductions^ `)`)?
    `tensors` $tensor_roles `scalars` $scalar_roles
    `prologue` $prologue `launches` $launches attr-dict-with-keyword
  }];
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    Block &getPrologueBlock() { return getPrologue().front(); }
    /// Returns the launches, in their order.
    auto getLaunchOps() { return getLaunches().front().getOps<LaunchOp>(); }
  }];
}

def Tandem_YieldOp : Tandem_Op<"yield", [Terminator, Pure, ParentOneOf<["KernelOp", "LaunchOp", "StepOp"]>]> {
  let summary = "ends a kernel's prologue or body";
  let description = [{
    In the prologue its operands are the uniform values.

    Example:

    ```mlir
    tandem.yield %1 : f32
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif // TANDEM_DIALECT_TANDEM_IR_TANDEMPROGRAMOPS_TD
