//===- ScaledStorages.cpp - Storages of codes and residuals ---------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the storage interface for codes, scaled or not, for
// floats that are masked to a code's numbers, and for residuals in fractions of
// a unit in the last place.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "tandem/Dialect/Scaled/IR/CodeSequences.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include <cmath>

using namespace mlir;
using namespace tandem;

//===----------------------------------------------------------------------===//
// ScaledStorageAttr
//===----------------------------------------------------------------------===//

static LogicalResult verifyHistory(function_ref<InFlightDiagnostic()> emitError,
                                   scaled::CodeAttrInterface code, Group group,
                                   scaled::Recipe recipe, int64_t history) {
  // (C4)
  constexpr int64_t longest = 1024;
  if (history < 0 || history > longest)
    return emitError() << "a history is of 1 to " << longest
                       << " stores, or 0 for none, got " << history;
  // (C5)
  if (!group.isTensor())
    return emitError() << "a history is of a whole tensor; use group = tensor";
  // (C6)
  if (recipe == scaled::Recipe::given)
    return emitError() << "a given scale has no history; leave out one of "
                          "recipe = given and history = "
                       << history;
  // (C7)
  if (code.getRange())
    return emitError() << code
                       << " needs the smallest magnitude of the very "
                          "values that it stores, which a history does "
                          "not have; leave out history = "
                       << history;
  return success();
}

/// Verifies (C1).
static LogicalResult verifyGroup(function_ref<InFlightDiagnostic()> emitError,
                                 Group group) {
  bool isSize = group.columns >= ScaledStorageAttr::minGroup &&
                group.columns <= ScaledStorageAttr::maxGroup &&
                llvm::isPowerOf2_64(group.columns);
  if (group.isTensor() || group.isRow() || (isSize && group.rows == 1) ||
      (isSize && group.rows == group.columns))
    return success();
  InFlightDiagnostic diagnostic =
      emitError() << "a group is a power of two from 16 to 256, a square block "
                     "of such a size, 'row' or 'tensor', got ";
  if (group.rows != 1)
    diagnostic << group.rows << "x";
  return diagnostic << group.columns;
}

/// Verifies (C9).
static LogicalResult
verifyTransposed(function_ref<InFlightDiagnostic()> emitError,
                 scaled::CodeAttrInterface code, Group group) {
  if (!group.isTensor())
    return emitError()
           << "a transposed copy has its rows' codes under "
              "scales other than its columns'; use group = tensor, or "
              "leave out transposed = true";
  if (code.getPlanes().size() != 1)
    return emitError() << code << " has " << code.getPlanes().size()
                       << " planes, and a transposed copy is of one; leave out "
                          "transposed = true";
  if (code.getPlanes().front().packed > 1)
    return emitError() << code
                       << " has several codes in a byte, and a transposed copy "
                          "has whole bytes; leave out transposed = true";
  return success();
}

/// Verifies (C10).
static LogicalResult
verifyWithoutNaN(function_ref<InFlightDiagnostic()> emitError,
                 scaled::CodeAttrInterface code, Group group, Type scale,
                 scaled::Recipe recipe) {
  bool isSize = !group.isTensor() && !group.isRow() && group.rows == 1;
  bool isMade =
      recipe == scaled::Recipe::current || recipe == scaled::Recipe::pow2;
  if (isSize && isMade && !scale.isF16())
    return success();
  return emitError()
         << code
         << " has no NaN, so that a group's scale is NaN where one "
            "of its elements is not finite, and clamps nothing; use "
            "group = 16 to 256, recipe = current or pow2 and a "
            "scale that is not f16";
}

/// Verifies (C2) and (C11).
static LogicalResult
verifyScaleType(function_ref<InFlightDiagnostic()> emitError,
                scaled::CodeAttrInterface code, Group group, Type scale,
                scaled::Recipe recipe, bool tensorScale) {
  if (!tensorScale && scaled::isScaleType(scale))
    return success();
  if (!tensorScale) {
    InFlightDiagnostic diagnostic =
        emitError() << "a scale is f32, bf16, f16 or f8E8M0FNU, got " << scale;
    if (isa<Float8E4M3FNType>(scale))
      diagnostic << "; one of f8E4M3FN is for tensor_scale = true";
    return diagnostic;
  }
  bool isSize = group.getGranularity() == Granularity::group;
  if (isSize && isa<Float8E4M3FNType>(scale) && code.hasNaN() &&
      !code.getRange() && recipe == scaled::Recipe::current)
    return success();
  return emitError() << "tensor_scale = true is for groups of 16 to 256 with "
                        "scale = f8E4M3FN and recipe = current, of a code that "
                        "clamps and has no range of its own, got scale = "
                     << scale << " of " << code;
}

