//===- MuLawParts.cpp - The mu-law code under scales ----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the parts that write every f32 as a mu-law code under
// scales of its group, and that read every code under many scales. The rules
// are those of docs/Numerics.md, "The mu-law code".
//
//===----------------------------------------------------------------------===//

#include "StorageParts.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace tandem::verify;

/// The elements of a group, the fewest there may be.
static constexpr size_t groupSize = 16;
static constexpr size_t numGroups = blockSize / groupSize;

static float fromBits(uint32_t bits) { return llvm::bit_cast<float>(bits); }
static uint32_t toBits(float x) { return llvm::bit_cast<uint32_t>(x); }

//===----------------------------------------------------------------------===//
// The rules
//===----------------------------------------------------------------------===//

namespace {
/// The numbers of the table in docs/Numerics.md.
struct MuLaw {
  const char *name;
  bool isSigned;
  uint32_t step, factor, last;
  /// The code 0 stands for the number that is this many steps from 0.
  uint32_t offset = 0;
  unsigned bits = 8;
  /// The binades of numbers under one scale that are not written as zero, and
  /// some more.
  unsigned binades;

  static constexpr uint32_t bitsOfTwo = 0x40000000;

  /// Returns the exact number of a code without its sign.
  double getNumber(uint32_t code) const {
    return double(fromBits(bitsOfTwo + (code + offset) * step)) - 2;
  }
  /// Returns the number of codes in a byte.
  unsigned getShared() const { return 8 / bits; }
  /// The scale of a group of zeros: the smallest if no code is zero.
  float getScaleOfZeros() const { return offset ? 0x1p-126f : 1; }

  double getLargest() const { return getNumber(last); }
  /// The largest scale that a store makes.
  float getLargestScale() const {
    return std::ldexp(1.0f, 127 - std::ilogb(getLargest()));
  }
};

enum class ScaleType { F32, BF16, E8M0 };

/// The type and the recipe of the scales of a storage.
struct Scale {
  ScaleType type;
  bool isPowerOfTwo;
};

/// Computes the scale of a group, or NaN.
class Scaling {
public:
  Scaling(const MuLaw &code, Scale scale) : code(code), scale(scale) {
    factor = float((1 + 0x1p-22L) / (long double)code.getLargest());
  }

  float find(const uint32_t *group) const {
    float largest = 0;
    for (size_t i = 0; i < groupSize; ++i) {
      float x = fromBits(group[i]);
      if (!std::isfinite(x) || (x < 0 && !code.isSigned))
        return std::numeric_limits<float>::quiet_NaN();
      largest = std::fmax(largest, std::fabs(x));
    }
    return largest == 0 ? code.getScaleOfZeros() : make(largest);
  }

private:
  float make(float largest) const {
    float wanted = largest * factor;
    if (wanted > code.getLargestScale())
      return std::numeric_limits<float>::quiet_NaN();
    uint32_t bits = toBits(std::fmax(wanted, 0x1p-126f));
    // The low bits that a scale does not have; it is rounded up.
    uint32_t lost = scale.isPowerOfTwo              ? 0x7FFFFF
                    : scale.type == ScaleType::BF16 ? 0xFFFF
                                                    : 0;
    return fromBits((bits + lost) & ~lost);
  }

  const MuLaw &code;
  Scale scale;
  float factor;
};
} // namespace

static unsigned getBytes(ScaleType type) {
  return type == ScaleType::F32 ? 4 : type == ScaleType::BF16 ? 2 : 1;
}

static const char *getName(ScaleType type) {
  return type == ScaleType::F32    ? "f32"
         : type == ScaleType::BF16 ? "bf16"
                                   : "f8E8M0FNU";
}

/// Stores a number of the type, or the type's NaN, as a scale.
static void putScale(Array &array, size_t index, ScaleType type, float scale) {
  bool isNaN = std::isnan(scale);
  uint32_t bits = toBits(scale);
  if (type == ScaleType::F32)
    array.get<uint32_t>()[index] = isNaN ? 0x7FFFFFFF : bits;
  else if (type == ScaleType::BF16)
    put(array, index, isNaN ? 0x7FFF : uint16_t(bits >> 16));
  else
    put(array, index, isNaN ? 0xFF : uint16_t(bits >> 23));
}

/// Loads a scale.
static float readScale(const Array &array, size_t index, ScaleType type) {
  auto bits = uint32_t(array.at(index));
  if (type == ScaleType::F32)
    return fromBits(bits);
  if (type == ScaleType::BF16)
    return fromBits(bits << 16);
  return bits == 0xFF ? std::numeric_limits<float>::quiet_NaN()
                      : std::ldexp(1.0f, int(bits) - 127);
}

