//===- CodeParts.cpp - Codes of every f32 ---------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the parts that encode every f32 in each kind of code,
// and decode every code. The rules are those of docs/Numerics.md, section 5.
//
//===----------------------------------------------------------------------===//

#include "StorageParts.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <functional>

using namespace tandem::verify;

static float fromBits(uint32_t bits) { return llvm::bit_cast<float>(bits); }
static uint32_t toBits(float x) {
  return std::isnan(x) ? 0x7FFFFFFF : llvm::bit_cast<uint32_t>(x);
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

namespace {
/// A storage with one number per element: its planes, and functions that encode
/// and decode a number.
struct Storage {
  std::string name, text;
  /// The number of bytes of an element of each plane.
  std::vector<unsigned> planes;
  /// The number of elements that share an entry of the first plane: two, each
  /// in four bits, or one.
  unsigned shared = 1;
  using Codes = std::array<uint16_t, 2>;
  std::function<Codes(float)> write;
  std::function<float(Codes)> read;

  /// Returns the codes of some elements that begin with an entry, joined for
  /// each plane; the earlier element has the lower bits.
  Codes encode(const uint32_t *x) const {
    Codes all = {};
    for (unsigned i = 0; i < shared; ++i) {
      Codes codes = write(fromBits(x[i]));
      for (size_t plane = 0; plane < planes.size(); ++plane)
        all[plane] |= codes[plane] << 4 * i;
    }
    return all;
  }

  /// Returns the number of an element in the entry that it shares.
  float decode(Codes codes, size_t index) const {
    if (shared > 1)
      codes[0] = codes[0] >> 4 * (index % shared) & 0xF;
    return read(codes);
  }
};

std::vector<PlaneDecl> declare(const Storage &storage) {
  std::vector<PlaneDecl> planes = {{"q", storage.planes[0], storage.shared}};
  if (storage.planes.size() == 2)
    planes.push_back({"q.low", storage.planes[1]});
  return planes;
}

/// Encodes every f32 by a storage's rule.
class RuleWrite : public WritePart {
public:
  explicit RuleWrite(const Storage &storage)
      : WritePart(storage.name, storage.text, declare(storage)),
        storage(storage) {}

  void expect(Block &block) const override {
    const auto *x = block.inputs[0].get<uint32_t>();
    for (size_t i = 0; i < block.size; i += storage.shared) {
      Storage::Codes codes = storage.encode(x + i);
      for (size_t plane = 0; plane < block.expected.size(); ++plane)
        put(block.expected[plane], i / storage.shared, codes[plane]);
    }
  }

private:
  Storage storage;
};

/// Decodes every code by a storage's rule.
class RuleRead : public ReadPart {
public:
  explicit RuleRead(const Storage &storage)
      : ReadPart(storage.name, storage.text, declare(storage)),
        storage(storage) {}

  void expect(Block &block) const override {
    for (size_t i = 0; i < blockSize; ++i) {
      Storage::Codes codes = {uint16_t(block.inputs[0].at(i / storage.shared)),
                              0};
      if (block.inputs.size() == 2)
        codes[1] = uint16_t(block.inputs[1].at(i));
      block.expected[0].get<uint32_t>()[i] = toBits(storage.decode(codes, i));
    }
  }

private:
  Storage storage;
};

//===----------------------------------------------------------------------===//
// Small floats of any widths
//===----------------------------------------------------------------------===//

enum class Specials { IEEE, NaN, NegativeZero, None };

/// The parameters of #scaled.minifloat.
struct Minifloat {
  int exponent, mantissa, bias;
  Specials specials = Specials::NaN;
  bool isTowardZero = false;
  /// The range of exponents to which encoding clamps.
  int least = -10000, most = 10000;

  int signBit() const { return exponent + mantissa; }
  int lastCode() const {
    int all = 1 << signBit();
    switch (specials) {
    case Specials::IEEE:
      return all - (1 << mantissa) - 1;
    case Specials::NaN:
      return all - 2;
    default:
      return all - 1;
    }
  }

  double decodeMagnitude(int code) const {
    int field = code >> mantissa, low = code & ((1 << mantissa) - 1);
    double share = std::ldexp(low, -mantissa);
    return field ? std::ldexp(1 + share, field - bias)
                 : std::ldexp(share, 1 - bias);
  }

  double getLargest() const {
    double all = decodeMagnitude(lastCode());
    double written =
        std::ldexp(2 - std::ldexp(1.0, -mantissa), std::min(most, 1000));
    return std::min(all, written);
  }

  uint16_t encodeSpecial(float x) const {
    int negative = std::signbit(x) << signBit();
    switch (specials) {
    case Specials::IEEE:
      return std::isnan(x) ? (1 << signBit()) - 1 : (lastCode() + 1) | negative;
    case Specials::NaN:
      return (1 << signBit()) - 1;
    case Specials::NegativeZero:
      return 1 << signBit();
    case Specials::None:
      return lastCode() | (std::isnan(x) ? 0 : negative);
    }
    return 0;
  }

  uint16_t encode(float x, double largest) const {
    if (!std::isfinite(x))
      return encodeSpecial(x);
    double a = std::min(std::fabs(double(x)), largest);
    if (a != 0 && least > -10000)
      a = std::max(a, std::ldexp(1.0, least));
    // Zero has no exponent; the smallest one is used.
    int own = a == 0 ? -1000 : std::ilogb(a);
    int place = std::max(own, 1 - bias);
    double ulps = std::ldexp(a, mantissa - place);
    ulps = isTowardZero ? std::floor(ulps) : std::nearbyint(ulps);
    int code = ((place - (1 - bias)) << mantissa) + int(ulps);
    bool hasSign = code != 0 || specials != Specials::NegativeZero;
    return uint16_t(code | (std::signbit(x) && hasSign) << signBit());
  }

  float decode(uint16_t bits) const {
    int code = bits & ((1 << signBit()) - 1);
    bool isNegative = bits >> signBit() & 1;
    float nan = std::numeric_limits<float>::quiet_NaN();
    if (code > lastCode())
      return specials == Specials::IEEE && code == lastCode() + 1
                 ? (isNegative ? -INFINITY : INFINITY)
                 : nan;
    if (specials == Specials::NegativeZero && isNegative && code == 0)
      return nan;
    double a = decodeMagnitude(code);
    return float(isNegative ? -a : a);
  }
};
} // namespace

static Storage makeMinifloat(const char *name, const char *text,
                             Minifloat format) {
  unsigned bytes = format.signBit() < 8 ? 1 : 2;
  unsigned shared = format.signBit() < 4 ? 2 : 1;
  double largest = format.getLargest();
  return {name,
          ("#tandem.coded<#scaled.minifloat<" + llvm::Twine(text) + ">>").str(),
          {bytes},
          shared,
          [=](float x) { return Storage::Codes{format.encode(x, largest), 0}; },
          [=](Storage::Codes codes) { return format.decode(codes[0]); }};
}

//===----------------------------------------------------------------------===//
// The dynamic code
//===----------------------------------------------------------------------===//

namespace {
struct Dynamic {
  explicit Dynamic(bool isSigned) : isSigned(isSigned) {
    for (int i = 0; i < 6; ++i)
      ends[i] = float(std::pow(10.0L, i - 6) * (1 + 0.9L / count(i)));
    top = float((1 + getExact(6, count(6) - (isSigned ? 1 : 2))) / 2);
    least = float(getExact(0, 0) / 2);
    lost = float(getExact(6, 62));
  }

  int count(int decade) const { return 1 << (isSigned ? decade : decade + 1); }
  long double getExact(int decade, int k) const {
    return std::pow(10.0L, decade - 6) *
           (0.1L + 0.9L * (k + 0.5L) / count(decade));
  }
  int zero() const { return isSigned ? 127 : 0; }
  int nan() const { return isSigned ? 1 : 254; }

  int findRank(float a) const {
    int decade = 0;
    while (decade < 6 && a >= ends[decade])
      ++decade;
    float unit = a * float(std::pow(10.0, 6 - decade));
    float place = std::fmaf(unit, float(10.0 / 9), float(8.0 / 9));
    place = std::fmin(std::fmax(place, 1.0f), 0x1.fffffep0f);
    int number = int(place * float(count(decade)));
    return isSigned ? number : number - 1;
  }

  uint16_t encode(float x) const {
    bool isNegative = x < 0;
    if (!std::isfinite(x) || (isNegative && !isSigned))
      return uint16_t(nan());
    float a = std::fmin(std::fabs(x), 1.0f);
    if (a < least)
      return uint16_t(zero());
    int rank = findRank(a);
    // The code of one rank is NaN. Numbers with this rank get one of its
    // neighbours.
    if (isNegative && rank >= 126)
      rank = a >= lost ? 127 : 125;
    if (!isSigned)
      rank = std::min(rank, 253);
    if (x >= top)
      rank = 255 - zero();
    return uint16_t(zero() + (isNegative ? -rank : rank));
  }

  float decode(uint16_t code) const {
    if (code == nan())
      return std::numeric_limits<float>::quiet_NaN();
    int offset = int(code) - zero(), rank = std::abs(offset);
    if (offset == 0)
      return 0;
    if (code == 255)
      return 1;
    int number = isSigned ? rank : rank + 1;
    int power = std::ilogb(double(number));
    int decade = isSigned ? power : power - 1;
    float share = float((number - (1 << power) + 0.5) / (1 << power));
    float value =
        std::fmaf(share, 0.9f, 0.1f) * float(std::pow(10.0L, decade - 6));
    return offset < 0 ? -value : value;
  }

  bool isSigned;
  float ends[6], top, least;
  /// The midpoint between the negative magnitudes on both sides of that NaN.
  float lost;
};
} // namespace

static Storage makeDynamic(const char *sign) {
  Dynamic code(llvm::StringRef(sign) == "signed");
  return {std::string("dynamic-") + sign,
          llvm::formatv("#tandem.coded<#scaled.dynamic<{0}>>", sign).str(),
          {1},
          1,
          [=](float x) { return Storage::Codes{code.encode(x), 0}; },
          [=](Storage::Codes codes) { return code.decode(codes[0]); }};
}

//===----------------------------------------------------------------------===//
// Integers, remainders
//===----------------------------------------------------------------------===//

static Storage makeSoftsign() {
  auto write = [](float x) {
    float z = std::fmin(std::fmax(x, -1.0f), 1.0f);
    float companded = (2 * z) / (1 + std::fabs(z));
    int code = std::isfinite(x) ? int(std::nearbyint(127 * companded)) : -128;
    return Storage::Codes{uint16_t(code & 0xFF), 0};
  };
  auto read = [](Storage::Codes codes) {
    if (codes[0] == 0x80)
      return std::numeric_limits<float>::quiet_NaN();
    float w = float(int8_t(codes[0])) / 127;
    return w / (2 - std::fabs(w));
  };
  return {"softsign", "#tandem.coded<#scaled.softsign>", {1}, 1, write, read};
}

static Storage makeRoot() {
  auto write = [](float x) {
    float z = std::fmin(std::sqrt(x), 1.0f);
    bool isNumber = std::isfinite(x) && !(x < 0);
    int code = isNumber ? int(std::nearbyint(254 * z)) : 255;
    return Storage::Codes{uint16_t(code), 0};
  };
  auto read = [](Storage::Codes codes) {
    float root = float(codes[0]) / 254;
    return codes[0] == 255 ? std::numeric_limits<float>::quiet_NaN()
                           : root * root;
  };
  return {"root", "#tandem.coded<#scaled.root>", {1}, 1, write, read};
}

/// Integers of `bits` bits, whose smallest number is NaN.
static Storage makeLinear(unsigned bits) {
  int last = (1 << (bits - 1)) - 1, mask = 2 * last + 1;
  auto write = [=](float x) {
    float level = std::fmin(std::fmax(x, float(-last)), float(last));
    int code = std::isfinite(x) ? int(std::nearbyint(level)) : last + 1;
    return Storage::Codes{uint16_t(code & mask), 0};
  };
  auto read = [=](Storage::Codes codes) {
    int code = codes[0];
    if (code == last + 1)
      return std::numeric_limits<float>::quiet_NaN();
    return float(code > last ? code - mask - 1 : code);
  };
  return {
      llvm::formatv("linear{0}", bits).str(),
      llvm::formatv("#tandem.coded<#scaled.linear<bits = {0}>>", bits).str(),
      {1},
      8 / bits,
      write,
      read};
}

static Storage makeRemainder() {
  auto write = [](float x) {
    uint32_t bits = llvm::bit_cast<uint32_t>(x);
    if (std::isnan(x))
      return Storage::Codes{0x7FFF, 0};
    return Storage::Codes{uint16_t((uint64_t(bits) + 0x8000) >> 16),
                          uint16_t(bits)};
  };
  auto read = [](Storage::Codes codes) {
    // Other code has overwritten the upper half with a zero.
    if ((codes[0] & 0x7FFF) == 0 && codes[1] >= 0x8000)
      return fromBits(uint32_t(codes[0]) << 16);
    auto high = uint16_t(codes[0] - (codes[1] >> 15));
    return fromBits(uint32_t(high) << 16 | codes[1]);
  };
  return {"remainder", "#tandem.remainder", {2, 2}, 1, write, read};
}

//===----------------------------------------------------------------------===//
// All storages
//===----------------------------------------------------------------------===//

static std::vector<Storage> makeStorages() {
  using S = Specials;
  return {
      makeDynamic("signed"),
      makeDynamic("unsigned"),
      makeSoftsign(),
      makeRoot(),
      makeLinear(4),
      makeLinear(8),
      makeRemainder(),
      makeMinifloat("e2m1", "exponent = 2, mantissa = 1, specials = none",
                    {2, 1, 1, S::None}),
      makeMinifloat("e2m3", "exponent = 2, mantissa = 3, specials = none",
                    {2, 3, 1, S::None}),
      makeMinifloat("e3m2", "exponent = 3, mantissa = 2, specials = none",
                    {3, 2, 3, S::None}),
      makeMinifloat(
          "e4m3fnuz",
          "exponent = 4, mantissa = 3, bias = 8, specials = negative_zero",
          {4, 3, 8, S::NegativeZero}),
      makeMinifloat(
          "e5m2fnuz",
          "exponent = 5, mantissa = 2, bias = 16, specials = negative_zero",
          {5, 2, 16, S::NegativeZero}),
      makeMinifloat("e3m4", "exponent = 3, mantissa = 4", {3, 4, 3, S::NaN}),
      makeMinifloat("e5m10", "exponent = 5, mantissa = 10, specials = ieee",
                    {5, 10, 15, S::IEEE}),
      makeMinifloat("e8m3",
                    "exponent = 8, mantissa = 3, specials = ieee, rounding = "
                    "toward_zero",
                    {8, 3, 127, S::IEEE, true}),
      makeMinifloat("e7m7",
                    "exponent = 8, mantissa = 7, specials = ieee, rounding = "
                    "toward_zero, exponents = [-62, 63]",
                    {8, 7, 127, S::IEEE, true, -62, 63})};
}

void tandem::verify::addCodeParts(Parts &parts) {
  for (const Storage &storage : makeStorages()) {
    parts.push_back(std::make_unique<RuleWrite>(storage));
    parts.push_back(std::make_unique<RuleRead>(storage));
  }
}