LogicalResult
ScaledStorageAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                          scaled::CodeAttrInterface code, Group group,
                          Type scale, scaled::Recipe recipe, int64_t history,
                          int64_t margin, bool transposed, bool tensorScale) {
  if (failed(verifyGroup(emitError, group)))
    return failure();
  if (failed(
          verifyScaleType(emitError, code, group, scale, recipe, tensorScale)))
    return failure();
  // (C3)
  if (isa<Float8E8M0FNUType>(scale) && recipe == scaled::Recipe::current)
    return emitError() << "an f8E8M0FNU scale is a power of two; use recipe = "
                          "pow2 or recipe = mx_floor";
  // (C8)
  if (margin < 0 || margin > scaled::maxMargin || (margin && !history))
    return emitError() << "a margin is 0 to " << scaled::maxMargin
                       << " and belongs to a history, got " << margin;
  if (!code.hasNaN() &&
      failed(verifyWithoutNaN(emitError, code, group, scale, recipe)))
    return failure();
  if (transposed && failed(verifyTransposed(emitError, code, group)))
    return failure();
  if (history)
    return verifyHistory(emitError, code, group, recipe, history);
  return success();
}

/// Returns the planes of a code, whose bits kernels load.
static SmallVector<Plane> getPlanesOf(scaled::CodeAttrInterface code) {
  SmallVector<Plane> planes;
  for (const scaled::CodePlane &plane : code.getPlanes()) {
    planes.push_back({plane.suffix, plane.elementType, /*isRead=*/true,
                      /*group=*/{plane.packed, 1}, /*isRaw=*/true});
    planes.back().packed = plane.packed;
  }
  return planes;
}

SmallVector<Plane> ScaledStorageAttr::getPlanes() const {
  SmallVector<Plane> planes = getPlanesOf(getCode());
  bool isGiven = getRecipe() == scaled::Recipe::given;
  planes.push_back({".scale", getScale(), /*isRead=*/true, getGroup(),
                    /*isRaw=*/true, /*isPersistent=*/isGiven,
                    /*isWritten=*/!isGiven});
  if (getTensorScale())
    planes.push_back({".tensor_scale", Float32Type::get(getContext()),
                      /*isRead=*/true, Group::tensor(), /*isRaw=*/true});
  if (getCode().getRange())
    planes.push_back({".exponent", IntegerType::get(getContext(), 8),
                      /*isRead=*/true, getGroup(), /*isRaw=*/true});
  if (getTransposed()) {
    Plane copy = planes.front();
    copy.suffix = ".transposed";
    copy.isRead = false;
    copy.isTransposed = true;
    planes.push_back(copy);
  }
  if (!getHistory())
    return planes;
  Plane next{".next_scale",  getScale(),           /*isRead=*/false, getGroup(),
             /*isRaw=*/true, /*isPersistent=*/true};
  Plane history = next;
  history.suffix = ".history";
  history.elementType = Float32Type::get(getContext());
  history.history = getHistory();
  planes.append({next, history});
  return planes;
}

/// Codes are not values that a framework could read.
std::optional<unsigned> ScaledStorageAttr::getVisiblePlane() const {
  return std::nullopt;
}
Type ScaledStorageAttr::getValueType(const ComputeAttr &compute) const {
  return compute.getPolicy() == Policy::f32 ? compute.getFormat() : Type();
}
RoundingMode ScaledStorageAttr::getRounding() const {
  return getCode().getRounding();
}

StorageAttrInterface ScaledStorageAttr::getNearest() const {
  return get(getContext(), getCode().getNearest(), getGroup(), getScale(),
             getRecipe(), getHistory(), getMargin(), getTransposed(),
             getTensorScale());
}

StorageAttrInterface ScaledStorageAttr::withFreshScales() const {
  if (getRecipe() != scaled::Recipe::given)
    return *this;
  return get(getContext(), getCode(), getGroup(), getScale(),
             scaled::Recipe::pow2, getHistory(), getMargin(), getTransposed(),
             getTensorScale());
}

