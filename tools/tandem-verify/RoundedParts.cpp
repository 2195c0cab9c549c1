//===- RoundedParts.cpp - Codes of integers, rounded by bits --------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the parts that write every f32 as codes whose levels are
// rounded to integers by random bits. The rules are those of docs/Numerics.md,
// sections 5 and 6.
//
//===----------------------------------------------------------------------===//

#include "StorageParts.h"
#include "llvm/Support/FormatVariadic.h"

using namespace tandem::verify;

namespace {
/// A level, with the sign of the code, and whether there is one.
struct Level {
  Reals value;
  Mask isNumber;
};

struct Softsign {
  static constexpr const char *name = "softsign", *code = "softsign<";
  static constexpr unsigned shared = 1;
  static constexpr uint64_t nanCode = 0x80;

  static TANDEM_LANES Level getLevel(Reals x) {
    Reals a = select(magnitude(x) > 1, splat(1), magnitude(x));
    Reals companded = toFloat(2 * a / toFloat(1 + a));
    Words level = (Words)toFloat(127 * companded) | ((Words)x & signBit);
    return {(Reals)level, isFinite(x)};
  }
};

struct Root {
  static constexpr const char *name = "root", *code = "root<";
  static constexpr unsigned shared = 1;
  static constexpr uint64_t nanCode = 0xFF;

  static TANDEM_LANES Level getLevel(Reals x) {
    Reals root;
    for (size_t lane = 0; lane < numLanes; ++lane)
      root[lane] = __builtin_sqrt(x[lane]);
    root = toFloat(root);
    root = select(root > 1, splat(1), root);
    return {toFloat(254 * root), isFinite(x) & ~(x < 0)};
  }
};

/// Integers of 8 bits, or of 4 bits, two of which share a byte.
template <unsigned bits>
struct Linear {
  static constexpr const char *name = bits == 4 ? "linear4" : "linear8";
  static constexpr const char *code =
      bits == 4 ? "linear<bits = 4, " : "linear<bits = 8, ";
  static constexpr unsigned shared = 8 / bits;
  static constexpr uint64_t nanCode = 1 << (bits - 1);

  static TANDEM_LANES Level getLevel(Reals x) {
    constexpr double largest = (1 << (bits - 1)) - 1;
    Reals a = select(magnitude(x) > largest, splat(largest), magnitude(x));
    return {(Reals)((Words)a | ((Words)x & signBit)), isFinite(x)};
  }
};

template <typename Code>
class RoundedWrite : public WritePart {
public:
  explicit RoundedWrite(Rounding rounding)
      : WritePart(llvm::formatv("{0}-{1}", Code::name, getName(rounding)).str(),
                  llvm::formatv("#tandem.coded<#scaled.{0}{1}>>", Code::code,
                                getName(rounding))
                      .str(),
                  {{"q", 1, Code::shared}}, rounding) {}

  void expect(Block &block) const override {
    selectRounding(rounding, [&](auto constant) {
      expectRounded<decltype(constant)::value>(block);
    });
  }

private:
  template <Rounding rounding>
  void expectRounded(Block &block) const {
    const auto *x = block.inputs[0].get<uint32_t>();
    uint8_t *q = getUnpacked();
    const uint16_t *bits = drawBits(block);
    forLanes(block.size, [=](size_t i) {
      Level level = Code::getLevel(loadFloats(x + i));
      Words whole = roundLevel<rounding>(level.value, loadCodes(bits + i));
      whole = select(level.value < 0, -whole, whole);
      Words code = select(level.isNumber, whole, splatWord(Code::nanCode));
      storeCodes(q + i, code & ((256 >> 4 * (Code::shared - 1)) - 1));
    });
    pack(block.expected[0], q, block.size, Code::shared);
  }
};
} // namespace

void tandem::verify::addRoundedParts(Parts &parts) {
  for (Rounding rounding : {Rounding::Stochastic, Rounding::Dither}) {
    parts.push_back(std::make_unique<RoundedWrite<Softsign>>(rounding));
    parts.push_back(std::make_unique<RoundedWrite<Root>>(rounding));
    parts.push_back(std::make_unique<RoundedWrite<Linear<4>>>(rounding));
    parts.push_back(std::make_unique<RoundedWrite<Linear<8>>>(rounding));
  }
}
