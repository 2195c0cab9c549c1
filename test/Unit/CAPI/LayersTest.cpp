//===- LayersTest.cpp - Tests of the C API for layers ---------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests that a host can compile the passes of a layer.
//
//===----------------------------------------------------------------------===//

#include "tandem-c/Tandem.h"
#include "llvm/ADT/ArrayRef.h"
#include "gtest/gtest.h"
#include <fstream>
#include <map>
#include <set>
#include <string>

namespace {
/// A layer, or the error message if there is none.
class Layer {
public:
  explicit Layer(const TandemLayerOptions &options)
      : layer(tandemLayerCreate(&options)) {
    if (!layer)
      error = tandemGetLastError();
  }
  Layer(const char *name, const char *recipe)
      : Layer(getOptions(name, recipe)) {}
  ~Layer() { tandemLayerDestroy(layer); }

  static TandemLayerOptions getOptions(const char *name, const char *recipe) {
    TandemLayerOptions options = {};
    options.layer = name;
    options.recipe = recipe;
    return options;
  }

  std::string getOutputs(TandemLayerPass pass) const {
    std::string text;
    for (intptr_t i = 0; i < tandemLayerGetNumOutputs(layer, pass); ++i) {
      TandemLayerOutput output = tandemLayerGetOutput(layer, pass, i);
      text += std::string(output.name) + (output.isForLinear ? " linear" : "") +
              (output.isGradient ? " gradient" : "") + ";";
    }
    return text;
  }

  TandemLayer *layer;
  std::string error;
};

/// A pass of a layer, or the error message if there is none.
class Pass {
public:
  Pass(const Layer &layer, const TandemLayerPassOptions &options) {
    EXPECT_TRUE(layer.layer) << layer.error;
    if (layer.layer)
      kernel = tandemLayerCompile(layer.layer, &options);
    if (!kernel)
      error = tandemGetLastError();
  }
  Pass(const Layer &layer, TandemLayerPass pass)
      : Pass(layer, TandemLayerPassOptions{pass, nullptr, 0, false}) {}
  ~Pass() { tandemKernelDestroy(kernel); }

  std::string getStorage(const std::string &role) const {
    EXPECT_TRUE(kernel) << error;
    intptr_t count = kernel ? tandemKernelGetNumTensors(kernel) : 0;
    for (intptr_t i = 0; i < count; ++i)
      if (role == tandemKernelGetTensor(kernel, i).role)
        return tandemKernelGetTensor(kernel, i).storage;
    return "none";
  }

  /// Returns the names of the planes of a kind.
  std::set<std::string> getPlanes(tdm_role kind) const {
    EXPECT_TRUE(kernel) << error;
    std::set<std::string> names;
    if (!kernel)
      return names;
    const tdm_kernel_desc *desc = tandemKernelGetInfo(kernel)->desc;
    for (const auto &plane : llvm::ArrayRef(desc->planes, desc->num_planes))
      if (plane.kind == kind)
        names.insert(plane.name);
    return names;
  }

  TandemKernel *kernel = nullptr;
  std::string error;
};
} // namespace

static constexpr const char *f32 = "#tandem.float<f32>";
static constexpr const char *bf16 = "#tandem.float<bf16>";
static constexpr const char *groups =
    "#tandem.scaled<#scaled.float<f8E4M3FN>, group = 16, scale = bf16>";
static constexpr const char *codes =
    "#tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32>";

using Names = std::set<std::string>;

TEST(LayersTest, HaveFunctionsAndOutputs) {
  Layer layer("swiglu", "coat");
  ASSERT_TRUE(layer.layer) << layer.error;
  EXPECT_STREQ(tandemLayerGetFunction(layer.layer, TandemLayerForward),
               "swiglu");
  EXPECT_STREQ(tandemLayerGetFunction(layer.layer, TandemLayerBackward),
               "swiglu_backward");
  EXPECT_STREQ(tandemLayerGetFunction(layer.layer, TandemLayerRecompute),
               "swiglu_again");
  EXPECT_EQ(layer.getOutputs(TandemLayerForward), "y linear;");
  EXPECT_EQ(layer.getOutputs(TandemLayerBackward),
            "dgate linear gradient;dup linear gradient;");
  EXPECT_EQ(layer.getOutputs(TandemLayerRecompute), "y linear;");
}