static std::string writeStorage(const MuLaw &code, Rounding rounding,
                                Scale scale) {
  bool isNearest = rounding == Rounding::Nearest;
  return llvm::formatv(
             "#tandem.scaled<#scaled.mulaw<{0}{1}{2}{3}>, group = "
             "{4}, scale = {5}, recipe = {6}>",
             code.isSigned ? "signed" : "unsigned", isNearest ? "" : ", ",
             getName(rounding), code.bits == 4 ? ", bits = 4" : "", groupSize,
             getName(scale.type), scale.isPowerOfTwo ? "pow2" : "current")
      .str();
}

static std::vector<PlaneDecl> declare(const MuLaw &code, Scale scale) {
  return {{"q", 1, code.getShared()},
          {"q.scale", getBytes(scale.type), groupSize}};
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

namespace {
/// Encodes every f32, in groups with a number that determines the scale. This
/// number and a zero replace two f32 of each group. The second half of the
/// units replaces two others, so that every f32 is encoded at least once.
class MuLawWrite : public WritePart {
public:
  MuLawWrite(llvm::StringRef name, const MuLaw &code, Rounding rounding,
             Scale scale)
      : WritePart(name, writeStorage(code, rounding, scale),
                  declare(code, scale), rounding),
        code(code), scale(scale), scaling(code, scale) {
    units = 2 * blockSize;
  }

  void fill(Block &block) const override {
    fillFloats(block);
    auto *x = block.inputs[0].get<uint32_t>();
    size_t place = block.unit / blockSize;
    Random random{block.unit};
    for (size_t group = 0; group < numGroups; ++group) {
      uint32_t *first = x + group * groupSize;
      first[place + groupSize / 2] = uint32_t(random()) & 0x80000000;
      first[place] = chooseLargest(first[groupSize - 1], random);
    }
  }

  void expect(Block &block) const override {
    selectRounding(rounding, [&](auto constant) {
      expectRounded<decltype(constant)::value>(block);
    });
  }

private:
  /// Chooses a number that is up to some binades above another one.
  uint32_t chooseLargest(uint32_t bits, Random &random) const {
    uint32_t exponent = (bits >> 23 & 0xFF) + random.below(code.binades);
    auto rest = uint32_t(random());
    return std::min<uint32_t>(exponent, 0xFE) << 23 | (rest & 0x7FFFFF) |
           (code.isSigned ? rest & 0x80000000 : 0);
  }

  template <Rounding rounding>
  void expectRounded(Block &block) const {
    const auto *x = block.inputs[0].get<uint32_t>();
    uint8_t *q = getUnpacked();
    const uint16_t *bits = drawBits(block);
    for (size_t group = 0; group < numGroups; ++group) {
      size_t first = group * groupSize;
      float found = scaling.find(x + first);
      putScale(block.expected[1], group, scale.type, found);
      double inverse = 1 / found;
      for (size_t i = first; i < first + groupSize; i += numLanes)
        storeCodes(q + i, encode<rounding>(loadFloats(x + i), inverse,
                                           loadCodes(bits + i)));
    }
    pack(block.expected[0], q, block.size, code.getShared());
  }

  template <Rounding rounding>
  TANDEM_LANES Words encode(Reals x, double inverse, Words bits) const {
    if (std::isnan(inverse))
      return Words{};
    if constexpr (rounding == Rounding::Nearest)
      bits = splatWord(0x8000);
    // The product has 48 bits, and is exact.
    Reals sum = addToOdd(magnitude(x) * inverse, splat(2));
    FloatBits sumBits = (FloatBits) __builtin_convertvector(sum, Floats);
    Words distance = __builtin_convertvector(sumBits, Words) - MuLaw::bitsOfTwo;
    Words word = code.bits == 8
                     ? (distance * code.factor + 255 + 256 * bits) >> 24
                 : code.isSigned ? (distance + (bits << 6)) >> 22
                                 : roundExponent(distance, bits);
    return code.isSigned ? word | ((Words)x >> 63) << (code.bits - 1) : word;
  }

  /// Rounds the exponent of 2 + |y| up with a probability that the mantissa f
  /// and f (1 - f) / 4 determine.
  static TANDEM_LANES Words roundExponent(Words distance, Words bits) {
    Words least = splatWord(1 << 23);
    distance = select((Mask)(distance < least), least, distance);
    Reals f = __builtin_convertvector(distance & 0x7FFFFF, Reals) * 0x1p-23;
    // Near 2^52 the ulp of f64 is 1, and ties go to the even number.
    Words tilt =
        (Words)(0x1p14 * f * (1 - f) + 0x1p52) & ((uint64_t(1) << 52) - 1);
    return ((distance + ((bits + tilt) << 7)) >> 23) - 1;
  }

  const MuLaw &code;
  Scale scale;
  Scaling scaling;
};

/// Decodes every byte under 256 scales for each unit, or 128 if it has two
/// codes. The scales are all numbers of the type, or of f32 2^22 that are
/// evenly spaced in their bits.
/// NaN replaces those beyond the largest scale that a store makes.
class MuLawRead : public ReadPart {
public:
  MuLawRead(llvm::StringRef name, const MuLaw &code, Scale scale)
      : ReadPart(name, writeStorage(code, Rounding::Nearest, scale),
                 declare(code, scale)),
        code(code), type(scale.type),
        groupsOfCodes(256 * code.getShared() / groupSize) {
    uint64_t scales = type == ScaleType::F32    ? 1 << 22
                      : type == ScaleType::BF16 ? 1 << 15
                                                : 1 << 8;
    units = scales * groupsOfCodes / numGroups;
  }

  void fill(Block &block) const override {
    block.size = blockSize;
    for (size_t i = 0; i < blockSize; ++i)
      block.inputs[0].get<uint8_t>()[i] = uint8_t(i);
    for (size_t group = 0; group < numGroups; ++group)
      putScale(block.inputs[1], group, type,
               chooseScale((block.unit * numGroups + group) / groupsOfCodes));
  }

  void expect(Block &block) const override {
    const auto *q = block.inputs[0].get<uint8_t>();
    auto *r = block.expected[0].get<uint32_t>();
    for (size_t i = 0; i < blockSize; ++i) {
      unsigned place = i % code.getShared() * code.bits;
      uint8_t word =
          q[i / code.getShared()] >> place & (0xFF >> (8 - code.bits));
      float x = decode(word, readScale(block.inputs[1], i / groupSize, type));
      r[i] = std::isnan(x) ? 0x7FFFFFFF : toBits(x);
    }
  }

private:
  /// Returns a scale. The factors are odd, and near the golden section of the
  /// number of scales, so that each unit has scales of all sizes.
  float chooseScale(uint64_t number) const {
    uint64_t bits = type == ScaleType::F32    ? number * 0x4F1BBCDD % (1u << 31)
                    : type == ScaleType::BF16 ? number * 0x4F1B % (1u << 15)
                                              : number;
    float scale = type == ScaleType::F32    ? fromBits(uint32_t(bits))
                  : type == ScaleType::BF16 ? fromBits(uint32_t(bits) << 16)
                                            : std::ldexp(1.0f, int(bits) - 127);
    return scale <= code.getLargestScale()
               ? scale
               : std::numeric_limits<float>::quiet_NaN();
  }

  float decode(uint8_t word, float scale) const {
    // The product has 48 bits: it is rounded once.
    auto a = float(code.getNumber(word & code.last) * double(scale));
    return word & ~code.last ? -a : a;
  }

  const MuLaw &code;
  ScaleType type;
  /// The number of groups that hold all bytes.
  const uint64_t groupsOfCodes;
};
} // namespace

//===----------------------------------------------------------------------===//
// All parts
//===----------------------------------------------------------------------===//

static const MuLaw codes[] = {
    {"mulaw-signed", true, 197379, 85, 127, 0, 8, 13},
    {"mulaw-unsigned", false, 372827, 45, 255, 0, 8, 20},
    {"mulaw4-signed", true, 1 << 22, 0, 7, 0, 4, 8},
    {"mulaw4-unsigned", false, 1 << 23, 0, 15, 1, 4, 24}};

void tandem::verify::addMuLawParts(Parts &parts) {
  constexpr Scale f32 = {ScaleType::F32, false};
  constexpr Scale bf16 = {ScaleType::BF16, false};
  constexpr Scale power = {ScaleType::E8M0, true};
  for (const MuLaw &code : codes) {
    std::string name = code.name;
    auto write = [&](llvm::StringRef suffix, Rounding rounding, Scale scale) {
      parts.push_back(std::make_unique<MuLawWrite>((name + suffix).str(), code,
                                                   rounding, scale));
    };
    auto read = [&](llvm::StringRef suffix, Scale scale) {
      parts.push_back(
          std::make_unique<MuLawRead>((name + suffix).str(), code, scale));
    };
    write("", Rounding::Nearest, f32);
    write("-stochastic", Rounding::Stochastic, bf16);
    write("-dither", Rounding::Dither, power);
    read("", f32);
    read("-bf16", bf16);
    read("-f8E8M0FNU", power);
  }
}
