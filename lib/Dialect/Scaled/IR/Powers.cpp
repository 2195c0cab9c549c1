//===- Powers.cpp - Logarithm and power of two ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements f32 sequences for log2 and exp2.
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Scaled/IR/Powers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tandem;
using tandem::SequenceBuilder;

// These approximate log2(1 + f) / f on [sqrt(1/2) - 1, sqrt(2) - 1] with the
// least relative error, 2^-25.2, and are rounded to f32.
static constexpr double log2Coefficients[] = {
    0x1.715476p+0,  -0x1.715470p-1, 0x1.ec73d6p-2,
    -0x1.715c4ep-2, 0x1.26d382p-2,  -0x1.e95c0ap-3,
    0x1.b9c962p-3,  -0x1.a87c2ep-3, 0x1.01b502p-3};

// These approximate 2^f on [-1/2, 1/2].
static constexpr double exp2Coefficients[] = {
    0x1p+0,        0x1.62e430p-1,  0x1.ebfbd8p-3, 0x1.c6af76p-5,
    0x1.3b30a0p-7, 0x1.5f0b82p-10, 0x1.3fa208p-13};

Value scaled::buildLog2(SequenceBuilder &b, Value x) {
  Value bits = b.bits(x);
  Value shifted = b.subi(bits, b.like(bits, 0x3F3504F3));
  Value field = b.andi(shifted, b.like(shifted, 0xFF800000));
  Value mantissa = b.bitcast(b.subi(bits, field), b.builder.getF32Type());
  Value f = b.sub(mantissa, b.real(mantissa.getType(), 1.0));
  // e * 2^23 is an f32, and so is e: the fma rounds only the sum.
  Value whole = b.toReal(field);
  Value fraction = b.mul(f, b.polynomial(f, log2Coefficients));
  return b.fma(whole, b.real(f.getType(), 0x1p-23), fraction);
}

double scaled::foldLog2(float x) {
  constexpr auto nearest = llvm::APFloat::rmNearestTiesToEven;
  auto bits = llvm::bit_cast<int32_t>(x);
  int32_t exponent = (bits - 0x3F3504F3) >> 23;
  llvm::APFloat f(llvm::bit_cast<float>(bits - exponent * (1 << 23)));
  f.subtract(llvm::APFloat(1.0f), nearest);
  llvm::APFloat result(0.0f);
  for (double coefficient : llvm::reverse(log2Coefficients))
    result.fusedMultiplyAdd(f, llvm::APFloat(float(coefficient)), nearest);
  result.multiply(f, nearest);
  result.add(llvm::APFloat(float(exponent)), nearest);
  return result.convertToFloat();
}

Value scaled::buildExp2(SequenceBuilder &b, Value x) {
  Value least = b.real(x.getType(), -100.0);
  // Handles NaN as well, whose bits depend on the target and would affect the
  // result. This form is a single instruction on x86.
  Value isAbove = b.compare(arith::CmpFPredicate::OGT, x, least);
  x = b.select(isAbove, x, least);
  // Beyond 2^23 + 2^22 a sum has the integer in its low bits.
  Value anchor = b.real(x.getType(), 0x1.8p23);
  Value sum = b.add(x, anchor);
  Value f = b.sub(x, b.sub(sum, anchor));
  Value mantissa = b.bits(b.polynomial(f, exp2Coefficients));
  return b.bitcast(b.addi(mantissa, b.shl(b.bits(sum), 23)),
                   b.builder.getF32Type());
}
