//===- Evaluator.cpp - Executes emitted PTX without a GPU -----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements launches: blocks, threads, faults and statistics.
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/PTX/Evaluator.h"
#include "Parser.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

using namespace tandem::reference;
using namespace tandem::reference::ptx;
using llvm::StringRef;

llvm::Expected<PTXModule> PTXModule::parse(StringRef text) {
  Parser parser(text);
  if (llvm::Error error = parser.parseModule())
    return error;
  PTXModule module;
  module.target = std::move(parser.target);
  module.kernels = std::move(parser.kernels);
  return module;
}

std::vector<std::string> PTXModule::getKernelNames() const {
  std::vector<std::string> names;
  for (const auto &kernel : kernels)
    names.push_back(kernel->name);
  return names;
}

static const Kernel *
findKernel(llvm::ArrayRef<std::shared_ptr<const Kernel>> kernels,
           StringRef name) {
  for (const auto &kernel : kernels)
    if (kernel->name == name)
      return kernel.get();
  return nullptr;
}

std::vector<unsigned> PTXModule::getParameterSizes(StringRef name) const {
  std::vector<unsigned> sizes;
  if (const Kernel *kernel = findKernel(kernels, name))
    for (const Parameter &parameter : kernel->params)
      sizes.push_back(parameter.bytes);
  return sizes;
}

llvm::StringMap<uint64_t> PTXModule::getStaticCounts(StringRef name) const {
  llvm::StringMap<uint64_t> counts;
  if (const Kernel *kernel = findKernel(kernels, name))
    for (const InstructionInfo &info : kernel->info)
      ++counts[info.opcode];
  return counts;
}

//===----------------------------------------------------------------------===//
// Launch
//===----------------------------------------------------------------------===//

namespace {

/// One launch: the threads of the current block, and the executed instructions.
class Launch {
public:
  Launch(const Kernel &kernel, llvm::ArrayRef<uint64_t> params, Dim3 grid,
         Dim3 block, const MemoryMap &memory, const MemoryMap &constants,
         uint64_t instructionLimit);

  llvm::Error run();
  void addTo(ExecutionStatistics &statistics) const;

private:
  llvm::Error runBlock(Dim3 blockIndex);
  void startThread(Thread &thread, Dim3 blockIndex, Dim3 threadIndex);
  /// Runs a thread until it waits, exits or fails.
  void resume(Thread &thread);
  /// Resumes threads that wait for each other. Returns false if there are none.
  bool releaseWaiting();
  /// Resumes the threads of the whole block or of one warp if all of them wait.
  bool release(llvm::MutableArrayRef<Thread> group, bool isBlock);
  const Thread *findFailed() const;
  llvm::Error describeFault(Dim3 blockIndex, const Thread &thread) const;

  const Kernel &kernel;
  Dim3 grid, block;
  uint64_t instructionLimit;
  std::vector<Thread> threads;
  SharedMemory shared;
  std::vector<uint64_t> executed;
};

} // namespace

Launch::Launch(const Kernel &kernel, llvm::ArrayRef<uint64_t> params, Dim3 grid,
               Dim3 block, const MemoryMap &memory, const MemoryMap &constants,
               uint64_t instructionLimit)
    : kernel(kernel), grid(grid), block(block),
      instructionLimit(instructionLimit), threads(block.count()),
      shared(kernel.sharedBytes), executed(kernel.code.size()) {
  for (auto [number, thread] : llvm::enumerate(threads)) {
    thread.params = params;
    thread.memory = &memory;
    thread.constants = &constants;
    thread.shared = &shared;
    thread.number = number;
  }
}

/// Calls a function for every index in a three-dimensional range.
template <typename Function>
static llvm::Error forEachIndex(Dim3 size, Function function) {
  for (uint32_t z = 0; z < size.z; ++z)
    for (uint32_t y = 0; y < size.y; ++y)
      for (uint32_t x = 0; x < size.x; ++x)
        if (llvm::Error error = function(Dim3{x, y, z}))
          return error;
  return llvm::Error::success();
}

llvm::Error Launch::run() {
  return forEachIndex(grid, [&](Dim3 index) { return runBlock(index); });
}

const Thread *Launch::findFailed() const {
  auto found = llvm::find_if(threads, [](const Thread &thread) {
    return thread.state == ThreadState::Failed;
  });
  return found == threads.end() ? nullptr : &*found;
}

llvm::Error Launch::runBlock(Dim3 blockIndex) {
  shared.clear();
  size_t next = 0;
  llvm::cantFail(forEachIndex(block, [&](Dim3 threadIndex) {
    startThread(threads[next++], blockIndex, threadIndex);
    return llvm::Error::success();
  }));
  while (true) {
    for (Thread &thread : threads) {
      resume(thread);
      if (thread.state == ThreadState::Failed)
        return describeFault(blockIndex, thread);
    }
    if (!releaseWaiting())
      break;
    if (const Thread *failed = findFailed())
      return describeFault(blockIndex, *failed);
  }
  for (Thread &thread : threads)
    if (thread.state == ThreadState::Waiting) {
      thread.fail("the thread waits for others that do not come");
      return describeFault(blockIndex, thread);
    }
  return llvm::Error::success();
}

static void setIndex(Thread &thread, Slot first, Dim3 value) {
  thread.slots[first] = value.x;
  thread.slots[first + 1] = value.y;
  thread.slots[first + 2] = value.z;
}

