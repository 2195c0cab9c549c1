//===- InterpreterTest.cpp - Tests of the reference interpreter -----------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests graphs under strategies: results computed by hand, and a
// message for each error.
//
//===----------------------------------------------------------------------===//

#include "InterpreterTestUtils.h"

#include "tandem/Reference/Interpreter/Arithmetic.h"
#include "tandem/Reference/Interpreter/Storage.h"

using namespace tandem;
using namespace tandem::reference;

using Elements = std::vector<uint64_t>;

namespace {

//===----------------------------------------------------------------------===//
// Random bits and rounding
//===----------------------------------------------------------------------===//

/// Compares with the known answers of Random123.
TEST(InterpreterPhilox, KnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}));
  uint32_t ones = 0xFFFFFFFF;
  EXPECT_EQ(philox4x32({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
  EXPECT_EQ(philox4x32({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344},
                       {0xA4093822, 0x299F31D0}),
            (Words{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}));
}

/// Eight elements share a block, with the low half of each word first.
TEST(InterpreterPhilox, HalfWordsOfElements) {
  EXPECT_EQ(drawRandomBits(0, 0, 0, 0), 0xE8D5);
  EXPECT_EQ(drawRandomBits(0, 0, 0, 1), 0x6627);
  EXPECT_EQ(drawRandomBits(0, 0, 0, 7), 0x9B00);
  // The seed is the key; a block beyond 2^32 uses the second counter word.
  EXPECT_EQ(drawRandomBits(0x299F31D0A4093822, 0x13198A2E, 0x03707344,
                           0x85A308D3243F6A88 * 8),
            drawRandomBits(0x299F31D0A4093822, 0x13198A2E, 0x03707344,
                           0x05A308D3243F6A88 * 8));
  EXPECT_EQ(drawRandomBits(0x299F31D0A4093822, 0x13198A2E, 0x03707344,
                           uint64_t(0x05A308D3243F6A88) * 8 + 2),
            philox4x32({0x243F6A88, 0x05A308D3, 0x13198A2E, 0x03707344},
                       {0xA4093822, 0x299F31D0})[1] &
                0xFFFF);
}

uint64_t roundStochastic(uint64_t bits, Format format, uint16_t random) {
  return roundByBits(SoftFloat::fromBits(Format::F32, bits), format,
                     RoundingMode::stochastic, random)
      .toCanonicalBits();
}

TEST(InterpreterRounding, StochasticBF16) {
  // Half an ulp above 1 rounds away from zero for half of the random bits.
  EXPECT_EQ(roundStochastic(0x3F808000, Format::BF16, 0x7FFF), 0x3F80u);
  EXPECT_EQ(roundStochastic(0x3F808000, Format::BF16, 0x8000), 0x3F81u);
  EXPECT_EQ(roundStochastic(0xBF808000, Format::BF16, 0x8000), 0xBF81u);
  // One part in 2^16, an exact value, a subnormal, zeros.
  EXPECT_EQ(roundStochastic(0x3F800001, Format::BF16, 0xFFFF), 0x3F81u);
  EXPECT_EQ(roundStochastic(0x3F800001, Format::BF16, 0xFFFE), 0x3F80u);
  EXPECT_EQ(roundStochastic(0x3F800000, Format::BF16, 0xFFFF), 0x3F80u);
  EXPECT_EQ(roundStochastic(0x00000001, Format::BF16, 0xFFFF), 0x0001u);
  EXPECT_EQ(roundStochastic(0x80000000, Format::BF16, 0xFFFF), 0x8000u);
  // Overflow, infinity, NaN.
  EXPECT_EQ(roundStochastic(0x7F7FFFFF, Format::BF16, 1), 0x7F80u);
  EXPECT_EQ(roundStochastic(0x7F7FFFFF, Format::BF16, 0), 0x7F7Fu);
  EXPECT_EQ(roundStochastic(0xFF800000, Format::BF16, 0xFFFF), 0xFF80u);
  EXPECT_EQ(roundStochastic(0x7F800001, Format::BF16, 0xFFFF), 0x7FFFu);
}

TEST(InterpreterRounding, StochasticF16) {
  // 65504 + 16 is half an ulp beyond the largest; 65536 is past the last ulp.
  EXPECT_EQ(roundStochastic(0x477FF000, Format::F16, 0x7FFF), 0x7BFFu);
  EXPECT_EQ(roundStochastic(0x477FF000, Format::F16, 0x8000), 0x7C00u);
  EXPECT_EQ(roundStochastic(0x47800000, Format::F16, 0), 0x7C00u);
  // 2^-25 is half of the smallest subnormal.
  EXPECT_EQ(roundStochastic(0x33000000, Format::F16, 0x7FFF), 0x0000u);
  EXPECT_EQ(roundStochastic(0x33000000, Format::F16, 0x8000), 0x0001u);
  // Less than 2^-16 of an ulp never rounds up.
  EXPECT_EQ(roundStochastic(0x2B000000, Format::F16, 0xFFFF), 0x0000u);
}

//===----------------------------------------------------------------------===//
// Steps computed by hand
//===----------------------------------------------------------------------===//

/// The powers of two below are exact, so that results can be checked by hand.
constexpr uint64_t kOne = 0x3F80, kTwo = 0x4000, kHalf = 0x3F00;
constexpr uint64_t kTiny = 0x3A80, kMinusTiny = 0xBA80; // +-2^-10

class InterpreterStep : public InterpreterTest {
protected:
  /// Returns the plane's elements after a step; fails the test if there are
  /// none.
  static Elements get(const MachineState &state, const std::string &name) {
    auto plane = state.planes.find(name);
    if (plane != state.planes.end())
      return plane->second.elements;
    ADD_FAILURE() << "no plane " << name;
    return {};
  }

  static MachineState adamState() {
    MachineState state;
    state.hypers = {{"lr", 0x1p-10},
                    {"beta1", 0.5},
                    {"beta2", 0.5},
                    {"eps", 0.0},
                    {"weight_decay", 0.0}};
    state.planes = {
        {"param", halves({kOne})},   {"param.lo", halves({0})},
        {"grad", halves({kOne})},    {"exp_avg", halves({0})},
        {"exp_avg_sq", halves({0})}, {"exp_avg_sq.lo", halves({0})}};
    return state;
  }
};

/// m' = v' = 1/2 and both corrected moments are 1, so the weight moves by -lr,
/// which only the low component can represent.
TEST_F(InterpreterStep, CollagePlusAdamW) {
  MachineState state = adamState();
  ASSERT_EQ(runBuiltin("adamw", "collage-plus", state), "");
  EXPECT_EQ(get(state, "exp_avg"), Elements{kHalf});
  EXPECT_EQ(get(state, "exp_avg_sq"), Elements{kHalf});
  EXPECT_EQ(get(state, "exp_avg_sq.lo"), Elements{0});
  EXPECT_EQ(get(state, "param"), Elements{kOne});
  EXPECT_EQ(get(state, "param.lo"), Elements{kMinusTiny});
}

/// 0.999 is (1, -0.00099945) in bf16: an expanded second moment decays, while a
/// plain one does not.
TEST_F(InterpreterStep, SecondMomentDecaysOnlyExpanded) {
  MachineState state = adamState();
  state.hypers["beta2"] = 0.999;
  state.planes["grad"] = halves({0});
  state.planes["exp_avg_sq"] = halves({kOne});
  MachineState plain = state;
  ASSERT_EQ(runBuiltin("adamw", "collage-plus", state), "");
  EXPECT_EQ(get(state, "exp_avg_sq"), Elements{kOne});
  EXPECT_EQ(get(state, "exp_avg_sq.lo"), Elements{0xBA83});
  ASSERT_EQ(runBuiltin("adamw", "collage-light", plain), "");
  EXPECT_EQ(get(plain, "exp_avg_sq"), Elements{kOne});
}

TEST_F(InterpreterStep, KahanKeepsWhatTheWeightDidNotTake) {
  MachineState state = adamState();
  state.planes["param.compensation"] = halves({0});
  ASSERT_EQ(runBuiltin("adamw", "bf16-kahan", state), "");
  EXPECT_EQ(get(state, "param"), Elements{kOne});
  EXPECT_EQ(get(state, "param.compensation"), Elements{kMinusTiny});
}

/// The master changes; the visible copy, which no step reads, is rewritten.
TEST_F(InterpreterStep, MasterWeights) {
  MachineState state = adamState();
  state.planes["param.master"] = words({0x3F800001}); // 1 + 2^-23
  state.planes["exp_avg"] = words({0});
  state.planes["exp_avg_sq"] = words({0});
  MachineState written = state;
  ASSERT_EQ(runBuiltin("adamw", "master-weights", state), "");
  EXPECT_EQ(get(state, "param.master"), Elements{0x3F7FC002});
  EXPECT_EQ(get(state, "param"), Elements{kOne});
  // Other code has written 2.
  written.planes["param"] = halves({0x4000});
  ASSERT_EQ(runBuiltin("adamw", "master-weights", written), "");
  EXPECT_EQ(get(written, "param.master"), Elements{0x3FFFE000}); // 2 - 2^-10
}

/// 1 + 2^-8 is halfway between two bf16 numbers; each element's random bits
/// decide.
TEST_F(InterpreterStep, StochasticRounding) {
  MachineState state;
  state.hypers = {{"lr", 1.0}, {"weight_decay", 0.0}};
  state.planes = {{"param", halves(Elements(64, kOne))},
                  {"grad", halves(Elements(64, 0xBB80))}}; // -2^-8
  state.seed = 42, state.key = 7, state.first = 5, state.step = 3;
  ASSERT_EQ(runBuiltin("sgd", "bf16-stochastic", state), "");
  Elements param = get(state, "param");
  for (unsigned i = 0; i < 64; ++i)
    EXPECT_EQ(param[i],
              drawRandomBits(42, 7, 3, i + 5) >= 0x8000 ? 0x3F81u : 0x3F80u);
}

//===----------------------------------------------------------------------===//
// Storages
//===----------------------------------------------------------------------===//

constexpr const char *kIdentity = R"mlir(
func.func @same(%p: tensor<?xf32> {tandem.role = #tandem.role<param "p">})
    -> tensor<?xf32> {
  return %p : tensor<?xf32>
})mlir";

std::string strategyOf(const std::string &storage,
                       const std::string &compute = "<f32, f32>") {
  return "tandem.strategy @s compute(" + compute +
         ") {\n  tandem.assign param = " + storage +
         "\n  tandem.assign grad = #tandem.float<f32>\n"
         "  tandem.assign state = #tandem.float<f32>\n}";
}

/// Every f32 except NaN is preserved; a NaN reads as NaN in the visible plane.
TEST_F(InterpreterStep, RemainderRoundTrip) {
  Elements bits = {0,          0x80000000, 0x3F800000, 0x3F807FFF, 0x3F808000,
                   0x3F818000, 0x3F81FFFF, 0x7F7FFFFF, 0x7F800000, 0xFF800000,
                   0x00000001, 0x807FFFFF, 0x12348765};
  Elements high, low;
  for (uint64_t u : bits) {
    high.push_back((u + 0x8000) >> 16);
    low.push_back(u & 0xFFFF);
  }
  MachineState state;
  state.planes = {{"p", halves(high)}, {"p.remainder", halves(low)}};
  ASSERT_EQ(runGraph(kIdentity, strategyOf("#tandem.remainder"), state), "");
  EXPECT_EQ(get(state, "p"), high);
  EXPECT_EQ(get(state, "p.remainder"), low);

  state.planes = {{"p", halves({0x7FC0})}, {"p.remainder", halves({1})}};
  ASSERT_EQ(runGraph(kIdentity, strategyOf("#tandem.remainder"), state), "");
  EXPECT_EQ(get(state, "p"), Elements{0x7FFF});
  EXPECT_EQ(get(state, "p.remainder"), Elements{0});
}

/// Decoding adds in f32 from the smallest component up; encoding splits again.
TEST_F(InterpreterStep, ThreeComponents) {
  MachineState state;
  state.planes = {{"p", halves({kOne, 0x7F80, 0xFFC1})},
                  {"p.lo", halves({kTiny, kOne, 0})},
                  {"p.lo2", halves({0x3580, kOne, 0})}}; // 2^-20
  ASSERT_EQ(
      runGraph(kIdentity, strategyOf("#tandem.expansion<bf16 x 3>"), state),
      "");
  EXPECT_EQ(get(state, "p"), (Elements{kOne, 0x7F80, 0x7FFF}));
  EXPECT_EQ(get(state, "p.lo"), (Elements{kTiny, 0, 0}));
  EXPECT_EQ(get(state, "p.lo2"), (Elements{0x3580, 0, 0}));
}

/// E4M3FN has no infinity: overflow gives NaN.
TEST_F(InterpreterStep, FloatsAreCanonical) {
  MachineState state;
  state.planes = {{"p", PlaneData{8, {0xFF, 0x7E, 0x80}}}};
  ASSERT_EQ(runGraph(kIdentity, strategyOf("#tandem.float<f8E4M3FN>"), state),
            "");
  EXPECT_EQ(get(state, "p"), (Elements{0x7F, 0x7E, 0x80}));
}

//===----------------------------------------------------------------------===//
// Update chains
//===----------------------------------------------------------------------===//

/// Returns a graph on a param, a grad and two hypers; `body` computes %new.
std::string graphOf(const std::string &body) {
  return R"mlir(func.func @g(
    %p: tensor<?xf32> {tandem.role = #tandem.role<param "p">},
    %d: tensor<?xf32> {tandem.role = #tandem.role<grad "d">},
    %b: f64 {tandem.role = #tandem.role<hyper "b">}) -> tensor<?xf32> {
  %zero = arith.constant 0 : index
  %size = tensor.dim %p, %zero : tensor<?xf32>
  %b32 = arith.truncf %b : f64 to f32
  %u = tensor.splat %b32[%size] : tensor<?xf32>
)mlir" + body +
         "\n  return %new : tensor<?xf32>\n}";
}

class InterpreterChains : public InterpreterStep {
protected:
  /// Returns the pair after a step from (1, 2^-10) with d = 2^-9 and the given
  /// b.
  Elements run(const std::string &body, double b,
               const std::string &storage = "#tandem.expansion<bf16 x 2>") {
    MachineState state;
    state.hypers = {{"b", b}};
    std::string low =
        storage == "#tandem.kahan<bf16>" ? "p.compensation" : "p.lo";
    state.planes = {{"p", halves({kOne})},
                    {low, halves({kTiny})},
                    {"d", words({0x3B000000})}};
    std::string error = runGraph(
        graphOf(body), strategyOf(storage, "<component, bf16>"), state);
    EXPECT_EQ(error, "");
    return {get(state, "p")[0], get(state, low)[0]};
  }
};

TEST_F(InterpreterChains, SumAndDifference) {
  EXPECT_EQ(run("  %new = arith.addf %d, %p : tensor<?xf32>", 0),
            (Elements{kOne, 0x3B40})); // 3 * 2^-10
  EXPECT_EQ(run("  %new = arith.subf %p, %d : tensor<?xf32>", 0),
            (Elements{kOne, kMinusTiny}));
}

/// The shorter path leads to the state's operand; the other operand reads the
/// leading component and loses d.
TEST_F(InterpreterChains, ShorterSideOfASum) {
  EXPECT_EQ(run(R"(  %far = arith.addf %p, %d : tensor<?xf32>
  %new = arith.addf %far, %p : tensor<?xf32>)",
                0),
            (Elements{kTwo, kTiny}));
}

/// Among equally short paths, the left one is taken: 2p + p has p whole on the
/// left.
TEST_F(InterpreterChains, TiesTakeTheLeft) {
  EXPECT_EQ(run(R"(  %l = arith.addf %p, %d : tensor<?xf32>
  %r = arith.addf %p, %p : tensor<?xf32>
  %new = arith.addf %l, %r : tensor<?xf32>)",
                0),
            (Elements{0x4040, 0x3B40})); // 3 and 3 * 2^-10
}

/// A uniform factor is split from f64: b is (1, -0.00099945).
TEST_F(InterpreterChains, Decay) {
  EXPECT_EQ(run("  %new = arith.mulf %u, %p : tensor<?xf32>", 0.999),
            run("  %new = arith.mulf %p, %u : tensor<?xf32>", 0.999));
  // For 1 * (1, 2^-10), 2^-10 - 0.00099945 is a rounding error of the factor.
  EXPECT_EQ(run("  %new = arith.mulf %p, %u : tensor<?xf32>", 0.999),
            (Elements{kOne, 0xB7C0}));
  // With Kahan, the value decays, and the pending compensation does not.
  EXPECT_EQ(run("  %new = arith.mulf %p, %u : tensor<?xf32>", 0.5,
                "#tandem.kahan<bf16>"),
            (Elements{kHalf, kTiny}));
}

/// A product within an ema belongs only to the sum: other uses read fl(b *
/// leading(s)). Here b is just below a tie that the low component crosses: the
/// product is (0.5 + 2^-8, -7 * 2^-12), but fl(b * 1) is 0.5.
TEST_F(InterpreterChains, ProductInsideASum) {
  EXPECT_EQ(run(R"(  %bp = arith.mulf %u, %p : tensor<?xf32>
  %rest = arith.subf %bp, %p : tensor<?xf32>
  %new = arith.addf %bp, %rest : tensor<?xf32>)",
                0.5 + 0x1p-9 - 0x1p-12),
            (Elements{0x3B10, 0})); // 9 * 2^-12
}

/// A decay that is not part of a sum is a value of the state; all uses read its
/// leading component.
TEST_F(InterpreterChains, ProductOfItsOwn) {
  MachineState state;
  state.hypers = {{"b", 0.5 + 0x1p-9 - 0x1p-12}};
  state.planes = {{"p", halves({kOne})},
                  {"p.lo", halves({kTiny})},
                  {"q", words({0})},
                  {"r", words({0})}};
  std::string graph = R"mlir(func.func @g(
    %p: tensor<?xf32> {tandem.role = #tandem.role<param "p">},
    %q: tensor<?xf32> {tandem.role = #tandem.role<grad "q">},
    %r: tensor<?xf32> {tandem.role = #tandem.role<state "r">},
    %b: f64 {tandem.role = #tandem.role<hyper "b">})
    -> (tensor<?xf32>, tensor<?xf32>) {
  %zero = arith.constant 0 : index
  %size = tensor.dim %p, %zero : tensor<?xf32>
  %b32 = arith.truncf %b : f64 to f32
  %u = tensor.splat %b32[%size] : tensor<?xf32>
  %new = arith.mulf %u, %p : tensor<?xf32>
  return %new, %new : tensor<?xf32>, tensor<?xf32>
})mlir";
  ASSERT_EQ(
      runGraph(graph,
               strategyOf("#tandem.expansion<bf16 x 2>", "<component, bf16>"),
               state),
      "");
  EXPECT_EQ(get(state, "p"), Elements{0x3F01});
  EXPECT_EQ(get(state, "p.lo"), Elements{0xBAE0});
  EXPECT_EQ(get(state, "r"), Elements{0x3F010000});
}

/// Steps through linalg count; other uses read the leading component.
TEST_F(InterpreterChains, ThroughLinalg) {
  EXPECT_EQ(run(R"(  %sum = linalg.map { arith.addf }
      ins(%p, %d : tensor<?xf32>, tensor<?xf32>) outs(%d : tensor<?xf32>)
  %again = arith.subf %sum, %p : tensor<?xf32>
  %new = arith.addf %sum, %again : tensor<?xf32>)",
                0),
            (Elements{kOne, 0x3B40}));
}

//===----------------------------------------------------------------------===//
// Policies
//===----------------------------------------------------------------------===//

/// An f32 scalar stays f32 in an operation: 1 * (1 + 2^-8 + 2^-20) rounds up,
/// but rounding the scalar first would give a tie.
TEST_F(InterpreterChains, ScalarsStayWide) {
  MachineState state;
  state.hypers = {{"b", 1 + 0x1p-8 + 0x1p-20}};
  state.planes = {{"p", halves({kOne})}, {"d", words({0})}};
  ASSERT_EQ(runGraph(graphOf("  %new = arith.mulf %p, %u : tensor<?xf32>"),
                     strategyOf("#tandem.float<bf16>", "<component, bf16>"),
                     state),
            "");
  EXPECT_EQ(get(state, "p"), Elements{0x3F81});
}

/// A gradient wider than the component is rounded before any use: 1 + 2^-8
/// becomes 1, and 1 + 1 is exactly 2.
TEST_F(InterpreterChains, WideInputsAreRounded) {
  MachineState state;
  state.hypers = {{"b", 0}};
  state.planes = {
      {"p", halves({kOne})}, {"p.lo", halves({0})}, {"d", words({0x3F808000})}};
  ASSERT_EQ(
      runGraph(graphOf("  %new = arith.addf %p, %d : tensor<?xf32>"),
               strategyOf("#tandem.expansion<bf16 x 2>", "<component, bf16>"),
               state),
      "");
  EXPECT_EQ(get(state, "p"), Elements{kTwo});
  EXPECT_EQ(get(state, "p.lo"), Elements{0});
}

/// An fma of components rounds once from the exact value; an f32 or f64 fma
/// with a second rounding would give a different result here.
TEST_F(InterpreterChains, FmaRoundsOnce) {
  MachineState state;
  state.planes = {{"p", halves({0x3F81})},
                  {"d", words({0x3FC00000})},
                  {"q", halves({0x8001})}};
  std::string graph = R"mlir(func.func @g(
    %p: tensor<?xf32> {tandem.role = #tandem.role<param "p">},
    %d: tensor<?xf32> {tandem.role = #tandem.role<grad "d">},
    %q: tensor<?xf32> {tandem.role = #tandem.role<param "q">})
    -> (tensor<?xf32>, tensor<?xf32>) {
  %new = math.fma %d, %p, %q : tensor<?xf32>
  return %new, %q : tensor<?xf32>, tensor<?xf32>
})mlir";
  ASSERT_EQ(runGraph(graph,
                     strategyOf("#tandem.float<bf16>", "<component, bf16>"),
                     state),
            "");
  EXPECT_EQ(get(state, "p"), Elements{0x3FC1});
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

bool mentions(const std::string &message, const std::string &part) {
  return message.find(part) != std::string::npos;
}

class InterpreterMistakes : public InterpreterStep {
protected:
  void expect(const MachineState &state, const std::string &part) {
    MachineState copy = state;
    std::string message = runBuiltin("adamw", "collage-plus", copy);
    EXPECT_TRUE(mentions(message, part)) << message;
    EXPECT_EQ(copy.planes.size(), state.planes.size());
  }
};

TEST_F(InterpreterMistakes, Planes) {
  MachineState state = adamState();
  state.planes.erase("exp_avg_sq.lo");
  expect(state, "there is no plane 'exp_avg_sq.lo'");
  state = adamState();
  state.planes["grad"].elements.push_back(0);
  expect(state, "plane 'grad' has 2 elements, but 'param' has 1");
  state = adamState();
  state.planes["grad"].width = 32;
  expect(state, "plane 'grad' has elements of 32 bits, but bf16 has 16");
}

TEST_F(InterpreterMistakes, Scalars) {
  MachineState state = adamState();
  state.hypers.erase("beta2");
  expect(state, "no value for the hyperparameter 'beta2'");
  state = adamState();
  state.hypers["beta2"] = 1;
  expect(state, "'beta2' is 1: it must be in [0, 1)");
  state = adamState();
  state.hypers["lr"] = -0.5;
  expect(state, "'lr' is -0.5: it must not be negative");
  state = adamState();
  state.hypers["eps"] = 1e-45;
  expect(state, "'eps' is 1e-45: it rounds to zero in the component format");
  state = adamState();
  state.step = 0;
  expect(state, "step 'step' is 0; steps count from 1");
}

class InterpreterRefusals : public InterpreterStep {
protected:
  void expect(const std::string &body, const std::string &storage,
              const std::string &compute, const std::string &part) {
    MachineState state;
    state.hypers = {{"b", 0.5}};
    state.planes = {{"p", halves({kOne})},
                    {"p.lo", halves({0})},
                    {"p.compensation", halves({0})},
                    {"d", words({0})}};
    std::string message =
        runGraph(graphOf(body), strategyOf(storage, compute), state);
    EXPECT_TRUE(mentions(message, part)) << message;
  }
};

TEST_F(InterpreterRefusals, Graphs) {
  std::string f32 = "<f32, f32>", bf16 = "<component, bf16>";
  std::string plain = "#tandem.float<bf16>";
  std::string pair = "#tandem.expansion<bf16 x 2>";
  expect("  %new = arith.mulf %p, %d : tensor<?xf32>", pair, bf16,
         "the new value of 'p' is not made of s + d");
  expect("  %new = arith.subf %d, %p : tensor<?xf32>", pair, bf16,
         "the new value of 'p' is not made of s + d");
  expect("  %new = math.sin %p : tensor<?xf32>", plain, f32,
         "does not know the operation 'math.sin'");
  expect(R"(  %e = math.exp %b : f64
  %e32 = arith.truncf %e : f64 to f32
  %t = tensor.splat %e32[%size] : tensor<?xf32>
  %new = arith.mulf %p, %t : tensor<?xf32>)",
         plain, f32, "'math.exp' is none of them");
  expect(R"(  %h = arith.truncf %p : tensor<?xf32> to tensor<?xbf16>
  %new = arith.extf %h : tensor<?xbf16> to tensor<?xf32>)",
         plain, f32, "is not an operation on the real numbers");
}

/// A step belongs to the first state that it leads to, so the second one has no
/// update.
TEST_F(InterpreterRefusals, SharedSteps) {
  MachineState state;
  state.planes = {{"p", halves({kOne})},
                  {"p.lo", halves({0})},
                  {"q", halves({kOne})},
                  {"q.lo", halves({0})}};
  std::string message = runGraph(
      R"mlir(func.func @g(
    %p: tensor<?xf32> {tandem.role = #tandem.role<param "p">},
    %q: tensor<?xf32> {tandem.role = #tandem.role<param "q">})
    -> (tensor<?xf32>, tensor<?xf32>) {
  %sum = arith.addf %p, %q : tensor<?xf32>
  return %sum, %sum : tensor<?xf32>, tensor<?xf32>
})mlir",
      strategyOf("#tandem.expansion<bf16 x 2>", "<component, bf16>"), state);
  EXPECT_TRUE(mentions(message, "the new value of 'q' is not made of s + d"))
      << message;
}

TEST_F(InterpreterRefusals, Storages) {
  std::string body = "  %new = arith.addf %p, %d : tensor<?xf32>";
  std::string f32 = "<f32, f32>", bf16 = "<component, bf16>";
  std::string reason = "has no meaning under the";
  expect(body, "#tandem.kahan<bf16>", f32, reason);
  expect(body, "#tandem.kahan<f16>", bf16, reason);
  expect(body, "#tandem.master<bf16>", bf16, reason);
  expect(body, "#tandem.remainder", bf16, reason);
  expect(body, "#tandem.expansion<f16 x 2>", bf16, reason);
  expect(body, "#tandem.expansion<f16 x 3>", bf16, reason);
  expect(body, "#tandem.expansion<f16, f8E5M2>", bf16, reason);
  expect(body, "#tandem.expansion<f32 x 2>", f32, reason);
  expect(body, "#tandem.float<bf16, stochastic>", bf16, reason);
}

} // namespace
