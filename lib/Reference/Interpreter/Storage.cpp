//===- Storage.cpp - Storages and their planes ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements decoding and encoding of each storage, from the
// specification.
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/Interpreter/Storage.h"

#include "tandem/Reference/Interpreter/Scaled.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::reference;

//===----------------------------------------------------------------------===//
// Supported storages
//===----------------------------------------------------------------------===//

llvm::Error reference::checkKnown(StorageAttrInterface storage) {
  if (auto scaled = dyn_cast<ScaledStorageAttr>(storage))
    return checkKnown(scaled.getCode());
  if (auto coded = dyn_cast<CodedStorageAttr>(storage))
    return checkKnown(coded.getCode());
  if (auto masked = dyn_cast<MaskedStorageAttr>(storage))
    return checkKnown(masked.getCode());
  if (auto working = dyn_cast<WorkingStorageAttr>(storage))
    return checkKnown(working.getCodes());
  if (isa<FloatStorageAttr, ExpansionStorageAttr, KahanStorageAttr,
          MasterStorageAttr, RemainderStorageAttr, ResidualStorageAttr>(
          storage))
    return llvm::Error::success();
  return makeError("the interpreter does not know the storage " +
                   describe(storage));
}

/// Returns whether a storage supports values that are components of a format.
static bool worksOnComponents(StorageAttrInterface storage, Type format) {
  if (auto plain = dyn_cast<FloatStorageAttr>(storage))
    return plain.getRounding() == RoundingMode::nearest;
  if (auto kahan = dyn_cast<KahanStorageAttr>(storage))
    return kahan.getFormat() == format;
  if (auto expansion = dyn_cast<ExpansionStorageAttr>(storage))
    return expansion.getExpansion().getLeading() == format;
  return false;
}

/// Returns whether a storage supports values that are f32.
static bool worksOnReals(StorageAttrInterface storage) {
  if (auto expansion = dyn_cast<ExpansionStorageAttr>(storage))
    return !expansion.getExpansion().getLeading().isF32();
  return !isa<KahanStorageAttr>(storage);
}

llvm::Error reference::checkPolicy(StorageAttrInterface storage,
                                   ComputeAttr compute, RoleAttr role) {
  if (llvm::Error error = checkKnown(storage))
    return error;
  bool isReal = compute.getPolicy() == Policy::f32;
  bool works = isReal ? worksOnReals(storage)
                      : worksOnComponents(storage, compute.getFormat()) ||
                            (role.isDestination() && worksOnReals(storage));
  if (works)
    return llvm::Error::success();
  return makeError("'" + role.getName().getValue() + "' is stored as " +
                   describe(storage) + ", which has no meaning under the " +
                   stringifyPolicy(compute.getPolicy()) + " policy of " +
                   describe(compute.getFormat()) + "; assign another storage");
}

bool reference::isCompensated(StorageAttrInterface storage) {
  return isa<ExpansionStorageAttr, KahanStorageAttr>(storage);
}

/// Returns the scaled storage, which may have a working copy in front, or null.
static ScaledStorageAttr getScaled(StorageAttrInterface storage) {
  if (auto working = dyn_cast<WorkingStorageAttr>(storage))
    storage = working.getCodes();
  return dyn_cast<ScaledStorageAttr>(storage);
}

/// Returns the number of planes before those of the codes.
static size_t countBefore(StorageAttrInterface storage) {
  return isa<WorkingStorageAttr>(storage);
}

uint64_t reference::getGroup(StorageAttrInterface storage) {
  ScaledStorageAttr scaled = getScaled(storage);
  if (!scaled)
    return 1;
  bool isWhole = needsMatrix(storage) || scaled.getTensorScale();
  return isWhole ? Group::all : scaled.getGroup().columns;
}

//===----------------------------------------------------------------------===//
// Planes as numbers
//===----------------------------------------------------------------------===//

/// Returns the format of the leading plane of a storage whose planes are all
/// floats.
static Format getLeadingFormat(StorageAttrInterface storage) {
  return *getFormat(storage.getPlanes().front().elementType);
}

