//===- InterpreterKernelTest.cpp - Tests of kernels and functions ---------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests the reference interpreter on functions and kernels, and its
// agreement with itself on a graph and the kernels lowered from it.
//
//===----------------------------------------------------------------------===//

#include "InterpreterAgreement.h"

#include "tandem/InitAllPasses.h"
#include "tandem/Reference/Interpreter/Arithmetic.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::reference;

using Elements = std::vector<uint64_t>;

namespace {

bool mentions(const std::string &message, const std::string &part) {
  return message.find(part) != std::string::npos;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// Runs one operation from bf16 arguments to an expansion or component.
class InterpreterFunction : public InterpreterTest {
protected:
  ValueBits run(const std::string &arguments, const std::string &result,
                const std::string &operation, llvm::ArrayRef<ValueBits> bits) {
    auto results = runFunction("func.func @f(" + arguments + ") -> " + result +
                                   " {\n  %r = " + operation +
                                   "\n  return %r : " + result + "\n}",
                               bits);
    return results.empty() ? ValueBits() : results.front();
  }

  ValueBits pair(const std::string &operation, llvm::ArrayRef<ValueBits> bits) {
    return run("%a: bf16, %b: bf16", "!mcf.expansion<bf16 x 2>",
               operation + " : !mcf.expansion<bf16 x 2>", bits);
  }

  ValueBits pairAndComponent(const std::string &operation,
                             llvm::ArrayRef<ValueBits> bits) {
    return run("%s: !mcf.expansion<bf16 x 2>, %a: bf16",
               "!mcf.expansion<bf16 x 2>",
               operation + " : !mcf.expansion<bf16 x 2>", bits);
  }
};

/// Adds 1 and 2^-10, whose sum rounds to 1.
TEST_F(InterpreterFunction, Sums) {
  ValueBits one = {0x3F80}, tiny = {0x3A80};
  EXPECT_EQ(pair("mcf.two_sum %a, %b", {one, tiny}),
            (ValueBits{0x3F80, 0x3A80}));
  EXPECT_EQ(pair("mcf.two_sum %a, %b", {tiny, one}),
            (ValueBits{0x3F80, 0x3A80}));
  EXPECT_EQ(pair("mcf.fast_two_sum %a, %b granted", {one, tiny}),
            (ValueBits{0x3F80, 0x3A80}));
  // If the grant does not hold, the error is lost; without a grant, it is
  // two_sum.
  EXPECT_EQ(pair("mcf.fast_two_sum %a, %b granted", {tiny, one}),
            (ValueBits{0x3F80, 0x0000}));
  EXPECT_EQ(pair("mcf.fast_two_sum %a, %b", {tiny, one}),
            (ValueBits{0x3F80, 0x3A80}));
}

/// Computes (1 + 2^-7)^2 = 1 + 2^-6 + 2^-14.
TEST_F(InterpreterFunction, Products) {
  ValueBits x = {0x3F81};
  EXPECT_EQ(pair("mcf.two_prod %a, %b", {x, x}), (ValueBits{0x3F82, 0x3880}));
  EXPECT_EQ(pair("mcf.two_prod_dekker %a, %b", {x, x}),
            (ValueBits{0x3F82, 0x3880}));
  // 1.1111111b splits into 2 and -2^-7.
  EXPECT_EQ(run("%a: bf16", "!mcf.expansion<bf16 x 2>",
                "mcf.split %a : !mcf.expansion<bf16 x 2>", {{0x3FFF}}),
            (ValueBits{0x4000, 0xBC00}));
}

/// The high half has p - ceil(p/2) bits: 4 of bf16's 8, and 5 of f16's 11.
TEST_F(InterpreterFunction, Split) {
  EXPECT_EQ(run("%a: bf16", "!mcf.expansion<bf16 x 2>",
                "mcf.split %a : !mcf.expansion<bf16 x 2>", {{0x3F88}}),
            (ValueBits{0x3F80, 0x3D80}));
  EXPECT_EQ(run("%a: f16", "!mcf.expansion<f16 x 2>",
                "mcf.split %a : !mcf.expansion<f16 x 2>", {{0x3C20}}),
            (ValueBits{0x3C00, 0x2800}));
}

TEST_F(InterpreterFunction, FmaRoundsOnce) {
  EXPECT_EQ(run("%a: bf16, %b: bf16, %c: bf16", "bf16",
                "math.fma %a, %b, %c : bf16", {{0x3F81}, {0x3FC0}, {0x8001}}),
            ValueBits{0x3FC1});
}

TEST_F(InterpreterFunction, ExpansionsAndComponents) {
  ValueBits s = {0x3F80, 0x3A80}, tiny = {0x3A80};
  EXPECT_EQ(pairAndComponent("mcf.grow %s, %a", {s, tiny}),
            (ValueBits{0x3F80, 0x3B00}));
  EXPECT_EQ(pairAndComponent("mcf.kahan %s, %a", {s, tiny}),
            (ValueBits{0x3F80, 0x3B00}));
  EXPECT_EQ(pairAndComponent("mcf.scale %s, %a", {s, {0x4000}}),
            (ValueBits{0x4000, 0x3B00}));
  // On overflow every component is NaN.
  EXPECT_EQ(pairAndComponent("mcf.grow %s, %a", {{0x7F7F, 0}, {0x7F7F}}),
            (ValueBits{0x7FFF, 0x7FFF}));
}

TEST_F(InterpreterFunction, ExpansionsOfFloats) {
  // 1 + 2^-8 + 2^-16 in three components, and back.
  std::string three = "!mcf.expansion<bf16 x 3>";
  EXPECT_EQ(run("%x: f32", three, "mcf.from_float %x : f32 -> " + three,
                {{0x3F808080}}),
            (ValueBits{0x3F81, 0xBB7F, 0}));
  EXPECT_EQ(run("%s: " + three, "f32", "mcf.to_float %s : " + three + " -> f32",
                {{0x3F81, 0xBB7F, 0}}),
            ValueBits{0x3F808080});
  EXPECT_EQ(run("%x: f32", three, "mcf.from_float %x : f32 -> " + three,
                {{0xFF800000}}),
            (ValueBits{0xFF80, 0, 0}));
}

TEST_F(InterpreterFunction, LanesOfVectors) {
  EXPECT_EQ(run("%s: vector<2x!mcf.expansion<bf16 x 2>>, %a: vector<2xbf16>",
                "vector<2x!mcf.expansion<bf16 x 2>>",
                "mcf.grow %s, %a : vector<2x!mcf.expansion<bf16 x 2>>",
                {{0x3F80, 0, 0x3F80, 0x3A80}, {0x3A80, 0x3A80}}),
            (ValueBits{0x3F80, 0x3A80, 0x3F80, 0x3B00}));
}

TEST_F(InterpreterFunction, Integers) {
  auto results = runFunction(R"mlir(
func.func @f(%a: i32, %b: i32) -> (i32, i32, i32, i1, i64) {
  %low, %high = arith.mului_extended %a, %b : i32
  %shifted = arith.shrsi %a, %b : i32
  %less = arith.cmpi slt, %a, %b : i32
  %wide = arith.extsi %a : i32 to i64
  return %low, %high, %shifted, %less, %wide : i32, i32, i32, i1, i64
})mlir",
                             {{0xFFFFFFFE}, {3}});
  ASSERT_EQ(results.size(), 5u);
  EXPECT_EQ(results[0], ValueBits{0xFFFFFFFA});
  EXPECT_EQ(results[1], ValueBits{2});
  EXPECT_EQ(results[2], ValueBits{0xFFFFFFFF});
  EXPECT_EQ(results[3], ValueBits{1});
  EXPECT_EQ(results[4], ValueBits{0xFFFFFFFFFFFFFFFE});
}

/// Computes 0.5^5 with a loop that calls a function, and by square and
/// multiply.
TEST_F(InterpreterFunction, ControlFlow) {
  auto results = runFunction(R"mlir(
func.func @power(%x: f64, %n: index, %t: i64) -> (f64, f64) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %unit = arith.constant 1.0 : f64
  %r = scf.for %i = %zero to %n step %one iter_args(%p = %unit) -> f64 {
    %q = func.call @times(%p, %x) : (f64, f64) -> f64
    scf.yield %q : f64
  }
  %s = math.fpowi %x, %t : f64, i64
  %big = arith.cmpf ogt, %r, %unit : f64
  %u = scf.if %big -> f64 {
    scf.yield %unit : f64
  } else {
    scf.yield %r : f64
  }
  return %u, %s : f64, f64
}
func.func @times(%a: f64, %b: f64) -> f64 {
  %c = arith.mulf %a, %b : f64
  return %c : f64
})mlir",
                             {{0x3FE0000000000000}, {5}, {5}});
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0], ValueBits{0x3FA0000000000000});
  EXPECT_EQ(results[1], results[0]);
}

