//===- Warp.cpp - Threads of PTX that meet --------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements barriers and shuffles. A thread that reaches one waits,
// and the launch calls the meeting function when the whole warp or block has
// reached it.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"

using namespace tandem::reference;
using namespace tandem::reference::ptx;

namespace {

//===----------------------------------------------------------------------===//
// Meetings
//===----------------------------------------------------------------------===//

void runWait(Thread &t, const Instruction &) { t.state = ThreadState::Waiting; }

/// Does nothing: memory is always up to date, so that threads only have to
/// meet.
void meetAtBarrier(llvm::MutableArrayRef<Thread>, const Instruction &) {}

enum class Shuffle : uint8_t { Up, Down, Butterfly, Index };

struct ShuffleSource {
  int lane;
  bool inRange;
};

/// Returns the lane that a thread reads from, computed as in the PTX manual.
template <Shuffle mode>
ShuffleSource findSource(int lane, uint64_t b, uint64_t c) {
  int offset = b & 31, clamp = c & 31, segment = (c >> 8) & 31;
  int maxLane = (lane & segment) | (clamp & ~segment);
  int source = mode == Shuffle::Up     ? lane - offset
               : mode == Shuffle::Down ? lane + offset
               : mode == Shuffle::Butterfly
                   ? lane ^ offset
                   : (lane & segment) | (offset & ~segment);
  bool inRange = mode == Shuffle::Up ? source >= maxLane : source <= maxLane;
  return {inRange ? source : lane, inRange};
}

/// Shuffles values. The slots are result, predicate, value, b, c and member
/// mask.
template <Shuffle mode>
void meetAtShuffle(llvm::MutableArrayRef<Thread> warp, const Instruction &i) {
  llvm::SmallVector<uint64_t, kWarpSize> values;
  for (const Thread &t : warp)
    values.push_back(t.slots[i.slot[2]]);
  for (Thread &t : warp) {
    if (t.state == ThreadState::Exited)
      continue;
    if (t.slots[i.slot[5]] != maskOfWidth(kWarpSize))
      return t.fail("only shuffles among all 32 lanes are known");
    ShuffleSource source = findSource<mode>(t.slots[LaneId], t.slots[i.slot[3]],
                                            t.slots[i.slot[4]]);
    if (size_t(source.lane) >= warp.size() ||
        warp[source.lane].state == ThreadState::Exited)
      return t.fail("the shuffle reads lane " + std::to_string(source.lane) +
                    ", which has left the kernel or does not exist");
    t.slots[i.slot[1]] = source.inRange;
    t.slots[i.slot[0]] = values[source.lane];
  }
}

//===----------------------------------------------------------------------===//
// Decoding
//===----------------------------------------------------------------------===//

/// Decodes bar.sync 0 and barrier.sync 0, in all their spellings.
bool decodeBarrier(Decoder &d) {
  d.take("cta");
  if (!d.take("sync"))
    return d.fail("unknown instruction '" + d.statement.opcode + "'");
  d.take("aligned");
  d.take("all");
  if (!d.expectOperands(1))
    return false;
  if (d.operand(0).kind != Operand::Number || d.operand(0).text != "0")
    return d.fail("only barrier 0 is known");
  d.result.handler = runWait;
  d.result.meeting = meetAtBarrier;
  d.result.blockMeets = true;
  return true;
}

Meeting takeShuffleMode(Decoder &d) {
  if (d.take("up"))
    return meetAtShuffle<Shuffle::Up>;
  if (d.take("down"))
    return meetAtShuffle<Shuffle::Down>;
  if (d.take("bfly"))
    return meetAtShuffle<Shuffle::Butterfly>;
  return d.take("idx") ? meetAtShuffle<Shuffle::Index> : nullptr;
}

/// Decodes shfl.sync.mode.b32 d|p, a, b, c, mask.
bool decodeShuffle(Decoder &d) {
  constexpr PTXType kBits{PTXType::Bits, 32, 1, Format::F32};
  bool isSync = d.take("sync");
  d.result.handler = runWait;
  d.result.meeting = takeShuffleMode(d);
  if (!isSync || !d.result.meeting || !d.take("b32"))
    return d.fail("unknown instruction '" + d.statement.opcode + "'");
  if (!d.expectOperands(5))
    return false;
  d.result.slot[1] = Sink;
  const Operand &target = d.operand(0);
  bool isPair = target.kind == Operand::Pair;
  if (isPair && !d.destination(target.elements[1], 1, 1))
    return false;
  if (!d.destination(isPair ? target.elements[0] : target, 32, 0))
    return false;
  for (unsigned index = 1; index <= 4; ++index)
    if (!d.source(index, kBits, index + 1))
      return false;
  return true;
}

const Opcode kOpcodes[] = {{"bar", OpcodeClass::Any, decodeBarrier},
                           {"barrier", OpcodeClass::Any, decodeBarrier},
                           {"shfl", OpcodeClass::Any, decodeShuffle}};

} // namespace

llvm::ArrayRef<Opcode> ptx::getWarpOpcodes() { return kOpcodes; }