TEST(LayersTest, MayHaveNothingToComputeAgain) {
  Layer layer("rms_norm", "coat");
  ASSERT_TRUE(layer.layer) << layer.error;
  EXPECT_EQ(tandemLayerGetFunction(layer.layer, TandemLayerRecompute), nullptr);
  EXPECT_EQ(tandemLayerGetNumOutputs(layer.layer, TandemLayerRecompute), 0);
  EXPECT_EQ(Pass(layer, TandemLayerRecompute).error,
            "layer 'rms_norm' has no function that computes its outputs again; "
            "such a function comes after the backward pass, with the same "
            "tandem.forward");
}

TEST(LayersTest, StoreWhatRecipesAndTensorsSay) {
  TandemLayerOptions options = Layer::getOptions("rms_norm", "coat");
  options.elements = "bf16";
  options.columns = "f32";
  Layer layer(options);
  Pass forward(layer, TandemLayerForward), backward(layer, TandemLayerBackward);
  EXPECT_EQ(forward.getStorage("x"), bf16);
  EXPECT_EQ(forward.getStorage("weight"), f32);
  EXPECT_EQ(forward.getStorage("y"), bf16);
  EXPECT_EQ(forward.getStorage("x.saved"), groups);
  EXPECT_EQ(forward.getStorage("inverse"), f32);
  EXPECT_EQ(backward.getStorage("dy"), bf16);
  EXPECT_EQ(backward.getStorage("dx"), bf16);
  EXPECT_EQ(backward.getStorage("dweight"), f32);
  EXPECT_STREQ(tandemKernelGetInfo(backward.kernel)->strategy, "coat");
  EXPECT_STREQ(tandemKernelGetInfo(backward.kernel)->graph,
               "rms_norm_backward");
}

TEST(LayersTest, HaveF32TensorsByDefault) {
  Layer layer("rms_norm", "coat");
  Pass forward(layer, TandemLayerForward);
  for (const char *role : {"x", "weight", "y"})
    EXPECT_EQ(forward.getStorage(role), f32);
}

TEST(LayersTest, RestoreWhatTheySave) {
  Layer layer("rms_norm", "coat");
  Pass forward(layer, TandemLayerForward), backward(layer, TandemLayerBackward);
  Names saved = {"x.saved", "x.saved.scale", "inverse"};
  EXPECT_EQ(forward.getPlanes(TDM_ROLE_SAVED), saved);
  EXPECT_EQ(backward.getPlanes(TDM_ROLE_RESTORED), saved);
}

TEST(LayersTest, HaveArraysOfKnownLengths) {
  Layer layer("rms_norm", "coat");
  Pass forward(layer, TandemLayerForward);
  std::map<std::string, int64_t> entries;
  const tdm_kernel_desc *desc = tandemKernelGetInfo(forward.kernel)->desc;
  for (uint32_t i = 0; i < desc->num_planes; ++i)
    entries[desc->planes[i].name] =
        tandemKernelGetNumEntries(forward.kernel, i, /*rows=*/3,
                                  /*columns=*/40);
  EXPECT_EQ(entries, (std::map<std::string, int64_t>{{"x", 120},
                                                     {"weight", 40},
                                                     {"y", 120},
                                                     {"x.saved", 120},
                                                     {"x.saved.scale", 9},
                                                     {"inverse", 3}}));
}

TEST(LayersTest, RestoreInputsThatAreStoredAlike) {
  Layer layer("rms_norm", "fp32");
  Pass forward(layer, TandemLayerForward), backward(layer, TandemLayerBackward);
  EXPECT_EQ(forward.getPlanes(TDM_ROLE_SAVED), Names({"inverse"}));
  EXPECT_EQ(backward.getPlanes(TDM_ROLE_RESTORED), Names({"x", "inverse"}));
}

TEST(LayersTest, TakeInputsOfOtherLayers) {
  TandemLayerOptions options = Layer::getOptions("silu", "coat");
  TandemStoredInput x = {"x", groups};
  options.stored = &x;
  options.numStored = 1;
  Layer layer(options);
  Pass forward(layer, TandemLayerForward);
  EXPECT_EQ(forward.getStorage("x"), groups);
  EXPECT_EQ(forward.getPlanes(TDM_ROLE_SAVED), Names());
  TandemStoredInput dy = {"dy", codes};
  Pass backward(layer, {TandemLayerBackward, &dy, 1, false});
  EXPECT_EQ(backward.getStorage("dy"), codes);
  EXPECT_EQ(backward.getPlanes(TDM_ROLE_RESTORED), Names({"x", "x.scale"}));
}

