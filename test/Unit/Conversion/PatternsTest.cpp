//===- PatternsTest.cpp - Conversions as a library ------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file uses the conversion patterns as a pass of another project would.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "tandem/Conversion/ExpandOperations.h"
#include "tandem/Conversion/FloatCodesToArith.h"
#include "tandem/Conversion/FloatCodesToNVVM/FloatCodesToNVVM.h"
#include "tandem/Conversion/MCFToArith.h"
#include "tandem/Conversion/ScaledToArith.h"
#include "tandem/Conversion/TranscendentalsToArith.h"
#include "tandem/Dialect/MCF/IR/MCF.h"
#include "tandem/InitAllDialects.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace tandem;

namespace {
class PatternsTest : public testing::Test {
protected:
  PatternsTest() {
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  void parse(llvm::StringRef text) {
    module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module);
  }

  /// Applies the patterns and returns the number of operations they erase.
  unsigned expand(RewritePatternSet &&patterns) {
    unsigned count = expandOperations(*module, std::move(patterns));
    EXPECT_TRUE(succeeded(verify(*module)));
    return count;
  }

  /// Returns the number of operations whose name begins with \p prefix.
  unsigned count(llvm::StringRef prefix) {
    unsigned result = 0;
    module->walk([&](Operation *op) {
      result += op->getName().getStringRef().starts_with(prefix);
    });
    return result;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

constexpr llvm::StringLiteral codes = R"mlir(
  func.func @codes(%x: vector<4xf32>) -> (vector<4xi8>, vector<4xf32>, f32) {
    %q = scaled.encode_float f8E5M2, %x : vector<4xf32> -> vector<4xi8>
    %y = scaled.decode_float f8E5M2, %q : vector<4xi8> -> vector<4xf32>
    %half = arith.constant 1 : i16
    %z = scaled.decode_float f16, %half : i16 -> f32
    return %q, %y, %z : vector<4xi8>, vector<4xf32>, f32
  })mlir";

TEST_F(PatternsTest, TranscendentalsToArith) {
  parse(R"mlir(
    func.func @f(%x: f32, %y: bf16) -> (f32, bf16, f32) {
      %0 = math.exp %x : f32
      %1 = math.tanh %y : bf16
      %2 = math.sqrt %x : f32
      return %0, %1, %2 : f32, bf16, f32
    })mlir");
  RewritePatternSet patterns(&context);
  populateTranscendentalsToArithPatterns(patterns);
  EXPECT_EQ(expand(std::move(patterns)), 2u);
  EXPECT_EQ(count("math.exp") + count("math.tanh"), 0u);
  EXPECT_EQ(count("math.sqrt"), 1u);
}

TEST_F(PatternsTest, ScaledToArith) {
  parse(R"mlir(
    func.func @f(%x: f32) -> (i32, i8) {
      %0 = scaled.magnitude #scaled.root, %x : f32 -> i32
      %q = scaled.encode_float f8E5M2, %x : f32 -> i8
      return %0, %q : i32, i8
    })mlir");
  RewritePatternSet patterns(&context);
  populateScaledToArithPatterns(patterns);
  EXPECT_EQ(expand(std::move(patterns)), 1u);
  EXPECT_EQ(count("scaled."), count("scaled.encode_float"));
}

TEST_F(PatternsTest, FloatCodesToArith) {
  parse(codes);
  RewritePatternSet patterns(&context);
  populateFloatCodesToArithPatterns(patterns);
  EXPECT_EQ(expand(std::move(patterns)), 3u);
  EXPECT_EQ(count("scaled."), 0u);
}

TEST_F(PatternsTest, FloatCodesToArithOfOneFormat) {
  parse(codes);
  RewritePatternSet patterns(&context);
  populateFloatCodesToArithPatterns(patterns, Float16Type::get(&context),
                                    /*halfConversions=*/true);
  EXPECT_EQ(expand(std::move(patterns)), 1u);
  EXPECT_EQ(count("scaled."), 2u);
  EXPECT_EQ(count("arith.extf"), 1u);
}

TEST_F(PatternsTest, FloatCodesToNVVM) {
  parse(codes);
  RewritePatternSet patterns(&context);
  populateFloatCodesToNVVMPatterns(patterns);
  // There is no instruction for f16 codes.
  EXPECT_EQ(expand(std::move(patterns)), 2u);
  EXPECT_EQ(count("scaled."), 1u);
  EXPECT_EQ(count("nvvm.convert"), 4u);
}

TEST_F(PatternsTest, MCFToArith) {
  parse(R"mlir(
    func.func @f(%x: bf16, %y: bf16) -> (bf16, bf16) {
      %0 = mcf.two_prod %x, %y : !mcf.expansion<bf16 x 2>
      %1:2 = mcf.components %0 : !mcf.expansion<bf16 x 2>
      return %1#0, %1#1 : bf16, bf16
    })mlir");
  ExpansionConverter converter;
  RewritePatternSet patterns(&context);
  populateMCFToArithPatterns(converter, patterns);
  ConversionTarget target(context);
  target.addIllegalDialect<mcf::MCFDialect>();
  target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
  ASSERT_TRUE(
      succeeded(applyPartialConversion(*module, target, std::move(patterns))));
  EXPECT_TRUE(succeeded(verify(*module)));
  EXPECT_EQ(count("mcf."), 0u);
  EXPECT_EQ(count("math.fma"), 1u);
}
} // namespace
