//===- Passes.td - Conversions -----------------------------*- tablegen -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_PASSES_TD
#define TANDEM_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvertMCFToArith : Pass<"convert-mcf-to-arith"> {
  let summary = "Spell out multi-component float operations";
  let description = [{
    Each expansion becomes its components (a 1:N type conversion through functions,
    calls and scf), and each mcf operation becomes the exact sequence that its
    description gives, in the component format's arithmetic.

    Example: `test/Conversion/MCFToArith/mcf-to-arith.mlir`

    ```mlir
    %s = mcf.two_sum %a, %b : !mcf.expansion<bf16 x 2>
    // becomes
    %x = arith.addf %a, %b : bf16
    %b1 = arith.subf %x, %a : bf16
    %a1 = arith.subf %x, %b1 : bf16
    %da = arith.subf %a, %a1 : bf16
    %db = arith.subf %b, %b1 : bf16
    %y = arith.addf %da, %db : bf16
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
  let statistics = [Statistic<"numExpanded", "expanded", "Number of mcf operations spelled out">];
}

def ConvertScaledToArith : Pass<"convert-scaled-to-arith"> {
  let summary = "Spell out scaled low-precision operations";
  let description = [{
    Each operation of the scaled dialect becomes the sequence of f32 and integer
    operations that its description gives. `scaled.encode_float` and
    `scaled.decode_float` stay because their lowering depends on the target.

    Example: `test/Conversion/ScaledToArith/scaled-to-arith.mlir`
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::vector::VectorDialect"];
  let statistics = [Statistic<"numConverted", "expanded", "Number of scaled operations spelled out">];
}

def ConvertTranscendentalsToArith : Pass<"convert-transcendentals-to-arith"> {
  let summary = "Spell out exp, log, tanh and erf";
  let description = [{
    `math.exp`, `math.log`, `math.tanh` and `math.erf` become sequences of f32 and integer
    operations (docs/Numerics.md) that are the same on every target, without a library or
    approximate instructions. Functions of other formats are computed in f32 and rounded once more.

    Example: `test/Conversion/TranscendentalsToArith/transcendentals-to-arith.mlir`
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
  let statistics = [Statistic<"numConverted", "expanded", "Number of functions spelled out">];
}

def ConvertFloatCodesToArith : Pass<"convert-float-codes-to-arith"> {
  let summary = "Spell out conversions of small floats in integers";
  let description = [{
    `scaled.encode_float` and `scaled.decode_float` become sequences of f32 and integer
    operations that round to nearest, ties to even, on any target. If a code was just
    computed from a number, the rounded number is used and not decoded from the code's
    bits. With `half-conversions` f16 is converted by the target, and 8-bit floats,
    which are numbers of f16 up to a power of two, are decoded through f16.

    Example: `test/Conversion/FloatCodesToArith/float-codes-to-arith.mlir`
  }];
  let options = [
    ListOption<"formats", "formats", "std::string",
               "Formats to convert: f8E4M3FN, f8E5M2, f16; all if none is named">,
    Option<"halfConversions", "half-conversions", "bool", "false",
           "The target converts between f16 and f32">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
  let statistics = [Statistic<"numConverted", "expanded", "Number of conversions spelled out">];
}

def ConvertTandemToCPU : Pass<"convert-tandem-to-cpu", "::mlir::ModuleOp"> {
  let summary = "Make a kernel a function of the launch ABI for CPUs";
  let description = [{
    A `tandem.step` @k becomes functions over raw pointers: one for each launch (@k is
    the main one), which loops over a range of chunks and, in each, over blocks of
    `width` elements; and @k_prologue, which computes rows of uniform values. The last,
    partial block of a chunk runs on a copy of its elements, so that there is only one
    body. A block begins with prefetches of the elements that later blocks need.

    With `pairs`, if the elements of a block share a group, two full blocks are computed
    at a time, operation by operation: the maximum of a group, its scale and the
    quotients by it depend on each other, and the other group gives a processor
    something to do meanwhile. This takes twice as many registers, and the code for it
    comes in addition.

    The body's operations are ordered such that few of them wait for the previous one.
    Where all planes have 16 bits, wide values hold the even elements of a block before
    the odd ones, so that loads and stores need no shuffles:

    ```mlir
    %words = vector.bitcast %codes : vector<8xi16> to vector<4xi32>
    %even = arith.andi %words, %low_half : vector<4xi32>
    %odd = arith.shrui %words, %sixteen : vector<4xi32>
    %lanes = vector.shuffle %even, %odd [0, 1, 2, 3, 4, 5, 6, 7] : vector<4xi32>, vector<4xi32>
    ```

    `tandem.random_bits` becomes Philox4x32-10, which is computed once for eight
    elements, and once more if a block does not begin with a group of eight.

    Example: `test/Conversion/TandemToCPU/loop.mlir`
  }];
  let dependentDialects = ["::mlir::func::FuncDialect", "::mlir::scf::SCFDialect",
                           "::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect",
                           "::mlir::vector::VectorDialect"];
  let options = [Option<"pairs", "pairs", "bool", "true",
                        "Compute two blocks at a time if each has a group">];
  let statistics = [Statistic<"numKernels", "kernels", "Number of kernels converted">];
}

#endif // TANDEM_CONVERSION_PASSES_TD
