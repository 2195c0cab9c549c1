//===- Tables.cpp - Lookups in constant tables ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements lookups in constant tables, which are globals of the
// module that gathers read.
//
//===----------------------------------------------------------------------===//

#include "Tables.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace tandem;

static LLVM::GlobalOp getTable(ModuleOp module, DenseElementsAttr values) {
  values = values.reshape(RankedTensorType::get({values.getNumElements()},
                                                values.getElementType()));
  unsigned count = 0;
  for (auto global : module.getOps<LLVM::GlobalOp>()) {
    if (global.getValueAttr() == values)
      return global;
    ++count;
  }
  auto builder = OpBuilder::atBlockBegin(module.getBody());
  auto type = LLVM::LLVMArrayType::get(values.getElementType(),
                                       values.getNumElements());
  return LLVM::GlobalOp::create(builder, module.getLoc(), type,
                                /*isConstant=*/true, LLVM::Linkage::Internal,
                                "tandem_table_" + std::to_string(count), values,
                                /*alignment=*/64);
}

/// Returns the scalar that all lanes have, or null if it is not known.
static Value getScalar(Value index) {
  if (!isa<VectorType>(index.getType()))
    return index;
  auto broadcast = index.getDefiningOp<vector::BroadcastOp>();
  return broadcast ? broadcast.getSource() : Value();
}

static Value advance(SequenceBuilder &b, Value table, Type element,
                     Value index) {
  Type type = table.getType();
  if (auto vector = dyn_cast<VectorType>(index.getType()))
    type = vector.clone(table.getType());
  return LLVM::GEPOp::create(b.builder, b.loc, type, element, table, index);
}

Value tandem::buildLookup(SequenceBuilder &b, LookupOp op, ValueRange indices) {
  DenseElementsAttr values = op.getTable();
  Type element = values.getElementType(), i32 = b.builder.getI32Type();
  LLVM::GlobalOp global = getTable(op->getParentOfType<ModuleOp>(), values);
  Value table = LLVM::AddressOfOp::create(b.builder, b.loc, global);
  Value index = b.resize(indices.back(), i32);
  if (indices.size() > 1) {
    // All elements of a group have the same row, which is computed once.
    if (Value row = getScalar(indices.front()))
      table = advance(b, table, element, b.shl(b.resize(row, i32), 8));
    else
      index = b.ori(index, b.shl(b.resize(indices.front(), i32), 8));
  }
  Value entries = advance(b, table, element, index);
  auto type = dyn_cast<VectorType>(index.getType());
  if (!type)
    return LLVM::LoadOp::create(b.builder, b.loc, element, entries);
  auto resultType = type.clone(element);
  Value all = b.integer(type.clone(b.builder.getI1Type()), 1);
  Value none = LLVM::PoisonOp::create(b.builder, b.loc, resultType);
  return LLVM::masked_gather::create(b.builder, b.loc, resultType, entries, all,
                                     none, /*alignment=*/4);
}
