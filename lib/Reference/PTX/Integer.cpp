//===- Integer.cpp - Integer arithmetic of PTX ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements integer arithmetic and comparison with exact semantics.
// A division by zero, whose result PTX leaves undefined, is a fault.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"

#include "llvm/ADT/StringSwitch.h"

#include <algorithm>

using namespace tandem::reference;
using namespace tandem::reference::ptx;

//===----------------------------------------------------------------------===//
// Handlers
//===----------------------------------------------------------------------===//

namespace {

/// Functions on zero-extended operands. The caller truncates the result to the
/// width.
using Unary = uint64_t (*)(uint64_t a, unsigned width);
using Binary = uint64_t (*)(uint64_t a, uint64_t b, unsigned width);

uint64_t add(uint64_t a, uint64_t b, unsigned) { return a + b; }
uint64_t subtract(uint64_t a, uint64_t b, unsigned) { return a - b; }
uint64_t multiplyLow(uint64_t a, uint64_t b, unsigned) { return a * b; }

uint64_t multiplyHighUnsigned(uint64_t a, uint64_t b, unsigned width) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(a) * b) >>
                               width);
}

uint64_t multiplyHighSigned(uint64_t a, uint64_t b, unsigned width) {
  __int128 product =
      static_cast<__int128>(signExtend(a, width)) * signExtend(b, width);
  return static_cast<uint64_t>(product >> width);
}

uint64_t multiplyWideSigned(uint64_t a, uint64_t b, unsigned width) {
  return signExtend(a, width) * signExtend(b, width);
}

uint64_t divideUnsigned(uint64_t a, uint64_t b, unsigned) { return a / b; }
uint64_t remainderUnsigned(uint64_t a, uint64_t b, unsigned) { return a % b; }

/// Divides signed integers. The smallest number divided by -1 wraps around,
/// like its negation.
uint64_t divideSigned(uint64_t a, uint64_t b, unsigned width) {
  int64_t divisor = signExtend(b, width);
  return divisor == -1 ? 0 - a : signExtend(a, width) / divisor;
}

uint64_t remainderSigned(uint64_t a, uint64_t b, unsigned width) {
  int64_t divisor = signExtend(b, width);
  return divisor == -1 ? 0 : signExtend(a, width) % divisor;
}

uint64_t minUnsigned(uint64_t a, uint64_t b, unsigned) {
  return std::min(a, b);
}
uint64_t maxUnsigned(uint64_t a, uint64_t b, unsigned) {
  return std::max(a, b);
}
uint64_t minSigned(uint64_t a, uint64_t b, unsigned width) {
  return std::min(signExtend(a, width), signExtend(b, width));
}
uint64_t maxSigned(uint64_t a, uint64_t b, unsigned width) {
  return std::max(signExtend(a, width), signExtend(b, width));
}

uint64_t negate(uint64_t a, unsigned) { return 0 - a; }
uint64_t absolute(uint64_t a, unsigned width) {
  return signExtend(a, width) < 0 ? 0 - a : a;
}

template <Unary fn>
void runUnary(Thread &t, const Instruction &i) {
  t.slots[i.slot[0]] = fn(t.slots[i.slot[1]], i.width) & maskOfWidth(i.width);
}

template <Binary fn>
void runBinary(Thread &t, const Instruction &i) {
  t.slots[i.slot[0]] = fn(t.slots[i.slot[1]], t.slots[i.slot[2]], i.width) &
                       maskOfWidth(i.width);
}

template <Binary fn>
void runPacked(Thread &t, const Instruction &i) {
  uint64_t result = 0, mask = maskOfWidth(i.width);
  for (unsigned shift = 0; shift < i.lanes * i.width; shift += i.width) {
    uint64_t a = (t.slots[i.slot[1]] >> shift) & mask;
    uint64_t b = (t.slots[i.slot[2]] >> shift) & mask;
    result |= (fn(a, b, i.width) & mask) << shift;
  }
  t.slots[i.slot[0]] = result;
}

template <Binary fn>
void runDivision(Thread &t, const Instruction &i) {
  if (t.slots[i.slot[2]] == 0)
    return t.fail("division by zero, whose result PTX leaves undefined");
  runBinary<fn>(t, i);
}

/// Runs an instruction whose result is twice as wide as its factors.
template <Binary fn>
void runWide(Thread &t, const Instruction &i) {
  t.slots[i.slot[0]] = fn(t.slots[i.slot[1]], t.slots[i.slot[2]], i.width) &
                       maskOfWidth(2 * i.width);
}

