//===- OpaqueArithmetic.cpp - Arithmetic that nothing simplifies ----------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the moves around floating-point operations.
//
//===----------------------------------------------------------------------===//

#include "OpaqueArithmetic.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;

static bool hasFloats(const Instruction &op) {
  return op.getType()->isFPOrFPVectorTy() ||
         any_of(op.operands(),
                [](Value *v) { return v->getType()->isFPOrFPVectorTy(); });
}

/// Returns whether an instruction is floating-point arithmetic that LLVM could
/// simplify. Conversions of 8-bit floats are intrinsics, too.
static bool isArithmetic(const Instruction &op) {
  if (auto *call = dyn_cast<IntrinsicInst>(&op))
    return call->doesNotAccessMemory() && hasFloats(op);
  return isa<FPTruncInst>(op) ||
         (isa<BinaryOperator>(op) && op.getType()->isFPOrFPVectorTy());
}

/// Returns the width of the widest integer register that evenly divides values
/// of `bits` bits with elements of `elementBits`.
static unsigned getRegisterBits(unsigned bits, unsigned elementBits) {
  if (elementBits == 64)
    return 64;
  return bits % 32 == 0 ? 32 : 16;
}

static Value *moveRegister(IRBuilder<> &b, Value *value) {
  unsigned bits = value->getType()->getIntegerBitWidth();
  StringRef letter = bits == 64 ? "l" : bits == 32 ? "r" : "h";
  auto *type = FunctionType::get(value->getType(), value->getType(), false);
  auto *move = InlineAsm::get(type, ("mov.b" + Twine(bits) + " $0, $1;").str(),
                              ("=" + letter + "," + letter).str(),
                              /*hasSideEffects=*/true);
  return b.CreateCall(type, move, value);
}

static Value *makeOpaque(IRBuilder<> &b, Value *value) {
  Type *type = value->getType();
  unsigned bits = type->getPrimitiveSizeInBits();
  unsigned size = getRegisterBits(bits, type->getScalarSizeInBits());
  Type *part = b.getIntNTy(size);
  if (bits == size)
    return b.CreateBitCast(moveRegister(b, b.CreateBitCast(value, part)), type);
  Value *parts =
      b.CreateBitCast(value, FixedVectorType::get(part, bits / size));
  for (unsigned i = 0; i < bits / size; ++i)
    parts = b.CreateInsertElement(
        parts, moveRegister(b, b.CreateExtractElement(parts, i)), i);
  return b.CreateBitCast(parts, type);
}

/// Returns whether values of a type are moved. Conditions stay as they are.
static bool canMove(const Type *type) {
  return type->getScalarSizeInBits() % 16 == 0 && type->getScalarSizeInBits();
}

static void makeOpaque(Instruction &op) {
  IRBuilder<> b(&op);
  auto *call = dyn_cast<CallBase>(&op);
  for (unsigned i = 0, e = call ? call->arg_size() : op.getNumOperands(); i < e;
       ++i)
    if (canMove(op.getOperand(i)->getType()) &&
        !(call && call->paramHasAttr(i, Attribute::ImmArg)))
      op.setOperand(i, makeOpaque(b, op.getOperand(i)));
  if (!canMove(op.getType()))
    return;
  b.SetInsertPoint(op.getNextNode());
  SmallVector<Use *> uses(make_pointer_range(op.uses()));
  Value *result = makeOpaque(b, &op);
  for (Use *use : uses)
    use->set(result);
}

/// Returns the instructions that memory, other threads or control flow depend
/// on.
static SmallPtrSet<Instruction *, 0> findNeeded(Function &function) {
  SmallPtrSet<Instruction *, 0> needed;
  SmallVector<Instruction *> queue;
  auto add = [&](Instruction *op) {
    if (needed.insert(op).second)
      queue.push_back(op);
  };
  for (Instruction &op : instructions(function))
    if (op.isTerminator() || op.mayHaveSideEffects())
      add(&op);
  while (!queue.empty())
    for (Value *operand : queue.pop_back_val()->operands())
      if (auto *op = dyn_cast<Instruction>(operand))
        add(op);
  return needed;
}

void tandem::makeArithmeticOpaque(Module &module) {
  SmallVector<Instruction *> ops;
  for (Function &function : module) {
    SmallPtrSet<Instruction *, 0> needed = findNeeded(function);
    for (Instruction &op : instructions(function))
      if (isArithmetic(op) && needed.contains(&op))
        ops.push_back(&op);
  }
  for (Instruction *op : ops)
    makeOpaque(*op);
}