StorageAttrInterface ScaledStorageAttr::withGivenScales() const {
  if (!getScale().isF32() || getCode().getRange() || getTransposed())
    return {};
  return get(getContext(), getCode(), getGroup(), getScale(),
             scaled::Recipe::given, /*history=*/0, /*margin=*/0,
             /*transposed=*/false, /*tensorScale=*/false);
}

StorageAttrInterface ScaledStorageAttr::withoutHistory() const {
  return get(getContext(), getCode(), getGroup(), getScale(), getRecipe(),
             /*history=*/0, /*margin=*/0, getTransposed(), getTensorScale());
}

/// Returns the scale of a group under a scale for the tensor: the product of
/// the two, which is rounded to f32.
static Value combineScales(SequenceBuilder &b, Value group, Value tensor) {
  Value number = scaled::DecodeFloatOp::create(
      b.builder, b.loc, b.builder.getF32Type(), b.bits(group),
      Float8E4M3FNType::get(b.builder.getContext()));
  return b.mul(number, tensor);
}

Value ScaledStorageAttr::decode(OpBuilder &builder, Location loc,
                                ValueRange planes, Type type) const {
  SequenceBuilder b(builder, loc);
  SmallVector<Value> codes;
  for (auto [bits, plane] : llvm::zip(planes, getPlanes()))
    if (plane.isRead)
      codes.push_back(b.bitcast(bits, plane.elementType));
  Value exponent = getCode().getRange() ? codes.pop_back_val() : Value();
  Value tensorScale = getTensorScale() ? codes.pop_back_val() : Value();
  Value scale = codes.pop_back_val();
  if (tensorScale)
    scale = combineScales(b, scale, tensorScale);
  if (getRecipe() == scaled::Recipe::given)
    scale = scaled::GivenScaleOp::create(builder, loc, scale, getCode());
  return scaled::DequantizeOp::create(builder, loc, type, codes, scale,
                                      exponent, getCode());
}

namespace {
/// Encodes one value under a scale.
class ScaledEncoder {
public:
  ScaledEncoder(ScaledStorageAttr storage, OpBuilder &builder, Location loc,
                Value value, const EncodeInputs &inputs)
      : storage(storage), code(storage.getCode()), b(builder, loc),
        value(value), inputs(inputs) {}

  SmallVector<Value> encode() {
    if (storage.getTensorScale())
      return encodeInTwoLevels();
    Value scale = chooseScale();
    Value exponent = chooseExponent(scale);
    SmallVector<Type> types;
    for (const scaled::CodePlane &plane : code.getPlanes())
      types.push_back(plane.elementType);
    auto codes = scaled::QuantizeOp::create(b.builder, b.loc, types, value,
                                            scale, exponent, inputs.randomBits,
                                            code, inputs.hasFloor);
    SmallVector<Value> planes;
    for (Value bits : codes.getResults())
      planes.push_back(b.bits(bits));
    bool isGiven = storage.getRecipe() == scaled::Recipe::given;
    planes.push_back(isGiven ? Value() : b.bits(scale));
    if (exponent)
      planes.push_back(exponent);
    if (storage.getTransposed())
      planes.push_back(planes.front());
    if (storage.getHistory())
      planes.append(pushHistory());
    return planes;
  }

private:
  /// Encodes under a scale for the tensor and one for the group in multiples of
  /// it, as Transformer Engine makes those of NVFP4: with L the code's largest
  /// number and A the tensor's largest magnitude, the tensor's scale is 1 / e,
  /// e = 448 L / A, and the group's is its largest magnitude times e / L.
  SmallVector<Value> encodeInTwoLevels() {
    Value expansion = findExpansion();
    Value tensorScale = b.div(b.real(expansion.getType(), 1.0), expansion);
    Value groupScale = makeGroupScale(expansion);
    Value scale = combineScales(b, groupScale, tensorScale);
    // All codes under a scale of zero stand for zero.
    Value isPositive =
        b.compare(arith::CmpFPredicate::OGT, scale, b.zero(scale.getType()));
    scale = b.select(isPositive, scale, b.real(scale.getType(), 1.0));
    auto codes = scaled::QuantizeOp::create(
        b.builder, b.loc, TypeRange{code.getPlanes().front().elementType},
        value, scale, Value(), inputs.randomBits, code, inputs.hasFloor);
    Value bits = b.bits(codes.getResult(0));
    return {bits, groupScale, b.bits(tensorScale)};
  }

