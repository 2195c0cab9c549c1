//===- Run.cpp - Runs of parts --------------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements runs of a part's units.
//
//===----------------------------------------------------------------------===//

#include "Run.h"
#include "tandem-runtime/tandem_runtime.h"
#include "tandem/Target/Run.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/xxhash.h"

#include <atomic>
#include <cstring>
#include <thread>

using namespace tandem;
using namespace tandem::verify;

static llvm::Error check(tdm_status status) {
  if (status == TDM_OK)
    return llvm::Error::success();
  return llvm::createStringError(tdm_last_error());
}

namespace {
/// The kernel of a part, compiled for this process.
class Code {
public:
  ~Code() { tdm_kernel_destroy(handle); }

  llvm::Error compile(const Part &part, llvm::StringRef isa) {
    CompileOptions options;
    options.graph = part.kernel;
    options.isa = isa.str();
    auto compiled = tandem::compile(options);
    if (!compiled)
      return compiled.takeError();
    kernel = std::move(*compiled);
    auto created = createRuntimeKernel(*kernel);
    if (!created)
      return created.takeError();
    handle = *created;
    return checkPlanes(part);
  }

  const tdm_kernel *get() const { return handle; }

  /// The kernel's integers, in its order.
  std::vector<int64_t> getIntegers(const Draw &draw) const {
    std::vector<int64_t> values;
    for (const tdm_integer_desc &integer : tandem::getIntegers(*kernel->info))
      values.push_back(
          int64_t(integer.kind == TDM_ROLE_STEP ? draw.step : draw.seed));
    return values;
  }

private:
  /// Checks that the kernel has the part's planes, in the same order.
  llvm::Error checkPlanes(const Part &part) const {
    std::vector<PlaneDecl> decls = part.inputs;
    llvm::append_range(decls, part.results);
    auto planes = getPlanes(*kernel->info);
    bool isSame = planes.size() == decls.size();
    for (size_t i = 0; isSame && i < planes.size(); ++i)
      isSame = planes[i].bits == 8 * decls[i].bytes;
    return isSame ? llvm::Error::success()
                  : llvm::createStringError("the kernel of part '" + part.name +
                                            "' has other planes");
  }

  std::unique_ptr<CompiledKernel> kernel;
  tdm_kernel *handle = nullptr;
};

/// The arrays of one thread, and the kernel bound to them.
class Worker {
public:
  Worker(const Part &part, const ShardOptions &options)
      : part(part), options(options) {
    for (const PlaneDecl &plane : part.inputs)
      block.inputs.emplace_back(plane.bytes);
    for (const PlaneDecl &plane : part.results) {
      block.results.emplace_back(plane.bytes);
      block.expected.emplace_back(plane.bytes);
    }
    for (Array &array : block.inputs)
      pointers.push_back(array.get<void>());
    for (Array &array : block.results)
      pointers.push_back(array.get<void>());
  }
  ~Worker() { tdm_plan_destroy(plan); }

  llvm::Error bind(const Code &bound) {
    code = &bound;
    return code->get() ? check(tdm_plan_create(code->get(), nullptr, 0, &plan))
                       : llvm::Error::success();
  }

  llvm::Error runUnit(uint64_t unit) {
    block.unit = unit;
    part.fill(block);
    if (plan) {
      if (llvm::Error error = launch())
        return error;
    } else {
      part.compute(block);
    }
    flip();
    options.expectation->expect(block);
    findings.cases += block.size;
    uint64_t before = findings.failures;
    for (size_t plane = 0; plane < block.results.size(); ++plane)
      compare(plane);
    if (findings.failures == before)
      part.measure(block, findings);
    return llvm::Error::success();
  }

  Findings findings;

private:
  llvm::Error launch() {
    Draw draw = part.draw(block.unit);
    tdm_tensor tensor = {1,        int64_t(block.size), int64_t(draw.first),
                         draw.key, /*scalar_row=*/0,    pointers.data()};
    if (llvm::Error error = check(tdm_plan_update(plan, &tensor, 1)))
      return error;
    std::vector<int64_t> integers = code->getIntegers(draw);
    return check(
        tdm_plan_launch(plan, nullptr, integers.data(), 1, 1, nullptr));
  }

