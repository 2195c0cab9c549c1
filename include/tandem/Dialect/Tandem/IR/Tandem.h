//===- Tandem.h - The tandem dialect ----------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the tandem dialect: roles, storages, strategies, kernels.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEM_IR_TANDEM_H
#define TANDEM_DIALECT_TANDEM_IR_TANDEM_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "tandem/Dialect/MCF/IR/MCF.h"
#include "tandem/Dialect/Scaled/IR/Scaled.h"
#include "tandem/Support/LLVM.h"
#include <functional>

#include "tandem/Dialect/Tandem/IR/TandemEnums.h.inc"

namespace tandem {
class ComputeAttr;

/// The elements of a tensor that share something: `columns` neighbours in each
/// of `rows` neighbouring rows.
struct Group {
  static constexpr int64_t all = int64_t(1) << 62;

  /// Powers of two, or `all`.
  int64_t columns = 1, rows = 1;

  static constexpr Group tensor() { return {all, all}; }
  static constexpr Group row() { return {all, 1}; }

  bool isTensor() const { return rows == all; }
  bool isRow() const { return columns == all && rows == 1; }
  bool isBlock() const { return rows > 1 && rows != all; }

  /// Returns what a group of this shape covers: one element, a group of
  /// neighbours in a row, a row, a block or the tensor.
  Granularity getGranularity() const {
    if (isTensor())
      return Granularity::tensor;
    if (isRow())
      return Granularity::row;
    if (isBlock())
      return Granularity::block;
    return columns > 1 ? Granularity::group : Granularity::element;
  }

  bool operator==(const Group &other) const {
    return columns == other.columns && rows == other.rows;
  }
};
inline llvm::hash_code hash_value(const Group &group) {
  return llvm::hash_combine(group.columns, group.rows);
}

/// One array in memory, with one entry per element or group of the logical
/// tensor.
struct Plane {
  /// The suffix to the role's name: "" for the visible plane, else ".lo" etc.
  std::string suffix;
  /// A float format, or i8 or i16 for raw bits.
  Type elementType;
  /// Whether decoding reads it.
  bool isRead = true;
  /// The elements that share an entry; in a tensor per row or column, the
  /// rows or columns.
  Group group;
  /// Whether kernels load it as bits, which the storage decodes itself.
  bool isRaw = false;
  /// Whether encoding reads the values that earlier steps stored.
  bool isPersistent = false;
  /// Whether encoding writes it.
  bool isWritten = true;
  /// The number of values that an entry remembers, newest first; 0 except for
  /// histories.
  int64_t history = 0;
  /// Whether the plane is stored column by column rather than row by row. Such
  /// a plane is a copy that is only written.
  bool isTransposed = false;
  /// The number of consecutive elements of a row whose codes fill an entry, the
  /// first in its lowest bits. `group` then has as many columns, and rows begin
  /// at whole entries. What a kernel loads and stores is one code, in the low
  /// bits of the element type.
  unsigned packed = 1;

  /// Returns whether each element has a value of its own.
  bool isOfElements() const { return group == Group{packed, 1}; }
};

/// A number of planes of one float format whose sum is a stored value.
struct PlaneSum {
  Type format;
  unsigned count;
};

/// The inputs of an encoding besides the value.
struct EncodeInputs {
  /// An i32 in [0, 2^16), or null if the storage does not use random bits.
  Value randomBits;
  /// One value for each plane: the entry of a persistent plane, as bits; for
  /// a history the largest of the values that stay in it, as an i32; null for
  /// any other plane.
  llvm::SmallVector<Value> persistent;
  /// Whether a positive value must not become zero, as in a second moment. It
  /// is stored as at least the smallest positive number.
  bool hasFloor = false;
};

/// A uniform factor in the two forms a storage may need; building one that is
/// not needed costs nothing.
struct UniformFactor {
  /// The factor as an f32 value.
  std::function<Value()> scalar;
  /// Returns the factor as an expansion of `length` components, split from f64.
  std::function<Value(unsigned length)> split;
};
} // namespace tandem

#include "tandem/Dialect/Tandem/IR/StorageInterface.h.inc"
#include "tandem/Dialect/Tandem/IR/TandemDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "tandem/Dialect/Tandem/IR/TandemAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "tandem/Dialect/Tandem/IR/TandemTypes.h.inc"

namespace tandem::detail {
/// Implement ProgramOpInterface's methods.
unsigned getNumMetrics(Block &body);
bool isMatrix(ArrayAttr tensorRoles, Block &body);
uint64_t getBlockSize(Block &body);
int64_t getElementsPerEntry(RoleAttr role, const Plane &plane, Granularity per);
} // namespace tandem::detail

#include "tandem/Dialect/Tandem/IR/ProgramInterface.h.inc"

#define GET_OP_CLASSES
#include "tandem/Dialect/Tandem/IR/TandemOps.h.inc"

namespace tandem {
/// Returns whether a matrix has several of these units: rows, columns or
/// blocks.
inline bool isWithinMatrix(Granularity granularity) {
  return granularity == Granularity::row ||
         granularity == Granularity::column ||
         granularity == Granularity::block;
}

/// Returns the position of a tensor among those of its kernel.
inline unsigned getTensorNumber(Value tensor) {
  return cast<BlockArgument>(tensor).getArgNumber();
}
} // namespace tandem

namespace tandem {
/// Returns the role of a graph argument, or null.
RoleAttr getRole(BlockArgument argument);

/// Returns whether a plane has an entry for each row or block of a matrix, or
/// holds its transpose.
bool needsMatrix(StorageAttrInterface storage);

/// Returns the number of rows, and of columns, of the blocks that a storage has
/// entries for, or 0 if it has none.
int64_t getBlockSize(StorageAttrInterface storage);

/// Returns whether a storage has a plane that frameworks compute with: the
/// visible one, if it holds floats of 16 or more bits.
bool hasVisibleFloats(StorageAttrInterface storage);

/// Returns the type that a kernel's value has when it is stored in a tensor:
/// the storage's value type, or f32 in an output of a kernel that computes in
/// components, if these cannot be stored. Null if no value can be stored.
Type getStoredValueType(RoleAttr role, StorageAttrInterface storage,
                        const ComputeAttr &compute);

/// Returns whether a storage has a transposed copy.
bool hasTranspose(StorageAttrInterface storage);
/// Returns the storage as it is read, which is without a transposed copy.
StorageAttrInterface withoutTranspose(StorageAttrInterface storage);
} // namespace tandem

#endif // TANDEM_DIALECT_TANDEM_IR_TANDEM_H