static Components readComponents(StorageAttrInterface storage,
                                 ArrayRef<uint64_t> codes) {
  Components components;
  for (auto [plane, code] : llvm::zip(storage.getPlanes(), codes))
    components.push_back(
        SoftFloat::fromBits(*getFormat(plane.elementType), code));
  return components;
}

static Codes writeComponents(ArrayRef<SoftFloat> components) {
  Codes codes;
  for (const SoftFloat &component : components)
    codes.push_back(component.toCanonicalBits());
  return codes;
}

Components reference::settle(StorageAttrInterface storage,
                             ArrayRef<SoftFloat> components) {
  auto expansion = dyn_cast<ExpansionStorageAttr>(storage);
  if (!expansion || !expansion.getExpansion().isMixed())
    return Components(components);
  Type trailing = expansion.getExpansion().getComponents().back();
  return narrowMixed(components, *getFormat(trailing));
}

/// Returns ((hi - (lo >> 15)) mod 2^16) << 16 | lo. If hi is a zero that is
/// never encoded with this lo, returns that zero.
static SoftFloat joinRemainder(uint64_t high, uint64_t low) {
  if ((high & 0x7FFF) == 0 && low >= 0x8000)
    return SoftFloat::fromBits(Format::F32, high << 16);
  uint64_t upper = (high - (low >> 15)) & 0xFFFF;
  return SoftFloat::fromBits(Format::F32, upper << 16 | low);
}

/// Splits a value. A NaN becomes 0x7FFF0000, because rounding the canonical
/// 0x7FFFFFFF up would make its visible half -0.
static Codes splitRemainder(const SoftFloat &value) {
  uint64_t bits = value.isNaN() ? 0x7FFF0000 : value.toBits();
  return {(bits + 0x8000) >> 16, bits & 0xFFFF};
}

//===----------------------------------------------------------------------===//
// Reals
//===----------------------------------------------------------------------===//

/// Decodes an element. Its codes are followed by the scale and, if the code has
/// a range, by the exponent.
static SoftFloat decodeScaled(ScaledStorageAttr storage,
                              ArrayRef<uint64_t> planes) {
  size_t count = storage.getCode().getPlanes().size();
  uint64_t bits = planes[count];
  if (storage.getRecipe() == scaled::Recipe::given)
    bits = checkScale(bits, storage.getCode(), storage.getScale());
  SoftFloat scale = decodeScale(storage.getScale(), bits);
  if (storage.getTensorScale())
    scale = scale.mul(SoftFloat::fromBits(Format::F32, planes[count + 1]));
  CodeContext context;
  if (storage.getCode().getRange())
    context.exponent = planes[count + 1];
  return dequantize(storage.getCode(), planes.take_front(count), scale,
                    context);
}

/// Returns the number in the visible copy if `value` does not round to it, else
/// `value`.
static SoftFloat adopt(Format format, uint64_t visible,
                       const SoftFloat &value) {
  SoftFloat shown = SoftFloat::fromBits(format, visible);
  return shown.compare(value.convert(format)) == Ordering::Equal
             ? value
             : shown.convert(Format::F32);
}

SoftFloat reference::decodeReal(StorageAttrInterface storage,
                                ArrayRef<uint64_t> planes) {
  if (auto master = dyn_cast<MasterStorageAttr>(storage))
    return adopt(*getFormat(master.getFormat()), planes[0],
                 SoftFloat::fromBits(Format::F32, planes[1]));
  if (auto working = dyn_cast<WorkingStorageAttr>(storage))
    return adopt(*getFormat(working.getFormat()), planes[0],
                 decodeReal(working.getCodes(), planes.drop_front()));
  if (isa<RemainderStorageAttr>(storage))
    return joinRemainder(planes[0], planes[1]);
  if (auto residual = dyn_cast<ResidualStorageAttr>(storage))
    return decodeResidual(residual, planes);
  if (auto scaled = dyn_cast<ScaledStorageAttr>(storage))
    return decodeScaled(scaled, planes);
  if (auto coded = dyn_cast<CodedStorageAttr>(storage))
    return finish(coded.getCode(), decode(coded.getCode(), planes, {}));
  return sumComponents(widenMixed(readComponents(storage, planes)),
                       Format::F32);
}

