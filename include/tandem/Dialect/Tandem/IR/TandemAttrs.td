//===- TandemAttrs.td - Roles, policies and storages ------*- tablegen -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEM_IR_TANDEMATTRS_TD
#define TANDEM_DIALECT_TANDEM_IR_TANDEMATTRS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "tandem/Dialect/Tandem/IR/StorageInterface.td"
include "tandem/Dialect/Tandem/IR/TandemDialect.td"
include "tandem/Support/RoundingMode.td"

//===----------------------------------------------------------------------===//
// Enumerations
//===----------------------------------------------------------------------===//

class Tandem_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::tandem";
}

def Tandem_RoleKind : Tandem_Enum<"RoleKind", "what a graph argument is", [
  I32EnumAttrCase<"param", 0>, I32EnumAttrCase<"grad", 1>,
  I32EnumAttrCase<"state", 2>, I32EnumAttrCase<"hyper", 3>,
  I32EnumAttrCase<"step", 4>, I32EnumAttrCase<"seed", 5>,
  I32EnumAttrCase<"input", 6>, I32EnumAttrCase<"output", 7>,
  I32EnumAttrCase<"saved", 8>, I32EnumAttrCase<"restored", 9>,
  I32EnumAttrCase<"sent", 10>, I32EnumAttrCase<"received", 11>]>;

def Tandem_Consumer : Tandem_Enum<"Consumer", "which kind of layer takes a tensor", [
  I32EnumAttrCase<"nonlinear", 0>, I32EnumAttrCase<"linear", 1>,
  I32EnumAttrCase<"opaque", 2>]>;

def Tandem_Flow : Tandem_Enum<"Flow", "which way a tensor goes from layer to layer", [
  I32EnumAttrCase<"activation", 0>, I32EnumAttrCase<"gradient", 1>]>;

def Tandem_Moment : Tandem_Enum<"Moment", "which moment of the gradient a state estimates, or that it is the average of weights", [
  I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"first", 1>, I32EnumAttrCase<"second", 2>,
  I32EnumAttrCase<"average", 3>, I32EnumAttrCase<"slow", 4>]>;

def Tandem_Domain : Tandem_Enum<"Domain", "the values that a role may take", [
  I32EnumAttrCase<"any", 0>, I32EnumAttrCase<"nonneg", 1>,
  I32EnumAttrCase<"unit", 2>, I32EnumAttrCase<"epsilon", 3>]>;

def Tandem_Policy : Tandem_Enum<"Policy", "how the body of a kernel is computed", [
  I32EnumAttrCase<"component", 0>, I32EnumAttrCase<"f32", 1>]>;

def Tandem_ReduceKind : Tandem_Enum<"ReduceKind", "what a reduction makes of its elements", [
  I32EnumAttrCase<"max", 0>, I32EnumAttrCase<"min", 1>, I32EnumAttrCase<"sum", 2>]>;

def Tandem_Granularity : Tandem_Enum<"Granularity",
    "the elements that share one value, meet in a reduction or are one unit of a launch", [
  I32EnumAttrCase<"element", 0>, I32EnumAttrCase<"row", 1>, I32EnumAttrCase<"column", 2>,
  I32EnumAttrCase<"block", 3>, I32EnumAttrCase<"group", 4>, I32EnumAttrCase<"tensor", 5>,
  I32EnumAttrCase<"model", 6>]>;

def Tandem_LaunchRole : Tandem_Enum<"LaunchRole", "what a launch does for its step", [
  I32EnumAttrCase<"main", 0>, I32EnumAttrCase<"reduction", 1>,
  I32EnumAttrCase<"epilogue", 2>]>;

//===----------------------------------------------------------------------===//
// Role and compute policy
//===----------------------------------------------------------------------===//

