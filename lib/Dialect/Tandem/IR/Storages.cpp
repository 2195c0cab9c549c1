//===- Storages.cpp - Storages of the tandem dialect ----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the storage interface for each storage: planes, value
// types, decoding, encoding, accumulation and decay.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/DialectImplementation.h"
#include "tandem/Dialect/Arith/Utils/FloatEmulation.h"
#include "tandem/Dialect/Scaled/IR/CodeSequences.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"

using namespace mlir;
using namespace tandem;

/// Returns the name of a trailing plane of an expansion.
static std::string trailingSuffix(unsigned index) {
  return index == 1 ? ".lo" : ".lo" + std::to_string(index);
}

/// Returns whether values are components of a format rather than f32 numbers.
static bool isComponent(ComputeAttr compute) {
  return compute.getPolicy() == Policy::component;
}

/// Returns x * s, rounded to f32 and then to x's format, which is how
/// docs/Numerics.md defines operations with an f32 scalar.
static Value scaleByScalar(SequenceBuilder &b, Value x, Value scalar) {
  Value wide = b.mul(b.convert(x, b.builder.getF32Type()), scalar);
  return b.convert(wide, getElementTypeOrSelf(x.getType()));
}

/// Returns each plane's value, widened exactly.
static SmallVector<Value> widenParts(OpBuilder &builder, Location loc,
                                     ValueRange planes) {
  SequenceBuilder b(builder, loc);
  return llvm::map_to_vector(planes, [&](Value plane) {
    return b.convert(plane, builder.getF64Type());
  });
}

/// Returns `value`, or the visible copy, widened, if it is not `value` rounded.
static Value adopt(SequenceBuilder &b, Value visible, Value value) {
  Type f32 = b.builder.getF32Type();
  Value shown = b.convert(visible, f32);
  Value rounded =
      b.convert(b.convert(value, getElementTypeOrSelf(visible.getType())), f32);
  return b.select(b.compare(arith::CmpFPredicate::OEQ, shown, rounded), value,
                  shown);
}

/// Verifies that a visible copy has a 16-bit float format.
static LogicalResult verifyHalf(function_ref<InFlightDiagnostic()> emitError,
                                StringRef what, Type format) {
  if (isa<BFloat16Type, Float16Type>(format))
    return success();
  return emitError() << what << " must be bf16 or f16, got " << format;
}

//===----------------------------------------------------------------------===//
// FloatStorageAttr
//===----------------------------------------------------------------------===//

LogicalResult
FloatStorageAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                         Type format, RoundingMode rounding) {
  // (C1)
  if (!mcf::isComponentFormat(format))
    return emitError()
           << "a stored float is bf16, f16, f32, f8E4M3FN or f8E5M2, got "
           << format;
  // (C2)
  if (drawsBits(rounding) &&
      failed(verifyHalf(emitError, "a float that is rounded by bits", format)))
    return failure();
  // (C3)
  return scaled::verifyRounding(emitError, "a stored float", rounding);
}

SmallVector<Plane> FloatStorageAttr::getPlanes() const {
  return {Plane{"", getFormat()}};
}
std::optional<unsigned> FloatStorageAttr::getVisiblePlane() const { return 0; }

StorageAttrInterface FloatStorageAttr::getNearest() const {
  return get(getContext(), getFormat(), RoundingMode::nearest);
}
/// Below f32, the changes of an average are less than half a unit.
StorageAttrInterface
FloatStorageAttr::getAverageStorage(const ComputeAttr &compute) const {
  bool isNarrow = getFormat().getIntOrFloatBitWidth() == 16;
  if (!isNarrow || getRounding() != RoundingMode::nearest)
    return *this;
  if (isComponent(compute))
    return ExpansionStorageAttr::get(getContext(),
                                     mcf::ExpansionType::get(getFormat(), 2));
  return get(getContext(), getFormat(), RoundingMode::dither);
}
std::optional<PlaneSum> FloatStorageAttr::getPlaneSum() const {
  return PlaneSum{getFormat(), 1};
}

/// Rounding by bits is from f32, so it has no component policy.
Type FloatStorageAttr::getValueType(const ComputeAttr &compute) const {
  return drawsBits(getRounding()) && isComponent(compute) ? Type()
                                                          : compute.getFormat();
}

Value FloatStorageAttr::decode(OpBuilder &builder, Location loc,
                               ValueRange planes, Type type) const {
  return SequenceBuilder(builder, loc).convert(planes[0], type);
}

