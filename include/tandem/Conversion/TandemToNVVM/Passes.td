//===- Passes.td - Conversions for NVIDIA GPUs -------------*- tablegen -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_TANDEMTONVVM_PASSES_TD
#define TANDEM_CONVERSION_TANDEMTONVVM_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvertFloatCodesToNVVM : Pass<"convert-float-codes-to-nvvm"> {
  let summary = "Convert 8-bit floats by the instructions of an NVIDIA chip";
  let description = [{
    On chips that have conversions of 8-bit floats (sm_89 and later),
    `scaled.encode_float` and `scaled.decode_float` become these instructions, each for
    two consecutive elements. On other chips they stay.

    The instruction saturates, infinities too, so that values that must become infinity
    or NaN are recognized before or after it. A NaN gets the sign of the canonical one,
    since PTX does not specify which NaN a conversion gives.

    Example: `test/Conversion/FloatCodesToNVVM/float-codes-to-nvvm.mlir`
  }];
  let options = [Option<"chip", "chip", "std::string", "\"sm_90\"", "The NVIDIA chip">];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::vector::VectorDialect", "::mlir::LLVM::LLVMDialect",
                           "::mlir::NVVM::NVVMDialect"];
  let statistics = [Statistic<"numConverted", "converted", "Number of operations converted">];
}

def ConvertBytesToNVVM : Pass<"convert-bytes-to-nvvm"> {
  let summary = "Move bytes by the permutations of NVIDIA chips";
  let description = [{
    Some sequences of operations on vectors are replaced by fewer instructions, which
    neither LLVM nor ptxas finds:

    - taking a byte or half of each element, as a vector of i8 or i16, becomes a permutation
      (`prmt`) for two elements;
    - putting an upper half, moved down by a byte, between the outer bytes of a value whose
      other bytes are known to be 0 becomes a permutation;
    - putting an upper half below a constant becomes a permutation;
    - rounding to bf16 becomes one conversion for two elements, even if their bf16 are
      widened again.

    No bit changes.

    Example: `test/Conversion/BytesToNVVM/bytes-to-nvvm.mlir`
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::vector::VectorDialect",
                           "::mlir::NVVM::NVVMDialect"];
  let statistics = [Statistic<"numConverted", "converted", "Number of operations converted">];
}

def ConvertNaNsToNVVM : Pass<"convert-nans-to-nvvm"> {
  let summary = "Use that an NVIDIA chip has one NaN";
  let description = [{
    If the result of an addition, a multiplication or an fma is not a number, an NVIDIA chip
    returns the canonical NaN, `0x7FFFFFFF` or `0x7FFF`, independent of the operands' NaNs
    (CUDA C++ Programming Guide, "Floating-Point Standard"), and conversions to bf16 and f16
    return the canonical NaN as well. So a selection of this NaN is dropped after such an
    operation. It stays after other values, and where LLVM might drop the operation, as it
    does with a product by 1. If random bits are added to the bits of an f32 to round it to
    bf16, the bits are limited to those of bf16's NaN before the addition, which takes one
    instruction instead of a test and a selection.

    A test for a magnitude greater than infinity's becomes a comparison of the float with
    itself.

    No bit changes.

    Example: `test/Conversion/NaNsToNVVM/nans-to-nvvm.mlir`
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
  let statistics = [Statistic<"numConverted", "converted", "Number of operations converted">];
}

def ConvertTandemToNVVM : Pass<"convert-tandem-to-nvvm", "::mlir::ModuleOp"> {
  let summary = "Make a kernel a function of the launch ABI for NVIDIA GPUs";
  let description = [{
    A `tandem.step` @k becomes NVVM kernels with the launch ABI of the CPU: one for each launch (@k
    is the main one), whose blocks stride over chunks and whose threads take `width` consecutive
    elements with 128-bit accesses (element by element if a tensor is not aligned, and at its end);
    and @k_prologue, for one thread. A thread computes one Philox4x32-10 for its random bits, or two
    if its elements do not begin a group of eight.

    Metrics are summed with shuffles and in shared memory, so that a kernel with metrics
    is launched with a power of two of threads per block, from 32 to 256.

    Phases that continue a phase @k are also fused with it into one NVVM kernel,
    @k_bands: a block takes a band, which is some whole rows of a matrix, through all of
    these phases. Between barriers it combines the partial reductions of the rows, so
    that a phase reads the results of the previous one, and the elements of the rows
    while they are still in the caches.

    Example: `test/Conversion/TandemToNVVM/kernel.mlir`, `test/Conversion/TandemToNVVM/metrics.mlir`,
    `test/Conversion/TandemToNVVM/bands.mlir`
  }];
  let dependentDialects = ["::mlir::func::FuncDialect", "::mlir::scf::SCFDialect",
                           "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect",
                           "::mlir::arith::ArithDialect", "::mlir::vector::VectorDialect"];
  let statistics = [
    Statistic<"numKernels", "kernels", "Number of kernels converted">,
    Statistic<"numBands", "launches", "Number of launches of several kernels">
  ];
}

#endif // TANDEM_CONVERSION_TANDEMTONVVM_PASSES_TD
