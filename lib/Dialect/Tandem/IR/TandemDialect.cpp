//===- TandemDialect.cpp - The tandem dialect -----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the tandem dialect, its role and policy attributes and
// its stored type.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::tandem;

#include "tandem/Dialect/Tandem/IR/TandemDialect.cpp.inc"
#include "tandem/Dialect/Tandem/IR/TandemEnums.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "tandem/Dialect/Tandem/IR/TandemTypes.cpp.inc"

void TandemDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "tandem/Dialect/Tandem/IR/TandemTypes.cpp.inc"
      >();
}

void TandemDialect::initialize() {
  registerAttributes();
  registerTypes();
  addOperations<
#define GET_OP_LIST
#include "tandem/Dialect/Tandem/IR/TandemOps.cpp.inc"
      >();
}

bool mlir::tandem::needsMatrix(StorageAttrInterface storage) {
  return llvm::any_of(storage.getPlanes(), [](const Plane &plane) {
    return plane.group.isRow() || plane.group.isBlock() || plane.isTransposed;
  });
}

bool mlir::tandem::hasTranspose(StorageAttrInterface storage) {
  auto scaled = dyn_cast<ScaledStorageAttr>(storage);
  return scaled && scaled.getTransposed();
}

StorageAttrInterface
mlir::tandem::withoutTranspose(StorageAttrInterface storage) {
  if (!hasTranspose(storage))
    return storage;
  auto scaled = cast<ScaledStorageAttr>(storage);
  return ScaledStorageAttr::get(scaled.getContext(), scaled.getCode(),
                                scaled.getGroup(), scaled.getScale(),
                                scaled.getRecipe(), scaled.getHistory(),
                                scaled.getMargin(), /*transposed=*/false);
}

RoleAttr mlir::tandem::getRole(BlockArgument argument) {
  auto function =
      dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
  if (!function)
    return {};
  return function.getArgAttrOfType<RoleAttr>(argument.getArgNumber(),
                                             TandemDialect::getRoleAttrName());
}

/// Whether an argument of this type can have the role.
static LogicalResult verifyRoleType(Operation *op, RoleAttr role, Type type) {
  auto fail = [&](StringRef wanted) {
    return op->emitError() << "a " << stringifyRoleKind(role.getKind())
                           << " argument must be " << wanted << ", but '"
                           << role.getName().getValue() << "' is " << type;
  };
  if (role.isTensor()) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (isa<StoredType>(type) || (tensor && tensor.getElementType().isF32()))
      return success();
    return fail("a tensor of f32 (f32 stands for a real number; the strategy "
                "chooses the format)");
  }
  if (role.getKind() == RoleKind::hyper)
    return type.isF64() || type.isF32() ? success() : fail("f64 or f32");
  return type.isSignlessInteger(64) ? success() : fail("i64");
}

LogicalResult TandemDialect::verifyRegionArgAttribute(Operation *op,
                                                      unsigned regionIndex,
                                                      unsigned argIndex,
                                                      NamedAttribute attr) {
  if (attr.getName() != getRoleAttrName())
    return op->emitError() << "'" << attr.getName().getValue()
                           << "' is no argument attribute of tandem; use '"
                           << getRoleAttrName() << "'";
  auto role = dyn_cast<RoleAttr>(attr.getValue());
  if (!role)
    return op->emitError() << "'" << getRoleAttrName()
                           << "' must be a #tandem.role, got "
                           << attr.getValue();
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    return op->emitError("only a function's arguments have roles");
  return verifyRoleType(op, role, function.getArgumentTypes()[argIndex]);
}

LogicalResult StoredType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 RankedTensorType logical,
                                 StorageAttrInterface storage) {
  // (C1)
  if (!logical.getElementType().isF32())
    return emitError() << "the logical tensor must have f32 elements, got "
                       << logical;
  return success();
}
