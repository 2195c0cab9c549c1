//===- CEmitter.cpp - C source of kernels ---------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file translates kernels to C. Each value is a variable, each block a
// label. Integers are unsigned and computed in 64 bits; bits move between types
// and memory by memcpy.
//
//===----------------------------------------------------------------------===//

#include "CEmitter.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using ctarget::emitC;

/// Returns the type of a variable; empty if C has none.
static std::string getCType(Type type) {
  if (isa<LLVM::LLVMPointerType>(type))
    return "char *";
  if (type.isF32())
    return "float";
  if (type.isF64())
    return "double";
  if (type.isInteger(1))
    return "uint8_t";
  if (type.isInteger(8) || type.isInteger(16) || type.isInteger(32) ||
      type.isInteger(64))
    return "uint" + std::to_string(type.getIntOrFloatBitWidth()) + "_t";
  return "";
}

static unsigned getBytes(Type type) {
  return isa<LLVM::LLVMPointerType>(type)
             ? 8
             : (type.getIntOrFloatBitWidth() + 7) / 8;
}

namespace {
/// Prints one function.
class FunctionEmitter {
public:
  explicit FunctionEmitter(raw_ostream &os) : os(os) {}

  LogicalResult emit(LLVM::LLVMFuncOp function);

private:
  LogicalResult declareValues(LLVM::LLVMFuncOp function);
  LogicalResult emit(Operation &op);
  void emitConstant(LLVM::ConstantOp op);
  void emitJump(Block *to, ValueRange values);
  std::string getExpression(Operation &op);
  std::string getAddress(LLVM::GEPOp op);

  std::string name(Value value) {
    return "v" + std::to_string(
                     numbers.try_emplace(value, numbers.size()).first->second);
  }
  std::string label(Block *block) {
    return "block" +
           std::to_string(
               labels.try_emplace(block, labels.size()).first->second);
  }
  /// Returns an operand as a signed integer.
  std::string getSigned(Value value) {
    std::string bits = std::to_string(value.getType().getIntOrFloatBitWidth());
    return "(int" + bits + "_t)" + name(value);
  }

  raw_ostream &os;
  DenseMap<Value, unsigned> numbers;
  DenseMap<Block *, unsigned> labels;
};
} // namespace

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

static StringRef getOperator(Operation &op) {
  return TypeSwitch<Operation *, StringRef>(&op)
      .Case<LLVM::AddOp, LLVM::FAddOp>([](auto) { return "+"; })
      .Case<LLVM::SubOp, LLVM::FSubOp>([](auto) { return "-"; })
      .Case<LLVM::MulOp, LLVM::FMulOp>([](auto) { return "*"; })
      .Case<LLVM::FDivOp>([](auto) { return "/"; })
      .Case<LLVM::AndOp>([](auto) { return "&"; })
      .Case<LLVM::OrOp>([](auto) { return "|"; })
      .Case<LLVM::XOrOp>([](auto) { return "^"; })
      .Case<LLVM::ShlOp>([](auto) { return "<<"; })
      .Case<LLVM::LShrOp>([](auto) { return ">>"; })
      .Default([](auto) { return ""; });
}

/// Returns a comparison's operator; empty if it needs more than an operator.
static StringRef getComparison(Operation &op) {
  if (auto compare = dyn_cast<LLVM::FCmpOp>(op)) {
    switch (compare.getPredicate()) {
    case LLVM::FCmpPredicate::oeq:
      return "==";
    case LLVM::FCmpPredicate::ogt:
      return ">";
    case LLVM::FCmpPredicate::olt:
      return "<";
    default:
      return "";
    }
  }
  switch (cast<LLVM::ICmpOp>(op).getPredicate()) {
  case LLVM::ICmpPredicate::eq:
    return "==";
  case LLVM::ICmpPredicate::ne:
    return "!=";
  case LLVM::ICmpPredicate::slt:
  case LLVM::ICmpPredicate::ult:
    return "<";
  case LLVM::ICmpPredicate::ugt:
    return ">";
  default:
    return "";
  }
}

static bool isSignedComparison(Operation &op) {
  auto compare = dyn_cast<LLVM::ICmpOp>(op);
  return compare && compare.getPredicate() == LLVM::ICmpPredicate::slt;
}

std::string FunctionEmitter::getAddress(LLVM::GEPOp op) {
  if (op.getIndices().size() != 1)
    return "";
  PointerUnion<IntegerAttr, Value> index = *op.getIndices().begin();
  std::string offset = isa<Value>(index)
                           ? getSigned(cast<Value>(index))
                           : std::to_string(cast<IntegerAttr>(index).getInt());
  return name(op.getBase()) + " + (int64_t)" + offset + " * " +
         std::to_string(getBytes(op.getElemType()));
}