class Tandem_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Tandem_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def Tandem_RoleAttr : Tandem_Attr<"Role", "role"> {
  let summary = "the kind and the name of a graph's argument";
  let description = [{
    `kind` is `param`, `grad`, `state` (tensors of an optimizer), `input`, `output` (tensors of a
    layer; an output is a destination, whose old value nothing reads), `saved`, `restored` (values
    that a forward pass leaves for its backward pass by `tandem.save` and `tandem.restore`), `sent`,
    `received` (the operands and results of a `tandem.external`, whose name is `external`, in the
    `format` in which the host finds and leaves them), `hyper`
    (f64 or f32 scalar), `step` or `seed` (i64 scalars). Strategies assign storages by `moment`,
    which says which moment of the gradient a state estimates, `first` or `second`, that it is a
    `slow` first moment, which one step changes by less than half a unit of a 16-bit float, or that
    it is the `average` of a param over steps; by `consumer`, which says for a saved
    tensor, an input or an output whether `nonlinear` layers take it, a `linear` one (a matrix
    product), or one that is `opaque` to Tandem; and by `flow`, which says whether an input or
    output is an `activation`, or a `gradient` on its way back. `domain` restricts the values:
    `nonneg`, `unit` ([0, 1)), or `epsilon` (0, or positive and not rounding to zero in the
    component format). A hyper may have a `default`. For a tensor with one dimension in a graph of
    matrices, `per` says whether it has an entry for each `row` or for each `column`; a matrix has
    one `per` `element`.

    ```mlir
    #tandem.role<state "exp_avg_sq", moment = second, domain = nonneg>
    #tandem.role<state "row_var", moment = second, domain = nonneg, per = row>
    #tandem.role<state "exp_avg_slow", moment = slow>
    #tandem.role<state "ema", moment = average>
    #tandem.role<input "x">
    #tandem.role<output "y", consumer = linear>
    #tandem.role<output "dx", flow = gradient>
    #tandem.role<saved "x", consumer = linear>
    #tandem.role<sent "direction", external = "orthogonalize", format = bf16>
    #tandem.role<hyper "lr", domain = nonneg, default = 1.0e-3>
    ```

    Constraint: (C1) what is sent or received, and nothing else, has an external and a format.
  }];
  let genVerifyDecl = 1;
  let parameters = (ins "RoleKind":$kind, "StringAttr":$name,
                        DefaultValuedParameter<"Moment", "Moment::none">:$moment,
                        DefaultValuedParameter<"Domain", "Domain::any">:$domain,
                        OptionalParameter<"FloatAttr">:$defaultValue,
                        DefaultValuedParameter<"Granularity", "Granularity::element">:$per,
                        DefaultValuedParameter<"Consumer", "Consumer::nonlinear">:$consumer,
                        DefaultValuedParameter<"Flow", "Flow::activation">:$flow,
                        OptionalParameter<"StringAttr">:$external,
                        OptionalParameter<"Type">:$format);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// Returns whether the argument is a tensor.
    bool isTensor() const {
      return getKind() < RoleKind::hyper || getKind() > RoleKind::seed;
    }
    /// Returns whether a kernel writes it and nothing reads the old value (output,
    /// saved, sent).
    bool isDestination() const {
      return getKind() == RoleKind::output || getKind() == RoleKind::saved ||
             getKind() == RoleKind::sent;
    }
    /// Returns whether it belongs to a layer (input, output, saved, restored).
    bool isOfLayer() const {
      return getKind() > RoleKind::seed && getKind() < RoleKind::sent;
    }
    /// Returns whether a kernel writes it (param, state and destinations).
    bool isUpdated() const {
      return getKind() == RoleKind::param || getKind() == RoleKind::state ||
             isDestination();
    }
    /// Return whether a kernel reads or writes a plane of the tensor.
    bool readsPlane(const Plane &plane) const {
      return plane.isPersistent || (plane.isRead && !isDestination());
    }
    bool writesPlane(const Plane &plane) const {
      return isUpdated() && plane.isWritten;
    }
    /// Returns the units that a plane of the tensor has entries for: elements, rows or
    /// columns (or several rows or columns each), groups or blocks of elements, or the
    /// tensor.
    Granularity getGranularity(const Plane &plane) const;
  }];
}

def Tandem_RolesAttr : TypedArrayAttrBase<Tandem_RoleAttr, "array of #tandem.role">;

def Tandem_ComputeAttr : Tandem_Attr<"Compute", "compute"> {
  let summary = "the precision in which the body of a kernel is computed";
  let description = [{
    Under `component`, every graph operation is computed in f32 and rounded once to the
    component format (Collage, section 4). Under `f32`, stored values are decoded to
    f32, the graph runs in f32, and results are encoded once.

    ```mlir
    #tandem.compute<component, bf16>
    #tandem.compute<f32, f32>
    ```

    Constraint: (C1) a component policy names bf16, f16 or f32; an f32 policy,
    f32.
  }];
  let parameters = (ins "Policy":$policy, "Type":$format);
  let assemblyFormat = "`<` $policy `,` $format `>`";
  let genVerifyDecl = 1;
}

