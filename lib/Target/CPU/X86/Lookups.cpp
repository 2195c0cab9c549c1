//===- Lookups.cpp - Tables that registers hold ---------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements lookups in tables of 256 f32. With AVX-512 VBMI these
// are byte permutations: a table is split into four byte planes of four
// registers each, and the bytes that 64 indices select from each plane are
// joined to f32 by unpacking. Other processors load entry by entry.
//
//===----------------------------------------------------------------------===//

#include "Lookups.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/PatternMatch.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/Support/Endian.h"
#include "llvm/Transforms/Utils/Local.h"

using namespace llvm;
using namespace llvm::PatternMatch;

/// The bytes of a register, of one of its 128-bit parts, which unpacking treats
/// separately, and of a table entry.
static constexpr int registerBytes = 64, partBytes = 16, entryBytes = 4;
static constexpr int registerEntries = registerBytes / entryBytes;
static constexpr int rowEntries = 256;

namespace {
/// A gather of entries from a row of a constant table.
struct Lookup {
  CallInst *gather;
  GlobalVariable *table;
  /// The row's address, or null if the table has one row.
  GetElementPtrInst *row;
  /// The vector of bytes that selects entries.
  Value *bytes;
};

/// A table as four byte planes, row by row.
struct BytePlanes {
  GlobalVariable *table;
  /// For each byte position, the byte that all entries have there, if they have
  /// the same.
  std::array<std::optional<uint8_t>, entryBytes> same;
};
} // namespace

static bool isTable(const GlobalVariable *table) {
  if (!table || !table->isConstant() || !table->hasDefinitiveInitializer())
    return false;
  auto *values = dyn_cast<ConstantDataArray>(table->getInitializer());
  return values && values->getElementType()->isFloatTy() &&
         values->getNumElements() % rowEntries == 0;
}

/// Matches a gather of all lanes from the entries at zero-extended bytes.
static std::optional<Lookup> matchLookup(Instruction &instruction) {
  Value *entries = nullptr, *bytes = nullptr;
  if (!match(&instruction, m_Intrinsic<Intrinsic::masked_gather>(
                               m_Value(entries), m_AllOnes(), m_Value())))
    return std::nullopt;
  auto *type = cast<FixedVectorType>(instruction.getType());
  auto *address = dyn_cast<GetElementPtrInst>(entries);
  if (!type->getElementType()->isFloatTy() ||
      type->getNumElements() % registerEntries || !address ||
      !address->getSourceElementType()->isFloatTy() ||
      !match(address->getOperand(1), m_ZExt(m_Value(bytes))) ||
      bytes->getType()->getScalarSizeInBits() != 8)
    return std::nullopt;
  Lookup lookup{cast<CallInst>(&instruction),
                dyn_cast<GlobalVariable>(address->getPointerOperand()),
                dyn_cast<GetElementPtrInst>(address->getPointerOperand()),
                bytes};
  if (lookup.row)
    lookup.table = dyn_cast<GlobalVariable>(lookup.row->getPointerOperand());
  if (!isTable(lookup.table))
    return std::nullopt;
  return lookup;
}

static BytePlanes splitTable(GlobalVariable &table) {
  auto *values = cast<ConstantDataArray>(table.getInitializer());
  StringRef raw = values->getRawDataValues();
  SmallVector<uint8_t> bytes;
  BytePlanes planes;
  for (int place : seq(entryBytes))
    planes.same[place] = raw[place];
  constexpr size_t rowBytes = rowEntries * entryBytes;
  for (size_t row = 0; row < raw.size(); row += rowBytes)
    for (int place : seq(entryBytes))
      for (size_t i = row + place; i < row + rowBytes; i += entryBytes) {
        bytes.push_back(raw[i]);
        if (bytes.back() != planes.same[place])
          planes.same[place] = std::nullopt;
      }
  Constant *initializer = ConstantDataArray::get(table.getContext(), bytes);
  planes.table = new GlobalVariable(
      *table.getParent(), initializer->getType(), /*isConstant=*/true,
      GlobalValue::InternalLinkage, initializer, table.getName() + "_bytes");
  planes.table->setAlignment(Align(registerBytes));
  return planes;
}