TEST(LayersTest, StoreOutputsByFlow) {
  Layer plain("silu", "coat"), layer("silu", "coat-flow");
  ASSERT_TRUE(plain.layer && layer.layer) << plain.error << layer.error;
  EXPECT_FALSE(tandemLayerStoresByFlow(plain.layer));
  EXPECT_TRUE(tandemLayerStoresByFlow(layer.layer));
  EXPECT_EQ(Pass(layer, TandemLayerForward).getStorage("y"), codes);
  Pass backward(layer, TandemLayerBackward);
  EXPECT_EQ(
      backward.getStorage("dx"),
      "#tandem.scaled<#scaled.float<f8E5M2>, group = tensor, scale = f32>");
  Pass alike(layer, {TandemLayerBackward, nullptr, 0, true});
  EXPECT_EQ(alike.getStorage("dx"), f32);
}

TEST(LayersTest, KeepOutputsForLinearLayers) {
  TandemLayerOptions options = Layer::getOptions("rms_norm", "coat");
  options.keepsOutputs = true;
  EXPECT_EQ(Pass(Layer(options), TandemLayerForward).getStorage("y.kept"),
            codes);
  options.layer = "rope";
  EXPECT_TRUE(Pass(Layer(options), TandemLayerForward).kernel);
}

/// Returns the text of a layer's graph, which may restore what another one
/// saves.
static std::string getGraph(const std::string &name,
                            const std::string &forward = "") {
  return "func.func @" + name +
         "(%x: tensor<?x?xf32> {tandem.role = #tandem.role<input \"x\">}, "
         "%y: tensor<?x?xf32> {tandem.role = #tandem.role<output \"y\">}) -> "
         "tensor<?x?xf32>" +
         (forward.empty() ? ""
                          : " attributes {tandem.forward = @" + forward + "}") +
         " {\n  return %x : tensor<?x?xf32>\n}\n";
}

/// Returns the text of a layer that returns its input.
static std::string getText(const std::string &name = "first") {
  return getGraph(name) + getGraph("back", name);
}

static std::string getError(const std::string &text,
                            const char *recipe = "fp32") {
  return Layer(text.c_str(), recipe).error;
}

TEST(LayersTest, HaveAForwardPass) {
  EXPECT_EQ(getError(getGraph("first")),
            "a layer has two functions, the backward pass with the attribute "
            "tandem.forward = @name of the other");
  EXPECT_EQ(getError(getGraph("first") + getGraph("back", "nothing")),
            "'back' restores what 'nothing' saves, but the module has no graph "
            "of this name");
  EXPECT_EQ(getError(getText() + getGraph("again", "nothing")),
            "'back' restores what 'first' saves, and 'again' what 'nothing' "
            "does; a layer has one forward pass");
  std::string text = getText() + getGraph("again", "first");
  EXPECT_EQ(getError(text), "");
  EXPECT_EQ(getError(text + getGraph("more", "first")),
            "a layer has a backward pass and, after it, at most one function "
            "that computes its outputs again; 'more' is one more");
}

TEST(LayersTest, HaveARecipe) {
  EXPECT_EQ(getError("rms_norm", "cote").substr(0, 55),
            "unknown recipe 'cote'; built-in ones are bf16, block-12");
  EXPECT_EQ(getError("rms_norm", "").substr(0, 44),
            "no recipe given; built-in ones are bf16, blo");
  std::string text =
      getText() + "tandem.strategy @mine compute(<f32, f32>) {\n}\n";
  Layer layer(text.c_str(), "mine");
  EXPECT_EQ(Pass(layer, TandemLayerForward).getStorage("y"), f32);
}

TEST(LayersTest, MayBeNamedAsTheirRecipe) {
  Layer layer(getText("fp32").c_str(), "fp32");
  Pass forward(layer, TandemLayerForward);
  EXPECT_EQ(forward.getStorage("y"), f32);
  EXPECT_STREQ(tandemKernelGetInfo(forward.kernel)->strategy, "fp32");
}

