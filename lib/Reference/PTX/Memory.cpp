//===- Memory.cpp - Loads, stores and atomics of PTX ----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the memory map and all accesses to memory. Each access
// must be in one registered buffer and aligned to its whole width.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cstring>

using namespace tandem::reference;
using namespace tandem::reference::ptx;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// MemoryMap
//===----------------------------------------------------------------------===//

llvm::Error MemoryMap::add(Region region) {
  if (region.begin + region.size < region.begin)
    return llvm::createStringError("buffer '" + region.name +
                                   "' wraps around the address space");
  auto place = llvm::upper_bound(
      regions, region.begin,
      [](uint64_t begin, const Region &other) { return begin < other.begin; });
  const Region *clash = nullptr;
  if (place != regions.begin() && std::prev(place)->end() > region.begin)
    clash = &*std::prev(place);
  else if (place != regions.end() && region.end() > place->begin)
    clash = &*place;
  if (clash && region.size && clash->size)
    return llvm::createStringError("buffer '" + region.name +
                                   "' overlaps buffer '" + clash->name +
                                   "'; register their union once");
  regions.insert(place, std::move(region));
  return llvm::Error::success();
}

llvm::Error MemoryMap::addWritable(StringRef name, void *data, uint64_t size) {
  return add({reinterpret_cast<uint64_t>(data), size, true, name.str()});
}

llvm::Error MemoryMap::addReadOnly(StringRef name, const void *data,
                                   uint64_t size) {
  return add({reinterpret_cast<uint64_t>(data), size, false, name.str()});
}

const MemoryMap::Region *MemoryMap::findAtOrBefore(uint64_t address) const {
  auto next = llvm::upper_bound(regions, address,
                                [](uint64_t address, const Region &region) {
                                  return address < region.begin;
                                });
  return next == regions.begin() ? nullptr : &*std::prev(next);
}

static bool contains(const MemoryMap::Region &region, uint64_t address,
                     unsigned bytes) {
  return address >= region.begin && address - region.begin <= region.size &&
         region.size - (address - region.begin) >= bytes;
}

bool MemoryMap::allows(uint64_t address, unsigned bytes,
                       bool needsWrite) const {
  const Region *region = findAtOrBefore(address);
  return region && contains(*region, address, bytes) &&
         (region->writable || !needsWrite);
}

std::string MemoryMap::explain(uint64_t address, unsigned bytes,
                               bool needsWrite) const {
  const Region *region = findAtOrBefore(address);
  if (!region)
    return "no buffer is registered at or below it";
  if (contains(*region, address, bytes))
    return "buffer '" + region->name + "' is read-only";
  return "the nearest buffer below, '" + region->name + "', has " +
         llvm::utostr(region->size) + " bytes and this is at offset " +
         llvm::utostr(address - region->begin);
}

//===----------------------------------------------------------------------===//
// Handlers
//===----------------------------------------------------------------------===//