template <Binary fn, unsigned factor>
void runMultiplyAdd(Thread &t, const Instruction &i) {
  uint64_t product = fn(t.slots[i.slot[1]], t.slots[i.slot[2]], i.width);
  t.slots[i.slot[0]] =
      (product + t.slots[i.slot[3]]) & maskOfWidth(factor * i.width);
}

void runCompare(Thread &t, const Instruction &i) {
  uint64_t a = t.slots[i.slot[2]], b = t.slots[i.slot[3]];
  bool less =
      i.isSigned ? signExtend(a, i.width) < signExtend(b, i.width) : a < b;
  Ordering ordering = a == b ? Ordering::Equal
                      : less ? Ordering::Less
                             : Ordering::Greater;
  bool holds = i.condition & maskOf(ordering);
  t.slots[i.slot[1]] = !holds;
  t.slots[i.slot[0]] = holds;
}

//===----------------------------------------------------------------------===//
// Decoding
//===----------------------------------------------------------------------===//

struct Handlers {
  Handler forUnsigned, forSigned, packedUnsigned, packedSigned;

  Handler get(const PTXType &type) const {
    if (type.lanes == 2)
      return type.isSigned() ? packedSigned : packedUnsigned;
    return type.isSigned() ? forSigned : forUnsigned;
  }
};

template <Binary forUnsigned, Binary forSigned>
constexpr Handlers kPackable = {runBinary<forUnsigned>, runBinary<forSigned>,
                                runPacked<forUnsigned>, runPacked<forSigned>};

template <Binary forUnsigned, Binary forSigned>
constexpr Handlers kDivision = {runDivision<forUnsigned>,
                                runDivision<forSigned>, nullptr, nullptr};

bool takeNumberType(Decoder &d, PTXType &type) {
  if (!d.takeType(type))
    return false;
  if (type.kind != PTXType::Unsigned && type.kind != PTXType::Signed)
    return d.fail("'" + d.statement.opcode + "' needs a type u or s");
  if (type.width == 8)
    return d.fail("'" + d.statement.opcode + "': no arithmetic on 8 bits");
  d.result.width = type.width;
  d.result.lanes = type.lanes;
  d.result.isSigned = type.isSigned();
  return true;
}

bool setHandler(Decoder &d, Handler handler) {
  d.result.handler = handler;
  return handler || d.fail("unknown instruction '" + d.statement.opcode + "'");
}

template <const Handlers &handlers>
bool decodeBinary(Decoder &d) {
  PTXType type;
  return takeNumberType(d, type) && setHandler(d, handlers.get(type)) &&
         d.expectOperands(3) && d.destination(0, type.totalWidth()) &&
         d.source(1, type, 1) && d.source(2, type, 2);
}

template <Unary fn>
bool decodeUnary(Decoder &d) {
  PTXType type;
  return takeNumberType(d, type) &&
         setHandler(d, type.isSigned() && type.lanes == 1 ? runUnary<fn>
                                                          : nullptr) &&
         d.expectOperands(2) && d.destination(0, type.width) &&
         d.source(1, type, 1);
}

struct ProductHandlers {
  Handler low, highUnsigned, highSigned, wideUnsigned, wideSigned;
};

constexpr ProductHandlers kMul = {
    runBinary<multiplyLow>, runBinary<multiplyHighUnsigned>,
    runBinary<multiplyHighSigned>, runWide<multiplyLow>,
    runWide<multiplyWideSigned>};

constexpr ProductHandlers kMad = {
    runMultiplyAdd<multiplyLow, 1>, runMultiplyAdd<multiplyHighUnsigned, 1>,
    runMultiplyAdd<multiplyHighSigned, 1>, runMultiplyAdd<multiplyLow, 2>,
    runMultiplyAdd<multiplyWideSigned, 2>};

Handler selectProduct(const ProductHandlers &handlers, llvm::StringRef part,
                      const PTXType &type) {
  if (type.lanes != 1)
    return nullptr;
  if (part == "lo")
    return handlers.low;
  if (part == "hi")
    return type.isSigned() ? handlers.highSigned : handlers.highUnsigned;
  if (part == "wide" && type.width < 64)
    return type.isSigned() ? handlers.wideSigned : handlers.wideUnsigned;
  return nullptr;
}