TEST(LayersTest, FindRecipesOnThePath) {
  std::string folder = testing::TempDir();
  std::ofstream(folder + "layers-test.mlir")
      << "tandem.strategy @\"layers-test\" compute(<f32, f32>) {\n"
         "  tandem.assign saved = #tandem.float<bf16>\n}\n";
  std::ofstream(folder + "layers-other.mlir") << "module {}";
  const char *path[] = {folder.c_str()};
  TandemLayerOptions options = Layer::getOptions("rms_norm", "layers-test");
  options.path = path;
  options.pathLength = 1;
  EXPECT_EQ(Pass(Layer(options), TandemLayerForward).getStorage("inverse"),
            bf16);
  EXPECT_TRUE(tandemCheckRecipe("layers-test", path, 1));
  EXPECT_TRUE(tandemCheckRecipe("coat", nullptr, 0));
  EXPECT_FALSE(tandemCheckRecipe("layers-test", nullptr, 0));
  EXPECT_EQ(std::string(tandemGetLastError()).substr(0, 28),
            "unknown recipe 'layers-test'");
  EXPECT_FALSE(tandemCheckRecipe("layers-other", path, 1));
  EXPECT_EQ(tandemGetLastError(),
            folder + "layers-other.mlir:1:1: the file of recipe "
                     "'layers-other' does not define tandem.strategy "
                     "@\"layers-other\"");
}

TEST(LayersTest, RefuseWhatDoesNotFit) {
  TandemLayerOptions options = Layer::getOptions("rms_norm", "coat");
  TandemStoredInput z = {"z", groups}, wrong = {"x", "codes"};
  options.stored = &z;
  options.numStored = 1;
  EXPECT_EQ(
      Layer(options).error,
      std::string("'rms_norm' has no input 'z' that could be stored as ") +
          groups + "; its inputs are x, weight, dy");
  options.stored = &wrong;
  EXPECT_EQ(Layer(options).error,
            "cannot read storage 'codes': expected attribute value");
  options.numStored = 0;
  options.elements = "f33";
  EXPECT_EQ(Layer(options).error,
            "'f33' is not a float format; formats are f32, bf16, f16, f8E4M3FN "
            "and f8E5M2");
  options.elements = nullptr;
  options.target = "sm_1";
  EXPECT_EQ(Layer(options).error.substr(0, 21), "unknown target 'sm_1'");
  EXPECT_EQ(getError("rms").substr(0, 19), "unknown graph 'rms'");
  EXPECT_EQ(getError("func.func").substr(0, 10), "layer:1:10");
  Layer layer("rms_norm", "coat");
  TandemStoredInput x = {"x", groups};
  EXPECT_EQ(Pass(layer, {TandemLayerBackward, &x, 1, false}).error,
            std::string("'rms_norm_backward' has no input 'x' that could be "
                        "stored as ") +
                groups + "; its inputs are dy, weight");
  x.name = "dy";
  x.storage = "codes";
  EXPECT_EQ(Pass(layer, {TandemLayerBackward, &x, 1, false}).error,
            "cannot read storage 'codes': expected attribute value");
}

TEST(LayersTest, KeepNoScalesOfGradients) {
  std::string folder = testing::TempDir();
  std::ofstream(folder + "layers-history.mlir")
      << "tandem.strategy @\"layers-history\" compute(<f32, f32>) {\n"
         "  tandem.assign output flow(gradient) per(element) = "
         "#tandem.scaled<#scaled.float<f8E5M2>, group = tensor, scale = f32, "
         "history = 4>\n"
         "  tandem.assign saved = #tandem.float<f32>\n}\n";
  const char *path[] = {folder.c_str()};
  TandemLayerOptions options = Layer::getOptions("silu", "layers-history");
  options.path = path;
  options.pathLength = 1;
  Layer layer(options);
  EXPECT_EQ(Pass(layer, TandemLayerBackward).error,
            "recipe 'layers-history' keeps scales of the gradient 'dx' from "
            "step to step, and a backward pass has no place for them; give "
            "tandem.assign output flow(gradient) a storage without history");
  EXPECT_TRUE(Pass(layer, {TandemLayerBackward, nullptr, 0, true}).kernel);
}

TEST(LayersTest, RefusePassesThatThereAreNot) {
  Layer layer("rms_norm", "coat");
  auto unknown = static_cast<TandemLayerPass>(TandemLayerRecompute + 1);
  EXPECT_EQ(tandemLayerGetFunction(layer.layer, unknown), nullptr);
  EXPECT_EQ(tandemLayerGetNumOutputs(layer.layer, unknown), 0);
  Pass pass(layer, unknown);
  EXPECT_FALSE(pass.kernel);
  EXPECT_EQ(pass.error, "pass 3 is none of TandemLayerForward, "
                        "TandemLayerBackward and TandemLayerRecompute");
}