TEST_F(InterpreterFunction, Mistakes) {
  std::string sine =
      "func.func @f(%a: f32) -> f32 {\n  %r = math.sin %a : f32\n"
      "  return %r : f32\n}";
  EXPECT_TRUE(mentions(failFunction(sine, {{0}}), "operation 'math.sin'"));
  EXPECT_TRUE(mentions(failFunction(sine, {}), "takes 1 arguments, got 0"));
  std::string shift = "func.func @f(%a: i8) -> i8 {\n"
                      "  %r = arith.shli %a, %a : i8\n  return %r : i8\n}";
  EXPECT_TRUE(mentions(failFunction(shift, {{8}}), "shifts 8 bits by 8"));
  std::string loop = "func.func @f() {\n  func.call @f() : () -> ()\n"
                     "  return\n}";
  EXPECT_TRUE(mentions(failFunction(loop, {}), "'f' calls itself"));
  std::string index = "func.func @f(%a: i128) -> i128 {\n  return %a : i128\n}";
  EXPECT_TRUE(mentions(failFunction(index, {{0}}), "no values of type 'i128'"));
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

using InterpreterKernel = InterpreterTest;

/// Runs four lanes on five elements, so that the last block is mostly padding.
TEST_F(InterpreterKernel, PartialBlocks) {
  const char *text = R"mlir(
tandem.step @k compute(<f32, f32>)
    tensors [#tandem.role<param "p">] scalars [#tandem.role<hyper "lr">] prologue {
^bb0(%lr: f64):
  %0 = arith.truncf %lr : f64 to f32
  tandem.yield %0 : f32
} launches {
  tandem.launch main width(4) body {
  ^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>, %lr: f32):
    %s = vector.broadcast %lr : f32 to vector<4xf32>
    %x = tandem.load_plane %p[0] : !tandem.stored<tensor<?xf32>, #tandem.float<f32>> -> vector<4xf32>
    %y = arith.mulf %x, %s : vector<4xf32>
    tandem.store_plane %y, %p[0] : vector<4xf32>, !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
    tandem.yield
  }
})mlir";
  MachineState state;
  state.hypers = {{"lr", 2}};
  state.planes = {{"p", words({0x3F800000, 0x40000000, 0x40400000, 0x40800000,
                               0x40A00000})}};
  ASSERT_EQ(runKernel(text, state), "");
  // 2, 4, 6, 8, 10.
  EXPECT_EQ(
      state.planes["p"].elements,
      (Elements{0x40000000, 0x40800000, 0x40C00000, 0x41000000, 0x41200000}));
}

