//===- Values.h - Values of the interpreter ---------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares how the reference interpreter represents SSA values.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REFERENCE_INTERPRETER_VALUES_H
#define TANDEM_REFERENCE_INTERPRETER_VALUES_H

#include "mlir/IR/Attributes.h"
#include "mlir/IR/Types.h"
#include "tandem/Reference/SoftFloat/SoftFloat.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace tandem::reference {

/// An integer of at most 64 bits; an `index` has 64.
struct Integer {
  Integer(unsigned width, uint64_t value);

  int64_t getSigned() const;

  unsigned width;
  /// Zero above `width`.
  uint64_t bits;
};

using Number = std::variant<SoftFloat, Integer>;

/// One element of a value: a number, or the components of an expansion.
using Lane = llvm::SmallVector<Number, 3>;

/// A value: one lane for a scalar, one for each element of a vector. The scalar
/// of a block that runs for many elements at once has a lane for each, or one
/// that is the same for all.
using Datum = llvm::SmallVector<Lane, 1>;

/// Returns the format of a float type, or none for other types and unknown
/// formats.
std::optional<Format> getFormat(Type type);

unsigned getNumLanes(Type type);
/// Returns a lane. A single lane stands for all.
inline const Lane &getLane(const Datum &datum, unsigned lane) {
  return datum[datum.size() == 1 ? 0 : lane];
}

/// Returns the bits of a number, canonical ones for a NaN.
uint64_t getBits(const Number &number);

llvm::Expected<Number> numberFromBits(Type type, uint64_t bits);
llvm::Expected<Datum> datumFromBits(Type type, llvm::ArrayRef<uint64_t> bits);
llvm::SmallVector<uint64_t, 2> datumToBits(const Datum &datum);

/// Returns the value of an arith.constant.
llvm::Expected<Datum> datumFromAttribute(Type type, Attribute attribute);

llvm::Error makeError(const llvm::Twine &message);

/// Returns the text of a type, attribute or operation name, for messages.
template <typename T>
std::string describe(const T &printable) {
  std::string text;
  llvm::raw_string_ostream(text) << printable;
  return text;
}

} // namespace tandem::reference

#endif // TANDEM_REFERENCE_INTERPRETER_VALUES_H
