//===- ConversionParts.cpp - Conversions from f32 -------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the parts that round every f32 to smaller formats, and
// that decode every code of these formats.
//
//===----------------------------------------------------------------------===//

#include "FloatLanes.h"
#include "Part.h"
#include "llvm/Support/FormatVariadic.h"

using namespace tandem::verify;

namespace {
/// The base class of parts with every f32. Each unit has 2^16 of them.
class AllFloats : public Part {
public:
  AllFloats(std::string name, std::string description)
      : Part(std::move(name), std::move(description)) {
    inputs = {{"x", 4}};
    units = blockSize;
  }

  void fill(Block &block) const override { fillFloats(block); }
};

/// Stores every f32 as bf16.
class BF16Store : public AllFloats {
public:
  BF16Store() : AllFloats("bf16-convert", "every f32 to bf16") {
    results = {{"r", 2}};
    kernel = writeKernel("f32, f32", {{"x", floatStorage("f32")}},
                         {{"r", floatStorage("bf16")}},
                         "  %x = tandem.load %t_x : !x -> f32\n"
                         "  tandem.store %x, %t_r : f32, !r\n");
  }

  void expect(Block &block) const override {
    const auto *x = block.inputs[0].get<uint32_t>();
    auto *r = block.expected[0].get<uint16_t>();
    forLanes(block.size, [=](size_t i) {
      storeCodes(r + i, BF16::encode(BF16::round(loadFloats(x + i))));
    });
  }
};

/// Applies the three modes of scaled.encode_float.
template <typename F, typename Code>
class Encoding : public AllFloats {
public:
  explicit Encoding(llvm::StringRef format)
      : AllFloats((format + "-convert").str(),
                  llvm::formatv("every f32 to {0}: not saturating, saturating "
                                "what is finite, saturating all",
                                format)) {
    std::vector<TensorDecl> tensors;
    for (const char *mode : {"nearest", "finite", "number"}) {
      results.push_back({mode, sizeof(Code)});
      tensors.push_back({mode, floatStorage(format)});
    }
    kernel = writeKernel("f32, f32", {{"x", floatStorage("f32")}}, tensors,
                         llvm::formatv(body, format, 8 * sizeof(Code)).str());
  }

  void expect(Block &block) const override {
    const auto *x = block.inputs[0].get<uint32_t>();
    auto *nearest = block.expected[0].get<Code>(),
         *finite = block.expected[1].get<Code>(),
         *number = block.expected[2].get<Code>();
    forLanes(block.size, [=](size_t i) {
      Reals value = loadFloats(x + i), limit = splat(F::largest);
      Reals clipped = select(magnitude(value) > limit, limit, value);
      clipped = (Reals)(((Words)clipped & ~signBit) | ((Words)value & signBit));
      Reals kept = select(isFinite(value), clipped, value);
      storeCodes(nearest + i, F::encode(F::round(value)));
      storeCodes(finite + i, F::encode(F::round(kept)));
      storeCodes(number + i, F::encode(F::round(clipped)));
    });
  }

private:
  static constexpr const char *body = R"(
  %x = tandem.load_plane %t_x[0] : !x -> f32
  %magnitude = math.absf %x : f32
  %infinity = arith.constant 0x7F800000 : f32
  %is_finite = arith.cmpf olt, %magnitude, %infinity : f32
  %is_number = arith.cmpf ord, %x, %x : f32
  %nearest = scaled.encode_float {0}, %x : f32 -> i{1}
  %finite = scaled.encode_float {0}, %x where %is_finite : f32, i1 -> i{1}
  %number = scaled.encode_float {0}, %x where %is_number : f32, i1 -> i{1}
  tandem.store_plane %nearest, %t_nearest[0] : i{1}, !nearest
  tandem.store_plane %finite, %t_finite[0] : i{1}, !finite
  tandem.store_plane %number, %t_number[0] : i{1}, !number
)";
};

/// Decodes every code of a small float.
template <typename F, typename Code>
class Decoding : public Part {
public:
  explicit Decoding(llvm::StringRef format)
      : Part((format + "-read").str(), ("every " + format + " to f32").str()) {
    inputs = {{"q", sizeof(Code)}};
    results = {{"r", 4}};
    units = 1;
    kernel = writeKernel("f32, f32", {{"q", floatStorage(format)}},
                         {{"r", floatStorage("f32")}},
                         "  %x = tandem.load %t_q : !q -> f32\n"
                         "  tandem.store %x, %t_r : f32, !r\n");
  }

  void fill(Block &block) const override {
    block.size = size_t(1) << (8 * sizeof(Code));
    for (size_t i = 0; i < block.size; ++i)
      block.inputs[0].get<Code>()[i] = Code(i);
  }

  void expect(Block &block) const override {
    const auto *q = block.inputs[0].get<Code>();
    auto *r = block.expected[0].get<uint32_t>();
    forLanes(block.size, [=](size_t i) {
      storeFloats(r + i, F::decode(loadCodes(q + i)));
    });
  }
};
} // namespace

void tandem::verify::addConversionParts(Parts &parts) {
  parts.push_back(std::make_unique<BF16Store>());
  parts.push_back(std::make_unique<Encoding<F16, uint16_t>>("f16"));
  parts.push_back(std::make_unique<Encoding<E4M3, uint8_t>>("f8E4M3FN"));
  parts.push_back(std::make_unique<Encoding<E5M2, uint8_t>>("f8E5M2"));
  parts.push_back(std::make_unique<Decoding<BF16, uint16_t>>("bf16"));
  parts.push_back(std::make_unique<Decoding<F16, uint16_t>>("f16"));
  parts.push_back(std::make_unique<Decoding<E4M3, uint8_t>>("f8E4M3FN"));
  parts.push_back(std::make_unique<Decoding<E5M2, uint8_t>>("f8E5M2"));
}
