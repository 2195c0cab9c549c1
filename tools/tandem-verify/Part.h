//===- Part.h - What tandem-verify verifies ---------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares a part of the verification: cases in units, the kernel
// that computes them, the expected results, and the quantities that are
// measured.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_VERIFY_PART_H
#define TANDEM_VERIFY_PART_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tandem::verify {

/// The maximum number of cases in a unit.
constexpr size_t blockSize = 1 << 16;

/// A plane of operands or results: its name, the size of an entry in bytes, and
/// the number of elements that share an entry.
struct PlaneDecl {
  std::string name;
  unsigned bytes;
  unsigned group = 1;
};

/// The key and counter of a launch's random bits, as docs/Numerics.md has them.
struct Draw {
  uint64_t seed = 0, step = 1;
  uint32_t key = 0;
  /// The number of the first element.
  uint64_t first = 0;
};

/// Memory for one plane of a unit, with the alignment that kernels prefer.
class Array {
public:
  explicit Array(unsigned bytes);
  template <typename T>
  T *get() {
    return static_cast<T *>(memory.get());
  }
  template <typename T>
  const T *get() const {
    return static_cast<const T *>(memory.get());
  }
  /// Returns the bits of an element.
  uint64_t at(size_t index) const;
  unsigned getBytes() const { return bytes; }

private:
  struct FreeDeleter {
    void operator()(void *pointer) const;
  };
  std::unique_ptr<void, FreeDeleter> memory;
  unsigned bytes;
};

/// The cases of one unit.
struct Block {
  uint64_t unit = 0;
  size_t size = 0;
  std::vector<Array> inputs, results, expected;
};

/// The largest observed value of a quantity, its bound, and the case.
struct WorstCase {
  double value = 0;
  std::optional<double> bound;
  uint64_t position = 0;
  std::string at;
};

/// The findings in a set of units.
struct Findings {
  uint64_t cases = 0, failures = 0;
  /// A hash of all results that does not depend on their order or on shards.
  uint64_t hash = 0;
  /// The failed case with the lowest position.
  uint64_t firstPosition = 0;
  std::string first;
  std::map<std::string, WorstCase> worst;
  std::map<std::string, uint64_t> counts;

  void merge(const Findings &other);
  void fail(uint64_t position, llvm::function_ref<std::string()> describe);
  void observe(llvm::StringRef quantity, double value,
               std::optional<double> bound, uint64_t position,
               llvm::function_ref<std::string()> describe);
};

/// A part of the verification: cases in units, each of which can run on its
/// own.
class Part {
public:
  Part(std::string name, std::string description)
      : name(std::move(name)), description(std::move(description)) {}
  virtual ~Part() = default;

  /// Writes the operands of unit `block.unit` and sets the number of its cases.
  virtual void fill(Block &block) const = 0;
  /// Returns the key and counter of the random bits of a unit's launch.
  virtual Draw draw(uint64_t unit) const { return {}; }
  /// Computes the expected results.
  virtual void expect(Block &block) const = 0;
  /// Computes the results, if the part has no kernel.
  virtual void compute(Block &block) const {}
  /// Measures quantities of results that are as expected, and checks other
  /// documented properties of them.
  virtual void measure(const Block &block, Findings &findings) const {}

  /// Describes a case as text: "a=0x3F81 b=0x3FC0".
  std::string describe(const Block &block, size_t index) const;
  /// Records the largest of `values` as an observation. Ignores values that are
  /// negative or NaN.
  void observeLargest(const Block &block, llvm::StringRef quantity,
                      llvm::ArrayRef<double> values,
                      std::optional<double> bound, Findings &findings) const;

  const std::string name, description;
  /// The text of a kernel whose planes are the inputs, then the results. It is
  /// empty if the part verifies the arithmetic itself.
  std::string kernel;
  std::vector<PlaneDecl> inputs, results;
  uint64_t units = 0;
};

using Parts = std::vector<std::unique_ptr<Part>>;

void addPairParts(Parts &parts);
void addFmaParts(Parts &parts);
void addLemmaParts(Parts &parts);
void addConversionParts(Parts &parts);
void addPowerParts(Parts &parts);
void addFunctionParts(Parts &parts);
void addCodeParts(Parts &parts);
void addResidualParts(Parts &parts);
void addRoundedParts(Parts &parts);
void addMuLawParts(Parts &parts);
void addExpansionParts(Parts &parts);
void addPrecisionParts(Parts &parts);
void addOracleParts(Parts &parts);

/// A tensor of a kernel and its storage.
struct TensorDecl {
  std::string name, storage;
};

/// Returns the text of a kernel on tensors. `body` computes with the values
/// %t_NAME of types !NAME.
std::string writeKernel(llvm::StringRef policy,
                        llvm::ArrayRef<TensorDecl> inputs,
                        llvm::ArrayRef<TensorDecl> results,
                        llvm::StringRef body);
/// Returns the text of a storage, such as "#tandem.float<bf16>".
std::string floatStorage(llvm::StringRef format);

/// Returns a pseudorandom number for a seed.
constexpr uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

/// A sequence of such numbers.
struct Random {
  uint64_t state;
  uint64_t operator()() { return mix(state += 0x9E3779B97F4A7C15); }
  /// Returns a number less than `limit`, which must be small.
  uint64_t below(uint64_t limit) { return ((*this)() >> 32) * limit >> 32; }
};

} // namespace tandem::verify

#endif // TANDEM_VERIFY_PART_H