  /// Returns the f32 of a magnitude's bits.
  Value toNumber(Value magnitude) {
    return b.bitcast(magnitude, b.builder.getF32Type());
  }

  /// Returns 448 L / A for the tensor's largest magnitude A, at most the
  /// largest number, or 1 if it is zero.
  Value findExpansion() {
    Value magnitude = scaled::MagnitudeOp::create(
        b.builder, b.loc, b.builder.getI32Type(), value, code);
    Value amax = toNumber(ReduceOp::create(b.builder, b.loc, ReduceKind::max,
                                           magnitude, Granularity::tensor));
    Type f32 = amax.getType();
    Value quotient = b.div(b.real(f32, largestScale * code.getLargest()), amax);
    Value most = b.real(f32, std::numeric_limits<float>::max());
    Value isAbove = b.compare(arith::CmpFPredicate::OGT, quotient, most);
    Value expansion = b.select(isAbove, most, quotient);
    Value isZero = b.compare(arith::CmpFPredicate::OEQ, amax, b.zero(f32));
    return b.select(isZero, b.real(f32, 1.0), expansion);
  }

  /// Returns the bits of a group's scale: the nearest one, or for codes that
  /// round by bits, which clamp nothing then, the next larger one.
  Value makeGroupScale(Value expansion) {
    Type f32 = expansion.getType();
    Type format = storage.getScale(), i8 = b.builder.getI8Type();
    Value inverse = b.real(f32, 1.0f / static_cast<float>(code.getLargest()));
    Value factor = b.mul(expansion, inverse);
    Value wanted = b.mul(toNumber(findLargest()), factor);
    Value most = b.real(f32, largestScale);
    Value isAbove = b.compare(arith::CmpFPredicate::OGT, wanted, most);
    wanted = b.select(isAbove, most, wanted);
    // Its code is never NaN, which targets would make canonical.
    Value isFinite = arith::ConstantOp::create(b.builder, b.loc,
                                               b.builder.getBoolAttr(true));
    Value bits = scaled::EncodeFloatOp::create(b.builder, b.loc, i8, wanted,
                                               isFinite, format, false);
    if (!drawsBits(code.getRounding()))
      return bits;
    Value found =
        scaled::DecodeFloatOp::create(b.builder, b.loc, f32, bits, format);
    Value isBelow = b.compare(arith::CmpFPredicate::OLT, found, wanted);
    Type i32 = b.builder.getI32Type();
    Value wide = b.resize(bits, i32);
    Value increment = b.resize(isBelow, i32);
    return b.resize(b.addi(wide, increment), i8);
  }

  /// The largest number of f8E4M3FN.
  static constexpr double largestScale = 448.0;

  Value reduce(ReduceKind kind, Value magnitude) {
    Group group = storage.getGroup();
    if (group.getGranularity() == Granularity::group)
      return ReduceOp::create(b.builder, b.loc, kind, magnitude, group.columns);
    return ReduceOp::create(b.builder, b.loc, kind, magnitude,
                            group.getGranularity());
  }

  Value findLargest() {
    return reduce(ReduceKind::max,
                  scaled::MagnitudeOp::create(
                      b.builder, b.loc, b.builder.getI32Type(), value, code));
  }

  Value makeScale(Value amax) {
    return scaled::ScaleOp::create(b.builder, b.loc, storage.getScale(), amax,
                                   code, storage.getRecipe(),
                                   storage.getMargin());
  }

  /// Returns the scale that is known before a store. A given one is the only
  /// persistent plane, that of a history the first one.
  Value getKnownScale() {
    Value bits =
        *llvm::find_if(inputs.persistent, [](Value entry) { return entry; });
    return scaled::GivenScaleOp::create(
        b.builder, b.loc, b.bitcast(bits, storage.getScale()), code);
  }

  Value chooseScale() {
    bool isKnown =
        storage.getHistory() || storage.getRecipe() == scaled::Recipe::given;
    return isKnown ? getKnownScale() : makeScale(findLargest());
  }

