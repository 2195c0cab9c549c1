//===- Instruction.h - Decoded PTX ------------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the form in which kernels are executed. Every operand is a
// slot in the register file of a thread, including constants and special
// registers.
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
/// A function that runs when every thread of a warp or block has reached an
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
  /// Receives values that are written to `_`.
  Sink,
  NumSpecialSlots
};

/// The outcomes of a comparison that are accepted, one bit for each Ordering.
using ConditionMask = uint8_t;
inline ConditionMask maskOf(Ordering ordering) {
  return ConditionMask(1u << unsigned(ordering));
}

/// One decoded instruction. The handler determines what the fields mean.
struct Instruction {
  static constexpr Slot kNoGuard = ~Slot(0);
  static constexpr unsigned kMaxSlots = 10;

  Handler handler = nullptr;
  /// Set if threads wait for their warp or block at this instruction.
  Meeting meeting = nullptr;
  bool blockMeets = false;
  Slot guard = kNoGuard;
  bool guardNegated = false;
  /// The width in bits and the number of the elements that are computed.
  uint8_t width = 0;
  uint8_t lanes = 1;
  uint8_t sourceWidth = 0;
  /// The width in bits of the destination register, which may exceed `width`.
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
  /// The destinations, followed by the sources.
  std::array<Slot, kMaxSlots> slot{};
  /// A branch target, an address offset or the index of a parameter.
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
/// would hide a missing barrier. Therefore every access is checked against
/// those of other threads since the last barrier.
class SharedMemory {
public:
  explicit SharedMemory(uint64_t size) : data(size), uses(size) {}

  /// Starts a new block, which inherits no contents.
  void clear();
  /// Starts a new interval after all threads have met at a barrier.
  void endInterval() { ++interval; }

  /// Returns the bytes that a thread accesses. If the access is a fault,
  /// returns null and sets `why`.
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

/// A variable in global memory with values from the module.
struct Constants {
  std::string name;
  std::shared_ptr<const std::vector<uint32_t>> values;
};

struct Kernel {
  std::string name;
  /// The module's constants.
  std::vector<Constants> constants;
  /// The size of the module's shared variables in bytes.
  uint64_t sharedBytes = 0;
  std::vector<Parameter> params;
  std::vector<Instruction> code;
  std::vector<InstructionInfo> info;
  /// The initial register file, with constants set and registers poisoned.
  std::vector<uint64_t> initialSlots;
};

/// The state of a thread. The pc of a waiting thread is after the instruction
/// at which it waits.
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
  /// The index of the thread in its block.
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