namespace {

enum class Access { Load, ConstantLoad, Store, Atomic };

StringRef describe(Access access) {
  switch (access) {
  case Access::Load:
  case Access::ConstantLoad:
    return "load";
  case Access::Store:
    return "store";
  case Access::Atomic:
    return "atomic access";
  }
  llvm_unreachable("every access is listed");
}

/// Returns the module's constants if the address is in them, else the caller's
/// buffers. The latter may be registered as large ranges of the host's memory,
/// which include the constants.
const MemoryMap &getMemory(const Thread &t, uint64_t address) {
  bool isConstant = t.constants->allows(address, 1, /*needsWrite=*/false);
  return isConstant ? *t.constants : *t.memory;
}

/// Checks an access and returns its bytes. Records a fault in the thread and
/// returns null if it is not allowed.
template <Access access>
char *locate(Thread &t, uint64_t address, unsigned bytes) {
  constexpr bool needsWrite =
      access == Access::Store || access == Access::Atomic;
  const MemoryMap &memory = getMemory(t, address);
  std::string what = "";
  if (address % bytes != 0)
    what = "the address is not aligned to its width";
  else if (!memory.allows(address, bytes, needsWrite))
    what = memory.explain(address, bytes, needsWrite);
  else if (access == Access::ConstantLoad &&
           memory.allows(address, bytes, /*needsWrite=*/true))
    what = "a non-coherent load from buffer '" +
           memory.findAtOrBefore(address)->name +
           "', which the kernel may write; register it as read-only";
  if (what.empty())
    return reinterpret_cast<char *>(address);
  t.fail((describe(access) + " of " + llvm::Twine(bytes) + " bytes at 0x" +
          llvm::utohexstr(address, /*LowerCase=*/true) + ": " + what)
             .str());
  return nullptr;
}

/// Does the same in the block's shared memory, whose addresses begin at zero.
char *locateShared(Thread &t, uint64_t address, unsigned bytes, bool isWrite) {
  std::string why;
  char *data = t.shared->access(address, bytes, isWrite, t.number, why);
  if (!data)
    t.fail((llvm::Twine("shared ") + (isWrite ? "store" : "load") + " of " +
            llvm::Twine(bytes) + " bytes at " + llvm::Twine(address) + ": " +
            why)
               .str());
  return data;
}

uint64_t readBytes(const char *data, unsigned bytes) {
  uint64_t value = 0;
  std::memcpy(&value, data, bytes);
  return value;
}

uint64_t extended(const Instruction &i, uint64_t value) {
  return i.isSigned ? signExtend(value, i.width) & maskOfWidth(i.registerWidth)
                    : value;
}

unsigned getBytes(const Instruction &i) { return i.width / 8 * i.count; }

uint64_t getAddress(const Thread &t, const Instruction &i) {
  return t.slots[i.slot[i.count]] + i.immediate;
}

void loadFrom(const char *data, Thread &t, const Instruction &i) {
  unsigned bytes = i.width / 8;
  for (unsigned index = 0; index < i.count; ++index)
    t.slots[i.slot[index]] =
        extended(i, readBytes(data + index * bytes, bytes));
}

void storeTo(char *data, const Thread &t, const Instruction &i) {
  unsigned bytes = i.width / 8;
  for (unsigned index = 0; index < i.count; ++index)
    std::memcpy(data + index * bytes, &t.slots[i.slot[index]], bytes);
}

template <Access access>
void runLoad(Thread &t, const Instruction &i) {
  const char *data = locate<access>(t, getAddress(t, i), getBytes(i));
  if (!data)
    return;
  loadFrom(data, t, i);
  t.bytesLoaded += getBytes(i);
}

void runStore(Thread &t, const Instruction &i) {
  char *data = locate<Access::Store>(t, getAddress(t, i), getBytes(i));
  if (!data)
    return;
  storeTo(data, t, i);
  t.bytesStored += getBytes(i);
}

void runSharedLoad(Thread &t, const Instruction &i) {
  if (char *data =
          locateShared(t, getAddress(t, i), getBytes(i), /*isWrite=*/false))
    loadFrom(data, t, i);
}

void runSharedStore(Thread &t, const Instruction &i) {
  if (char *data =
          locateShared(t, getAddress(t, i), getBytes(i), /*isWrite=*/true))
    storeTo(data, t, i);
}

void runLoadParam(Thread &t, const Instruction &i) {
  t.slots[i.slot[0]] =
      extended(i, t.params[i.immediate] & maskOfWidth(i.width));
}

using Combine = uint64_t (*)(const Instruction &i, uint64_t old, uint64_t a,
                             uint64_t b);

/// Runs an atomic operation. Every access is atomic, since threads run one
/// after another.
template <Combine combine>
void runAtomic(Thread &t, const Instruction &i) {
  unsigned bytes = i.width / 8;
  char *data =
      locate<Access::Atomic>(t, t.slots[i.slot[1]] + i.immediate, bytes);
  if (!data)
    return;
  uint64_t old = readBytes(data, bytes);
  uint64_t value = combine(i, old, t.slots[i.slot[2]], t.slots[i.slot[3]]);
  std::memcpy(data, &value, bytes);
  t.slots[i.slot[0]] = old;
  t.bytesLoaded += bytes;
  t.bytesStored += bytes;
}

uint64_t combineAnd(const Instruction &, uint64_t old, uint64_t a, uint64_t) {
  return old & a;
}
uint64_t combineOr(const Instruction &, uint64_t old, uint64_t a, uint64_t) {
  return old | a;
}
uint64_t combineXor(const Instruction &, uint64_t old, uint64_t a, uint64_t) {
  return old ^ a;
}
uint64_t combineAdd(const Instruction &, uint64_t old, uint64_t a, uint64_t) {
  return old + a;
}
uint64_t combineExchange(const Instruction &, uint64_t, uint64_t a, uint64_t) {
  return a;
}
uint64_t combineCompareExchange(const Instruction &, uint64_t old, uint64_t a,
                                uint64_t b) {
  return old == a ? b : old;
}
bool precedes(const Instruction &i, uint64_t a, uint64_t b) {
  return i.isSigned ? signExtend(a, i.width) < signExtend(b, i.width) : a < b;
}
uint64_t combineMin(const Instruction &i, uint64_t old, uint64_t a, uint64_t) {
  return precedes(i, a, old) ? a : old;
}
uint64_t combineMax(const Instruction &i, uint64_t old, uint64_t a, uint64_t) {
  return precedes(i, old, a) ? a : old;
}

//===----------------------------------------------------------------------===//
// Decoding
//===----------------------------------------------------------------------===//

enum class Space { Generic, Global, Shared, Param };

/// Consumes the ordering and the scope, which have no effect since threads run
/// one after another.
bool takeSemantics(Decoder &d, llvm::ArrayRef<StringRef> semantics) {
  bool hasScope = false;
  for (StringRef name : semantics)
    if (d.take(name)) {
      hasScope = name != "weak" && name != "volatile";
      break;
    }
  if (!hasScope)
    return true;
  return d.take("cta") || d.take("cluster") || d.take("gpu") || d.take("sys") ||
         d.fail("'" + d.statement.opcode + "': expected a scope");
}

Space takeSpace(Decoder &d) {
  if (d.take("global"))
    return Space::Global;
  if (d.take("shared"))
    return Space::Shared;
  return d.take("param") ? Space::Param : Space::Generic;
}

/// Consumes cache hints, which do not affect values.
void takeCacheHints(Decoder &d, llvm::ArrayRef<StringRef> operators) {
  for (StringRef name : operators)
    if (d.take(name))
      break;
  for (StringRef name :
       {"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first",
        "L1::evict_last", "L1::no_allocate"})
    if (d.take(name))
      break;
}

/// Consumes .v2, .v4 or .v8 and the type. An access has at most 32 bytes.
bool takeVectorType(Decoder &d, PTXType &type) {
  d.result.count = d.take("v2") ? 2 : d.take("v4") ? 4 : d.take("v8") ? 8 : 1;
  if (!d.takeType(type))
    return false;
  if (type.kind == PTXType::Predicate || type.lanes != 1 ||
      type.width * d.result.count > 256)
    return d.fail("unknown access '" + d.statement.opcode + "'");
  d.result.width = type.width;
  d.result.isSigned = type.isSigned();
  return true;
}

/// Calls a function for each element of a vector operand, or once for a scalar.
template <typename Function>
bool forEachElement(Decoder &d, const Operand &operand, Function function) {
  if (d.result.count == 1)
    return function(operand, 0);
  if (operand.kind != Operand::Vector ||
      operand.elements.size() != d.result.count)
    return d.fail("'" + d.statement.opcode + "' needs a vector of " +
                  llvm::Twine(unsigned(d.result.count)) + " operands");
  for (const auto &[index, element] : llvm::enumerate(operand.elements))
    if (!function(element, index))
      return false;
  return true;
}

bool decodeLoadParam(Decoder &d, const PTXType &type) {
  const Operand &written = d.operand(1);
  if (written.kind != Operand::Address || written.offset != 0 ||
      d.result.count != 1)
    return d.fail("only whole parameters are read: [name]");
  llvm::ArrayRef<Parameter> params = d.builder.kernel.params;
  const Parameter *found = llvm::find_if(params, [&](const Parameter &param) {
    return param.name == written.text;
  });
  if (found == params.end())
    return d.fail("unknown parameter '" + written.text + "'");
  if (found->bytes * 8 < type.width)
    return d.fail("parameter '" + written.text + "' has only " +
                  llvm::Twine(found->bytes) + " bytes");
  d.result.immediate = found - params.begin();
  d.result.handler = runLoadParam;
  return true;
}

bool decodeLoad(Decoder &d) {
  if (!takeSemantics(d, {"weak", "volatile", "relaxed", "acquire"}))
    return false;
  Space space = takeSpace(d);
  takeCacheHints(d, {"ca", "cg", "cs", "lu", "cv"});
  bool isConstant = d.take("nc");
  takeCacheHints(d, {});
  PTXType type;
  if (!takeVectorType(d, type) || !d.expectOperands(2))
    return false;
  if (isConstant && space != Space::Global)
    return d.fail("unknown access '" + d.statement.opcode + "'");
  if (!forEachElement(d, d.operand(0), [&](const Operand &o, unsigned index) {
        return d.destination(o, type.width, index, /*mayBeWider=*/true);
      }))
    return false;
  if (space == Space::Param)
    return decodeLoadParam(d, type);
  d.result.handler = space == Space::Shared ? runSharedLoad
                     : isConstant           ? runLoad<Access::ConstantLoad>
                                            : runLoad<Access::Load>;
  return d.address(1, d.result.count);
}

bool decodeStore(Decoder &d) {
  if (!takeSemantics(d, {"weak", "volatile", "relaxed", "release"}))
    return false;
  Space space = takeSpace(d);
  if (space == Space::Param)
    return d.fail("parameters cannot be written");
  takeCacheHints(d, {"wb", "cg", "cs", "wt"});
  PTXType type;
  if (!takeVectorType(d, type) || !d.expectOperands(2))
    return false;
  d.result.handler = space == Space::Shared ? runSharedStore : runStore;
  return d.address(0, d.result.count) &&
         forEachElement(d, d.operand(1), [&](const Operand &o, unsigned index) {
           return d.source(o, type, index, /*mayBeWider=*/true);
         });
}

struct AtomicOp {
  llvm::StringLiteral name;
  Handler handler;
  bool onBits;
};

const AtomicOp kAtomics[] = {{"and", runAtomic<combineAnd>, true},
                             {"or", runAtomic<combineOr>, true},
                             {"xor", runAtomic<combineXor>, true},
                             {"exch", runAtomic<combineExchange>, true},
                             {"cas", runAtomic<combineCompareExchange>, true},
                             {"add", runAtomic<combineAdd>, false},
                             {"min", runAtomic<combineMin>, false},
                             {"max", runAtomic<combineMax>, false}};

/// Consumes the operation of an atomic. Refuses float sums, which depend on the
/// order of threads.
bool takeAtomicOperation(Decoder &d, PTXType &type) {
  StringRef name = d.takeAny();
  const AtomicOp *found = llvm::find_if(
      kAtomics, [&](const AtomicOp &op) { return op.name == name; });
  if (found == std::end(kAtomics))
    return d.fail("unknown instruction '" + d.statement.opcode + "'");
  if (!d.takeType(type))
    return false;
  bool fits = found->onBits ? type.kind == PTXType::Bits
                            : type.kind == PTXType::Unsigned ||
                                  type.kind == PTXType::Signed;
  if (!fits || type.width < 32 || type.lanes != 1)
    return d.fail("unknown instruction '" + d.statement.opcode + "'");
  d.result.handler = found->handler;
  d.result.width = type.width;
  d.result.isSigned = type.isSigned();
  return true;
}

/// Decodes atom d, [a], b and red [a], b. The cas operation has one more
/// operand.
bool decodeAtomic(Decoder &d) {
  bool returns = d.getName() == "atom";
  if (!takeSemantics(d, {"relaxed", "acquire", "release", "acq_rel"}))
    return false;
  d.take("cta") || d.take("cluster") || d.take("gpu") || d.take("sys");
  Space space = takeSpace(d);
  if (space == Space::Param || space == Space::Shared)
    return d.fail(
        "atomic access to " +
        llvm::Twine(space == Space::Param ? "parameters" : "shared memory") +
        " is not known");
  bool isCas = d.peek() == "cas";
  PTXType type;
  unsigned first = returns ? 1 : 0;
  if (!takeAtomicOperation(d, type) ||
      !d.expectOperands(first + (isCas ? 3 : 2)))
    return false;
  d.result.slot[0] = d.result.slot[3] = Sink;
  return (!returns || d.destination(0, type.width)) && d.address(first, 1) &&
         d.source(first + 1, type, 2) &&
         (!isCas || d.source(first + 2, type, 3));
}

const Opcode kOpcodes[] = {{"ld", OpcodeClass::Any, decodeLoad},
                           {"st", OpcodeClass::Any, decodeStore},
                           {"atom", OpcodeClass::Any, decodeAtomic},
                           {"red", OpcodeClass::Any, decodeAtomic}};

} // namespace

llvm::ArrayRef<Opcode> ptx::getMemoryOpcodes() { return kOpcodes; }