/// Returns the expression of an operation with the type of its result, except
/// for excess bits of integers; empty if the operation is unknown.
std::string FunctionEmitter::getExpression(Operation &op) {
  SmallVector<std::string> on;
  for (Value operand : op.getOperands())
    on.push_back(name(operand));
  bool isFloat = isa<FloatType>(op.getResult(0).getType());
  StringRef suffix = op.getResult(0).getType().isF32() ? "f" : "";
  if (StringRef sign = getOperator(op); !sign.empty())
    return (isFloat ? "" : "(uint64_t)") + on[0] + " " + sign.str() + " " +
           on[1];
  auto call = [&](const char *function) {
    return (function + suffix + "(" + llvm::join(on, ", ") + ")").str();
  };
  auto choose = [&](const char *sign) {
    return on[0] + sign + on[1] + " ? " + on[0] + " : " + on[1];
  };
  return TypeSwitch<Operation *, std::string>(&op)
      .Case<LLVM::ICmpOp, LLVM::FCmpOp>([&](auto compare) -> std::string {
        StringRef sign = getComparison(op);
        if (sign.empty())
          return "";
        bool isSigned = isSignedComparison(op);
        auto side = [&](unsigned i) {
          return isSigned ? getSigned(op.getOperand(i)) : on[i];
        };
        return side(0) + " " + sign.str() + " " + side(1);
      })
      .Case<LLVM::GEPOp>([&](auto gep) { return getAddress(gep); })
      .Case<LLVM::AddressOfOp>([&](auto address) {
        return "(char *)" + address.getGlobalName().str();
      })
      .Case<LLVM::SelectOp>(
          [&](auto) { return on[0] + " ? " + on[1] + " : " + on[2]; })
      .Case<LLVM::TruncOp, LLVM::ZExtOp, LLVM::UIToFPOp, LLVM::FPToUIOp,
            LLVM::FPTruncOp>([&](auto) { return on[0]; })
      .Case<LLVM::SIToFPOp>([&](auto) { return getSigned(op.getOperand(0)); })
      .Case<LLVM::FPToSIOp>([&](auto) { return "(int32_t)" + on[0]; })
      .Case<LLVM::AShrOp>(
          [&](auto) { return getSigned(op.getOperand(0)) + " >> " + on[1]; })
      .Case<LLVM::FNegOp>([&](auto) { return "-" + on[0]; })
      .Case<LLVM::UMinOp>([&](auto) { return choose(" < "); })
      .Case<LLVM::UMaxOp>([&](auto) { return choose(" > "); })
      .Case<LLVM::SMinOp>([&](auto) {
        return getSigned(op.getOperand(0)) + " < " +
               getSigned(op.getOperand(1)) + " ? " + on[0] + " : " + on[1];
      })
      .Case<LLVM::FMAOp>([&](auto) { return call("fma"); })
      .Case<LLVM::SqrtOp>([&](auto) { return call("sqrt"); })
      .Case<LLVM::CopySignOp>([&](auto) { return call("copysign"); })
      .Default([](auto) { return ""; });
}

/// Emits numbers by their bits, so that C need not round them.
void FunctionEmitter::emitConstant(LLVM::ConstantOp op) {
  APInt bits = isa<FloatAttr>(op.getValue())
                   ? cast<FloatAttr>(op.getValue()).getValue().bitcastToAPInt()
                   : cast<IntegerAttr>(op.getValue()).getValue();
  std::string value = name(op);
  os << "  bits = UINT64_C(" << bits.getZExtValue() << "); memcpy(&" << value
     << ", &bits, sizeof(" << value << "));\n";
}

/// Assigns a block's arguments in parallel, since they may be each other's
/// values.
void FunctionEmitter::emitJump(Block *to, ValueRange values) {
  os << "{ ";
  for (auto [i, value] : llvm::enumerate(values))
    os << getCType(value.getType()) << " next" << i << " = " << name(value)
       << "; ";
  for (auto [i, argument] : llvm::enumerate(to->getArguments()))
    os << name(argument) << " = next" << i << "; ";
  os << "goto " << label(to) << "; }\n";
}

