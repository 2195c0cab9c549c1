//===- Values.cpp - Values of the interpreter -----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the reference interpreter's values and their bits.
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/Interpreter/Values.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"
#include "tandem/Dialect/MCF/IR/MCF.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::reference;

Integer::Integer(unsigned width, uint64_t value)
    : width(width), bits(value & llvm::maskTrailingOnes<uint64_t>(width)) {}

int64_t Integer::getSigned() const { return llvm::SignExtend64(bits, width); }

std::optional<Format> tandem::reference::getFormat(Type type) {
  using Result = std::optional<Format>;
  return llvm::TypeSwitch<Type, Result>(type)
      .Case<BFloat16Type>([](Type) { return Format::BF16; })
      .Case<Float16Type>([](Type) { return Format::F16; })
      .Case<Float32Type>([](Type) { return Format::F32; })
      .Case<Float64Type>([](Type) { return Format::F64; })
      .Case<Float8E4M3FNType>([](Type) { return Format::F8E4M3FN; })
      .Case<Float8E5M2Type>([](Type) { return Format::F8E5M2; })
      .Default([](Type) { return std::nullopt; });
}

unsigned tandem::reference::getNumLanes(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector ? vector.getNumElements() : 1;
}

uint64_t tandem::reference::getBits(const Number &number) {
  if (auto *real = std::get_if<SoftFloat>(&number))
    return real->toCanonicalBits();
  return std::get<Integer>(number).bits;
}

/// Returns the types of the numbers in a lane.
static SmallVector<Type, 2> getComponentTypes(Type element) {
  if (auto expansion = dyn_cast<mcf::ExpansionType>(element))
    return SmallVector<Type, 2>(expansion.getComponents());
  return {element};
}

llvm::Expected<Number> tandem::reference::numberFromBits(Type type,
                                                         uint64_t bits) {
  if (std::optional<Format> format = getFormat(type))
    return SoftFloat::fromBits(*format, bits);
  if (isa<IndexType>(type))
    return Integer(64, bits);
  // A scale is represented by its exponent, on which no arithmetic is defined.
  if (isa<Float8E8M0FNUType>(type))
    return Integer(8, bits);
  auto integer = dyn_cast<IntegerType>(type);
  if (integer && integer.getWidth() >= 1 && integer.getWidth() <= 64)
    return Integer(integer.getWidth(), bits);
  return makeError(
      "the interpreter has no values of type '" + describe(type) +
      "'; it knows bf16, f16, f32, f64, f8E4M3FN, f8E5M2, "
      "f8E8M0FNU, integers of up to 64 bits, and expansions and vectors of "
      "them");
}

llvm::Expected<Datum>
tandem::reference::datumFromBits(Type type, ArrayRef<uint64_t> bits) {
  SmallVector<Type, 2> types = getComponentTypes(getElementTypeOrSelf(type));
  unsigned lanes = getNumLanes(type);
  if (isa<ShapedType>(type) && !isa<VectorType>(type))
    return numberFromBits(type, 0).takeError();
  if (bits.size() != lanes * types.size())
    return makeError("a value of type '" + describe(type) + "' has " +
                     llvm::Twine(lanes * types.size()) + " numbers, got " +
                     llvm::Twine(bits.size()));
  Datum datum(lanes);
  for (Lane &lane : datum)
    for (Type component : types) {
      llvm::Expected<Number> number = numberFromBits(component, bits.front());
      if (!number)
        return number.takeError();
      lane.push_back(*number);
      bits = bits.drop_front();
    }
  return datum;
}

SmallVector<uint64_t, 2> tandem::reference::datumToBits(const Datum &datum) {
  SmallVector<uint64_t, 2> bits;
  for (const Lane &lane : datum)
    for (const Number &number : lane)
      bits.push_back(getBits(number));
  return bits;
}

/// Returns the bits of a scalar attribute, or no value if it is not one.
static std::optional<uint64_t> bitsOf(Attribute attribute) {
  if (auto real = dyn_cast<FloatAttr>(attribute))
    return real.getValue().bitcastToAPInt().getLimitedValue();
  auto integer = dyn_cast<IntegerAttr>(attribute);
  if (integer && integer.getValue().getBitWidth() <= 64)
    return integer.getValue().getZExtValue();
  return std::nullopt;
}

llvm::Expected<Datum>
tandem::reference::datumFromAttribute(Type type, Attribute attribute) {
  SmallVector<Attribute> elements = {attribute};
  if (auto dense = dyn_cast<DenseElementsAttr>(attribute))
    elements = llvm::to_vector(dense.getValues<Attribute>());
  SmallVector<uint64_t> bits;
  for (Attribute element : elements) {
    std::optional<uint64_t> pattern = bitsOf(element);
    if (!pattern)
      return makeError("the interpreter has no value for the constant '" +
                       describe(attribute) + "'");
    bits.push_back(*pattern);
  }
  return datumFromBits(type, bits);
}

llvm::Error tandem::reference::makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message.str());
}
