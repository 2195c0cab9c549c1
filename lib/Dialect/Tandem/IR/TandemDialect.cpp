//===- TandemDialect.cpp - The tandem dialect -----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the tandem dialect, its stored type, and queries of
// roles and storages.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tandem;

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

bool tandem::needsMatrix(StorageAttrInterface storage) {
  return llvm::any_of(storage.getPlanes(), [](const Plane &plane) {
    return plane.group.isRow() || plane.group.isBlock() || plane.isTransposed;
  });
}

int64_t tandem::getBlockSize(StorageAttrInterface storage) {
  for (const Plane &plane : storage.getPlanes())
    if (plane.group.isBlock())
      return plane.group.rows;
  return 0;
}

bool tandem::hasVisibleFloats(StorageAttrInterface storage) {
  std::optional<unsigned> visible = storage.getVisiblePlane();
  if (!visible)
    return false;
  Type type = storage.getPlanes()[*visible].elementType;
  return isa<FloatType>(type) && type.getIntOrFloatBitWidth() >= 16;
}

Type tandem::getStoredValueType(RoleAttr role, StorageAttrInterface storage,
                                const ComputeAttr &compute) {
  Type type = storage.getValueType(compute);
  if (type || !role.isDestination())
    return type;
  MLIRContext *context = storage.getContext();
  return storage.getValueType(
      ComputeAttr::get(context, Policy::f32, Float32Type::get(context)));
}

bool tandem::hasTranspose(StorageAttrInterface storage) {
  auto scaled = dyn_cast<ScaledStorageAttr>(storage);
  return scaled && scaled.getTransposed();
}

StorageAttrInterface tandem::withoutTranspose(StorageAttrInterface storage) {
  if (!hasTranspose(storage))
    return storage;
  auto scaled = cast<ScaledStorageAttr>(storage);
  return ScaledStorageAttr::get(
      scaled.getContext(), scaled.getCode(), scaled.getGroup(),
      scaled.getScale(), scaled.getRecipe(), scaled.getHistory(),
      scaled.getMargin(), /*transposed=*/false, scaled.getTensorScale());
}

RoleAttr tandem::getRole(BlockArgument argument) {
  auto function =
      dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
  if (!function)
    return {};
  return function.getArgAttrOfType<RoleAttr>(argument.getArgNumber(),
                                             TandemDialect::getRoleAttrName());
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