//===----------------------------------------------------------------------===//
// Storages
//===----------------------------------------------------------------------===//

/// A storage; `own` lists the interface methods with a default that it overrides.
class Tandem_Storage<string name, string mnemonic, list<string> own = []>
    : Tandem_Attr<name, mnemonic, [DeclareAttrInterfaceMethods<Tandem_StorageInterface, own>]> {
  let genVerifyDecl = 1;
}

def Tandem_FloatStorageAttr : Tandem_Storage<"FloatStorage", "float",
    ["getRounding", "getNearest", "getAverageStorage", "getPlaneSum", "decay"]> {
  let summary = "one plane of plain floats";
  let description = [{
    Rounds to `format`: to `nearest`, ties to even, or by 16 bits that decide which
    of the two numbers around a value is taken. `stochastic` takes them from
    Philox4x32-10, keyed by seed, tensor, step and element; `dither` takes bits that
    are even in time, so that the errors of successive steps cancel (see
    `tandem.random_bits`). A state or weight that changes by less than half a unit
    in a step stays where it is under `nearest` and follows under the other two.

    ```mlir
    #tandem.float<bf16>
    #tandem.float<bf16, stochastic>
    #tandem.float<bf16, dither>
    ```

    Constraints: (C1) bf16, f16, f32, f8E4M3FN or f8E5M2; (C2) stochastic
    rounding and dither are to bf16 or f16; (C3) the rounding is not toward_zero.
  }];
  let parameters = (ins "Type":$format, Tandem_RoundingMode:$rounding);
  let assemblyFormat = "`<` $format (`,` $rounding^)? `>`";
}

def Tandem_ExpansionStorageAttr : Tandem_Storage<"ExpansionStorage", "expansion",
    ["getParts", "getPlaneSum", "getF32Equivalent", "accumulate", "decay"]> {
  let summary = "one plane per component of an expansion";
  let description = [{
    The leading component is the visible value (Yu et al., *Collage*, section 4). An f32
    is encoded as hi = fl(x), lo = fl(x - hi), or lo = +0 if hi is not finite, and
    decoded as RN32(hi + lo). A third component is the rounded remainder of the first
    two. Under the component policy a mixed expansion narrows each result.

    ```mlir
    #tandem.expansion<bf16 x 2>
    #tandem.expansion<f16 x 3>
    #tandem.expansion<bf16, f8E5M2>
    ```
  }];
  let parameters = (ins "mcf::ExpansionType":$expansion);
  let hasCustomAssemblyFormat = 1;
}

def Tandem_KahanStorageAttr : Tandem_Storage<"KahanStorage", "kahan",
    ["getParts", "getPlaneSum", "getF32Equivalent", "accumulate", "decay"]> {
  let summary = "a value and its Kahan compensation";
  let description = [{
    The value is a plain float; the second plane holds the part of earlier updates not
    yet added (Kahan 1965; Zamirai et al. 2020). The storage exists only under the
    component policy.

    ```mlir
    #tandem.kahan<bf16>
    ```

    Constraint: (C1) bf16 or f16.
  }];
  let parameters = (ins "Type":$format);
  let assemblyFormat = "`<` $format `>`";
}