/// Returns a register of the 64 indices from `first` on, in such an order that
/// unpacking twice leaves the entries in the original order.
static Value *orderIndices(IRBuilder<> &builder, Value *indices, int first) {
  int count = cast<FixedVectorType>(indices->getType())->getNumElements();
  SmallVector<int> mask;
  for (int part = 0; part < registerBytes / partBytes; ++part)
    for (int result : seq(entryBytes))
      for (int entry : seq(entryBytes)) {
        int index =
            first + result * registerEntries + part * entryBytes + entry;
        mask.push_back(index < count ? index : PoisonMaskElem);
      }
  return builder.CreateShuffleVector(indices, mask);
}

/// Returns the bytes that the indices select from the byte plane `place`.
static Value *permute(IRBuilder<> &builder, Value *row, int place,
                      Value *indices) {
  auto load = [&](int part) {
    Value *address = builder.CreateConstInBoundsGEP1_32(
        builder.getInt8Ty(), row, place * rowEntries + part * registerBytes);
    return builder.CreateAlignedLoad(indices->getType(), address,
                                     Align(registerBytes));
  };
  auto half = [&](int part) {
    return builder.CreateIntrinsic(Intrinsic::x86_avx512_vpermi2var_qi_512,
                                   {load(part), indices, load(part + 1)});
  };
  Value *isUpper = builder.CreateICmpSLT(
      indices, Constant::getNullValue(indices->getType()));
  return builder.CreateSelect(isUpper, half(2), half(0));
}

/// Interleaves the elements of the lower or upper halves of each part of two
/// registers.
static Value *unpack(IRBuilder<> &builder, Value *even, Value *odd,
                     bool isUpper) {
  auto *type = cast<FixedVectorType>(even->getType());
  int count = type->getNumElements();
  int perPart = count * partBytes / registerBytes;
  SmallVector<int> mask;
  for (int part = 0; part < count; part += perPart)
    for (int i : seq(perPart / 2)) {
      int element = part + isUpper * (perPart / 2) + i;
      mask.append({element, count + element});
    }
  return builder.CreateShuffleVector(even, odd, mask);
}

/// Returns the entries that one register of ordered indices selects, as four
/// registers.
static SmallVector<Value *> lookUp(IRBuilder<> &builder,
                                   const BytePlanes &planes, Value *row,
                                   Value *indices) {
  SmallVector<Value *> bytes;
  for (int place : seq(entryBytes))
    bytes.push_back(planes.same[place] ? ConstantInt::get(indices->getType(),
                                                          *planes.same[place])
                                       : permute(builder, row, place, indices));
  auto *halves = FixedVectorType::get(builder.getInt16Ty(), registerBytes / 2);
  auto *floats = FixedVectorType::get(builder.getFloatTy(), registerEntries);
  SmallVector<Value *> entries;
  for (bool isUpper : {false, true}) {
    Value *low = unpack(builder, bytes[0], bytes[1], isUpper);
    Value *high = unpack(builder, bytes[2], bytes[3], isUpper);
    low = builder.CreateBitCast(low, halves);
    high = builder.CreateBitCast(high, halves);
    for (bool isUpperOfThese : {false, true})
      entries.push_back(builder.CreateBitCast(
          unpack(builder, low, high, isUpperOfThese), floats));
  }
  return entries;
}

static Value *buildLookup(const Lookup &lookup, const BytePlanes &planes) {
  IRBuilder<> builder(lookup.gather);
  Value *row = planes.table;
  if (lookup.row) {
    auto *address = cast<GetElementPtrInst>(lookup.row->clone());
    address->setOperand(0, planes.table);
    row = builder.Insert(address);
  }
  auto *type = cast<FixedVectorType>(lookup.gather->getType());
  int count = type->getNumElements();
  Value *result = PoisonValue::get(type);
  for (int first = 0; first < count; first += registerBytes) {
    Value *indices = orderIndices(builder, lookup.bytes, first);
    SmallVector<Value *> entries = lookUp(builder, planes, row, indices);
    for (int i = first; i < std::min(count, first + registerBytes);
         i += registerEntries)
      result = builder.CreateInsertVector(
          type, result, entries[(i - first) / registerEntries], i);
  }
  return result;
}