/// Rounds |x| = (n + f) ulp up iff floor(f * 2^16) + r >= 2^16. In bf16 the
/// low 16 bits of an f32 are f * 2^16 exactly, subnormals included.
static Value roundBF16ByBits(SequenceBuilder &b, Value x, Value random) {
  Value bits = b.bits(x);
  Value code = b.shr(b.addi(bits, random), 16);
  Value magnitude = b.andi(bits, b.like(bits, f32Magnitude));
  Value isNaN = b.compare(arith::CmpIPredicate::ugt, magnitude,
                          b.like(bits, f32Infinity));
  return b.resize(b.select(isNaN, b.like(code, 0x7FFF), code),
                  b.builder.getIntegerType(16));
}

/// Does the same for a format with fewer exponents than f32.
static Value roundSmallByBits(SequenceBuilder &b, Value x, Value random,
                              Type element, RoundingMode rounding) {
  FloatFormat to = FloatFormat::get(element);
  Value bits = b.bits(x);
  Value magnitude = b.andi(bits, b.like(bits, f32Magnitude));
  // Infinity follows the largest number as the next power of two would.
  float beyond = std::ldexp(1.0f, std::ilogb(to.decode(to.maxFinite())) + 1);
  Value limited = arith::MinUIOp::create(
      b.builder, b.loc, magnitude,
      b.like(magnitude, llvm::bit_cast<uint32_t>(beyond)));
  Value code = roundMagnitude(b, limited, to, rounding, random);
  Value sign = b.shr(b.xori(bits, magnitude), 32 - to.width());
  Value isNaN = b.compare(arith::CmpIPredicate::ugt, magnitude,
                          b.like(bits, f32Infinity));
  code = b.select(isNaN, b.like(code, to.canonicalNaN()), b.ori(code, sign));
  return b.resize(code, b.builder.getIntegerType(to.width()));
}

SmallVector<Value> FloatStorageAttr::encode(OpBuilder &builder, Location loc,
                                            Value value,
                                            const EncodeInputs &inputs) const {
  SequenceBuilder b(builder, loc);
  if (inputs.hasFloor)
    value = scaled::raiseToSmallest(b, value, getFormat());
  if (!drawsBits(getRounding()))
    return {b.canonicalBits(b.convert(value, getFormat()))};
  Value bits = scaled::orientBits(b, value, inputs.randomBits, getRounding());
  if (getFormat().isBF16())
    return {roundBF16ByBits(b, value, bits)};
  return {roundSmallByBits(b, value, bits, getFormat(), getRounding())};
}

Value FloatStorageAttr::decay(OpBuilder &builder, Location loc, Value whole,
                              const UniformFactor &factor) const {
  SequenceBuilder b(builder, loc);
  return scaleByScalar(b, whole, factor.scalar());
}

//===----------------------------------------------------------------------===//
// ExpansionStorageAttr
//===----------------------------------------------------------------------===//

Attribute ExpansionStorageAttr::parse(AsmParser &parser, Type) {
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseLess())
    return {};
  FailureOr<SmallVector<Type>> components = mcf::parseComponentList(parser);
  if (failed(components) || parser.parseGreater())
    return {};
  auto type = mcf::ExpansionType::getChecked(
      [&] { return parser.emitError(location); }, parser.getContext(),
      ArrayRef<Type>(*components));
  return type ? get(parser.getContext(), type) : Attribute();
}

void ExpansionStorageAttr::print(AsmPrinter &printer) const {
  printer << "<";
  mcf::printComponentList(printer, getExpansion().getComponents());
  printer << ">";
}

LogicalResult
ExpansionStorageAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                             mcf::ExpansionType expansion) {
  return success();
}

SmallVector<Plane> ExpansionStorageAttr::getPlanes() const {
  SmallVector<Plane> planes;
  for (auto [index, type] : llvm::enumerate(getExpansion().getComponents()))
    planes.push_back({index ? trailingSuffix(index) : "", type});
  return planes;
}
std::optional<unsigned> ExpansionStorageAttr::getVisiblePlane() const {
  return 0;
}
std::optional<PlaneSum> ExpansionStorageAttr::getPlaneSum() const {
  if (getExpansion().isMixed())
    return std::nullopt;
  return PlaneSum{getExpansion().getLeading(), getExpansion().getLength()};
}