def Tandem_MasterStorageAttr : Tandem_Storage<"MasterStorage", "master", ["getAverageStorage"]> {
  let summary = "an f32 master copy and a rounded visible copy";
  let description = [{
    Kernels write both; the visible value is fl(master) (Micikevicius et al. 2018;
    Collage's option D). Where the visible copy differs from fl(master),
    code outside of the kernel has written it since the last step, and the copy is the
    value; elsewhere the master is.

    ```mlir
    #tandem.master<bf16>
    ```

    Constraint: (C1) the visible format is bf16 or f16.
  }];
  let parameters = (ins "Type":$format);
  let assemblyFormat = "`<` $format `>`";
}

def Tandem_RemainderStorageAttr : Tandem_Storage<"RemainderStorage", "remainder"> {
  let summary = "an f32 split into a visible bf16 and 16 remaining bits";
  let description = [{
    u = the f32's bits (NaN canonical), hi = (u + 0x8000) >> 16, lo = u &
    0xFFFF; decode ((hi - (lo >> 15)) mod 2^16) << 16 | lo: exact for every
    f32. hi is the bf16 nearest to the value, ties away from zero (two patterns
    would share a code under ties to even). A zero hi with lo >= 0x8000, which no
    encoding makes, is a zero that code outside of the kernel has written, and decodes to it.

    ```mlir
    #tandem.remainder
    ```
  }];
  let genVerifyDecl = 0;
}

def Tandem_ResidualStorageAttr : Tandem_Storage<"ResidualStorage", "residual",
    ["getRounding", "getNearest"]> {
  let summary = "a rounded visible copy and a residual in fractions of its ulp";
  let description = [{
    hi = fl(x); with h half a unit in the last place of hi and L the integer's
    largest value, the residual is L * (x - hi) / h to the nearest integer, ties
    to even, every operation rounded to f32. It is 0 if hi is not finite. Decoding: hi +
    (residual / L) * h (FlashOptim's 24- and 32-bit weights). With `stochastic` or
    `dither` bits decide which of the two integers around it the residual becomes; the
    visible copy is rounded to nearest all the same.

    ```mlir
    #tandem.residual<bf16, i8>
    #tandem.residual<bf16, i8, dither>
    ```

    Constraints: (C1) the visible format is bf16 or f16; (C2) the residual is
    i8 or i16; (C3) the rounding is not toward_zero.
  }];
  let parameters = (ins "Type":$format, "Type":$residual, Tandem_RoundingMode:$rounding);
  let assemblyFormat = "`<` $format `,` $residual (`,` $rounding^)? `>`";
}

def Tandem_ScaledStorageAttr : Tandem_Storage<"ScaledStorage", "scaled",
    ["getRounding", "isSaturated", "getNearest", "withFreshScales", "withGivenScales",
     "withoutHistory"]> {
  let summary = "codes of a few bits, and a scale for each group of elements";
  let description = [{
    The elements of a `group` share a scale: a number of consecutive elements of the unsharded
    row-major tensor (the last group may be shorter), all of the `tensor`, those of each `row`, or a
    block of rows and columns, such as `128x128` (the last blocks may be smaller). Rows and blocks
    belong to matrices, in whose rows groups begin anew. A store computes the scale from the largest
    finite magnitude that it stores in the group, rounded to the type `scale` by `recipe`; see the
    `scaled` dialect.

    With `history = N` (delayed scaling) a store uses the scale that the previous store
    has computed from the largest magnitudes of the last N stores, 2^`margin` times as
    large. So it needs no pass over memory to find a scale, and values that have grown
    beyond the code's range saturate. Two more planes hold this state: `.next_scale`
    and, newest first, `.history`.

    With the recipe `given` the caller writes the scale to the plane, and no kernel
    writes it.

    With `transposed = true` a store also writes the codes of a matrix to a plane `.transposed`,
    which holds the matrix's transpose in rows, for matrix products that sum along rows. No kernel
    reads this plane; a storage that is read does not have it.

    With `tensor_scale = true` the scales of groups are f8E4M3FN, in multiples of an f32 for the
    tensor in a further plane, `.tensor_scale`. Both are made as Transformer Engine makes those of
    NVFP4: with L the code's largest number and A the tensor's largest finite magnitude, e = 448 L / A
    (1 if A is 0), the tensor's scale is 1 / e, and a group's is its largest finite magnitude times
    e / L, rounded to nearest, or up for codes that round by bits.

    ```mlir
    #tandem.scaled<#scaled.minifloat<exponent = 2, mantissa = 1, specials = none>, group = 16, scale = f8E4M3FN, tensor_scale = true>
    #tandem.scaled<#scaled.float<f8E4M3FN>, group = 128, scale = bf16>
    #tandem.scaled<#scaled.float<f8E4M3FN>, group = 32, scale = f8E8M0FNU, recipe = pow2>
    #tandem.scaled<#scaled.float<f8E4M3FN>, group = row, scale = f32>
    #tandem.scaled<#scaled.float<f8E4M3FN>, group = 128x128, scale = f32>
    #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, recipe = pow2>
    #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, history = 16, margin = 1>
    #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, recipe = given>
    #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, transposed = true>
    ```

    Constraints: (C1) the group is a power of two from 16 to 256, a square block of that size, a row
    or the tensor; (C2) the scale is f32, bf16, f16 or f8E8M0FNU; (C3) f8E8M0FNU takes no `current`;
    (C4) a history is of 1 to 1024 stores, (C5) of a whole tensor, (C6) of a scale that is not given
    and (C7) of a code without a range; (C8) a margin belongs to a history and is 0 to 16; (C9) a
    transposed copy is of codes with one plane of whole bytes and a scale for the tensor; (C10) a code without NaN
    has groups of consecutive elements and a scale by `current` or `pow2` that is not f16; (C11) a
    tensor's scale is for groups of consecutive elements with an f8E4M3FN scale by `current`, which
    nothing else has, of a code that clamps and has no range.
  }];
  let parameters = (ins "::tandem::scaled::CodeAttrInterface":$code, "Group":$group,
                        "Type":$scale,
                        DefaultValuedParameter<"::tandem::scaled::Recipe",
                                               "::tandem::scaled::Recipe::current">:$recipe,
                        DefaultValuedParameter<"int64_t", "0">:$history,
                        DefaultValuedParameter<"int64_t", "0">:$margin,
                        DefaultValuedParameter<"bool", "false">:$transposed,
                        DefaultValuedParameter<"bool", "false">:$tensor_scale);
  let assemblyFormat = [{
    `<` custom<Code>($code) `,` struct(custom<Group>($group), $scale, $recipe, $history, $margin, $transposed, $tensor_scale) `>`
  }];
  let extraClassDeclaration = [{
    /// The smallest and the largest number of elements of a group in a row.
    static constexpr int64_t minGroup = 16, maxGroup = 256;
  }];
}

def Tandem_CodedStorageAttr : Tandem_Storage<"CodedStorage", "coded",
    ["getRounding", "isSaturated", "getNearest"]> {
  let summary = "codes of a few bits without a scale";
  let description = [{
    Stores what `#tandem.scaled` stores under a scale of 1, but without the scale. It is
    for numbers that are known to fit, and for trying number formats.

    ```mlir
    #tandem.coded<#scaled.minifloat<exponent = 8, mantissa = 3, specials = ieee, rounding = toward_zero>>
    ```

    Constraint: (C1) the code has a NaN and no range for a group to stretch.
  }];
  let parameters = (ins "::tandem::scaled::CodeAttrInterface":$code);
  let assemblyFormat = "`<` custom<Code>($code) `>`";
}

def Tandem_MaskedStorageAttr : Tandem_Storage<"MaskedStorage", "masked",
    ["getRounding", "getNearest"]> {
  let summary = "floats that hold only numbers of a code";
  let description = [{
    One plane of the format. Each value is what `#tandem.coded` with the same code
    would store and decode again, rounded to nearest in the format. So a computation
    sees the precision of the code while its arrays stay what a framework computes
    with: the masks of *To FP8 and Back Again* (section 3.2).

    ```mlir
    #tandem.masked<bf16, #scaled.minifloat<exponent = 8, mantissa = 3, specials = ieee, rounding = toward_zero>>
    ```

    Constraints: (C1) the format is f32, bf16 or f16; (C2) the code has a NaN and
    no range for a group to stretch.
  }];
  let parameters = (ins "Type":$format, "::tandem::scaled::CodeAttrInterface":$code);
  let assemblyFormat = "`<` $format `,` custom<Code>($code) `>`";
}

def Tandem_WorkingStorageAttr : Tandem_Storage<"WorkingStorage", "working",
    ["getRounding", "isSaturated", "getNearest", "getAverageStorage", "withFreshScales",
     "withoutHistory"]> {
  let summary = "codes, and a visible copy of what they decode to";
  let description = [{
    The planes are those of `codes` and, before them, `.working`, which holds the rounded value for
    a framework that computes with it. If the copy differs from the rounded value of the codes, code
    outside of the kernel has written it since the last step, and the copy is the value; otherwise
    the codes are. So a step uses values that were loaded, clamped or averaged in the copy, and
    codes keep the precision that the copy has no bits for.

    ```mlir
    #tandem.working<bf16, #tandem.scaled<#scaled.float<f8E4M3FN>, group = 128, scale = f32>>
    ```

    Constraints: (C1) the copy is bf16 or f16; (C2) `codes` has no visible plane that frameworks
    compute with, one of 16 bits or more; (C3) `codes` has no transposed copy.
  }];
  let parameters = (ins "Type":$format, "StorageAttrInterface":$codes);
  let assemblyFormat = "`<` $format `,` $codes `>`";
}

#endif // TANDEM_DIALECT_TANDEM_IR_TANDEMATTRS_TD