template <const ProductHandlers &handlers, bool hasAddend>
bool decodeProduct(Decoder &d) {
  llvm::StringRef part = d.takeAny();
  PTXType type;
  if (!takeNumberType(d, type) ||
      !setHandler(d, selectProduct(handlers, part, type)))
    return false;
  PTXType resultType = type;
  if (part == "wide")
    resultType.width *= 2;
  return d.expectOperands(hasAddend ? 4 : 3) &&
         d.destination(0, resultType.width) && d.source(1, type, 1) &&
         d.source(2, type, 2) && (!hasAddend || d.source(3, resultType, 3));
}

bool decodeSetp(Decoder &d) {
  PTXType type;
  if (!decodeComparison(d, d.result.condition) || !d.takeType(type))
    return false;
  bool ordered = d.result.condition != maskOf(Ordering::Equal) &&
                 d.result.condition !=
                     (maskOf(Ordering::Less) | maskOf(Ordering::Greater));
  if (type.kind == PTXType::Predicate || type.width == 8 || type.lanes != 1 ||
      (ordered && type.kind == PTXType::Bits) ||
      (d.result.condition & maskOf(Ordering::Unordered)))
    return d.fail("unknown comparison '" + d.statement.opcode + "'");
  d.result.isSigned = type.isSigned();
  return decodePredicates(d, runCompare, type);
}

constexpr Handlers kAdd = kPackable<add, add>;
constexpr Handlers kSub = kPackable<subtract, subtract>;
constexpr Handlers kMin = kPackable<minUnsigned, minSigned>;
constexpr Handlers kMax = kPackable<maxUnsigned, maxSigned>;
constexpr Handlers kDiv = kDivision<divideUnsigned, divideSigned>;
constexpr Handlers kRem = kDivision<remainderUnsigned, remainderSigned>;

const Opcode kOpcodes[] = {
    {"add", OpcodeClass::Integer, decodeBinary<kAdd>},
    {"sub", OpcodeClass::Integer, decodeBinary<kSub>},
    {"min", OpcodeClass::Integer, decodeBinary<kMin>},
    {"max", OpcodeClass::Integer, decodeBinary<kMax>},
    {"div", OpcodeClass::Integer, decodeBinary<kDiv>},
    {"rem", OpcodeClass::Integer, decodeBinary<kRem>},
    {"neg", OpcodeClass::Integer, decodeUnary<negate>},
    {"abs", OpcodeClass::Integer, decodeUnary<absolute>},
    {"mul", OpcodeClass::Integer, decodeProduct<kMul, false>},
    {"mad", OpcodeClass::Integer, decodeProduct<kMad, true>},
    {"setp", OpcodeClass::Integer, decodeSetp},
};

} // namespace

llvm::ArrayRef<Opcode> ptx::getIntegerOpcodes() { return kOpcodes; }

//===----------------------------------------------------------------------===//
// Comparisons
//===----------------------------------------------------------------------===//

bool ptx::decodeComparison(Decoder &d, ConditionMask &mask) {
  constexpr unsigned less = 1, equal = 2, greater = 4, unordered = 8;
  static_assert(unsigned(Ordering::Less) == 0 &&
                unsigned(Ordering::Unordered) == 3);
  llvm::StringRef name = d.takeAny();
  mask = llvm::StringSwitch<unsigned>(name)
             .Case("eq", equal)
             .Case("ne", less | greater)
             .Cases({"lt", "lo"}, less)
             .Cases({"le", "ls"}, less | equal)
             .Cases({"gt", "hi"}, greater)
             .Cases({"ge", "hs"}, greater | equal)
             .Case("equ", equal | unordered)
             .Case("neu", less | greater | unordered)
             .Case("ltu", less | unordered)
             .Case("leu", less | equal | unordered)
             .Case("gtu", greater | unordered)
             .Case("geu", greater | equal | unordered)
             .Case("num", less | equal | greater)
             .Case("nan", unordered)
             .Default(0);
  return mask || d.fail("unknown comparison '." + name + "'");
}

/// Decodes p or p|q into slots 0 and 1, then two sources into slots 2 and 3.
bool ptx::decodePredicates(Decoder &d, Handler handler, const PTXType &type) {
  d.result.handler = handler;
  d.result.width = type.width;
  d.result.lanes = type.lanes;
  d.result.slot[1] = Sink;
  if (!d.expectOperands(3))
    return false;
  const Operand &target = d.operand(0);
  if (target.kind == Operand::Pair) {
    if (!d.destination(target.elements[0], 1, 0) ||
        !d.destination(target.elements[1], 1, 1))
      return false;
  } else if (!d.destination(target, 1, 0)) {
    return false;
  }
  return d.source(1, type, 2) && d.source(2, type, 3);
}