/// Vectors of random bits are those of consecutive elements.
TEST_F(InterpreterKernel, WideRandomBits) {
  const char *text = R"mlir(
tandem.step @k compute(<f32, f32>)
    tensors [#tandem.role<param "p">] scalars [#tandem.role<seed "s">] prologue {
^bb0(%s: i64):
  %0 = arith.trunci %s : i64 to i32
  tandem.yield %0 : i32
} launches {
  tandem.launch main width(4) body {
  ^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>, %s: i32):
    %x = tandem.random_bits %p seed(%s, %s) step(%s) : !tandem.stored<tensor<?xf32>, #tandem.float<bf16>> -> vector<4xi32>
    %y = arith.trunci %x : vector<4xi32> to vector<4xi16>
    tandem.store_plane %y, %p[0] : vector<4xi16>, !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>
    tandem.yield
  }
})mlir";
  MachineState state;
  state.seed = 3;
  state.key = 7;
  state.first = 10;
  state.planes = {{"p", {16, Elements(5, 0)}}};
  ASSERT_EQ(runKernel(text, state), "");
  for (unsigned i = 0; i < 5; ++i)
    EXPECT_EQ(state.planes["p"].elements[i],
              reference::drawRandomBits(uint64_t(3) << 32 | 3, 7, 3, 10 + i));
}