/// The components after a leading f32 are less than half a unit in its last
/// place.
StorageAttrInterface ExpansionStorageAttr::getF32Equivalent() const {
  if (!getExpansion().getLeading().isF32())
    return *this;
  return FloatStorageAttr::get(getContext(), getExpansion().getLeading(),
                               RoundingMode::nearest);
}
Type ExpansionStorageAttr::getValueType(const ComputeAttr &compute) const {
  Type leading = getExpansion().getLeading();
  if (isComponent(compute))
    return leading == compute.getFormat() ? Type(getExpansion()) : Type();
  return leading.isF32() ? Type() : compute.getFormat();
}

Value ExpansionStorageAttr::decode(OpBuilder &builder, Location loc,
                                   ValueRange planes, Type type) const {
  Value packed = mcf::PackOp::create(
      builder, loc, mcf::withElementType(type, getExpansion()), planes);
  if (isa<mcf::ExpansionType>(getElementTypeOrSelf(type)))
    return packed;
  return mcf::ToFloatOp::create(builder, loc, type, packed);
}

SmallVector<Value>
ExpansionStorageAttr::encode(OpBuilder &builder, Location loc, Value value,
                             const EncodeInputs &inputs) const {
  SequenceBuilder b(builder, loc);
  if (inputs.hasFloor)
    value = scaled::raiseToSmallest(b, value, getExpansion().getLeading());
  Type type = mcf::withElementType(value.getType(), getExpansion());
  if (value.getType() != type)
    value = mcf::FromFloatOp::create(builder, loc, type, value);
  SmallVector<Type> types =
      llvm::map_to_vector(getExpansion().getComponents(), [&](Type element) {
        return mcf::withElementType(type, element);
      });
  auto components = mcf::ComponentsOp::create(builder, loc, types, value);
  return llvm::map_to_vector(components.getResults(), [&](Value component) {
    return b.canonicalBits(component);
  });
}

SmallVector<Value> ExpansionStorageAttr::getParts(OpBuilder &builder,
                                                  Location loc,
                                                  ValueRange planes) const {
  if (!getExpansion().isMixed())
    return widenParts(builder, loc, planes);
  Type leading = getExpansion().getLeading();
  auto uniform = mcf::ExpansionType::get(leading, 2);
  Value packed = mcf::PackOp::create(builder, loc, getExpansion(), planes);
  Value wide = mcf::ConvertOp::create(builder, loc, uniform, packed);
  auto parts = mcf::ComponentsOp::create(builder, loc,
                                         TypeRange{leading, leading}, wide);
  return widenParts(builder, loc, parts.getResults());
}

Value ExpansionStorageAttr::accumulate(OpBuilder &builder, Location loc,
                                       Value whole, Value addend) const {
  return mcf::GrowOp::create(builder, loc, whole.getType(), whole, addend);
}

Value ExpansionStorageAttr::decay(OpBuilder &builder, Location loc, Value whole,
                                  const UniformFactor &factor) const {
  Value split = factor.split(getExpansion().getLength());
  if (!getExpansion().isMixed())
    return mcf::MulOp::create(builder, loc, whole.getType(), split, whole);
  // The factor keeps both its components; only the product is narrowed.
  Value wide = mcf::ConvertOp::create(builder, loc, split.getType(), whole);
  Value product =
      mcf::MulOp::create(builder, loc, split.getType(), split, wide);
  return mcf::ConvertOp::create(builder, loc, whole.getType(), product);
}

//===----------------------------------------------------------------------===//
// KahanStorageAttr
//===----------------------------------------------------------------------===//

LogicalResult
KahanStorageAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                         Type format) {
  // (C1)
  return verifyHalf(emitError, "a Kahan-compensated float", format);
}

SmallVector<Plane> KahanStorageAttr::getPlanes() const {
  return {Plane{"", getFormat()}, Plane{".compensation", getFormat()}};
}
std::optional<unsigned> KahanStorageAttr::getVisiblePlane() const { return 0; }
/// The compensation holds the part that is still to be added.
std::optional<PlaneSum> KahanStorageAttr::getPlaneSum() const {
  return PlaneSum{getFormat(), 2};
}
StorageAttrInterface KahanStorageAttr::getF32Equivalent() const {
  return ExpansionStorageAttr::get(getContext(),
                                   mcf::ExpansionType::get(getFormat(), 2));
}
Type KahanStorageAttr::getValueType(const ComputeAttr &compute) const {
  if (isComponent(compute) && compute.getFormat() == getFormat())
    return mcf::ExpansionType::get(getFormat(), 2);
  return {};
}

