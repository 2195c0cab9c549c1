//===- SharedMemory.cpp - Shared memory of PTX ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements a block's shared memory, with a check for races.
//
//===----------------------------------------------------------------------===//

#include "Instruction.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace tandem::reference::ptx;

/// The byte that fills shared memory before it is written.
static constexpr char kPoisonByte = char(0xA5);

void SharedMemory::clear() {
  llvm::fill(data, kPoisonByte);
  endInterval();
}

bool SharedMemory::races(const Use &use, bool isWrite, uint32_t thread) const {
  if (use.written == interval && use.writer != thread)
    return true;
  return isWrite && use.read == interval &&
         (use.hasManyReaders || use.reader != thread);
}

void SharedMemory::note(Use &use, bool isWrite, uint32_t thread) const {
  if (isWrite) {
    use.written = interval;
    use.writer = thread;
    return;
  }
  use.hasManyReaders =
      use.read == interval && (use.hasManyReaders || use.reader != thread);
  use.read = interval;
  use.reader = thread;
}

char *SharedMemory::access(uint64_t address, unsigned bytes, bool isWrite,
                           uint32_t thread, std::string &why) {
  if (address % bytes != 0)
    why = "the address is not aligned to its width";
  else if (address > data.size() || data.size() - address < bytes)
    why = "the block has " + llvm::utostr(data.size()) + " bytes";
  else if (llvm::any_of(
               llvm::ArrayRef(uses).slice(address, bytes),
               [&](const Use &use) { return races(use, isWrite, thread); }))
    why = "another thread uses them and no barrier stands in between";
  if (!why.empty())
    return nullptr;
  for (Use &use : llvm::MutableArrayRef(uses).slice(address, bytes))
    note(use, isWrite, thread);
  return data.data() + address;
}