static bool isPositive(const SoftFloat &value) {
  return isLess(toReal(0), value);
}

/// Encodes a value as if its scale were 1.
static Codes encodeAlone(scaled::CodeAttrInterface code, const SoftFloat &value,
                         ElementRounding rounding) {
  SoftFloat prepared = prepare(code, value);
  CodeContext context;
  context.random = rounding.random;
  context.isFloored = rounding.hasFloor && isPositive(value);
  return encode(code, prepared, prepared.isFinite(), context);
}

/// Raises a positive value to at least the smallest number of the leading
/// plane.
static SoftFloat raiseToFloor(StorageAttrInterface storage,
                              const SoftFloat &value,
                              ElementRounding rounding) {
  bool isRounded =
      isa<FloatStorageAttr, ExpansionStorageAttr, ResidualStorageAttr>(storage);
  if (!isRounded || !rounding.hasFloor || !isPositive(value))
    return value;
  Format leading = getLeadingFormat(storage);
  return value.maximum(SoftFloat::getSmallest(leading).convert(Format::F32));
}

static Codes encodeFloat(FloatStorageAttr storage, const SoftFloat &value,
                         uint16_t random) {
  Format format = *getFormat(storage.getFormat());
  if (storage.getRounding() == RoundingMode::nearest)
    return writeComponents({value.convert(format)});
  uint16_t bits = orientBits(storage.getRounding(), value, random);
  return writeComponents(
      roundByBits(value, format, storage.getRounding(), bits));
}

/// Encodes the number that the code keeps of a value, in the storage's format.
static Codes encodeMasked(MaskedStorageAttr storage, const SoftFloat &value,
                          ElementRounding rounding) {
  scaled::CodeAttrInterface code = storage.getCode();
  Codes codes = encodeAlone(code, value, rounding);
  SoftFloat number = finish(code, decode(code, codes, {}));
  return writeComponents({number.convert(*getFormat(storage.getFormat()))});
}

/// Inserts the working copy before `codes`.
static Codes addCopy(WorkingStorageAttr storage, Codes codes) {
  Format format = *getFormat(storage.getFormat());
  SoftFloat decoded = decodeReal(storage.getCodes(), codes);
  codes.insert(codes.begin(), decoded.convert(format).toCanonicalBits());
  return codes;
}

Codes reference::encodeReal(StorageAttrInterface storage,
                            const SoftFloat &exact, ElementRounding rounding) {
  if (auto working = dyn_cast<WorkingStorageAttr>(storage))
    return addCopy(working, encodeReal(working.getCodes(), exact, rounding));
  if (auto coded = dyn_cast<CodedStorageAttr>(storage))
    return encodeAlone(coded.getCode(), exact, rounding);
  if (auto masked = dyn_cast<MaskedStorageAttr>(storage))
    return encodeMasked(masked, exact, rounding);
  SoftFloat value = raiseToFloor(storage, exact, rounding);
  if (auto master = dyn_cast<MasterStorageAttr>(storage)) {
    Format visible = *getFormat(master.getFormat());
    return writeComponents({value.convert(visible), value});
  }
  if (isa<RemainderStorageAttr>(storage))
    return splitRemainder(value);
  if (auto residual = dyn_cast<ResidualStorageAttr>(storage))
    return encodeResidual(residual, value, rounding.random);
  if (auto plain = dyn_cast<FloatStorageAttr>(storage))
    return encodeFloat(plain, value, rounding.random);
  Components components = toComponents(value, getLeadingFormat(storage),
                                       storage.getPlanes().size());
  return writeComponents(settle(storage, components));
}

/// Returns the planes of delayed scaling: the scale for the next store, and the
/// history that it is computed from.
static std::pair<PlaneData &, PlaneData &>
getNextAndHistory(const BoundTensor &tensor) {
  size_t count = tensor.data.size();
  return {*tensor.data[count - 2], *tensor.data[count - 1]};
}

