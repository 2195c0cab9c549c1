//===- ResidualParts.cpp - Residuals --------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the parts that write every f32 as a visible number and a
// residual, rounded to nearest and by bits, and that read all pairs of the two.
// The rules are those of docs/Numerics.md, sections 5 and 6.
//
//===----------------------------------------------------------------------===//

#include "StorageParts.h"
#include "llvm/Support/FormatVariadic.h"

using namespace tandem::verify;

/// Returns half a unit in the last place of the visible number.
template <typename F>
static TANDEM_LANES Reals getHalfUlp(Reals high) {
  return F::binade(high) * powerOfTwo(-F::precision);
}

/// The largest residual: 127 or 32767.
template <typename Integer>
static constexpr double largest = std::numeric_limits<Integer>::max();

namespace {
template <typename F, typename Integer>
class ResidualWrite : public WritePart {
public:
  ResidualWrite(llvm::StringRef name, llvm::StringRef storage,
                Rounding rounding)
      : WritePart(name, storage, {{"q", 2}, {"q.low", sizeof(Integer)}},
                  rounding) {}

  void expect(Block &block) const override {
    selectRounding(rounding, [&](auto constant) {
      expectRounded<decltype(constant)::value>(block);
    });
  }

private:
  template <Rounding rounding>
  void expectRounded(Block &block) const {
    const auto *x = block.inputs[0].get<uint32_t>();
    auto *high = block.expected[0].get<uint16_t>();
    auto *low = block.expected[1].get<Integer>();
    const uint16_t *bits = drawBits(block);
    forLanes(block.size, [=](size_t i) {
      Reals value = loadFloats(x + i), visible = F::round(value);
      Reals share = toFloat(toFloat(value - visible) / getHalfUlp<F>(visible));
      Reals level = toFloat(share * largest<Integer>);
      Words whole = roundLevel<rounding>(level, loadCodes(bits + i));
      whole = select(level < 0, -whole, whole);
      storeCodes(high + i, F::encode(visible));
      storeCodes(low + i, select(isFinite(visible), whole, Words{}));
    });
  }
};

template <typename F, typename Integer>
class ResidualRead : public ReadPart {
public:
  ResidualRead(llvm::StringRef name, llvm::StringRef storage)
      : ReadPart(name, storage, {{"q", 2}, {"q.low", sizeof(Integer)}}) {}

  void expect(Block &block) const override {
    const auto *high = block.inputs[0].get<uint16_t>();
    const auto *low = block.inputs[1].get<Integer>();
    auto *r = block.expected[0].get<uint32_t>();
    forLanes(block.size, [=](size_t i) {
      Reals visible = F::decode(loadCodes(high + i));
      Reals residual = __builtin_convertvector((Mask)loadCodes(low + i), Reals);
      Reals share = toFloat(residual / largest<Integer>);
      Reals sum = visible + toFloat(share * getHalfUlp<F>(visible));
      storeFloats(r + i, select(isFinite(visible), sum, visible));
    });
  }
};
} // namespace

/// The name without formats is that of <bf16, i8>, which most strategies use.
template <typename F, typename Integer>
static void addResiduals(Parts &parts, llvm::StringRef name,
                         llvm::StringRef format, llvm::StringRef integer) {
  auto write = [&](llvm::StringRef suffix, Rounding rounding) {
    llvm::StringRef comma = rounding == Rounding::Nearest ? "" : ", ";
    parts.push_back(std::make_unique<ResidualWrite<F, Integer>>(
        (name + suffix).str(),
        llvm::formatv("#tandem.residual<{0}, {1}{2}{3}>", format, integer,
                      comma, getName(rounding))
            .str(),
        rounding));
  };
  write("", Rounding::Nearest);
  write("-stochastic", Rounding::Stochastic);
  write("-dither", Rounding::Dither);
  parts.push_back(std::make_unique<ResidualRead<F, Integer>>(
      name,
      llvm::formatv("#tandem.residual<{0}, {1}>", format, integer).str()));
}

void tandem::verify::addResidualParts(Parts &parts) {
  addResiduals<BF16, int8_t>(parts, "residual", "bf16", "i8");
  addResiduals<F16, int8_t>(parts, "residual-f16-i8", "f16", "i8");
  addResiduals<BF16, int16_t>(parts, "residual-bf16-i16", "bf16", "i16");
}
