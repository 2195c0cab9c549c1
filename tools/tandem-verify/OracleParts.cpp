//===- OracleParts.cpp - The oracle against SoftFloat ---------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the parts that compare the oracle's arithmetic, which is
// fast, with the reference's, which computes with integers only.
//
//===----------------------------------------------------------------------===//

#include "Part.h"
#include "SmallFloat.h"
#include "tandem/Reference/SoftFloat/SoftFloat.h"

using namespace tandem::verify;
namespace reference = tandem::reference;

namespace {
/// Checks operations on the pairs of a lattice, each with eight addends, and
/// square roots of the addends.
template <typename F, typename Code>
class OraclePart : public Part {
public:
  OraclePart(llvm::StringRef name, reference::Format format)
      : Part(("oracle-" + name).str(),
             ("the oracle's arithmetic of " + name + " against SoftFloat")
                 .str()),
        format(format) {
    for (const char *operand : {"a", "b", "c"})
      inputs.push_back({operand, sizeof(Code)});
    for (const char *result : {"add", "sub", "mul", "div", "sqrt", "fma"})
      results.push_back({result, sizeof(Code)});
    addLattice();
    units = lattice.size();
  }

  void fill(Block &block) const override {
    auto *a = block.inputs[0].get<Code>(), *b = block.inputs[1].get<Code>(),
         *c = block.inputs[2].get<Code>();
    Random random{block.unit};
    block.size = lattice.size() * numAddends;
    for (size_t i = 0; i < block.size; ++i) {
      a[i] = lattice[block.unit];
      b[i] = lattice[i / numAddends];
      c[i] = i % 2 ? nearTie(a[i], b[i], random) : Code(random());
    }
  }

  void compute(Block &block) const override {
    for (size_t i = 0; i < block.size; ++i) {
      SoftFloat a = get(block, 0, i), b = get(block, 1, i),
                c = get(block, 2, i);
      SoftFloat values[] = {a.add(b), a.sub(b), a.mul(b),
                            a.div(b), c.sqrt(), a.fma(b, c)};
      for (const auto &[array, value] : llvm::zip(block.results, values))
        array.template get<Code>()[i] = Code(value.toCanonicalBits());
    }
  }

  void expect(Block &block) const override {
    const auto *a = block.inputs[0].get<Code>(),
               *b = block.inputs[1].get<Code>(),
               *c = block.inputs[2].get<Code>();
    Code *to[6];
    for (size_t i = 0; i < 6; ++i)
      to[i] = block.expected[i].get<Code>();
    forLanes(block.size, [=](size_t i) {
      Reals x = F::decode(loadCodes(a + i)), y = F::decode(loadCodes(b + i)),
            z = F::decode(loadCodes(c + i));
      storeCodes(to[0] + i, F::encode(F::add(x, y)));
      storeCodes(to[1] + i, F::encode(F::sub(x, y)));
      storeCodes(to[2] + i, F::encode(F::mul(x, y)));
      storeCodes(to[3] + i, F::encode(F::div(x, y)));
      storeCodes(to[4] + i, F::encode(F::sqrt(z)));
      storeCodes(to[5] + i, F::encode(F::fma(x, y, z)));
    });
  }

private:
  using SoftFloat = reference::SoftFloat;
  static constexpr size_t numAddends = 8;

  SoftFloat get(const Block &block, size_t operand, size_t index) const {
    return SoftFloat::fromBits(format, block.inputs[operand].at(index));
  }

  /// Returns a number of about half an ulp of the product, or a neighbour of
  /// it.
  Code nearTie(Code a, Code b, Random &random) const {
    SoftFloat product =
        SoftFloat::fromBits(format, a).mul(SoftFloat::fromBits(format, b));
    int shift = F::precision + int(random.below(4)) - 1;
    SoftFloat half = product.scaleByPowerOfTwo(-shift);
    uint64_t sign = random() << (F::width - 1);
    return Code(half.toBits() + random.below(3) - 1) ^ Code(sign);
  }

  /// Adds all codes of an 8-bit format. For other formats, adds the ends of
  /// each binade, numbers between them, and special values.
  void addLattice() {
    if (sizeof(Code) == 1) {
      for (unsigned code = 0; code < 256; ++code)
        lattice.push_back(Code(code));
      return;
    }
    Random random{1};
    constexpr unsigned mantissa = F::precision - 1;
    for (unsigned field = 0; field < 1u << (F::width - 1 - mantissa); ++field)
      for (unsigned low : {0u, 1u, unsigned(random.below(1 << mantissa)),
                           (1u << mantissa) - 1})
        lattice.push_back(
            Code((field << mantissa | low) | random() << (F::width - 1)));
    while (lattice.size() < 1200)
      lattice.push_back(Code(random()));
  }

  reference::Format format;
  std::vector<Code> lattice;
};
} // namespace

void tandem::verify::addOracleParts(Parts &parts) {
  using reference::Format;
  parts.push_back(
      std::make_unique<OraclePart<BF16, uint16_t>>("bf16", Format::BF16));
  parts.push_back(
      std::make_unique<OraclePart<F16, uint16_t>>("f16", Format::F16));
  parts.push_back(std::make_unique<OraclePart<E4M3, uint8_t>>(
      "f8E4M3FN", Format::F8E4M3FN));
  parts.push_back(
      std::make_unique<OraclePart<E5M2, uint8_t>>("f8E5M2", Format::F8E5M2));
}