/// Returns the bits of a group's scale: computed from its largest magnitude,
/// computed by the previous store, or given.
static uint64_t findScale(const BoundTensor &tensor, uint64_t element,
                          const SoftFloat &amax) {
  ScaledStorageAttr storage = getScaled(tensor.storage);
  scaled::CodeAttrInterface code = storage.getCode();
  Type type = storage.getScale();
  if (storage.getHistory())
    return checkScale(getNextAndHistory(tensor).first.elements.front(), code,
                      type);
  if (storage.getRecipe() == scaled::Recipe::given)
    return checkScale(
        tensor.read(
            element)[countBefore(tensor.storage) + code.getPlanes().size()],
        code, type);
  return chooseScale(amax, code, type, storage.getRecipe());
}

/// Replaces the oldest magnitude by the newest, and computes the scale of the
/// next store from the largest one. If all are zero, the scale stays the same.
static void updateHistory(const BoundTensor &tensor, const SoftFloat &newest) {
  ScaledStorageAttr storage = getScaled(tensor.storage);
  auto [next, history] = getNextAndHistory(tensor);
  history.elements.insert(history.elements.begin(), newest.toBits());
  history.elements.pop_back();
  SoftFloat largest(Format::F32);
  for (uint64_t bits : history.elements) {
    auto magnitude = SoftFloat::fromBits(Format::F32, bits);
    if (magnitude.isFinite() && !magnitude.isNegative())
      largest = largest.maximum(magnitude);
  }
  uint64_t &scale = next.elements.front();
  scale = largest.isZero()
              ? checkScale(scale, storage.getCode(), storage.getScale())
              : chooseScale(largest, storage.getCode(), storage.getScale(),
                            storage.getRecipe(), storage.getMargin());
}

namespace {
/// The elements that share a scale, and their values.
struct ScaledGroup {
  SmallVector<uint64_t> elements;
  SmallVector<SoftFloat> values;
};
} // namespace

/// Returns what a tensor's values are multiplied by before those of its groups
/// are scaled: 448 times the code's largest number over the largest magnitude.
static SoftFloat findExpansion(scaled::CodeAttrInterface code,
                               ArrayRef<SoftFloat> values) {
  SoftFloat amax(Format::F32);
  for (const SoftFloat &value : values)
    amax = amax.maximum(getMagnitude(code, value));
  if (amax.isZero())
    return toReal(1);
  SoftFloat quotient = toReal(448 * code.getLargest()).div(amax);
  return quotient.isFinite() ? quotient : SoftFloat::getLargest(Format::F32);
}

/// Returns the bits of a group's scale in multiples of the tensor's.
static uint64_t chooseGroupScale(scaled::CodeAttrInterface code,
                                 const SoftFloat &amax,
                                 const SoftFloat &expansion) {
  SoftFloat inverse = toReal(1).div(toReal(code.getLargest()));
  SoftFloat wanted = amax.mul(expansion.mul(inverse));
  if (isLess(toReal(448), wanted))
    wanted = toReal(448);
  SoftFloat nearest = wanted.convert(Format::F8E4M3FN);
  bool isBelow = isLess(nearest.convert(Format::F32), wanted);
  return nearest.toCanonicalBits() + (drawsBits(code.getRounding()) && isBelow);
}

namespace {
/// The entries of a group's scales, and the scale itself.
struct GroupScale {
  Codes entries;
  SoftFloat scale;
};
} // namespace

static GroupScale findGroupScale(const BoundTensor &tensor, uint64_t element,
                                 const SoftFloat &amax,
                                 const SoftFloat &expansion) {
  ScaledStorageAttr storage = getScaled(tensor.storage);
  if (!storage.getTensorScale()) {
    uint64_t bits = findScale(tensor, element, amax);
    return {{bits}, decodeScale(storage.getScale(), bits)};
  }
  uint64_t bits = chooseGroupScale(storage.getCode(), amax, expansion);
  SoftFloat whole = toReal(1).div(expansion);
  SoftFloat scale = decodeScale(storage.getScale(), bits).mul(whole);
  return {{bits, whole.toBits()}, isLess(toReal(0), scale) ? scale : toReal(1)};
}

