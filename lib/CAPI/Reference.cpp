//===- Reference.cpp - The C API of the reference -------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the C API of the oracles.
//
//===----------------------------------------------------------------------===//

#include "tandem-c/Reference.h"
#include "Failure.h"
#include "tandem/Reference/PTX/Evaluator.h"

using namespace tandem;
using namespace tandem::reference;

static llvm::Expected<int64_t> evaluate(const char *ptx, const char *kernel,
                                        llvm::ArrayRef<uint64_t> parameters,
                                        uint32_t blocks, uint32_t threads,
                                        llvm::ArrayRef<TandemBuffer> buffers) {
  auto module = PTXModule::parse(ptx);
  if (!module)
    return module.takeError();
  MemoryMap memory;
  for (const TandemBuffer &buffer : buffers) {
    if (buffer.size == 0)
      continue;
    llvm::Error error =
        buffer.isWritable
            ? memory.addWritable(buffer.name, buffer.data, buffer.size)
            : memory.addReadOnly(buffer.name, buffer.data, buffer.size);
    if (error)
      return error;
  }
  ExecutionStatistics statistics;
  if (llvm::Error error =
          module->launch(kernel, parameters, Dim3{blocks, 1, 1},
                         Dim3{threads, 1, 1}, memory, &statistics))
    return error;
  return int64_t(statistics.instructions);
}

int64_t tandemEvaluatePTX(const char *ptx, const char *kernel,
                          const uint64_t *parameters, intptr_t numParameters,
                          uint32_t blocks, uint32_t threads,
                          const TandemBuffer *buffers, intptr_t numBuffers) {
  auto count = evaluate(ptx, kernel, {parameters, size_t(numParameters)},
                        blocks, threads, {buffers, size_t(numBuffers)});
  if (count)
    return *count;
  setLastError(count.takeError(), TandemErrorArgument);
  return -1;
}