LogicalResult FunctionEmitter::emit(Operation &op) {
  if (auto constant = dyn_cast<LLVM::ConstantOp>(op)) {
    emitConstant(constant);
    return success();
  }
  if (isa<LLVM::AllocaOp>(op))
    return success();
  auto copy = [&](std::string to, std::string from, Value value) {
    os << "  memcpy(" << to << ", " << from << ", sizeof(" << name(value)
       << "));\n";
    return success();
  };
  if (auto load = dyn_cast<LLVM::LoadOp>(op))
    return copy("&" + name(load), name(load.getAddr()), load);
  if (auto store = dyn_cast<LLVM::StoreOp>(op))
    return copy(name(store.getAddr()), "&" + name(store.getValue()),
                store.getValue());
  if (auto cast = dyn_cast<LLVM::BitcastOp>(op))
    return copy("&" + name(cast), "&" + name(cast.getArg()), cast);
  if (auto jump = dyn_cast<LLVM::BrOp>(op)) {
    os << "  ";
    emitJump(jump.getDest(), jump.getDestOperands());
    return success();
  }
  if (auto jump = dyn_cast<LLVM::CondBrOp>(op)) {
    os << "  if (" << name(jump.getCondition()) << ") ";
    emitJump(jump.getTrueDest(), jump.getTrueDestOperands());
    os << "  else ";
    emitJump(jump.getFalseDest(), jump.getFalseDestOperands());
    return success();
  }
  if (isa<LLVM::ReturnOp>(op)) {
    os << "  return;\n";
    return success();
  }
  std::string expression = op.getNumResults() == 1 ? getExpression(op) : "";
  if (expression.empty())
    return op.emitError("C code for this operation is not written yet");
  Type type = op.getResult(0).getType();
  os << "  " << name(op.getResult(0)) << " = (" << getCType(type) << ")("
     << expression << ")" << (type.isInteger(1) ? " & 1" : "") << ";\n";
  return success();
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// Declares all variables, so that no jump crosses one, and arrays for allocas.
LogicalResult FunctionEmitter::declareValues(LLVM::LLVMFuncOp function) {
  os << "  uint64_t bits;\n";
  for (Block &block : function.getBody()) {
    if (!block.isEntryBlock())
      for (Value argument : block.getArguments())
        os << "  " << getCType(argument.getType()) << " " << name(argument)
           << ";\n";
    for (Operation &op : block)
      for (Value result : op.getResults()) {
        std::string type = getCType(result.getType());
        if (type.empty())
          return op.emitError("C has no type ") << result.getType();
        auto alloca = dyn_cast<LLVM::AllocaOp>(op);
        APInt count;
        if (!alloca)
          os << "  " << type << " " << name(result) << ";\n";
        else if (matchPattern(alloca.getArraySize(), m_ConstantInt(&count)))
          os << "  _Alignas(64) char " << name(result) << "["
             << count.getZExtValue() * getBytes(alloca.getElemType()) << "];\n";
        else
          return op.emitError("an array's size is not known");
      }
  }
  return success();
}

LogicalResult FunctionEmitter::emit(LLVM::LLVMFuncOp function) {
  os << "void " << function.getName() << "(";
  llvm::interleaveComma(function.getArguments(), os, [&](Value argument) {
    os << getCType(argument.getType()) << " " << name(argument);
  });
  os << ") {\n";
  if (failed(declareValues(function)))
    return failure();
  for (Block &block : function.getBody()) {
    if (!block.hasNoPredecessors())
      os << label(&block) << ":;\n";
    for (Operation &op : block)
      if (failed(emit(op)))
        return failure();
  }
  os << "}\n\n";
  return success();
}

/// Prints the bytes of a table.
static LogicalResult emitGlobal(LLVM::GlobalOp global, raw_ostream &os) {
  auto values = dyn_cast_or_null<DenseElementsAttr>(global.getValueOrNull());
  if (!values || values.isSplat())
    return global.emitError("C code for this global is not written yet");
  os << "static const _Alignas(64) unsigned char " << global.getName()
     << "[] = {";
  llvm::interleaveComma(values.getRawData(), os, [&](char byte) {
    os << unsigned(static_cast<unsigned char>(byte));
  });
  os << "};\n\n";
  return success();
}

LogicalResult ctarget::emitC(ModuleOp module, raw_ostream &os) {
  os << "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n\n";
  for (auto global : module.getOps<LLVM::GlobalOp>())
    if (failed(emitGlobal(global, os)))
      return failure();
  for (auto function : module.getOps<LLVM::LLVMFuncOp>())
    if (!function.isExternal() && failed(FunctionEmitter(os).emit(function)))
      return failure();
  return success();
}
