//===- Instruction.h - Decoded PTX ------------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the form in which kernels are executed: every operand is a
// slot of one register file per thread, constants and special registers
// included.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_REFERENCE_PTX_INSTRUCTION_H
#define TANDEM_LIB_REFERENCE_PTX_INSTRUCTION_H

#include "tandem/Reference/PTX/Evaluator.h"
#include "tandem/Reference/SoftFloat/SoftFloat.h"

#include <array>

namespace tandem::reference::ptx {

struct Thread;
struct Instruction;

using Handler = void (*)(Thread &, const Instruction &);
/// A function that runs once every thread of a warp or block has reached an
/// instruction. It reports errors in one of the threads.
using Meeting = void (*)(llvm::MutableArrayRef<Thread>, const Instruction &);
using Slot = uint32_t;

/// The register file begins with the special registers.
enum SpecialSlot : Slot {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  LaneId,
  /// Takes what is written to `_`.
  Sink,
  NumSpecialSlots
};

/// The outcomes a comparison accepts, one bit for each Ordering.
using ConditionMask = uint8_t;
inline ConditionMask maskOf(Ordering ordering) {
  return ConditionMask(1u << unsigned(ordering));
}

/// One decoded instruction. What the fields mean is the handler's affair.
struct Instruction {
  static constexpr Slot kNoGuard = ~Slot(0);
  static constexpr unsigned kMaxSlots = 10;

  Handler handler = nullptr;
  /// Set where threads wait for their warp, or for their block.
  Meeting meeting = nullptr;
  bool blockMeets = false;
  Slot guard = kNoGuard;
  bool guardNegated = false;
  /// Bits and number of the elements that are computed on.
  uint8_t width = 0;
  uint8_t lanes = 1;
  uint8_t sourceWidth = 0;
  /// Bits of the destination register, which may exceed `width`.
  uint8_t registerWidth = 0;
  bool isSigned = false;
  bool sourceIsSigned = false;
  bool saturate = false;
  /// The number of elements of a vector operand.
  uint8_t count = 1;
  ConditionMask condition = 0;
  Format format = Format::F32;
  Format sourceFormat = Format::F32;
  SoftFloat::Rounding rounding = SoftFloat::kNearest;
  Overflow overflow = Overflow::Infinity;
  /// Destinations first, then sources.
  std::array<Slot, kMaxSlots> slot{};
  /// A branch target, an address offset, a parameter's number.
  int64_t immediate = 0;
};

/// The facts about an instruction that messages and statistics need.
struct InstructionInfo {
  unsigned line;
  std::string opcode;
  std::string text;
};

struct Parameter {
  std::string name;
  unsigned bytes;
};

constexpr uint64_t kWarpSize = 32;

/// The shared memory of the running block. Threads run one after another, which
/// would hide a missing barrier: so every access is checked against those of
/// other threads since the last one.
class SharedMemory {
public:
  explicit SharedMemory(uint64_t size) : data(size), uses(size) {}

  /// A new block: nothing is left of the one before.
  void clear();
  /// All threads have met.
  void endInterval() { ++interval; }

  /// The bytes for an access by a thread; null, and why, if it is a fault.
  char *access(uint64_t address, unsigned bytes, bool isWrite, uint32_t thread,
               std::string &why);

private:
  /// The last accesses to a byte: the intervals between barriers in which it
  /// was written and read, and the threads that did so.
  struct Use {
    uint64_t written = 0, read = 0;
    uint32_t writer = 0, reader = 0;
    bool hasManyReaders = false;
  };
  bool races(const Use &use, bool isWrite, uint32_t thread) const;
  void note(Use &use, bool isWrite, uint32_t thread) const;

  std::vector<char> data;
  std::vector<Use> uses;
  uint64_t interval = 1;
};

/// A variable in global memory whose values the module gives.
struct Constants {
  std::string name;
  std::shared_ptr<const std::vector<uint32_t>> values;
};

struct Kernel {
  std::string name;
  /// The module's constants.
  std::vector<Constants> constants;
  /// Bytes of the module's shared variables.
  uint64_t sharedBytes = 0;
  std::vector<Parameter> params;
  std::vector<Instruction> code;
  std::vector<InstructionInfo> info;
  /// The register file at the start: constants in place, registers poisoned.
  std::vector<uint64_t> initialSlots;
};

/// A waiting thread's position is after the instruction at which it waits.
enum class ThreadState : uint8_t { Running, Waiting, Exited, Failed };

/// The state of one thread.
struct Thread {
  std::vector<uint64_t> slots;
  uint32_t pc = 0;
  /// The number of instructions that it may still execute.
  uint64_t budget = 0;
  ThreadState state = ThreadState::Running;
  llvm::ArrayRef<uint64_t> params;
  /// The caller's buffers.
  const MemoryMap *memory = nullptr;
  /// The module's constants.
  const MemoryMap *constants = nullptr;
  SharedMemory *shared = nullptr;
  /// Its number within the block.
  uint32_t number = 0;
  uint64_t bytesLoaded = 0;
  uint64_t bytesStored = 0;
  std::string failure;

  void fail(std::string message) {
    state = ThreadState::Failed;
    failure = std::move(message);
  }
};

inline uint64_t maskOfWidth(unsigned width) {
  return width >= 64 ? ~uint64_t(0) : (uint64_t(1) << width) - 1;
}

inline int64_t signExtend(uint64_t value, unsigned width) {
  unsigned shift = 64 - width;
  return static_cast<int64_t>(value << shift) >> shift;
}

} // namespace tandem::reference::ptx

#endif // TANDEM_LIB_REFERENCE_PTX_INSTRUCTION_H