  void flip() {
    if (!options.flip || *options.flip / blockSize != block.unit)
      return;
    size_t index = *options.flip % blockSize;
    if (index < block.size)
      block.results[0].get<char>()[index * block.results[0].getBytes()] ^= 1;
  }

  /// Adds the results of a plane to the hash, and records those that differ
  /// from the expected ones.
  void compare(size_t plane) {
    const Array &got = block.results[plane], &want = block.expected[plane];
    unsigned group = part.results[plane].group;
    size_t count = llvm::divideCeil(block.size, group);
    auto *data = got.get<uint8_t>();
    size_t length = count * got.getBytes();
    uint64_t hash = llvm::xxh3_64bits(llvm::ArrayRef(data, length));
    findings.hash += mix(hash ^ mix(block.unit * 8 + plane + 1));
    if (std::memcmp(data, want.get<uint8_t>(), length) == 0)
      return;
    for (size_t i = 0; i < count; ++i)
      if (got.at(i) != want.at(i))
        findings.fail(block.unit * blockSize + i * group,
                      [&] { return describe(i * group, plane); });
  }

  std::string describe(size_t index, size_t plane) const {
    const PlaneDecl &decl = part.results[plane];
    return llvm::formatv("{0}, but {1}=0x{2} is expected",
                         part.describe(block, index), decl.name,
                         llvm::format_hex_no_prefix(
                             block.expected[plane].at(index / decl.group),
                             2 * decl.bytes, /*Upper=*/true))
        .str();
  }

  const Part &part;
  const ShardOptions &options;
  const Code *code = nullptr;
  verify::Block block;
  std::vector<void *> pointers;
  tdm_plan *plan = nullptr;
};
} // namespace

llvm::Expected<std::string> tandem::verify::hashCode(const Part &part) {
  if (part.kernel.empty())
    return "";
  CompileOptions options;
  options.graph = part.kernel;
  auto kernel = tandem::compile(options);
  if (!kernel)
    return kernel.takeError();
  std::string code;
  for (llvm::StringRef isa : {"x86-64", "x86-64-v3", "x86-64-v4"}) {
    auto text = emitLLVMIR(**kernel, isa);
    if (!text)
      return text.takeError();
    code += *text;
  }
  return llvm::formatv("{0:x-16}", llvm::xxh3_64bits(code)).str();
}

/// Runs units until none are left.
static llvm::Error work(Worker &worker, const Code &code,
                        const ShardOptions &options,
                        std::atomic<uint64_t> &next) {
  if (llvm::Error error = worker.bind(code))
    return error;
  for (;;) {
    uint64_t unit = next.fetch_add(options.stride);
    if (unit >= options.end)
      return llvm::Error::success();
    if (llvm::Error error = worker.runUnit(unit))
      return error;
  }
}

llvm::Expected<Findings> tandem::verify::run(const Part &part,
                                             const ShardOptions &options) {
  Code code;
  if (!part.kernel.empty())
    if (llvm::Error error = code.compile(part, options.isa))
      return error;
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<std::string> errors(options.threads);
  std::vector<std::thread> threads;
  std::atomic<uint64_t> next = options.begin;
  for (unsigned i = 0; i < options.threads; ++i)
    workers.push_back(std::make_unique<Worker>(part, options));
  for (unsigned i = 0; i < options.threads; ++i)
    threads.emplace_back([&, i] {
      errors[i] = llvm::toString(work(*workers[i], code, options, next));
    });
  Findings findings;
  for (unsigned i = 0; i < options.threads; ++i) {
    threads[i].join();
    findings.merge(workers[i]->findings);
  }
  for (const std::string &error : errors)
    if (!error.empty())
      return llvm::createStringError(error);
  return findings;
}
