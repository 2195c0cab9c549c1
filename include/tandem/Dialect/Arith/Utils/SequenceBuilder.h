//===- SequenceBuilder.h - Terse arith construction -------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares a builder that spells out arithmetic sequences legibly:
// operators on values, constants in the shape of their neighbours.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_ARITH_UTILS_SEQUENCEBUILDER_H
#define TANDEM_DIALECT_ARITH_UTILS_SEQUENCEBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "tandem/Support/FloatFormat.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Bit patterns of an f32: every bit except the sign, the exponent's bits
/// (which are infinity), and a quiet NaN.
inline constexpr uint64_t f32SignMask = 0x80000000;
inline constexpr uint64_t f32Magnitude = 0x7FFFFFFF;
inline constexpr uint64_t f32Infinity = 0x7F800000;
inline constexpr uint64_t f32QuietNaN = 0x7FC00000;

/// Builds arith and math operations on scalars, vectors or tensors. Every
/// method creates exactly the operation it names; none folds.
class SequenceBuilder {
public:
  SequenceBuilder(OpBuilder &builder, Location loc)
      : builder(builder), loc(loc) {}

  Value add(Value a, Value b) { return make<arith::AddFOp>(a, b); }
  Value sub(Value a, Value b) { return make<arith::SubFOp>(a, b); }
  Value mul(Value a, Value b) { return make<arith::MulFOp>(a, b); }
  Value div(Value a, Value b) { return make<arith::DivFOp>(a, b); }
  Value neg(Value a) { return make<arith::NegFOp>(a); }
  Value fma(Value a, Value b, Value c);
  /// Builds a polynomial of x, by fma from the highest coefficient down. The
  /// constant coefficient comes first.
  Value polynomial(Value x, ArrayRef<double> coefficients);
  Value sqrt(Value a);
  Value abs(Value a);

  Value andi(Value a, Value b) { return make<arith::AndIOp>(a, b); }
  Value ori(Value a, Value b) { return make<arith::OrIOp>(a, b); }
  Value xori(Value a, Value b) { return make<arith::XOrIOp>(a, b); }
  Value addi(Value a, Value b) { return make<arith::AddIOp>(a, b); }
  Value subi(Value a, Value b) { return make<arith::SubIOp>(a, b); }
  Value muli(Value a, Value b) { return make<arith::MulIOp>(a, b); }
  Value shl(Value a, unsigned n) { return make<arith::ShLIOp>(a, like(a, n)); }
  Value shr(Value a, unsigned n) { return make<arith::ShRUIOp>(a, like(a, n)); }
  /// Shifts copies of the sign bit in.
  Value shrs(Value a, unsigned n) {
    return make<arith::ShRSIOp>(a, like(a, n));
  }

  Value compare(arith::CmpFPredicate predicate, Value a, Value b) {
    return make<arith::CmpFOp>(predicate, a, b);
  }
  Value compare(arith::CmpIPredicate predicate, Value a, Value b) {
    return make<arith::CmpIOp>(predicate, a, b);
  }
  Value select(Value condition, Value a, Value b) {
    return make<arith::SelectOp>(condition, a, b);
  }

  /// Converts `value` to another element type, by extf, truncf (one rounding to
  /// nearest), or nothing. f16 and bf16 convert through f32, exactly rounded.
  Value convert(Value value, Type element);
  /// Returns `value`'s bits as another element type of the same width.
  Value bitcast(Value value, Type element);
  /// Zero-extends or truncates an integer to the element type.
  Value resize(Value value, Type element);
  /// Converts a signed i32 to f32.
  Value toReal(Value integer);
  /// Returns the bits of a float.
  Value bits(Value value);
  /// Broadcasts a scalar to the shape of another value.
  Value spread(Value scalar, Value shape);

  /// Returns an integer constant of the type of `value`.
  Value like(Value value, uint64_t constant) {
    return integer(value.getType(), constant);
  }
  /// Returns an integer constant, a splat if the type is shaped.
  Value integer(Type type, uint64_t constant);
  /// Returns a float constant given by value (exactly representable), or a
  /// splat.
  Value real(Type type, double constant);
  /// Returns positive zero of a float or integer type, or a splat.
  Value zero(Type type);
  /// Returns a float constant given by its bits, or a splat.
  Value fromBits(Type type, uint64_t bits);

  /// Returns the bits of `value`, with any NaN replaced by the one that stores
  /// write.
  Value canonicalBits(Value value);

  OpBuilder &builder;
  Location loc;

private:
  template <typename OpTy, typename... Args>
  Value make(Args &&...args) {
    return OpTy::create(builder, loc, std::forward<Args>(args)...);
  }
};

} // namespace tandem

#endif // TANDEM_DIALECT_ARITH_UTILS_SEQUENCEBUILDER_H
