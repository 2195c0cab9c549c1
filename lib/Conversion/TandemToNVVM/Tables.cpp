//===- Tables.cpp - Lookups in tables of shared memory --------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements lookups in tables. These are constants of the module,
// which each block of threads copies to shared memory, where the threads of a
// warp can read different entries at once if these are in different banks.
//
//===----------------------------------------------------------------------===//

#include "Tables.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace tandem;

static constexpr unsigned globalSpace = 1, sharedSpace = 3;
static constexpr int64_t entryBytes = 4;

namespace {
/// The constants of a table, and the shared memory that they are copied to.
struct Table {
  LLVM::GlobalOp constants, copy;
};
} // namespace

/// Returns the bits of the table's values as integers, which the module stores.
static DenseElementsAttr getBits(DenseElementsAttr values) {
  auto type = RankedTensorType::get({values.getNumElements()},
                                    IntegerType::get(values.getContext(), 32));
  return DenseElementsAttr::getFromRawBuffer(type, values.getRawData());
}

static LLVM::GlobalOp declare(OpBuilder &builder, Location loc, StringRef name,
                              DenseElementsAttr shape, Attribute values,
                              unsigned space) {
  auto type =
      LLVM::LLVMArrayType::get(shape.getElementType(), shape.getNumElements());
  return LLVM::GlobalOp::create(builder, loc, type, /*isConstant=*/bool(values),
                                LLVM::Linkage::Internal, name, values,
                                /*alignment=*/entryBytes, space);
}

/// Returns the globals of a table. Equal tables of a module share them.
static Table getTable(ModuleOp module, DenseElementsAttr values) {
  DenseElementsAttr bits = getBits(values);
  unsigned count = 0;
  auto getName = [](unsigned number) {
    return "tandem_table_" + std::to_string(number);
  };
  for (auto global : module.getOps<LLVM::GlobalOp>()) {
    if (global.getAddrSpace() != globalSpace)
      continue;
    std::string copy = getName(count++) + "_copy";
    if (global.getValueAttr() == bits)
      return {global, module.lookupSymbol<LLVM::GlobalOp>(copy)};
  }
  auto builder = OpBuilder::atBlockEnd(module.getBody());
  Location loc = module.getLoc();
  std::string name = getName(count);
  auto constants = declare(builder, loc, name, bits, bits, globalSpace);
  return {constants, declare(builder, loc, name + "_copy", bits, Attribute(),
                             sharedSpace)};
}

/// Returns the address of an entry, given its number as an i32.
static Value getEntry(SequenceBuilder &b, LLVM::GlobalOp table, Value number) {
  Value base = LLVM::AddressOfOp::create(b.builder, b.loc, table);
  Value index = b.resize(number, b.builder.getI64Type());
  return LLVM::GEPOp::create(b.builder, b.loc, base.getType(),
                             b.builder.getI32Type(), base, index);
}

static void copyTables(SequenceBuilder &b, ArrayRef<Table> tables,
                       int64_t entries) {
  Type i32 = b.builder.getI32Type();
  Value thread = NVVM::ThreadIdXOp::create(b.builder, b.loc, i32);
  Value threads = NVVM::BlockDimXOp::create(b.builder, b.loc, i32);
  auto loop = scf::ForOp::create(b.builder, b.loc, thread,
                                 b.like(thread, entries), threads);
  {
    OpBuilder::InsertionGuard guard(b.builder);
    b.builder.setInsertionPoint(loop.getBody()->getTerminator());
    for (auto [constants, copy] : tables) {
      Value number = loop.getInductionVar();
      Value entry = LLVM::LoadOp::create(b.builder, b.loc, i32,
                                         getEntry(b, constants, number));
      LLVM::StoreOp::create(b.builder, b.loc, entry, getEntry(b, copy, number));
    }
  }
  NVVM::Barrier0Op::create(b.builder, b.loc);
}

static Value loadEntry(SequenceBuilder &b, LookupOp op, LLVM::GlobalOp table,
                       Value byte) {
  Value number = b.resize(byte, b.builder.getI32Type());
  return LLVM::LoadOp::create(b.builder, b.loc, op.getTable().getElementType(),
                              getEntry(b, table, number));
}

/// Loads the entry that a byte selects, or those that each byte of a vector
/// selects.
static Value loadEntries(SequenceBuilder &b, LookupOp op,
                         LLVM::GlobalOp table) {
  Value index = op.getIndices().front();
  auto type = dyn_cast<VectorType>(index.getType());
  if (!type)
    return loadEntry(b, op, table, index);
  SmallVector<Value> entries;
  for (int64_t lane = 0; lane < type.getNumElements(); ++lane)
    entries.push_back(
        loadEntry(b, op, table,
                  vector::ExtractOp::create(b.builder, b.loc, index, lane)));
  return vector::FromElementsOp::create(b.builder, b.loc, op.getType(),
                                        entries);
}

void tandem::lowerLookups(LLVM::LLVMFuncOp function) {
  auto module = function->getParentOfType<ModuleOp>();
  llvm::MapVector<Attribute, Table> tables;
  SmallVector<LookupOp> lookups;
  function.walk([&](LookupOp op) {
    lookups.push_back(op);
    if (!tables.contains(op.getTable()))
      tables.insert({op.getTable(), getTable(module, op.getTable())});
  });
  if (lookups.empty())
    return;
  auto builder = OpBuilder::atBlockBegin(&function.getBody().front());
  SequenceBuilder atStart(builder, function.getLoc());
  copyTables(atStart, llvm::to_vector(llvm::make_second_range(tables)),
             lookups.front().getTable().getNumElements());
  for (LookupOp op : lookups) {
    builder.setInsertionPoint(op);
    SequenceBuilder b(builder, op.getLoc());
    op.replaceAllUsesWith(loadEntries(b, op, tables[op.getTable()].copy));
    op.erase();
  }
}