  Value chooseExponent(Value scale) {
    if (!code.getRange())
      return {};
    Value least = reduce(ReduceKind::min,
                         scaled::LeastOp::create(
                             b.builder, b.loc, b.builder.getI32Type(), value));
    return scaled::ExponentOp::create(b.builder, b.loc, b.builder.getI8Type(),
                                      scale, least, code);
  }

  /// Returns the scale of the next store, and the newest value of the history.
  SmallVector<Value> pushHistory() {
    Value amax = findLargest();
    Value largest = arith::MaxUIOp::create(b.builder, b.loc, amax,
                                           inputs.persistent.back());
    // If all magnitudes are zero, the scale stays.
    Value isZero =
        b.compare(arith::CmpIPredicate::eq, largest, b.like(largest, 0));
    Value stays = b.bits(getKnownScale());
    Value made = b.bits(makeScale(largest));
    return {b.select(isZero, stays, made), amax};
  }

  ScaledStorageAttr storage;
  scaled::CodeAttrInterface code;
  SequenceBuilder b;
  Value value;
  const EncodeInputs &inputs;
};
} // namespace

SmallVector<Value> ScaledStorageAttr::encode(OpBuilder &builder, Location loc,
                                             Value value,
                                             const EncodeInputs &inputs) const {
  return ScaledEncoder(*this, builder, loc, value, inputs).encode();
}

/// Returns whether codes, as bits, stand for the largest number.
static Value isLargest(SequenceBuilder &b, scaled::CodeAttrInterface code,
                       ValueRange codes, Value exponent) {
  Value number = b.abs(code.decode(b, codes, exponent));
  return b.compare(arith::CmpFPredicate::OGE, number,
                   b.real(number.getType(), code.getLargest()));
}

Value ScaledStorageAttr::isSaturated(OpBuilder &builder, Location loc,
                                     ValueRange encoded) const {
  SequenceBuilder b(builder, loc);
  size_t count = getCode().getPlanes().size();
  Value exponent = getCode().getRange()
                       ? b.resize(encoded[count + 1], builder.getI32Type())
                       : Value();
  return isLargest(b, getCode(), encoded.take_front(count), exponent);
}

//===----------------------------------------------------------------------===//
// CodedStorageAttr
//===----------------------------------------------------------------------===//

LogicalResult
CodedStorageAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                         scaled::CodeAttrInterface code) {
  // (C1)
  if (!code.getRange() && code.hasNaN())
    return success();
  return emitError() << code << " needs groups; use #tandem.scaled";
}

SmallVector<Plane> CodedStorageAttr::getPlanes() const {
  return getPlanesOf(getCode());
}
std::optional<unsigned> CodedStorageAttr::getVisiblePlane() const {
  return std::nullopt;
}
Type CodedStorageAttr::getValueType(const ComputeAttr &compute) const {
  return compute.getPolicy() == Policy::f32 ? compute.getFormat() : Type();
}
RoundingMode CodedStorageAttr::getRounding() const {
  return getCode().getRounding();
}

StorageAttrInterface CodedStorageAttr::getNearest() const {
  return get(getContext(), getCode().getNearest());
}

Value CodedStorageAttr::decode(OpBuilder &builder, Location loc,
                               ValueRange planes, Type) const {
  SequenceBuilder b(builder, loc);
  SmallVector<Value> codes =
      llvm::map_to_vector(planes, [&](Value plane) { return b.bits(plane); });
  return getCode().finish(b, getCode().decode(b, codes, Value()));
}

/// Returns the codes of a value under a scale of 1.
static SmallVector<Value> encodeAlone(SequenceBuilder &b,
                                      scaled::CodeAttrInterface code,
                                      Value value, const EncodeInputs &inputs) {
  Value x = code.prepare(b, value);
  Value magnitude = scaled::takeMagnitude(b, x);
  scaled::CodeInputs ofCode;
  ofCode.isFinite = b.compare(arith::CmpIPredicate::ult, magnitude,
                              b.like(magnitude, f32Infinity));
  ofCode.random = inputs.randomBits;
  if (inputs.hasFloor)
    ofCode.isPositive =
        b.compare(arith::CmpFPredicate::OGT, value, b.zero(value.getType()));
  return code.encode(b, x, ofCode);
}