Value KahanStorageAttr::decode(OpBuilder &builder, Location loc,
                               ValueRange planes, Type type) const {
  return mcf::PackOp::create(builder, loc, type, planes);
}

SmallVector<Value> KahanStorageAttr::encode(OpBuilder &builder, Location loc,
                                            Value value,
                                            const EncodeInputs &) const {
  Type type = mcf::getLeadingLike(value.getType());
  auto components =
      mcf::ComponentsOp::create(builder, loc, TypeRange{type, type}, value);
  SequenceBuilder b(builder, loc);
  return {b.canonicalBits(components.getResult(0)),
          b.canonicalBits(components.getResult(1))};
}

SmallVector<Value> KahanStorageAttr::getParts(OpBuilder &builder, Location loc,
                                              ValueRange planes) const {
  return widenParts(builder, loc, planes);
}

Value KahanStorageAttr::accumulate(OpBuilder &builder, Location loc,
                                   Value whole, Value addend) const {
  return mcf::KahanOp::create(builder, loc, whole.getType(), whole, addend);
}

/// The value decays; the part that is still to be added does not.
Value KahanStorageAttr::decay(OpBuilder &builder, Location loc, Value whole,
                              const UniformFactor &factor) const {
  Type type = mcf::getLeadingLike(whole.getType());
  auto parts =
      mcf::ComponentsOp::create(builder, loc, TypeRange{type, type}, whole);
  SequenceBuilder b(builder, loc);
  Value value = scaleByScalar(b, parts.getResult(0), factor.scalar());
  return mcf::PackOp::create(builder, loc, whole.getType(),
                             ValueRange{value, parts.getResult(1)});
}

//===----------------------------------------------------------------------===//
// MasterStorageAttr
//===----------------------------------------------------------------------===//

LogicalResult
MasterStorageAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                          Type format) {
  // (C1)
  return verifyHalf(emitError, "the visible copy of a master weight", format);
}

SmallVector<Plane> MasterStorageAttr::getPlanes() const {
  return {Plane{"", getFormat()},
          Plane{".master", Float32Type::get(getContext())}};
}
std::optional<unsigned> MasterStorageAttr::getVisiblePlane() const { return 0; }
Type MasterStorageAttr::getValueType(const ComputeAttr &compute) const {
  return isComponent(compute) ? Type() : compute.getFormat();
}

StorageAttrInterface
MasterStorageAttr::getAverageStorage(const ComputeAttr &) const {
  return FloatStorageAttr::get(getContext(), Float32Type::get(getContext()),
                               RoundingMode::nearest);
}

Value MasterStorageAttr::decode(OpBuilder &builder, Location loc,
                                ValueRange planes, Type) const {
  SequenceBuilder b(builder, loc);
  return adopt(b, planes[0], planes[1]);
}

SmallVector<Value> MasterStorageAttr::encode(OpBuilder &builder, Location loc,
                                             Value value,
                                             const EncodeInputs &) const {
  SequenceBuilder b(builder, loc);
  return {b.canonicalBits(b.convert(value, getFormat())),
          b.canonicalBits(value)};
}

//===----------------------------------------------------------------------===//
// WorkingStorageAttr
//===----------------------------------------------------------------------===//

LogicalResult
WorkingStorageAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                           Type format, StorageAttrInterface codes) {
  // (C1)
  if (failed(verifyHalf(emitError, "a working copy", format)))
    return failure();
  // (C2)
  if (hasVisibleFloats(codes))
    return emitError() << codes
                       << " has a plane that frameworks read already; "
                          "use it without a working copy";
  // (C3)
  if (hasTranspose(codes))
    return emitError() << "a weight's codes are not read as a transpose; leave "
                          "out transposed = true";
  return success();
}

SmallVector<Plane> WorkingStorageAttr::getPlanes() const {
  SmallVector<Plane> planes = {Plane{".working", getFormat()}};
  planes.append(getCodes().getPlanes());
  return planes;
}
std::optional<unsigned> WorkingStorageAttr::getVisiblePlane() const {
  return 0;
}
Type WorkingStorageAttr::getValueType(const ComputeAttr &compute) const {
  return getCodes().getValueType(compute);
}
RoundingMode WorkingStorageAttr::getRounding() const {
  return getCodes().getRounding();
}