TEST_F(InterpreterKernel, Mistakes) {
  const char *text = R"mlir(
tandem.kernel @k compute(<f32, f32>) tensors [#tandem.role<param "p">]
    scalars [#tandem.role<hyper "lr", domain = nonneg>] prologue {
^bb0(%lr: f64):
  tandem.yield
} body {
^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>):
  %x = tandem.load %p : !tandem.stored<tensor<?xf32>, #tandem.float<f32>> -> f32
  tandem.store %x, %p : f32, !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
  %y = math.sin %x : f32
  tandem.yield
})mlir";
  MachineState state;
  EXPECT_TRUE(mentions(runKernel(text, state), "there is no plane 'p'"));
  state.planes = {{"p", words({0x7F800001})}};
  EXPECT_TRUE(mentions(runKernel(text, state), "no value for the hyper"));
  state.hypers = {{"lr", -1}};
  EXPECT_TRUE(mentions(runKernel(text, state), "must not be negative"));
  state.hypers = {{"lr", 1}};
  EXPECT_TRUE(mentions(runKernel(text, state), "operation 'math.sin'"));
  // A store before the error is undone.
  EXPECT_EQ(state.planes["p"].elements, Elements{0x7F800001});
}

//===----------------------------------------------------------------------===//
// A graph and the kernels made from it
//===----------------------------------------------------------------------===//

/// The stages of lowering after which a kernel runs.
constexpr const char *kStages[] = {
    "func.func(tandem-recognize-updates),tandem-apply-strategy{strategy=%},"
    "tandem-form-kernel,tandem.kernel(tandem-apply-policy)",
    "func.func(tandem-recognize-updates),tandem-apply-strategy{strategy=%},"
    "tandem-form-kernel,tandem.kernel(tandem-apply-policy,tandem-lower-"
    "storage)",
    "tandem-to-kernel{strategy=%}",
    "tandem-to-kernel{strategy=%},tandem-split-phases",
    "tandem-to-kernel{strategy=%},tandem-split-phases,"
    "tandem.step(tandem-emulate-floats{formats=bf16,f16,f8E4M3FN,f8E5M2}),"
    "canonicalize,cse,"
    "tandem.step(tandem-widen{width=8}),canonicalize,cse",
};

TEST_F(InterpreterAgreement, BuiltinGraphsAndStrategies) {
  for (const LibraryFile &graph : getFlatGraphs())
    for (const LibraryFile &strategy : getBuiltinStrategies()) {
      SCOPED_TRACE((graph.name + " " + strategy.name).str());
      // A tensor begins at a multiple of every group.
      bool hasGroups = llvm::StringRef(strategy.text).contains("group =");
      start.first = (int64_t(1) << 35) + (hasGroups ? 256 : 3);
      expectAgreement(graph.text, strategy.text, kStages, 27);
    }
}

} // namespace
