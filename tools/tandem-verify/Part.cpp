//===- Part.cpp - What tandem-verify verifies -----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements what all parts share.
//
//===----------------------------------------------------------------------===//

#include "Part.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <cstring>

using namespace tandem::verify;

//===----------------------------------------------------------------------===//
// Arrays
//===----------------------------------------------------------------------===//

void Array::FreeDeleter::operator()(void *pointer) const { std::free(pointer); }

Array::Array(unsigned bytes)
    : memory(std::aligned_alloc(64, blockSize * bytes)), bytes(bytes) {
  std::memset(memory.get(), 0, blockSize * bytes);
}

uint64_t Array::at(size_t index) const {
  uint64_t bits = 0;
  std::memcpy(&bits, get<char>() + index * bytes, bytes);
  return bits;
}

//===----------------------------------------------------------------------===//
// Findings
//===----------------------------------------------------------------------===//

void Findings::fail(uint64_t position,
                    llvm::function_ref<std::string()> describe) {
  if (failures++ == 0 || position < firstPosition) {
    firstPosition = position;
    first = describe();
  }
}

void Findings::observe(llvm::StringRef quantity, double value,
                       std::optional<double> bound, uint64_t position,
                       llvm::function_ref<std::string()> describe) {
  WorstCase &found = worst[quantity.str()];
  found.bound = bound;
  if (value > found.value || found.at.empty()) {
    found.value = value;
    found.position = position;
    found.at = describe();
  }
  if (bound && !(value <= *bound))
    fail(position, [&] {
      return llvm::formatv("{0} is {1}, more than {2}: {3}", quantity, value,
                           *bound, describe())
          .str();
    });
}

void Findings::merge(const Findings &other) {
  if (other.failures && (!failures || other.firstPosition < firstPosition)) {
    firstPosition = other.firstPosition;
    first = other.first;
  }
  cases += other.cases;
  failures += other.failures;
  hash += other.hash;
  for (const auto &[name, count] : other.counts)
    counts[name] += count;
  for (const auto &[name, theirs] : other.worst) {
    auto [place, isNew] = worst.try_emplace(name, theirs);
    WorstCase &ours = place->second;
    bool isEarlier =
        theirs.value == ours.value && theirs.position < ours.position;
    if (!isNew && (theirs.value > ours.value || isEarlier))
      ours = theirs;
  }
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

std::string Part::describe(const Block &block, size_t index) const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  auto print = [&](const std::vector<PlaneDecl> &decls,
                   const std::vector<Array> &arrays) {
    for (const auto &[decl, array] : llvm::zip(decls, arrays))
      stream << (text.empty() ? "" : " ") << decl.name << "=0x"
             << llvm::format_hex_no_prefix(array.at(index / decl.group),
                                           2 * decl.bytes, /*Upper=*/true);
  };
  print(inputs, block.inputs);
  stream << " gives";
  print(results, block.results);
  return text;
}

void Part::observeLargest(const Block &block, llvm::StringRef quantity,
                          llvm::ArrayRef<double> values,
                          std::optional<double> bound,
                          Findings &findings) const {
  double largest = -1;
  size_t index = 0;
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] > largest) {
      largest = values[i];
      index = i;
    }
  if (largest >= 0)
    findings.observe(quantity, largest, bound, block.unit * blockSize + index,
                     [&] { return describe(block, index); });
}

std::string tandem::verify::floatStorage(llvm::StringRef format) {
  return ("#tandem.float<" + format + ">").str();
}

std::string tandem::verify::writeKernel(llvm::StringRef policy,
                                        llvm::ArrayRef<TensorDecl> inputs,
                                        llvm::ArrayRef<TensorDecl> results,
                                        llvm::StringRef body) {
  std::string types, roles, arguments;
  auto add = [&](const TensorDecl &tensor, llvm::StringRef role) {
    llvm::StringRef comma = roles.empty() ? "" : ", ";
    types += llvm::formatv("!{0} = !tandem.stored<tensor<?xf32>, {1}>\n",
                           tensor.name, tensor.storage);
    roles +=
        llvm::formatv("{0}#tandem.role<{1} \"{2}\">", comma, role, tensor.name);
    arguments += llvm::formatv("{0}%t_{1}: !{1}", comma, tensor.name);
  };
  for (const TensorDecl &tensor : inputs)
    add(tensor, "grad");
  for (const TensorDecl &tensor : results)
    add(tensor, "state");
  return types + "tandem.kernel @verified compute(<" + policy.str() +
         ">)\n    tensors [" + roles +
         "] scalars [] prologue {\n  tandem.yield\n} body {\n^bb0(" +
         arguments + "):\n" + body.str() + "  tandem.yield\n}\n";
}
