//===- TandemOps.td - Operations of the tandem dialect ----*- tablegen -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEM_IR_TANDEMOPS_TD
#define TANDEM_DIALECT_TANDEM_IR_TANDEMOPS_TD

include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "tandem/Dialect/Tandem/IR/TandemAttrs.td"
include "tandem/Dialect/Tandem/IR/TandemProgramOps.td"
include "tandem/Dialect/Tandem/IR/TandemTypes.td"

//===----------------------------------------------------------------------===//
// Strategies
//===----------------------------------------------------------------------===//

def Tandem_StrategyOp : Tandem_Op<"strategy", [Symbol, NoTerminator, SingleBlock,
    IsolatedFromAbove, NoRegionArguments]> {
  let summary = "choose the storages and the arithmetic of a graph's values";
  let description = [{
    A strategy is data: an ordered list of `tandem.assign` rules and a compute
    policy. The first rule that matches a role gives it its storage. Strategies
    live in .mlir files and are found by name on a path.

    Constraint: (C1) the body holds only `tandem.assign`.

    Example:

    ```mlir
    tandem.strategy @"collage-plus" compute(<component, bf16>) {
      tandem.assign param = #tandem.expansion<bf16 x 2>
      tandem.assign state moment(second) = #tandem.expansion<bf16 x 2>
      tandem.assign state = #tandem.float<bf16>
      tandem.assign grad = #tandem.float<bf16>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Tandem_ComputeAttr:$compute);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `compute` `(` $compute `)` attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the storage of the first rule that matches `role`, or null.
    StorageAttrInterface getStorage(RoleAttr role);
  }];
}

def Tandem_AssignOp : Tandem_Op<"assign", [HasParent<"StrategyOp">]> {
  let summary = "gives matching roles a storage";
  let description = [{
    A rule matches the roles of its kind. If it has a moment, a consumer, a flow, a `per` or
    a name, it matches only those roles that have the same. What a forward pass saves is
    stored in the same way where the backward pass restores it. An average of weights matches
    only rules with its moment or its name; if there is none, it is stored like the graph's
    first param, but without a copy for other readers and, in place of floats rounded to nearest, as
    dithered floats or, under the component policy, an expansion. A slow moment that matches a rule
    without a moment and a name is stored as that rule says, with the same replacement of floats.
    What is sent to an external step and received from it has the format that the graph says, unless
    a rule matches it.

    Constraints: (C1) the kind is param, grad, state, input, output, saved, sent or received; (C2)
    only a state has a moment; (C3) only a saved tensor, an input or an output has a consumer; (C4)
    only an input or an output has a flow; (C5) what is sent or received is stored as bf16, f16 or
    f32 to nearest.

    Example:

    ```mlir
    tandem.strategy @mine compute(<f32, f32>) {
      tandem.assign state moment(second) named("exp_avg_sq") = #tandem.float<f32>
      tandem.assign saved per(row) = #tandem.float<f32>
      tandem.assign saved consumer(linear) = #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32>
      tandem.assign output consumer(linear) flow(gradient) = #tandem.scaled<#scaled.float<f8E5M2>, group = tensor, scale = f32>
    }
    ```
  }];
  let arguments = (ins Tandem_RoleKind:$kind, OptionalAttr<Tandem_Moment>:$moment,
                       OptionalAttr<Tandem_Consumer>:$consumer,
                       OptionalAttr<Tandem_Flow>:$flow,
                       OptionalAttr<Tandem_Granularity>:$per,
                       OptionalAttr<StrAttr>:$name,
                       Tandem_StorageInterface:$storage);
  let assemblyFormat = [{
    $kind (`moment` `(` $moment^ `)`)? (`consumer` `(` $consumer^ `)`)? (`flow` `(` $flow^ `)`)? (`per` `(` $per^ `)`)? (`named` `(` $name^ `)`)? `=` $storage attr-dict
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// The graph's vocabulary
//===----------------------------------------------------------------------===//

def Tandem_RealLike : Type<CPred<"::mlir::getElementTypeOrSelf($_self).isF32()">,
                           "f32, or a tensor or vector of f32">;

class Tandem_UpdateOp<string mnemonic>
    : Tandem_Op<mnemonic, [Pure, Elementwise, Scalarizable, Vectorizable, Tensorizable,
                           SameOperandsAndResultType]>;

def Tandem_AccumulateOp : Tandem_UpdateOp<"accumulate"> {
  let summary = "add to a state (s <- s + d), one of Collage's two critical locations";
  let description = [{
    Computes the new value of a param or state: its own value plus an addend. Storages
    with compensation keep what a plain sum would lose.

    Example:

    ```mlir
    %1 = tandem.accumulate %s, %d : tensor<?xf32>
    ```
  }];
  let arguments = (ins Tandem_RealLike:$state, Tandem_RealLike:$addend);
  let results = (outs Tandem_RealLike:$result);
  let assemblyFormat = "$state `,` $addend attr-dict `:` type($result)";
}

def Tandem_DecayOp : Tandem_UpdateOp<"decay"> {
  let summary = "multiply a state (s <- b * s), decay of a param or state";
  let description = [{
    The factor is uniform: computed only from hyperparameters and literals. Storages
    with compensation multiply with the factor's two-component split.

    Example:

    ```mlir
    %1 = tandem.decay %s by %b : tensor<?xf32>
    ```
  }];
  let arguments = (ins Tandem_RealLike:$state, Tandem_RealLike:$factor);
  let results = (outs Tandem_RealLike:$result);
  let assemblyFormat = "$state `by` $factor attr-dict `:` type($result)";
}

def Tandem_EmaOp : Tandem_UpdateOp<"ema"> {
  let summary = "average a state (s <- b * s + x), moving average or momentum";
  let description = [{
    Collage's second critical location: with `x` the weighted sample (1-b)*g it
    is an exponential moving average, with `x` = g a momentum buffer. The
    factor is uniform.

    Example:

    ```mlir
    %1 = tandem.ema %s by %b plus %x : tensor<?xf32>
    ```
  }];
  let arguments = (ins Tandem_RealLike:$state, Tandem_RealLike:$factor, Tandem_RealLike:$addend);
  let results = (outs Tandem_RealLike:$result);
  let assemblyFormat = "$state `by` $factor `plus` $addend attr-dict `:` type($result)";
}

def Tandem_ExternalOp : Tandem_Op<"external", []> {
  let summary = "a step that the host computes between two launches";
  let description = [{
    The kernel ends a launch that writes the operands, the host computes the results from them, and
    later launches read the results. The host finds the operands under the names in `sends`, and
    leaves the results under those in `receives`; both have the order of elements of the other tensors,
    and the type `format`, to which the operands are rounded, to nearest. The
    host binds a function to the name of the step ([tdm_plan_set_external](../Embedding.md)); without
    one a launch is refused.

    Constraints: (C1) there is a name in `sends` for each operand, and one in `receives` for each
    result, at least one of each; (C2) the format is bf16, f16 or f32.

    Example:

    ```mlir
    %o = tandem.external "orthogonalize"(%u) sends ["direction"] receives ["orthogonal"]
        format(bf16) : (tensor<?x?xf32>) -> tensor<?x?xf32>
    ```
  }];
  let arguments = (ins StrAttr:$name, Variadic<TensorOf<[F32]>>:$inputs, StrArrayAttr:$sends,
                       StrArrayAttr:$receives, TypeAttr:$format);
  let results = (outs Variadic<TensorOf<[F32]>>:$outputs);
  let assemblyFormat = [{
    $name `(` $inputs `)` `sends` $sends `receives` $receives `format` `(` $format `)` attr-dict
    `:` functional-type($inputs, $outputs)
  }];
  let hasVerifier = 1;
}

def Tandem_SaveOp : Tandem_Op<"save", [MemoryEffects<[MemWrite]>]> {
  let summary = "keep a value for the backward pass";
  let description = [{
    The function whose `tandem.forward` names this one gets the value back by `tandem.restore`, as
    the strategy stores it. `consumer` says what the backward pass does with it: computes with it
    element by element and row by row (`nonlinear`), takes it as the operand of a matrix product
    (`linear`), or something unknown to Tandem (`opaque`). For a tensor with one dimension, `per`
    says whether it has an entry per row or per column.

    A tensor that is saved under several names is stored once, for the last of these
    consumers, in the order above, that it is saved for.

    Constraint: (C1) only a tensor with one dimension has an entry per row or column.

    Example:

    ```mlir
    tandem.save %x as "x" : tensor<?x?xf32>
    tandem.save %h as "hidden" consumer(linear) : tensor<?x?xf32>
    tandem.save %r as "scale" per(row) : tensor<?xf32>
    ```
  }];
  let arguments = (ins TensorOf<[F32]>:$value, StrAttr:$name,
                       DefaultValuedAttr<Tandem_Consumer, "Consumer::nonlinear">:$consumer,
                       DefaultValuedAttr<Tandem_Granularity, "Granularity::element">:$per);
  let assemblyFormat = [{
    $value `as` $name (`consumer` `(` $consumer^ `)`)? (`per` `(` $per^ `)`)? attr-dict
    `:` type($value)
  }];
  let hasVerifier = 1;
}

def Tandem_RestoreOp : Tandem_Op<"restore", [Pure]> {
  let summary = "restore a value that the forward pass has saved";
  let description = [{
    Returns the value that a `tandem.save` of the function named by `tandem.forward` has
    kept, with the precision of its storage.

    Example:

    ```mlir
    %x = tandem.restore "x" : tensor<?x?xf32>
    ```
  }];
  let arguments = (ins StrAttr:$name);
  let results = (outs TensorOf<[F32]>:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
}

def Tandem_KeepOutputsOp
    : Tandem_Op<"keep_outputs", [HasParent<"::mlir::ModuleOp">,
                                 DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "save a layer's outputs for the linear layers that take them";
  let description = [{
    Makes a layer's forward pass save, besides its outputs, the values that the linear
    layers which take them need for their backward passes: each output whose role has
    `consumer = linear` is also saved, as "<name>.kept", in the storage that the strategy
    gives to `saved consumer(linear)`. So the kernel that makes an output also quantizes
    it. No function restores the saved values: their planes go to the linear layers.

    Constraint: (C1) the symbol is a function of the same module.

    Example:

    ```mlir
    tandem.keep_outputs @rms_norm
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$graph);
  let assemblyFormat = "$graph attr-dict";
}

def Tandem_DecodeOp : Tandem_Op<"decode", [Pure]> {
  let summary = "the real value of a stored tensor";
  let description = [{
    Computes the value of a graph argument to which a strategy has given a storage.

    Constraint: (C1) the result is the logical tensor.

    Example:

    ```mlir
    %0 = tandem.decode %p : !tandem.stored<tensor<?xf32>, #tandem.float<bf16>> -> tensor<?xf32>
    ```
  }];
  let arguments = (ins Tandem_StoredType:$stored);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$stored attr-dict `:` type($stored) `->` type($result)";
  let hasVerifier = 1;
}

def Tandem_EncodeOp : Tandem_Op<"encode", [Pure]> {
  let summary = "a real value, stored";
  let description = [{
    This is the counterpart of `tandem.decode` on a graph's results.

    Constraint: (C1) the operand is the logical tensor.

    Example:

    ```mlir
    %0 = tandem.encode %x : tensor<?xf32> -> !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$value);
  let results = (outs Tandem_StoredType:$stored);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($stored)";
  let hasVerifier = 1;
}

def Tandem_VisibleOp : Tandem_Op<"visible", [Pure]> {
  let summary = "the number that a framework reads where a value is stored";
  let description = [{
    Computes the number that the visible plane of a param or state holds after `value` has been
    stored as its new value: a bf16 or f16 number under most strategies, although kernels know the
    param to more bits. A step can so write the codes that the next forward pass would make from
    the weight itself (`-tandem-add-weight-operand`).

    In a graph, the value and the result are tensors, and the tensor is an argument. In a kernel
    they are single numbers.

    Constraints: (C1) the tensor is a param or a state; (C2) its storage has a visible plane of
    floats of 16 or more bits; (C3) the result is a tensor like the value or, of one that is stored
    in a kernel, f32.

    Example:

    ```mlir
    %v = tandem.visible %new of %param : f32, !tandem.stored<tensor<?xf32>, #tandem.remainder> -> f32
    ```
  }];
  let arguments = (ins AnyType:$value, AnyType:$tensor);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$value `of` $tensor attr-dict `:` type($value) `,` type($tensor) `->` type($result)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

def Tandem_LoadOp : Tandem_Op<"load", [MemoryEffects<[MemRead]>]> {
  let summary = "the value of this element of a stored tensor";
  let description = [{
    Before `-tandem-apply-policy` the value is a real number, written f32; after
    it, the storage's value type under the kernel's policy (f32, a component or
    an expansion).

    Constraint: (C1) the result is f32 or the storage's value type under the
    kernel's policy.

    Example:

    ```mlir
    %p = tandem.load %param : !tandem.stored<tensor<?xf32>, #tandem.float<bf16>> -> f32
    ```
  }];
  let arguments = (ins Tandem_StoredType:$tensor);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$tensor attr-dict `:` type($tensor) `->` type($result)";
  let hasVerifier = 1;
}

def Tandem_StoreOp : Tandem_Op<"store", [MemoryEffects<[MemWrite]>]> {
  let summary = "encodes a value into this element of a stored tensor";
  let description = [{
    Constraints: (C1) the value is f32 or the storage's value type under the
    kernel's policy; (C2) the tensor is a param, a state, an output or saved.

    Example:

    ```mlir
    tandem.store %s, %param : f32, !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>
    ```
  }];
  let arguments = (ins AnyType:$value, Tandem_StoredType:$tensor);
  let assemblyFormat = "$value `,` $tensor attr-dict `:` type($value) `,` type($tensor)";
  let hasVerifier = 1;
}

class Tandem_PlaneOp<string mnemonic, list<Trait> traits> : Tandem_Op<mnemonic, traits> {
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the plane's description in the tensor's storage.
    ::tandem::Plane getPlaneInfo() {
      return getTensor().getType().getStorage().getPlanes()[getPlane()];
    }
    /// Returns ProgramOpInterface::getElementsPerEntry of the plane.
    int64_t getElementsPerEntry();
  }];
}

def Tandem_LoadPlaneOp : Tandem_PlaneOp<"load_plane", [MemoryEffects<[MemRead]>]> {
  let summary = "this element of one plane";
  let description = [{
    Constraints: (C1) the plane exists; (C2) the result is the plane's element
    type, an integer of its width, or a vector of either; (C4) the plane is
    neither a history nor (C5) a transposed copy.

    Example:

    ```mlir
    %hi = tandem.load_plane %param[0] : !tandem.stored<tensor<?xf32>, #tandem.float<bf16>> -> bf16
    ```
  }];
  let arguments = (ins Tandem_StoredType:$tensor, I64Attr:$plane);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$tensor `[` $plane `]` attr-dict `:` type($tensor) `->` type($result)";
}

def Tandem_StorePlaneOp : Tandem_PlaneOp<"store_plane", [MemoryEffects<[MemWrite]>]> {
  let summary = "writes this element of one plane";
  let description = [{
    Constraints: (C1) the plane exists; (C2) the value is the plane's element
    type, an integer of its width, or a vector of either; (C3) the tensor is a
    param, a state, an output or saved; (C4) the plane is not a history. In a transposed
    copy of a matrix, the element at (row, column) is entry column * rows + row.

    Example:

    ```mlir
    tandem.store_plane %hi, %param[0] : bf16, !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>
    ```
  }];
  let arguments = (ins AnyType:$value, Tandem_StoredType:$tensor, I64Attr:$plane);
  let assemblyFormat = "$value `,` $tensor `[` $plane `]` attr-dict `:` type($value) `,` type($tensor)";
}

def Tandem_LoadHistoryOp : Tandem_PlaneOp<"load_history", [MemoryEffects<[MemRead]>]> {
  let summary = "the largest value that a history keeps when it gets another";
  let description = [{
    Returns the largest value in the tensor's entry of a history, without the oldest one, which the
    next `tandem.push_history` drops. Any value that is not a positive finite f32 counts as 0.

    Constraint: (C1) the plane exists and is a history.

    Example:

    ```mlir
    %m = tandem.load_history %w[3] : !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, history = 16>>
    ```
  }];
  let arguments = (ins Tandem_StoredType:$tensor, I64Attr:$plane);
  let results = (outs I32:$result);
  let assemblyFormat = "$tensor `[` $plane `]` attr-dict `:` type($tensor)";
}

def Tandem_PushHistoryOp : Tandem_PlaneOp<"push_history", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "puts a value into a history, which forgets its oldest one";
  let description = [{
    The value, the bits of an f32, becomes the first one in the history. It is the same
    for all elements of the tensor, as `tandem.reduce` over the tensor gives it, and is
    added once a step, after all elements have been written.

    Constraints: (C1) the plane exists and is a history; (C2) the tensor is a param,
    a state, an output or saved.

    Example:

    ```mlir
    tandem.push_history %amax, %w[3] : !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, history = 16>>
    ```
  }];
  let arguments = (ins I32:$value, Tandem_StoredType:$tensor, I64Attr:$plane);
  let assemblyFormat = "$value `,` $tensor `[` $plane `]` attr-dict `:` type($tensor)";
}

def Tandem_SaturationOp : Tandem_Op<"saturation", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "counts the elements that were stored as the largest number";
  let description = [{
    Adds 1 to a sum over the tensor for each element whose code, as this kernel has
    stored it, stands for the code's largest magnitude; FP8-LM's automatic scaling uses
    this count. The operation follows the store and becomes a `tandem.metric`.

    Constraint: (C1) the storage has codes: #tandem.scaled, #tandem.coded or #tandem.working.

    Example:

    ```mlir
    tandem.saturation %w : !tandem.stored<tensor<?xf32>, #tandem.coded<#scaled.float<f8E4M3FN>>>
    ```
  }];
  let arguments = (ins Tandem_StoredType:$tensor);
  let assemblyFormat = "$tensor attr-dict `:` type($tensor)";
  let hasVerifier = 1;
}

def Tandem_MeasureUpdateOp : Tandem_Op<"measure_update", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "measures how much of an intended update reached the stored value";
  let description = [{
    With D the intended update and D_eff the change that this kernel's store made to the
    stored value ((hi' - hi) + (lo' - lo), in f64), adds to four sums over the tensor:
    D * D_eff, D * D, the number of elements with D != 0 and D_eff = 0, and the number
    with D != 0 (Yu et al., *Collage*, section 3). A kernel with several params adds the
    values of all of them to the same sums, element by element.

    Example:

    ```mlir
    tandem.measure_update %d, %param : f64, !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>
    ```
  }];
  let arguments = (ins F64:$intended, Tandem_StoredType:$tensor);
  let assemblyFormat = "$intended `,` $tensor attr-dict `:` type($intended) `,` type($tensor)";
}

def Tandem_MetricOp : Tandem_Op<"metric", [MemoryEffects<[MemWrite]>]> {
  let summary = "adds this element's value to a sum of the launch";
  let description = [{
    The sum over a tensor's elements is a balanced binary tree over the index,
    neighbours first, padded with -0.0 to a power of two, in f64: the same for
    every width, chunk size and thread count.

    Example:

    ```mlir
    tandem.metric %x[0] : f64
    ```
  }];
  let arguments = (ins AnyTypeOf<[F64, VectorOfAnyRankOf<[F64]>]>:$value, I64Attr:$index);
  let assemblyFormat = "$value `[` $index `]` attr-dict `:` type($value)";
}

def Tandem_ReduceOp : Tandem_Op<"reduce", [Pure,
    TypesMatchWith<"the result is an element", "value", "result",
                   "::mlir::getElementTypeOrSelf($_self)">]> {
  let summary = "the largest or smallest value, or the sum, of many elements";
  let description = [{
    Reduces over the `group` consecutive elements of the unsharded tensor to which this element
    belongs, over all elements of the tensor, over those of all tensors of the launch (`model`), or
    over those of this element's `row`, `column` or `block`. Elements beyond the tensor's end do not
    take part. Maxima and minima are of unsigned integers, or of f32 with the semantics of
    arith.maximumf and arith.minimumf: a NaN among the elements is the result, and -0 is less than
    +0; `-tandem-split-phases` turns the latter into integers. A sum is a balanced binary tree over
    the index, neighbours first, padded to a power of two with -0.0, every addition rounded to f32;
    over the model, such a tree over the tensors' sums. In a kernel of matrices a value with `per
    row` or `per column` counts once for each row or column of the tensor, also if they all have the
    same value, and a sum of elements runs along the rows first.

    The result is the same for all elements that take part, so that after
    `-tandem-widen` the result of a group is a scalar. A reduction over more than a
    group ends a phase; see `-tandem-split-phases`.

    Constraints: (C1) a group is a power of two from 2 to 256, and no smaller than the kernel's
    width; (C2) only the scope `group` has a `group`; (C3) a sum is of f32 and over more than a
    group or a block, a maximum or minimum of i32, or of f32 and over more than a group or a block;
    (C4) rows and columns belong to a kernel of matrices, blocks to one that has them; (C5) a value
    that counts once per row or column is reduced over a tensor or the model; (C6) a reduction over
    more than a group is in a `tandem.kernel`.

    Example:

    ```mlir
    %amax = tandem.reduce max %m group(128) : i32
    %norm = tandem.reduce sum %square over tensor : f32
    %total = tandem.reduce sum %entry over tensor per row : f32
    ```
  }];
  let arguments = (ins Tandem_ReduceKind:$kind,
                       AnyTypeOf<[I32, F32, VectorOfAnyRankOf<[I32]>]>:$value,
                       DefaultValuedAttr<I64Attr, "0">:$group,
                       DefaultValuedAttr<Tandem_Granularity, "Granularity::group">:$scope,
                       DefaultValuedAttr<Tandem_Granularity, "Granularity::element">:$per);
  let results = (outs AnyTypeOf<[I32, F32]>:$result);
  let assemblyFormat = [{
    $kind $value (`group` `(` $group^ `)`)? (`over` $scope^)? (`per` $per^)? attr-dict
    `:` type($value)
  }];
  let builders = [
    OpBuilder<(ins "ReduceKind":$kind, "Value":$value, "int64_t":$group)>,
    OpBuilder<(ins "ReduceKind":$kind, "Value":$value, "Granularity":$scope,
                   CArg<"Granularity", "Granularity::element">:$per)>,
  ];
  let extraClassDeclaration = [{
    /// Returns whether the result exists only when a launch has ended.
    bool endsPhase() { return getScope() != Granularity::group; }
  }];
  let hasVerifier = 1;
}

def Tandem_PartialOp : Tandem_Op<"partial", [HasParent<"LaunchOp">, MemoryEffects<[MemWrite]>]> {
  let summary = "this element's part of a reduction that ends with the launch";
  let description = [{
    `-tandem-split-phases` creates it from a `tandem.reduce` over more than a group, in the launch
    of the reduction's phase. The reductions of all launches are numbered together.

    Constraints: (C1) a sum is of f32 and over no block, a maximum or minimum of i32; (C2)
    the scope is not a group; (C3) it is a row, column or block only in the elements of a
    matrix.

    Example:

    ```mlir
    tandem.partial sum %square[0] over tensor : f32
    ```
  }];
  let arguments = (ins Tandem_ReduceKind:$kind,
                       AnyTypeOf<[I32, F32, VectorOfAnyRankOf<[I32, F32]>]>:$value,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$index, Tandem_Granularity:$scope);
  let assemblyFormat = "$kind $value `[` $index `]` `over` $scope attr-dict `:` type($value)";
  let extraClassDeclaration = [{
    /// Returns whether the rows of a tile are reduced together, column by column.
    bool isDownColumns() {
      return getScope() == Granularity::column || getScope() == Granularity::block;
    }
  }];
  let hasVerifier = 1;
}

def Tandem_ReductionResultOp : Tandem_Op<"reduction_result", [HasParent<"LaunchOp">, Pure]> {
  let summary = "the result of a reduction of an earlier phase";
  let description = [{
    The reduction was over this element's tensor or over the model, so that all elements of
    the tensor have the same result.

    Example:

    ```mlir
    %norm = tandem.reduction_result[0] : f32
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$index);
  let results = (outs AnyTypeOf<[I32, F32]>:$result);
  let assemblyFormat = "`[` $index `]` attr-dict `:` type($result)";
}

def Tandem_LoadReductionResultOp : Tandem_Op<"load_reduction_result", [HasParent<"LaunchOp">, MemoryEffects<[MemRead]>]> {
  let summary = "the result of an earlier phase's reduction over a row, column or block";
  let description = [{
    The reduction was over this element's row, column or block, so that the elements of a tensor
    have different results; a result that they all share is a `tandem.reduction_result`.

    Constraints: (C1) the scope is a row, a column or a block; (C2) a launch per row,
    column or block reads its own.

    Example:

    ```mlir
    %sum = tandem.load_reduction_result[0] over row : f32
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$index, Tandem_Granularity:$scope);
  let results = (outs AnyTypeOf<[I32, F32, VectorOfAnyRankOf<[I32, F32]>]>:$result);
  let assemblyFormat = "`[` $index `]` `over` $scope attr-dict `:` type($result)";
  let extraClassDeclaration = [{
    /// Returns whether the elements that are computed together, which are those of a
    /// row within a block, each have their own result.
    bool differsInRow() {
      return getScope() == Granularity::column ||
             getOperation()->getParentOfType<LaunchOp>().getPer() != Granularity::element;
    }
  }];
  let hasVerifier = 1;
}

def Tandem_SizeOp : Tandem_Op<"size", [Pure]> {
  let summary = "the number of elements, rows or columns of this element's tensor";
  let description = [{
    If a launch has a shard of the tensor, those of the unsharded tensor are counted.

    Constraint: (C1) it counts elements, rows or columns.

    Example:

    ```mlir
    %count = tandem.size : i64
    %rows = tandem.size per row : i64
    ```
  }];
  let arguments = (ins DefaultValuedAttr<Tandem_Granularity, "Granularity::element">:$per);
  let results = (outs I64:$result);
  let assemblyFormat = "(`per` $per^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Tandem_SetFlagOp : Tandem_Op<"set_flag", [MemoryEffects<[MemWrite]>]> {
  let summary = "raises a flag of the launch where a condition holds";
  let description = [{
    The flag is raised if the condition holds for any element of any tensor.
    `-tandem-check-gradients` raises flag 0 for gradients that hold a NaN or an
    infinity.

    Constraint: (C1) the flag is a bit number from 0 to 31.

    Example:

    ```mlir
    tandem.set_flag %is_not_finite[0] : i1
    ```
  }];
  let arguments = (ins AnyTypeOf<[I1, VectorOfAnyRankOf<[I1]>]>:$condition,
                       ConfinedAttr<I64Attr, [IntNonNegative, IntMaxValue<31>]>:$flag);
  let assemblyFormat = "$condition `[` $flag `]` attr-dict `:` type($condition)";
}

def Tandem_RandomBitsOp : Tandem_Op<"random_bits", [MemoryEffects<[MemRead]>]> {
  let summary = "16 bits of this element that decide how it is rounded";
  let description = [{
    Returns half-word `element mod 8` (low half first) of Philox4x32-10
    (Salmon et al. 2011) with key = seed and counter = (element div 8 as 64 bits, tensor
    key, step), zero-extended. `element` counts in the unsharded tensor. After widening, the result
    holds the bits of consecutive elements. With `dither` the bits fill [0, 2^16) evenly
    from step to step (docs/Numerics.md, "Dither"), so that errors cancel.

    Example:

    ```mlir
    %r = tandem.random_bits %param seed(%lo, %hi) step(%t) : !tandem.stored<tensor<?xf32>, #tandem.float<bf16, stochastic>> -> i32
    ```
  }];
  let arguments = (ins Tandem_StoredType:$tensor, I32:$seedLow, I32:$seedHigh, I32:$step, UnitAttr:$dither);
  let results = (outs AnyTypeOf<[I32, VectorOfRankAndType<[1], [I32]>]>:$result);
  let assemblyFormat = [{
    (`dither` $dither^)? $tensor `seed` `(` $seedLow `,` $seedHigh `)` `step` `(`
    $step `)` attr-dict `:` type($tensor) `->` type($result)
  }];
}

def Tandem_Table : Attr<CPred<"::llvm::isa<::mlir::DenseElementsAttr>($_self)">,
    "dense constant"> {
  let storageType = "::mlir::DenseElementsAttr";
  let returnType = "::mlir::DenseElementsAttr";
  let convertFromStorage = "$_self";
}

def Tandem_LookupOp : Tandem_Op<"lookup",
    !listconcat([Pure, SameOperandsAndResultShape], ElementwiseMappable.traits)> {
  let summary = "the entry of a table that bytes select";
  let description = [{
    `-tandem-tabulate` substitutes it for a computation that depends only on bytes. A
    table with two dimensions is indexed first by a byte that the elements of a group
    share.

    Constraints: (C1) there are one or two indices, and the table has 256 entries for
    each; (C2) the result is of the table's element type.

    Example:

    ```mlir
    %x = tandem.lookup[%code] in dense<1.0> : tensor<256xf32> : i8 -> f32
    %y = tandem.lookup[%exponent, %code] in dense<1.0> : tensor<256x256xf32> : i8, i8 -> f32
    ```
  }];
  let arguments = (ins Variadic<AnyTypeOf<[I8, VectorOfAnyRankOf<[I8]>]>>:$indices, Tandem_Table:$table);
  let results = (outs AnyTypeOf<[F32, VectorOfAnyRankOf<[F32]>]>:$result);
  let assemblyFormat = "`[` $indices `]` `in` $table attr-dict `:` type($indices) `->` type($result)";
  let hasVerifier = 1;
}

#endif // TANDEM_DIALECT_TANDEM_IR_TANDEMOPS_TD