/// Writes one group: the codes of each element, their scale and, if the code
/// has a range, their exponent. `expansion` is that of the tensor.
static void writeGroup(const BoundTensor &tensor, const MachineState &state,
                       const ScaledGroup &group, const SoftFloat &expansion) {
  ScaledStorageAttr storage = getScaled(tensor.storage);
  scaled::CodeAttrInterface code = storage.getCode();
  SoftFloat amax(Format::F32);
  uint32_t least = ~uint32_t(0);
  for (const SoftFloat &value : group.values) {
    amax = amax.maximum(getMagnitude(code, value));
    least = std::min(least, getLeast(value));
  }
  auto [entries, scale] =
      findGroupScale(tensor, group.elements.front(), amax, expansion);
  bool hasRange = code.getRange().has_value();
  CodeContext context;
  if (hasRange)
    context.exponent = chooseExponent(code, scale, least);
  for (auto [element, value] : llvm::zip(group.elements, group.values)) {
    context.random = tensor.drawBits(state, element);
    context.isFloored = tensor.hasFloor() && isPositive(value);
    Codes codes = quantize(code, value, scale, context);
    codes.append(entries);
    if (hasRange)
      codes.push_back(context.exponent);
    if (storage.getTransposed())
      codes.push_back(codes.front());
    if (auto working = dyn_cast<WorkingStorageAttr>(tensor.storage))
      codes = addCopy(working, std::move(codes));
    tensor.write(element, codes);
  }
  if (storage.getHistory())
    updateHistory(tensor, amax);
}

void BoundTensor::writeGroups(const MachineState &state, uint64_t element,
                              ArrayRef<SoftFloat> values) const {
  ScaledStorageAttr scaled = getScaled(storage);
  if (!scaled)
    return;
  Plane scales;
  scales.group = scaled.getGroup();
  llvm::MapVector<uint64_t, ScaledGroup> groups;
  for (const SoftFloat &value : values) {
    ScaledGroup &group = groups[getEntry(scales, element)];
    group.elements.push_back(element++);
    group.values.push_back(value);
  }
  SoftFloat expansion = scaled.getTensorScale()
                            ? findExpansion(scaled.getCode(), values)
                            : toReal(1);
  for (const auto &[entry, group] : groups)
    writeGroup(*this, state, group, expansion);
}

llvm::Error reference::copyVisible(const BoundTensor &from,
                                   const BoundTensor &to,
                                   const MachineState &state) {
  if (!hasVisibleFloats(from.storage))
    return makeError("'" + from.role.getName().getValue() + "' is stored as " +
                     describe(from.storage) +
                     ", which has no plane that a framework computes with; "
                     "wrap it in #tandem.working");
  unsigned plane = *from.storage.getVisiblePlane();
  Format format = *getFormat(from.planes[plane].elementType);
  std::vector<SoftFloat> values;
  for (uint64_t i = 0; i < from.numElements; ++i)
    values.push_back(SoftFloat::fromBits(format, from.readPlane(plane, i))
                         .convert(Format::F32));
  to.writeGroups(state, 0, values);
  if (getGroup(to.storage) == 1)
    for (auto [i, value] : llvm::enumerate(values))
      to.write(i,
               encodeReal(to.storage, value, {to.drawBits(state, i), false}));
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Components
//===----------------------------------------------------------------------===//

Components reference::decodeComponents(StorageAttrInterface storage,
                                       ArrayRef<uint64_t> planes,
                                       Format format) {
  Components components = readComponents(storage, planes);
  // A plain value may be wider than the component format, to which it is
  // rounded first.
  if (!isCompensated(storage))
    components[0] = components[0].convert(format);
  return components;
}

Codes reference::encodeComponents(StorageAttrInterface storage,
                                  ArrayRef<SoftFloat> components) {
  Components stored(components);
  if (!isCompensated(storage))
    stored[0] = stored[0].convert(getLeadingFormat(storage));
  return writeComponents(stored);
}
