//===- InterpreterMatrixTest.cpp - Graphs of matrices ---------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests graphs of matrices: entries and sums per row and column,
// computed by hand, and a message for each error.
//
//===----------------------------------------------------------------------===//

#include "InterpreterTestUtils.h"

#include "llvm/ADT/bit.h"

using namespace tandem;
using namespace tandem::reference;

namespace {

using Floats = std::vector<float>;
using Elements = std::vector<uint64_t>;

PlaneData entries(const Floats &values) {
  PlaneData plane{32, {}};
  for (float value : values)
    plane.elements.push_back(llvm::bit_cast<uint32_t>(value));
  return plane;
}

PlaneData matrix(int64_t rows, int64_t columns, const Floats &values) {
  PlaneData plane = entries(values);
  plane.shape = {rows, columns};
  return plane;
}

/// Returns a graph of a param %w, a grad %g, and states %r and %c per row and
/// column; `body` computes %nw, %nr and %nc.
std::string graphOf(const std::string &body) {
  return R"mlir(
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
#matrix = affine_map<(i, j) -> (i, j)>
func.func @g(
    %w: tensor<?x?xf32> {tandem.role = #tandem.role<param "w">},
    %g: tensor<?x?xf32> {tandem.role = #tandem.role<grad "g">},
    %r: tensor<?xf32> {tandem.role = #tandem.role<state "r", per = row>},
    %c: tensor<?xf32> {tandem.role = #tandem.role<state "c", per = column>})
    -> (tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %zero = arith.constant 0.0 : f32
  %none = arith.constant dense<0.0> : tensor<f32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = tensor.dim %w, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %w, %c1 : tensor<?x?xf32>
  %by_row = tensor.splat %zero[%rows] : tensor<?xf32>
  %by_column = tensor.splat %zero[%columns] : tensor<?xf32>
)mlir" + body +
         R"mlir(
  return %nw, %nr, %nc : tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>
})mlir";
}

std::string strategyOf(const std::string &storage = "#tandem.float<f32>",
                       const std::string &compute = "<f32, f32>") {
  return "tandem.strategy @s compute(" + compute +
         ") {\n  tandem.assign param = " + storage +
         "\n  tandem.assign grad = #tandem.float<f32>\n"
         "  tandem.assign state = " +
         storage + "\n}";
}

class InterpreterMatrix : public InterpreterTest {
protected:
  /// Returns a 2 x 3 matrix with its rows and columns.
  static MachineState small() {
    MachineState state;
    state.planes = {{"w", matrix(2, 3, {1, 2, 3, 4, 5, 6})},
                    {"g", matrix(2, 3, {3, 4, 0, 0, 0, 2})},
                    {"r", entries({10, 20})},
                    {"c", entries({1, 2, 3})}};
    return state;
  }

  static Floats get(const MachineState &state, const std::string &name) {
    Floats values;
    for (uint64_t bits : state.planes.at(name).elements)
      values.push_back(llvm::bit_cast<float>(uint32_t(bits)));
    return values;
  }

  void run(const std::string &body, MachineState &state,
           const std::string &strategy = strategyOf()) {
    ASSERT_EQ(runGraph(graphOf(body), strategy, state), "");
  }

  void refuse(const std::string &body, MachineState state,
              const std::string &part) {
    std::string message = runGraph(graphOf(body), strategyOf(), state);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
};

constexpr const char *kKeep = R"mlir(
  %nw = arith.addf %w, %g : tensor<?x?xf32>
  %nr = arith.addf %r, %r : tensor<?xf32>
  %nc = arith.addf %c, %c : tensor<?xf32>)mlir";

//===----------------------------------------------------------------------===//
// Rows and columns
//===----------------------------------------------------------------------===//

/// Divides each row by the root of its sum of squares, and averages columns.
TEST_F(InterpreterMatrix, RowNormAndColumnMean) {
  MachineState state = small();
  run(R"mlir(
  %sq = arith.mulf %g, %g : tensor<?x?xf32>
  %sums = linalg.reduce { arith.addf } ins(%sq : tensor<?x?xf32>)
      outs(%by_row : tensor<?xf32>) dimensions = [1]
  %nr = math.sqrt %sums : tensor<?xf32>
  %nw = linalg.generic {indexing_maps = [#matrix, #row, #matrix],
                        iterator_types = ["parallel", "parallel"]}
      ins(%g, %nr : tensor<?x?xf32>, tensor<?xf32>)
      outs(%w : tensor<?x?xf32>) {
  ^bb0(%x: f32, %norm: f32, %out: f32):
    %y = arith.divf %x, %norm : f32
    linalg.yield %y : f32
  } -> tensor<?x?xf32>
  %totals = linalg.reduce { arith.addf } ins(%g : tensor<?x?xf32>)
      outs(%by_column : tensor<?xf32>) dimensions = [0]
  %n = arith.index_cast %rows : index to i64
  %n32 = arith.sitofp %n : i64 to f32
  %counts = tensor.splat %n32[%columns] : tensor<?xf32>
  %nc = arith.divf %totals, %counts : tensor<?xf32>)mlir",
      state);
  EXPECT_EQ(get(state, "r"), (Floats{5, 2}));
  EXPECT_EQ(get(state, "w"), (Floats{0.6f, 0.8f, 0, 0, 0, 1}));
  EXPECT_EQ(get(state, "c"), (Floats{1.5, 2, 1}));
}

/// Multiplies a row's entry by a column's in both possible spellings.
TEST_F(InterpreterMatrix, OuterProduct) {
  MachineState state = small();
  run(R"mlir(
  %r2 = linalg.broadcast ins(%r : tensor<?xf32>) outs(%w : tensor<?x?xf32>)
      dimensions = [1]
  %nw = linalg.generic {indexing_maps = [#column, #matrix, #matrix],
                        iterator_types = ["parallel", "parallel"]}
      ins(%c, %r2 : tensor<?xf32>, tensor<?x?xf32>)
      outs(%w : tensor<?x?xf32>) {
  ^bb0(%x: f32, %y: f32, %out: f32):
    %product = arith.mulf %x, %y : f32
    linalg.yield %product : f32
  } -> tensor<?x?xf32>
  %nr = arith.negf %r : tensor<?xf32>
  %nc = arith.negf %c : tensor<?xf32>)mlir",
      state);
  EXPECT_EQ(get(state, "w"), (Floats{10, 20, 30, 20, 40, 60}));
  EXPECT_EQ(get(state, "r"), (Floats{-10, -20}));
  EXPECT_EQ(get(state, "c"), (Floats{-1, -2, -3}));
}

/// Splats the sum of %x and keeps the other values.
std::string splatSum(const std::string &value, const std::string &dimensions) {
  std::string type =
      dimensions == "[0, 1]" ? "tensor<?x?xf32>" : "tensor<?xf32>";
  return "  %t = linalg.reduce { arith.addf } ins(" + value + " : " + type +
         ") outs(%none : tensor<f32>) dimensions = " + dimensions + R"mlir(
  %s = tensor.extract %t[] : tensor<f32>
  %nw = tensor.splat %s[%rows, %columns] : tensor<?x?xf32>
  %nr = arith.negf %r : tensor<?xf32>
  %nc = arith.negf %c : tensor<?xf32>)mlir";
}

/// In a flat tree, the second 1 would be added to -2^24 before the sum of its
/// row, and the total would be 1.
TEST_F(InterpreterMatrix, SumsRunAlongRowsFirst) {
  MachineState state = small();
  state.planes["g"] = matrix(2, 3, {1, 0x1p24, 1, -0x1p24, 0, 0});
  run(splatSum("%g", "[0, 1]"), state);
  EXPECT_EQ(get(state, "w"), Floats(6, 0));
}

/// Reductions of other graphs of matrices are flat.
TEST_F(InterpreterMatrix, OtherGraphsSumFlat) {
  MachineState state;
  state.planes["w"] = matrix(2, 3, {1, 0x1p24, 1, -0x1p24, 0, 0});
  ASSERT_EQ(runGraph(R"mlir(
func.func @g(%w: tensor<?x3xf32> {tandem.role = #tandem.role<param "w">})
    -> tensor<?x3xf32> {
  %none = arith.constant dense<0.0> : tensor<f32>
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %w, %c0 : tensor<?x3xf32>
  %t = linalg.reduce { arith.addf } ins(%w : tensor<?x3xf32>)
      outs(%none : tensor<f32>) dimensions = [0, 1]
  %s = tensor.extract %t[] : tensor<f32>
  %nw = tensor.splat %s[%rows] : tensor<?x3xf32>
  return %nw : tensor<?x3xf32>
})mlir",
                     strategyOf(), state),
            "");
  EXPECT_EQ(get(state, "w"), Floats(6, 1));
}

/// A vector's sum counts each row once, and its broadcast counts each entry
/// once for every column.
TEST_F(InterpreterMatrix, SumsOfVectors) {
  MachineState state = small();
  run(splatSum("%r", "[0]"), state);
  EXPECT_EQ(get(state, "w"), Floats(6, 30));
  state = small();
  run(splatSum("%c", "[0]"), state);
  EXPECT_EQ(get(state, "w"), Floats(6, 6));
  state = small();
  run(R"mlir(
  %r2 = linalg.broadcast ins(%r : tensor<?xf32>) outs(%w : tensor<?x?xf32>)
      dimensions = [1]
)mlir" + splatSum("%r2", "[0, 1]"),
      state);
  EXPECT_EQ(get(state, "w"), Floats(6, 90));
  // Zeros with an explicit size are as long as a column.
  state = small();
  run(splatSum("%by_row", "[0]"), state);
  EXPECT_EQ(get(state, "w"), Floats(6, 0));
}

/// A sum along a row stays f32 between bf16 components: 1 + 2^-8 minus 1 is not
/// 0. The stored entry is a component and is 1.
TEST_F(InterpreterMatrix, SumsStayWide) {
  MachineState state;
  state.planes = {{"w", {16, {0x3F80, 0x3F80}, {1, 2}}},
                  {"g", matrix(1, 2, {1, 0x1p-8})},
                  {"r", halves({0})},
                  {"c", halves({0, 0})}};
  run(R"mlir(
  %nr = linalg.reduce { arith.addf } ins(%g : tensor<?x?xf32>)
      outs(%by_row : tensor<?xf32>) dimensions = [1]
  %one = arith.constant 1.0 : f32
  %ones = tensor.splat %one[%rows] : tensor<?xf32>
  %rest = arith.subf %nr, %ones : tensor<?xf32>
  %nw = linalg.broadcast ins(%rest : tensor<?xf32>)
      outs(%w : tensor<?x?xf32>) dimensions = [1]
  %nc = arith.negf %c : tensor<?xf32>)mlir",
      state, strategyOf("#tandem.float<bf16>", "<component, bf16>"));
  EXPECT_EQ(state.planes["r"].elements, Elements{0x3F80});
  EXPECT_EQ(state.planes["w"].elements, (Elements{0x3B80, 0x3B80}));
}

//===----------------------------------------------------------------------===//
// Storage
//===----------------------------------------------------------------------===//

std::string scaled(const char *group) {
  return strategyOf("#tandem.scaled<#scaled.softsign, group = " +
                    std::string(group) + ", scale = f16>");
}

/// Groups of 16 restart in each row of 17; a state's groups are separate.
TEST_F(InterpreterMatrix, GroupsRestartAtRows) {
  MachineState state;
  Floats g(34, 2);
  g[16] = 4, g[17] = 8, g[33] = 16;
  state.planes = {{"w", {8, Elements(34), {2, 17}}},
                  {"w.scale", halves(Elements(4, 0x3C00))},
                  {"g", matrix(2, 17, g)},
                  {"r", {8, {127, 127}}},
                  {"r.scale", halves({0x4000})},
                  {"c", {8, Elements(17, 127)}},
                  {"c.scale", halves({0x3C00, 0x4800})}};
  run(kKeep, state, scaled("16"));
  EXPECT_EQ(state.planes["w.scale"].elements,
            (Elements{0x4000, 0x4400, 0x4800, 0x4C00}));
  EXPECT_EQ(state.planes["r.scale"].elements, Elements{0x4400});
  EXPECT_EQ(state.planes["c.scale"].elements, (Elements{0x4000, 0x4C00}));
}

TEST_F(InterpreterMatrix, OneScaleForAMatrix) {
  MachineState state = small();
  state.planes["w"] = {8, Elements(6), {2, 3}};
  state.planes["r"] = {8, {127, 0}};
  state.planes["c"] = {8, {0, 0, 127}};
  for (const char *name : {"w.scale", "r.scale", "c.scale"})
    state.planes[name] = halves({0x3C00});
  run(kKeep, state, scaled("tensor"));
  EXPECT_EQ(state.planes["w.scale"].elements, Elements{0x4400}); // 4
  EXPECT_EQ(state.planes["r.scale"].elements, Elements{0x4000}); // 2
  EXPECT_EQ(state.planes["c.scale"].elements, Elements{0x4000});
}

/// Its vectors do not change either, although those of the other dimension have
/// entries.
TEST_F(InterpreterMatrix, WithoutElementsNothingChanges) {
  MachineState state = small();
  state.planes["w"] = state.planes["g"] = matrix(0, 3, {});
  state.planes["r"] = entries({});
  run(kKeep, state);
  EXPECT_EQ(get(state, "c"), (Floats{1, 2, 3}));
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

TEST_F(InterpreterMatrix, Planes) {
  MachineState state = small();
  state.planes["g"].shape = {6};
  refuse(kKeep, state,
         "plane 'g' belongs to a matrix, but its array has no rows");
  state = small();
  state.planes["g"].shape = {};
  refuse(kKeep, state,
         "plane 'g' belongs to a matrix, but its array has no rows");
  state = small();
  state.planes["g"].shape = {3, 2};
  refuse(kKeep, state,
         "plane 'g' is a matrix of 3 x 2, but 'w' is one of 2 x 3; all "
         "matrices have one shape");
  state = small();
  state.planes["r"] = entries({1, 2, 3});
  refuse(kKeep, state,
         "plane 'r' has 3 elements, but 'w' is a matrix of 2 x 3; it has an "
         "entry for each row");
  state = small();
  state.planes["c"] = entries({1, 2});
  refuse(kKeep, state, "it has an entry for each column");
  state = small();
  state.first = 6;
  refuse(kKeep, state, "element 0 is number 6 of the unsharded tensor");
}

TEST_F(InterpreterMatrix, Scales) {
  MachineState state = small();
  state.planes["w"] = {8, Elements(6), {2, 3}};
  state.planes["w.scale"] = halves({0x3C00});
  state.planes["r"] = {8, {0, 0}};
  state.planes["r.scale"] = halves({0x3C00});
  state.planes["c"] = {8, {0, 0, 0}};
  state.planes["c.scale"] = halves({0x3C00});
  std::string message = runGraph(graphOf(kKeep), scaled("16"), state);
  EXPECT_NE(message.find("plane 'w.scale' has 1 elements, but 'w' is a matrix "
                         "of 2 x 3; an entry for each 16 of a row makes 2"),
            std::string::npos)
      << message;
}

TEST_F(InterpreterMatrix, Graphs) {
  std::string rest = R"mlir(
  %nw = arith.negf %w : tensor<?x?xf32>
  %nc = arith.negf %c : tensor<?xf32>)mlir";
  MachineState square = small();
  for (const char *name : {"w", "g"})
    square.planes[name] = matrix(2, 2, {1, 2, 3, 4});
  square.planes["c"] = entries({1, 2});
  refuse("  %nr = arith.addf %r, %c : tensor<?xf32>" + rest, square,
         "'arith.addf' joins an entry per row with one per column; broadcast");
  refuse("  %nr = arith.negf %c : tensor<?xf32>" + rest, square,
         "the new value of 'r' has an entry per column, the tensor per row");
  refuse(R"mlir(
  %sum = linalg.reduce { arith.addf } ins(%g : tensor<?x?xf32>)
      outs(%by_row : tensor<?xf32>) dimensions = [1] {tandem.scope = "model"}
  %nr = arith.negf %sum : tensor<?xf32>)mlir" +
             rest,
         square, "is not the sum (arith.addf), the maximum (arith.maximumf)");
  refuse(R"mlir(
  %lost = linalg.broadcast ins(%r : tensor<?xf32>) outs(%w : tensor<?x?xf32>)
      dimensions = [0]
  %nr = linalg.reduce { arith.addf } ins(%lost : tensor<?x?xf32>)
      outs(%by_row : tensor<?xf32>) dimensions = [1])mlir" +
             rest,
         square, "is not indexed by the identity or as its rows or columns");
  refuse(R"mlir(
  %t = linalg.transpose ins(%g : tensor<?x?xf32>) outs(%w : tensor<?x?xf32>)
      permutation = [1, 0]
  %nr = linalg.reduce { arith.addf } ins(%t : tensor<?x?xf32>)
      outs(%by_row : tensor<?xf32>) dimensions = [1])mlir" +
             rest,
         square, "is not indexed by the identity or as its rows or columns");
  refuse(R"mlir(
  %ones = arith.constant dense<1.0> : tensor<2xf32>
  %t = linalg.reduce { arith.addf } ins(%ones : tensor<2xf32>)
      outs(%none : tensor<f32>) dimensions = [0]
  %s = tensor.extract %t[] : tensor<f32>
  %nr = tensor.splat %s[%rows] : tensor<?xf32>)mlir" +
             rest,
         square, "without saying whether they are a row's or a column's");
}

TEST_F(InterpreterMatrix, Ranks) {
  MachineState state = small();
  std::string message = runGraph(R"mlir(
func.func @g(%w: tensor<?xf32> {tandem.role = #tandem.role<param "w">},
             %r: tensor<?xf32> {tandem.role = #tandem.role<state "r", per = row>})
    -> (tensor<?xf32>, tensor<?xf32>) {
  return %w, %r : tensor<?xf32>, tensor<?xf32>
})mlir",
                                 strategyOf(), state);
  EXPECT_NE(message.find("'w' is tensor<?xf32> per element in a graph of "
                         "matrices"),
            std::string::npos)
      << message;
}

TEST_F(InterpreterMatrix, KernelsAreForLater) {
  MachineState state = small();
  std::string message = runKernel(R"mlir(
!f32 = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
tandem.kernel @k compute(<f32, f32>)
    tensors [#tandem.role<param "w">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%w: !f32):
  %x = tandem.load %w : !f32 -> f32
  tandem.store %x, %w : f32, !f32
  tandem.yield
})mlir",
                                  state);
  EXPECT_NE(message.find("kernel 'k' has rows and columns"), std::string::npos)
      << message;
}

} // namespace