/// Returns the load that a vector of bytes is, if nothing is written to memory
/// between it and the lookup, so that its bytes may be loaded again.
static LoadInst *findLoad(const Lookup &lookup) {
  auto *load = dyn_cast<LoadInst>(lookup.bytes);
  if (!load || !load->isSimple() ||
      load->getParent() != lookup.gather->getParent())
    return nullptr;
  for (Instruction *next = load->getNextNode(); next != lookup.gather;
       next = next->getNextNode())
    if (next->mayWriteToMemory() &&
        !match(next, m_Intrinsic<Intrinsic::prefetch>()))
      return nullptr;
  return load;
}

/// Returns the index of one lane's entry. An index that is loaded by itself
/// takes one instruction, and moving it out of a register two.
static Value *takeIndex(IRBuilder<> &builder, const Lookup &lookup,
                        LoadInst *load, int lane) {
  Value *byte = load ? builder.CreateLoad(builder.getInt8Ty(),
                                          builder.CreateConstInBoundsGEP1_32(
                                              builder.getInt8Ty(),
                                              load->getPointerOperand(), lane))
                     : builder.CreateExtractElement(lookup.bytes, lane);
  return builder.CreateZExt(byte, builder.getInt64Ty());
}

/// Loads the entries one by one. LLVM would compute their addresses in vectors
/// of 64-bit lanes and move each of these out.
static Value *buildLoads(const Lookup &lookup) {
  IRBuilder<> builder(lookup.gather);
  LoadInst *load = findLoad(lookup);
  auto *type = cast<FixedVectorType>(lookup.gather->getType());
  Value *row = cast<GetElementPtrInst>(lookup.gather->getArgOperand(0))
                   ->getPointerOperand();
  Value *result = PoisonValue::get(type);
  for (int lane : seq(int(type->getNumElements()))) {
    Value *index = takeIndex(builder, lookup, load, lane);
    Value *address =
        builder.CreateInBoundsGEP(builder.getFloatTy(), row, index);
    Value *entry = builder.CreateLoad(builder.getFloatTy(), address);
    result = builder.CreateInsertElement(result, entry, lane);
  }
  return result;
}

/// Replaces a gather, and what only it uses.
static void replace(const Lookup &lookup, Value *entries) {
  lookup.gather->replaceAllUsesWith(entries);
  RecursivelyDeleteTriviallyDeadInstructions(lookup.gather);
}

static SmallVector<Lookup> findLookups(Module &module) {
  SmallVector<Lookup> lookups;
  for (Function &function : module)
    for (Instruction &instruction : instructions(function))
      if (std::optional<Lookup> lookup = matchLookup(instruction))
        lookups.push_back(*lookup);
  return lookups;
}

static void selectPermutations(ArrayRef<Lookup> lookups) {
  DenseMap<GlobalVariable *, BytePlanes> split;
  for (const Lookup &lookup : lookups) {
    auto [found, isNew] = split.try_emplace(lookup.table);
    if (isNew)
      found->second = splitTable(*lookup.table);
    replace(lookup, buildLookup(lookup, found->second));
  }
  for (auto [table, planes] : split)
    if (table->use_empty())
      table->eraseFromParent();
}

void tandem::selectLookups(Module &module, TargetMachine &machine) {
  const MCSubtargetInfo &processor = *machine.getMCSubtargetInfo();
  SmallVector<Lookup> lookups = findLookups(module);
  if (processor.checkFeatures("+avx512vbmi"))
    return selectPermutations(lookups);
  for (const Lookup &lookup : lookups)
    replace(lookup, buildLoads(lookup));
}