static Dim3 getIndex(const Thread &thread, Slot first) {
  return {uint32_t(thread.slots[first]), uint32_t(thread.slots[first + 1]),
          uint32_t(thread.slots[first + 2])};
}

void Launch::startThread(Thread &thread, Dim3 blockIndex, Dim3 threadIndex) {
  thread.slots = kernel.initialSlots;
  thread.pc = 0;
  thread.budget = instructionLimit;
  thread.state = ThreadState::Running;
  setIndex(thread, TidX, threadIndex);
  setIndex(thread, NtidX, block);
  setIndex(thread, CtaidX, blockIndex);
  setIndex(thread, NctaidX, grid);
  thread.slots[LaneId] = thread.number % kWarpSize;
}

void Launch::resume(Thread &thread) {
  const Instruction *code = kernel.code.data();
  const size_t size = kernel.code.size();
  while (thread.state == ThreadState::Running) {
    if (thread.pc >= size)
      return thread.fail("control runs past the end of the kernel");
    const Instruction &instruction = code[thread.pc];
    if (thread.budget-- == 0)
      return thread.fail("the thread executed " +
                         llvm::utostr(instructionLimit) +
                         " instructions without returning");
    uint32_t index = thread.pc++;
    if (instruction.guard != Instruction::kNoGuard &&
        bool(thread.slots[instruction.guard]) == instruction.guardNegated)
      continue;
    ++executed[index];
    instruction.handler(thread, instruction);
  }
}

bool Launch::release(llvm::MutableArrayRef<Thread> group, bool isBlock) {
  const Thread *first = nullptr;
  for (const Thread &thread : group) {
    if (thread.state == ThreadState::Exited)
      continue;
    if (thread.state != ThreadState::Waiting ||
        (first && thread.pc != first->pc))
      return false;
    first = &thread;
  }
  if (!first)
    return false;
  const Instruction &instruction = kernel.code[first->pc - 1];
  if (instruction.blockMeets != isBlock)
    return false;
  for (Thread &thread : group)
    if (thread.state == ThreadState::Waiting)
      thread.state = ThreadState::Running;
  instruction.meeting(group, instruction);
  return true;
}

bool Launch::releaseWaiting() {
  llvm::MutableArrayRef<Thread> rest(threads);
  if (release(rest, /*isBlock=*/true)) {
    shared.endInterval();
    return true;
  }
  bool released = false;
  while (!rest.empty()) {
    size_t size = std::min<size_t>(kWarpSize, rest.size());
    released |= release(rest.take_front(size), /*isBlock=*/false);
    rest = rest.drop_front(size);
  }
  return released;
}

static std::string toString(Dim3 index) {
  return "(" + llvm::utostr(index.x) + ", " + llvm::utostr(index.y) + ", " +
         llvm::utostr(index.z) + ")";
}

/// Describes a fault at the instruction before pc, which is already at the next
/// one when a handler runs or a thread waits.
llvm::Error Launch::describeFault(Dim3 blockIndex, const Thread &thread) const {
  std::string place = "kernel '" + kernel.name + "'";
  if (thread.pc > 0 && thread.pc <= kernel.info.size()) {
    const InstructionInfo &info = kernel.info[thread.pc - 1];
    place += ", PTX line " + llvm::utostr(info.line) + ", '" + info.text + "'";
  }
  return llvm::createStringError(
      place + ", block " + toString(blockIndex) + ", thread " +
      toString(getIndex(thread, TidX)) + ": " + thread.failure);
}

void Launch::addTo(ExecutionStatistics &statistics) const {
  for (const auto &[info, count] : llvm::zip_equal(kernel.info, executed)) {
    if (count)
      statistics.executed[info.opcode] += count;
    statistics.instructions += count;
  }
  for (const Thread &thread : threads) {
    statistics.bytesLoaded += thread.bytesLoaded;
    statistics.bytesStored += thread.bytesStored;
  }
}

llvm::Error PTXModule::launch(StringRef name, llvm::ArrayRef<uint64_t> params,
                              Dim3 grid, Dim3 block, const MemoryMap &memory,
                              ExecutionStatistics *statistics) const {
  const Kernel *kernel = findKernel(kernels, name);
  if (!kernel)
    return llvm::createStringError("no kernel '" + name + "'; there are: " +
                                   llvm::join(getKernelNames(), ", "));
  if (params.size() != kernel->params.size())
    return llvm::createStringError(
        "kernel '" + name + "' has " + llvm::Twine(kernel->params.size()) +
        " parameters, the launch gives " + llvm::Twine(params.size()));
  constexpr uint64_t kMaxThreads = 1024;
  if (block.count() == 0 || block.count() > kMaxThreads || grid.count() == 0)
    return llvm::createStringError(
        "kernel '" + name + "': a launch of " + llvm::Twine(grid.count()) +
        " blocks of " + llvm::Twine(block.count()) +
        " threads; both must be positive, threads at most 1024");
  MemoryMap constants;
  for (const auto &[name, values] : kernel->constants)
    if (llvm::Error error = constants.addReadOnly(
            name, values->data(), values->size() * sizeof(uint32_t)))
      return error;
  Launch launch(*kernel, params, grid, block, memory, constants,
                instructionLimit);
  llvm::Error error = launch.run();
  if (statistics)
    launch.addTo(*statistics);
  return error;
}
