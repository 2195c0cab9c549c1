//===- MCFOps.td - Operations on multi-component floats ----*- tablegen -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_MCF_IR_MCFOPS_TD
#define TANDEM_DIALECT_MCF_IR_MCFOPS_TD

include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "tandem/Dialect/MCF/IR/MCFAttrs.td"
include "tandem/Dialect/MCF/IR/MCFTypes.td"

class MCF_Op<string mnemonic, list<Trait> traits = []>
    : Op<MCF_Dialect, mnemonic, traits # [Pure, Elementwise, Scalarizable, Vectorizable, Tensorizable]>;

/// The operand `name` has the leading component's format, in the result's shape.
class LeadingOf<string expansion, string name>
    : TypesMatchWith<"'" # name # "' has the leading component's type of '" # expansion # "'",
                     expansion, name, "::tandem::mcf::getLeadingLike($_self)">;

//===----------------------------------------------------------------------===//
// Error-free transforms of two components
//===----------------------------------------------------------------------===//

class MCF_PairOp<string mnemonic, list<Trait> traits = []>
    : MCF_Op<mnemonic, traits # [LeadingOf<"result", "lhs">, LeadingOf<"result", "rhs">]> {
  let arguments = (ins MCF_ComponentLike:$lhs, MCF_ComponentLike:$rhs);
  let results = (outs MCF_ExpansionLike:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def MCF_FastTwoSumOp : MCF_PairOp<"fast_two_sum"> {
  let summary = "sum and its rounding error, for |lhs| >= |rhs|";
  let description = [{
    With `granted`, the algorithm guarantees that |lhs| >= |rhs| or lhs = 0:

    ```
    x = lhs + rhs;  y = rhs - (x - lhs)
    ```

    x + y = lhs + rhs exactly if the guarantee holds and x is finite, subnormals
    included (Dekker 1971). If it does not hold, the same three operations are executed.
    Without `granted` the operation means `mcf.two_sum`.

    Constraint: (C1) the result has two components of one format.

    Example:

    ```mlir
    %s = mcf.fast_two_sum %a, %b granted : !mcf.expansion<bf16 x 2>
    ```
  }];
  let arguments = (ins MCF_ComponentLike:$lhs, MCF_ComponentLike:$rhs, UnitAttr:$granted);
  let assemblyFormat = "$lhs `,` $rhs (`granted` $granted^)? attr-dict `:` type($result)";
}

def MCF_TwoSumOp : MCF_PairOp<"two_sum"> {
  let summary = "sum and its rounding error, in any order";
  let description = [{
    ```
    x = a + b;  b' = x - a;  a' = x - b';  y = (a - a') + (b - b')
    ```

    x + y = a + b exactly whenever no intermediate overflows (Knuth; Moller).

    Constraint: (C1) the result has two components of one format.

    Example:

    ```mlir
    %s = mcf.two_sum %a, %b : !mcf.expansion<bf16 x 2>
    ```
  }];
}

def MCF_TwoProdOp : MCF_PairOp<"two_prod"> {
  let summary = "product and its rounding error, by fma";
  let description = [{
    ```
    x = a * b;  y = fma(a, b, -x)
    ```

    The fma rounds once from the exact value on every target. x + y = a * b
    exactly if e_a + e_b >= emin + p - 1 and x is finite (Boldo and Daumas);
    otherwise at most half the smallest subnormal is lost.

    Constraint: (C1) the result has two components of one format.

    Example:

    ```mlir
    %p = mcf.two_prod %a, %b : !mcf.expansion<bf16 x 2>
    ```
  }];
}

def MCF_TwoProdDekkerOp : MCF_PairOp<"two_prod_dekker"> {
  let summary = "product and its rounding error, by splitting";
  let description = [{
    With (h, l) = split(a) and (h', l') = split(b):

    ```
    x = a * b;  y = l*l' - (((x - h*h') - l*h') - h*l')
    ```

    This is Dekker's product (1971). It is never substituted for `mcf.two_prod`, because
    it overflows earlier and needs p bits of split.

    Constraint: (C1) the result has two components of one format.

    Example:

    ```mlir
    %p = mcf.two_prod_dekker %a, %b : !mcf.expansion<f32 x 2>
    ```
  }];
}

def MCF_SplitOp : MCF_Op<"split", [LeadingOf<"result", "operand">]> {
  let summary = "Veltkamp's split of one component into two halves";
  let description = [{
    With a p-bit significand and s = ceil(p/2):

    ```
    c = (2^s + 1) * a;  hi = c - (c - a);  lo = a - hi
    ```

    hi + lo = a exactly unless c overflows. (Collage's listing misplaces the
    product; this is Veltkamp's.)

    Constraint: (C1) the result has two components of one format.

    Example:

    ```mlir
    %h = mcf.split %a : !mcf.expansion<bf16 x 2>
    ```
  }];
  let arguments = (ins MCF_ComponentLike:$operand);
  let results = (outs MCF_ExpansionLike:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Expansion and component
//===----------------------------------------------------------------------===//

class MCF_ExpansionComponentOp<string mnemonic>
    : MCF_Op<mnemonic, [AllTypesMatch<["lhs", "result"]>, LeadingOf<"result", "rhs">]> {
  let arguments = (ins MCF_ExpansionLike:$lhs, MCF_ComponentLike:$rhs);
  let results = (outs MCF_ExpansionLike:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

def MCF_GrowOp : MCF_ExpansionComponentOp<"grow"> {
  let summary = "add a component to an expansion";
  let description = [{
    Collage's Grow (Yu et al., Algorithm 1); both Fast2Sums are literal:

    ```
    (u, v) = fast_two_sum(x, a);  (u, v) = fast_two_sum(u, y + v)
    ```

    Relative error at most 2u^2 where |a| <= |x| (double word plus float;
    Joldes, Muller, Popescu 2017). On overflow every component is NaN.

    Three components:

    ```
    (x, e) = two_sum(x, a);  (y, e) = two_sum(y, e);  z = z + e
    (x, y) = fast_two_sum(x, y);  (y, z) = fast_two_sum(y, z)
    (x, y) = fast_two_sum(x, y)
    ```

    Example:

    ```mlir
    %t = mcf.grow %s, %a : !mcf.expansion<bf16 x 2>
    ```
  }];
}

def MCF_KahanOp : MCF_ExpansionComponentOp<"kahan"> {
  let summary = "Kahan's compensated accumulation";
  let description = [{
    The pair is a running sum and the part of earlier terms not yet added
    (Kahan 1965; Zamirai et al. 2020):

    ```
    d = a + y;  x' = x + d;  y' = d - (x' - x)
    ```

    It is one Fast2Sum cheaper than `mcf.grow`, and does not renormalize.

    Constraint: (C1) two components of one format.

    Example:

    ```mlir
    %t = mcf.kahan %s, %a : !mcf.expansion<bf16 x 2>
    ```
  }];
  let hasVerifier = 1;
}

def MCF_ScaleOp : MCF_ExpansionComponentOp<"scale"> {
  let summary = "multiply an expansion by a component";
  let description = [{
    ```
    (x, e) = two_prod(a1, v);  e = a2*v + e;  (x, e) = fast_two_sum(x, e)
    ```

    The product a2*v is rounded, then the sum (no fma).

    Three components (the network of `mcf.mul` with two zero components):

    ```
    (p, e) = two_prod(a1, v);  (q, f) = two_prod(a2, v);  f = f + a3*v
    (e, q) = two_sum(e, q);  (p, e) = fast_two_sum(p, e);  q = q + f
    (e, q) = two_sum(e, q);  (p, e) = fast_two_sum(p, e)
    (e, q) = fast_two_sum(e, q);  (p, e) = fast_two_sum(p, e)
    ```

    Example:

    ```mlir
    %t = mcf.scale %s, %a : !mcf.expansion<bf16 x 2>
    ```
  }];
}

//===----------------------------------------------------------------------===//
// Expansion and expansion
//===----------------------------------------------------------------------===//

class MCF_BinaryOp<string mnemonic, list<Trait> traits = []>
    : MCF_Op<mnemonic, traits # [SameOperandsAndResultType]> {
  let arguments = (ins MCF_ExpansionLike:$lhs, MCF_ExpansionLike:$rhs);
  let results = (outs MCF_ExpansionLike:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

def MCF_MulOp : MCF_BinaryOp<"mul", [Commutative]> {
  let summary = "multiply two expansions";
  let description = [{
    Collage's Mul (Yu et al., Algorithm 1):

    ```
    (x, e) = two_prod(a1, b1);  e = e + ((a1*b2) + (a2*b1))
    (x, e) = fast_two_sum(x, e)
    ```

    It is commutative as written (DWTimesDW1's shape): every bit is the same when the
    operands are swapped. The relative error is at most 5u^2 (p >= 6).

    Three components (Zhang and Aiken, *MultiFloats*, SC 2025), also
    commutative:

    ```
    (p00, e00) = two_prod(a1, b1)
    (p01, e01) = two_prod(a1, b2);  (p10, e10) = two_prod(a2, b1)
    (p01, p10) = two_sum(p01, p10);  e01 = e01 + e10
    p02 = (a1*b3 + a3*b1);  (e00, p01) = two_sum(e00, p01);  p02 = p02 + a2*b2
    (p00, e00) = fast_two_sum(p00, e00);  p01 = p01 + p10
    p01 = p01 + (e01 + p02);  (e00, p01) = two_sum(e00, p01)
    (p00, e00) = fast_two_sum(p00, e00);  (e00, p01) = fast_two_sum(e00, p01)
    (p00, e00) = fast_two_sum(p00, e00)
    ```

    Example:

    ```mlir
    %t = mcf.mul %a, %b : !mcf.expansion<bf16 x 2>
    ```
  }];
}

def MCF_AddOp : MCF_BinaryOp<"add", [Commutative]> {
  let summary = "add two expansions";
  let description = [{
    The network of Zhang and Aiken (*MultiFloats*, SC 2025; verified in CAV
    2025), relative error below 2u^2 for two components:

    ```
    (a, b) = two_sum(x1, y1);  (c, d) = two_sum(x2, y2)
    (a, c) = fast_two_sum(a, c);  b = b + d;  b = b + c
    (a, b) = fast_two_sum(a, b)
    ```

    Three components:

    ```
    (a, b) = two_sum(x1, y1);  (c, d) = two_sum(x2, y2);  (e, f) = two_sum(x3, y3)
    (a, c) = fast_two_sum(a, c);  b = b + f;  (d, e) = two_sum(d, e)
    (a, d) = fast_two_sum(a, d);  (b, c) = two_sum(b, c);  c = c + e
    (c, d) = two_sum(c, d);  (b, c) = two_sum(b, c);  (a, b) = fast_two_sum(a, b)
    c = c + d;  (b, c) = fast_two_sum(b, c);  (a, b) = fast_two_sum(a, b)
    (b, c) = fast_two_sum(b, c)
    ```

    Example:

    ```mlir
    %t = mcf.add %a, %b : !mcf.expansion<bf16 x 2>
    ```
  }];
}

def MCF_SubOp : MCF_BinaryOp<"sub"> {
  let summary = "subtract two expansions";
  let description = [{
    This is `mcf.add` with the second operand negated.

    Example:

    ```mlir
    %t = mcf.sub %a, %b : !mcf.expansion<bf16 x 2>
    ```
  }];
}

def MCF_DivOp : MCF_BinaryOp<"div"> {
  let summary = "divide two expansions";
  let description = [{
    DWDivDW2 (Joldes, Muller, Popescu 2017, Algorithm 17), relative error at
    most 15u^2 + 56u^3 (p >= 7):

    ```
    t = x1 / y1
    (c, d) = two_prod(y1, t);  (r, f) = fast_two_sum(c, y2*t)
    (r, f) = fast_two_sum(r, f + d)
    z = ((x1 - r) + (x2 - f)) / y1;  (t, z) = fast_two_sum(t, z)
    ```

    Three components use long division: q1 = x1/y1, r = x - q1*y (`mcf.scale`,
    `mcf.sub`), q2 = r1/y1, r = r - q2*y, q3 = r1/y1, renormalized.

    Example:

    ```mlir
    %t = mcf.div %a, %b : !mcf.expansion<bf16 x 2>
    ```
  }];
}

def MCF_SqrtOp : MCF_Op<"sqrt", [SameOperandsAndResultType]> {
  let summary = "square root of an expansion";
  let description = [{
    SQRTDWtoDW (Lefevre, Louvet, Muller, Picot, Rideau 2023), relative error at
    most 25/8 u^2:

    ```
    s = sqrt(x1);  r = fma(-s, s, x1);  r = x2 + r
    t = r / (2*s);  (s, t) = fast_two_sum(s, t)
    ```

    If sqrt(x1) is zero the result is (sqrt(x1), +0). Three components: with
    (s, t) as above and e = (s, t, 0), r = x - e*e (`mcf.mul`, `mcf.sub`),
    u = r1 / (2*s), where s is e's leading component, and (s, t, u)
    renormalized; or (sqrt(x1), +0, +0).

    Example:

    ```mlir
    %t = mcf.sqrt %a : !mcf.expansion<bf16 x 2>
    ```
  }];
  let arguments = (ins MCF_ExpansionLike:$operand);
  let results = (outs MCF_ExpansionLike:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
}

def MCF_RenormalizeOp : MCF_Op<"renormalize", [SameOperandsAndResultType]> {
  let summary = "make the components non-overlapping";
  let description = [{
    Applies TwoSum from the last component up and, with three components, once more from
    the first down:

    ```
    (y, z) = two_sum(y, z);  (x, y) = two_sum(x, y);  (y, z) = two_sum(y, z)
    ```

    Two components: (x, y) = two_sum(x, y).

    Example:

    ```mlir
    %t = mcf.renormalize %a : !mcf.expansion<bf16 x 2>
    ```
  }];
  let arguments = (ins MCF_ExpansionLike:$operand);
  let results = (outs MCF_ExpansionLike:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
}

def MCF_CompareOp : MCF_Op<"compare", [SameTypeOperands]> {
  let summary = "ordered comparison of two expansions";
  let description = [{
    Compares lexicographically over the components, which orders normalized expansions
    as the numbers they represent. The result is false if a deciding component is NaN.
    The predicates are eq, lt, le, gt and ge.

    Constraint: (C1) the result is i1 in the operands' shape.

    Example:

    ```mlir
    %c = mcf.compare lt, %a, %b : !mcf.expansion<bf16 x 2>
    ```
  }];
  let arguments = (ins MCF_ComparePredicate:$predicate, MCF_ExpansionLike:$lhs,
                       MCF_ExpansionLike:$rhs);
  let results = (outs BoolLike:$result);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def MCF_NegOp : MCF_Op<"neg", [SameOperandsAndResultType]> {
  let summary = "negate every component";
  let description = [{
    Flips the sign of each component as it is stored, which is exact, also in a mixed
    expansion.

    Example:

    ```mlir
    %t = mcf.neg %a : !mcf.expansion<bf16 x 2>
    ```
  }];
  let arguments = (ins MCF_ExpansionLike:$operand);
  let results = (outs MCF_ExpansionLike:$result);
  let assemblyFormat = "$operand attr-dict `:` type($result)";
}

//===----------------------------------------------------------------------===//
// Components in and out
//===----------------------------------------------------------------------===//

def MCF_PackOp : MCF_Op<"pack"> {
  let summary = "make an expansion from its components";
  let description = [{
    The components are taken as they are; no renormalization happens. For a
    mixed expansion the trailing operand is the stored, scaled 8-bit number.

    Constraints: (C1) one operand per component; (C2) of its type and the
    result's shape.

    Example:

    ```mlir
    %s = mcf.pack %hi, %lo : !mcf.expansion<bf16 x 2>
    ```
  }];
  let arguments = (ins Variadic<MCF_ComponentLike>:$components);
  let results = (outs MCF_ExpansionLike:$result);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasFolder = 1;
}

def MCF_ComponentsOp : MCF_Op<"components"> {
  let summary = "the components of an expansion";
  let description = [{
    This is the inverse of `mcf.pack`.

    Constraint: (C1) one result per component, of its type and the operand's
    shape.

    Example:

    ```mlir
    %hi, %lo = mcf.components %s : !mcf.expansion<bf16 x 2>
    ```
  }];
  let arguments = (ins MCF_ExpansionLike:$operand);
  let results = (outs Variadic<MCF_ComponentLike>:$components);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasFolder = 1;
}

def MCF_ConstantOp : Op<MCF_Dialect, "constant", [Pure]> {
  let summary = "the nearest expansion of a literal";
  let description = [{
    Each component is the remainder of the f64 literal, rounded once.

    Example:

    ```mlir
    %c = mcf.constant 0.999 : !mcf.expansion<bf16 x 2>
    ```
  }];
  let arguments = (ins F64Attr:$value);
  let results = (outs MCF_ExpansionLike:$result);
  let assemblyFormat = "$value attr-dict `:` type($result)";
}

def MCF_ConvertOp : MCF_Op<"convert"> {
  let summary = "change between a mixed expansion and one of its leading format";
  let description = [{
    From `<bf16, f8E5M2>` to `<bf16 x 2>` the trailing component becomes
    lo * 2^(e-8), exactly where the leading format can hold it; the other way
    it becomes the trailing format's saturating rounding of lo * 2^(8-e), with
    e = max(exponent(hi), -126). If hi is not finite, the trailing component is read
    unscaled, and written as a zero of its sign, or as NaN if it is not finite either.

    Constraint: (C1) both have the same leading format, shape and two
    components, and one of them is mixed.

    Example:

    ```mlir
    %t = mcf.convert %a : !mcf.expansion<bf16, f8E5M2> -> !mcf.expansion<bf16 x 2>
    ```
  }];
  let arguments = (ins MCF_ExpansionLike:$operand);
  let results = (outs MCF_ExpansionLike:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
}

def MCF_FromFloatOp : MCF_Op<"from_float"> {
  let summary = "the nearest expansion of a wider float";
  let description = [{
    hi = fl(x), lo = fl(x - hi), and so on for further components, where the
    difference is taken in the wide format and is exact; a low component is +0
    if the one before it is not finite.

    Constraint: (C1) the operand is f32 or f64, in the result's shape, and wider than the components.

    Example:

    ```mlir
    %s = mcf.from_float %x : f32 -> !mcf.expansion<bf16 x 2>
    ```
  }];
  let arguments = (ins AnyType:$operand);
  let results = (outs MCF_ExpansionLike:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
}

def MCF_ToFloatOp : MCF_Op<"to_float"> {
  let summary = "the sum of the components, rounded to a wider float";
  let description = [{
    Each component is widened exactly; the sum is formed from the smallest
    component up, each addition rounding in the wide format: RN32(hi + lo).

    Constraint: (C1) the result is f32 or f64, in the operand's shape, and at least as wide as the components.

    Example:

    ```mlir
    %x = mcf.to_float %s : !mcf.expansion<bf16 x 2> -> f32
    ```
  }];
  let arguments = (ins MCF_ExpansionLike:$operand);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$operand attr-dict `:` type($operand) `->` type($result)";
  let hasVerifier = 1;
}

#endif // TANDEM_DIALECT_MCF_IR_MCFOPS_TD
