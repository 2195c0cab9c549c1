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
    On chips that have conversions of 8-bit floats (sm_89 and later)
    `scaled.encode_float` and `scaled.decode_float` become those, for two
    consecutive elements each; on others they stay.

    The instruction saturates, infinities too, so that what must become infinity
    or NaN is told apart before or after it. A NaN gets the sign of the canonical
    one, since PTX leaves open which NaN a conversion gives.

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
    The pass replaces sequences of operations on vectors by sequences that take a chip
    fewer instructions and that neither LLVM nor ptxas finds:

    - A byte or half of each element, as a vector of i8 or i16, is a permutation
      (`prmt`) of two elements.
    - An upper half that is moved down by a byte, between the outer bytes of a value whose
      other bytes are known to be 0, is a permutation.
    - An upper half that is moved down, below a constant, is a permutation.
    - A rounding to bf16 is one for each two elements, also where their bf16 are widened
      again.

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
    Where the result of an addition, a multiplication or an fma is not a number, an NVIDIA
    chip gives the canonical NaN, `0x7FFFFFFF` or `0x7FFF`, whatever NaN an operand was (CUDA
    C++ Programming Guide, "Floating-Point Standard"), and a conversion to bf16 or f16 keeps
    it canonical. A choice of this NaN among the bits of such a result is dropped. It stays
    after other values, and where LLVM might drop the operation, as it does with a product
    by 1. Bits to which random ones are added are limited to those of bf16's NaN before the
    sum, in place of a test and a choice after it.

    A magnitude that is greater than infinity's is found by a comparison of the float with
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
    A `tandem.step` @k becomes NVVM kernels with the launch ABI of the CPU: one for each
    launch (@k is the main one), whose blocks stride over chunks and whose threads take
    `width` consecutive elements with 128-bit accesses (element by element where a tensor
    is not aligned or ends); and @k_prologue, for one thread. A thread's random bits are
    one Philox4x32-10, or two where its elements do not begin a group of eight.

    Sums of metrics meet in shuffles and in shared memory: such a kernel is
    launched with a power of two of threads per block, from 32 to 256.

    Phases that continue a phase @k also become one NVVM kernel with it, @k_bands: a
    block takes a band, some whole rows of a matrix, through all of them. It joins the
    parts of the rows' reductions between barriers, so that a phase reads what the one
    before has left, and the rows' elements while they are in the caches.

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