SmallVector<Value> CodedStorageAttr::encode(OpBuilder &builder, Location loc,
                                            Value value,
                                            const EncodeInputs &inputs) const {
  SequenceBuilder b(builder, loc);
  return encodeAlone(b, getCode(), value, inputs);
}

Value CodedStorageAttr::isSaturated(OpBuilder &builder, Location loc,
                                    ValueRange encoded) const {
  SequenceBuilder b(builder, loc);
  return isLargest(b, getCode(), encoded, Value());
}

//===----------------------------------------------------------------------===//
// MaskedStorageAttr
//===----------------------------------------------------------------------===//

LogicalResult
MaskedStorageAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                          Type format, scaled::CodeAttrInterface code) {
  // (C1)
  if (!format.isF32() && !isa<BFloat16Type, Float16Type>(format))
    return emitError() << "a masked float is f32, bf16 or f16, got " << format;
  // (C2)
  if (code.getRange())
    return emitError() << code
                       << " stretches the range of a group, and masked floats "
                          "have no groups; use a code without a range";
  if (!code.hasNaN())
    return emitError() << code
                       << " has no NaN but that of a group's scale, and masked "
                          "floats have no groups; use another code";
  return success();
}

SmallVector<Plane> MaskedStorageAttr::getPlanes() const {
  return {Plane{"", getFormat()}};
}
std::optional<unsigned> MaskedStorageAttr::getVisiblePlane() const { return 0; }
Type MaskedStorageAttr::getValueType(const ComputeAttr &compute) const {
  return compute.getPolicy() == Policy::f32 ? compute.getFormat() : Type();
}
RoundingMode MaskedStorageAttr::getRounding() const {
  return getCode().getRounding();
}

StorageAttrInterface MaskedStorageAttr::getNearest() const {
  return get(getContext(), getFormat(), getCode().getNearest());
}

Value MaskedStorageAttr::decode(OpBuilder &builder, Location loc,
                                ValueRange planes, Type type) const {
  return SequenceBuilder(builder, loc).convert(planes[0], type);
}

SmallVector<Value> MaskedStorageAttr::encode(OpBuilder &builder, Location loc,
                                             Value value,
                                             const EncodeInputs &inputs) const {
  SequenceBuilder b(builder, loc);
  SmallVector<Value> codes = encodeAlone(b, getCode(), value, inputs);
  Value number = getCode().finish(b, getCode().decode(b, codes, Value()));
  return {b.canonicalBits(b.convert(number, getFormat()))};
}

//===----------------------------------------------------------------------===//
// ResidualStorageAttr
//===----------------------------------------------------------------------===//

LogicalResult
ResidualStorageAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                            Type format, Type residual, RoundingMode rounding) {
  // (C1)
  if (!isa<BFloat16Type, Float16Type>(format))
    return emitError() << "the visible copy of a residual storage must be bf16 "
                          "or f16, got "
                       << format;
  // (C2)
  if (!residual.isSignlessInteger(8) && !residual.isSignlessInteger(16))
    return emitError() << "a residual is i8 or i16, got " << residual;
  // (C3)
  return scaled::verifyRounding(emitError, "a residual", rounding);
}

SmallVector<Plane> ResidualStorageAttr::getPlanes() const {
  return {Plane{"", getFormat()}, Plane{".residual", getResidual()}};
}
std::optional<unsigned> ResidualStorageAttr::getVisiblePlane() const {
  return 0;
}
Type ResidualStorageAttr::getValueType(const ComputeAttr &compute) const {
  return compute.getPolicy() == Policy::f32 ? compute.getFormat() : Type();
}

StorageAttrInterface ResidualStorageAttr::getNearest() const {
  return get(getContext(), getFormat(), getResidual(), RoundingMode::nearest);
}

/// Returns the integer's largest value: 127 or 32767.
static double getLevels(Type residual) {
  return double((1 << (residual.getIntOrFloatBitWidth() - 1)) - 1);
}

/// Returns the f32 bits of the power of two that a visible value's last place
/// counts from: that of its exponent, or of the smallest normal number.
static Value getExponent(SequenceBuilder &b, Value wide, Type type) {
  Value bits = b.bits(wide);
  uint64_t least = uint64_t(FloatFormat::get(type).minExponent() + 127) << 23;
  return arith::MaxUIOp::create(b.builder, b.loc,
                                b.andi(bits, b.like(bits, f32Infinity)),
                                b.like(bits, least));
}