StorageAttrInterface WorkingStorageAttr::getNearest() const {
  return get(getContext(), getFormat(), getCodes().getNearest());
}
StorageAttrInterface
WorkingStorageAttr::getAverageStorage(const ComputeAttr &compute) const {
  return getCodes().getAverageStorage(compute);
}
StorageAttrInterface WorkingStorageAttr::withFreshScales() const {
  return get(getContext(), getFormat(), getCodes().withFreshScales());
}
StorageAttrInterface WorkingStorageAttr::withoutHistory() const {
  return get(getContext(), getFormat(), getCodes().withoutHistory());
}

Value WorkingStorageAttr::decode(OpBuilder &builder, Location loc,
                                 ValueRange planes, Type type) const {
  SequenceBuilder b(builder, loc);
  Value value = getCodes().decode(builder, loc, planes.drop_front(), type);
  return adopt(b, planes[0], value);
}

SmallVector<Value>
WorkingStorageAttr::encode(OpBuilder &builder, Location loc, Value value,
                           const EncodeInputs &inputs) const {
  SequenceBuilder b(builder, loc);
  EncodeInputs own = inputs;
  own.persistent.erase(own.persistent.begin());
  SmallVector<Value> encoded = getCodes().encode(builder, loc, value, own);
  // A plane that no step writes, such as a given scale, keeps its value.
  SmallVector<Value> planes;
  for (auto [code, before, plane] :
       llvm::zip(encoded, own.persistent, getCodes().getPlanes())) {
    Value bits = code ? code : before;
    planes.push_back(plane.isRaw ? bits : b.bitcast(bits, plane.elementType));
  }
  Value decoded = getCodes().decode(builder, loc, planes, value.getType());
  Value shown = b.canonicalBits(b.convert(decoded, getFormat()));
  encoded.insert(encoded.begin(), shown);
  return encoded;
}

Value WorkingStorageAttr::isSaturated(OpBuilder &builder, Location loc,
                                      ValueRange encoded) const {
  return getCodes().isSaturated(builder, loc, encoded.drop_front());
}

//===----------------------------------------------------------------------===//
// RemainderStorageAttr
//===----------------------------------------------------------------------===//

SmallVector<Plane> RemainderStorageAttr::getPlanes() const {
  return {Plane{"", BFloat16Type::get(getContext())},
          Plane{".remainder", IntegerType::get(getContext(), 16)}};
}
std::optional<unsigned> RemainderStorageAttr::getVisiblePlane() const {
  return 0;
}
Type RemainderStorageAttr::getValueType(const ComputeAttr &compute) const {
  return isComponent(compute) ? Type() : compute.getFormat();
}

Value RemainderStorageAttr::decode(OpBuilder &builder, Location loc,
                                   ValueRange planes, Type) const {
  SequenceBuilder b(builder, loc);
  Type i32 = builder.getI32Type();
  Value low = b.resize(planes[1], i32);
  Value high = b.resize(b.bits(planes[0]), i32);
  Value borrow = b.shr(low, 15);
  Value word = b.ori(b.shl(b.subi(high, borrow), 16), low);
  // A zero that other code has written has nothing to borrow from.
  Value lacksBorrow = b.xori(borrow, b.like(borrow, 1));
  Value rest = b.ori(b.shl(high, 17), lacksBorrow);
  Value isWritten = b.compare(arith::CmpIPredicate::eq, rest, b.like(rest, 0));
  return b.bitcast(b.select(isWritten, b.shl(high, 16), word),
                   builder.getF32Type());
}

/// A NaN is 0x7FFF0000 here: rounding 0x7FFFFFFF up would show the framework
/// a -0 in the visible plane.
SmallVector<Value> RemainderStorageAttr::encode(OpBuilder &builder,
                                                Location loc, Value value,
                                                const EncodeInputs &) const {
  SequenceBuilder b(builder, loc);
  Type i16 = builder.getIntegerType(16);
  Value word = b.bits(value);
  Value magnitude = b.andi(word, b.like(word, 0x7FFFFFFF));
  Value isNaN =
      b.compare(arith::CmpIPredicate::ugt, magnitude, b.like(word, 0x7F800000));
  word = b.select(isNaN, b.like(word, 0x7FFF0000), word);
  Value high = b.shr(b.addi(word, b.like(word, 0x8000)), 16);
  return {b.resize(high, i16), b.resize(word, i16)};
}