/// Returns half a unit in the last place of 1.
static double getHalfUlp(Type type) {
  return std::ldexp(1.0, -FloatFormat::get(type).mantissaBits - 1);
}

/// The quotient of the residual, not the power of two, is multiplied by half a
/// unit in the last place of 1: that product is exact, and half a unit in the
/// last place of the value could be subnormal.
Value ResidualStorageAttr::decode(OpBuilder &builder, Location loc,
                                  ValueRange planes, Type) const {
  SequenceBuilder b(builder, loc);
  Type f32 = builder.getF32Type();
  Value high = b.convert(planes[0], f32);
  Value word =
      arith::ExtSIOp::create(builder, loc, builder.getI32Type(), planes[1]);
  Value level = arith::SIToFPOp::create(builder, loc, f32, word);
  Value part = scaled::divideInteger(b, level, getLevels(getResidual()),
                                     getHalfUlp(getFormat()));
  // The power is finite, so that a residual of 0 leaves an infinity.
  Value exponent = getExponent(b, high, getFormat());
  exponent = arith::MinUIOp::create(builder, loc, exponent,
                                    b.like(exponent, 0x7F000000));
  return b.add(high, b.mul(part, b.bitcast(exponent, f32)));
}

/// Returns the distance of a value from its visible copy divided by half the
/// power of two of the copy, exactly: f32 has the inverse of each half, but not
/// of each power. The distance from a copy that is not finite is zero.
static Value measureDistance(SequenceBuilder &b, Value value, Value wide,
                             Type type) {
  Type f32 = b.builder.getF32Type();
  Value infinity = b.real(f32, std::numeric_limits<double>::infinity());
  Value isFinite = b.compare(arith::CmpFPredicate::OLT, b.abs(wide), infinity);
  Value rest = b.select(isFinite, b.sub(value, wide), b.zero(f32));
  Value exponent = getExponent(b, wide, type);
  Value inverse = b.subi(b.like(exponent, f32Infinity), exponent);
  return b.mul(rest, b.bitcast(inverse, f32));
}

/// Rounds the residual of a bf16 by bits to eight bits. The distance is a
/// multiple of 2^-23 and at most 2^-7, so that 2^16 times the level is 127
/// times an integer of at most 2^16, and nothing is rounded before the bits are
/// added. The constant and the random bits share no bit, so that an or adds
/// them.
static Value roundByteOfBF16(SequenceBuilder &b, Value distance, Value random) {
  Value anchor = b.real(distance.getType(), 0x1.8p23);
  Value units =
      b.bits(b.fma(distance, b.real(distance.getType(), 0x1p23), anchor));
  uint32_t addend = -127 * llvm::bit_cast<uint32_t>(0x1.8p23f);
  Value fraction = b.ori(random, b.like(random, addend));
  Value sum = b.addi(b.muli(units, b.like(units, 127)), fraction);
  return b.shrs(sum, 16);
}

/// Returns the residual for a distance, as i32.
static Value roundResidual(SequenceBuilder &b, ResidualStorageAttr storage,
                           Value distance, Value random) {
  Type format = storage.getFormat(), residual = storage.getResidual();
  RoundingMode rounding = storage.getRounding();
  double factor = 0.5 * getLevels(residual) / getHalfUlp(format);
  Value level = b.mul(distance, b.real(distance.getType(), factor));
  if (rounding == RoundingMode::nearest)
    return scaled::roundSigned(b, level);
  if (format.isBF16() && residual.isInteger(8))
    return roundByteOfBF16(
        b, distance, scaled::orientSignedBits(b, distance, random, rounding));
  return scaled::roundSignedLevel(b, level, b.abs(level), random, rounding);
}

SmallVector<Value>
ResidualStorageAttr::encode(OpBuilder &builder, Location loc, Value value,
                            const EncodeInputs &inputs) const {
  SequenceBuilder b(builder, loc);
  if (inputs.hasFloor)
    value = scaled::raiseToSmallest(b, value, getFormat());
  Value high = b.convert(value, getFormat());
  Value wide = b.convert(high, builder.getF32Type());
  Value distance = measureDistance(b, value, wide, getFormat());
  Value word = roundResidual(b, *this, distance, inputs.randomBits);
  return {b.canonicalBits(high), b.resize(word, getResidual())};
}
