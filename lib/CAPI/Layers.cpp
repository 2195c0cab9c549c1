//===- Layers.cpp - Layers in the C API -----------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the entries of the C API for layers.
//
//===----------------------------------------------------------------------===//

#include "tandem/Target/Layers.h"
#include "Failure.h"
#include "Handles.h"
#include "tandem/Support/CompilerError.h"

using namespace tandem;

struct TandemLayer {
  std::unique_ptr<Layer> layer;
};

/// Returns no value for a number that is not an enumerator, which C allows.
static std::optional<LayerPass> getPass(TandemLayerPass pass) {
  if (static_cast<unsigned>(pass) >= TDM_NUM_VALUES(TANDEM_LAYER_PASSES))
    return std::nullopt;
  return static_cast<LayerPass>(pass);
}

static const LayerFunction *getFunction(TandemLayer *layer,
                                        TandemLayerPass pass) {
  std::optional<LayerPass> known = getPass(pass);
  return known ? layer->layer->getFunction(*known) : nullptr;
}

static std::vector<std::string> getTexts(const char *const *texts,
                                         intptr_t count) {
  return std::vector<std::string>(texts, texts + count);
}

static std::vector<StoredInput> getStored(const TandemStoredInput *inputs,
                                          intptr_t count) {
  std::vector<StoredInput> stored;
  for (const TandemStoredInput &input : llvm::ArrayRef(inputs, count))
    stored.push_back({orElse(input.name, ""), orElse(input.storage, "")});
  return stored;
}

TandemLayer *tandemLayerCreate(const TandemLayerOptions *options) {
  auto text = loadGraph(orElse(options->layer, ""));
  if (!text) {
    setLastError(text.takeError());
    return nullptr;
  }
  LayerOptions wanted;
  wanted.layer = std::move(*text);
  wanted.recipe = orElse(options->recipe, "");
  wanted.path = getTexts(options->path, options->pathLength);
  wanted.elements = orElse(options->elements, "f32");
  wanted.columns = orElse(options->columns, "");
  wanted.stored = getStored(options->stored, options->numStored);
  wanted.keepsOutputs = options->keepsOutputs;
  wanted.target = orElse(options->target, "cpu");
  wanted.isa = orElse(options->isa, "native");
  auto layer = Layer::create(wanted);
  if (layer)
    return new TandemLayer{std::move(*layer)};
  setLastError(layer.takeError());
  return nullptr;
}

void tandemLayerDestroy(TandemLayer *layer) { delete layer; }

const char *tandemLayerGetFunction(TandemLayer *layer, TandemLayerPass pass) {
  const LayerFunction *function = getFunction(layer, pass);
  return function ? function->name.c_str() : nullptr;
}

intptr_t tandemLayerGetNumOutputs(TandemLayer *layer, TandemLayerPass pass) {
  const LayerFunction *function = getFunction(layer, pass);
  return function ? function->outputs.size() : 0;
}

TandemLayerOutput tandemLayerGetOutput(TandemLayer *layer, TandemLayerPass pass,
                                       intptr_t index) {
  const LayerFunction::Output &output =
      getFunction(layer, pass)->outputs[index];
  return {output.name.c_str(), output.isForLinear, output.isGradient};
}

bool tandemLayerStoresByFlow(TandemLayer *layer) {
  return layer->layer->storesByFlow();
}

TandemKernel *tandemLayerCompile(TandemLayer *layer,
                                 const TandemLayerPassOptions *options) {
  std::optional<LayerPass> pass = getPass(options->pass);
  if (!pass) {
    setLastError(ErrorBuilder(TandemErrorArgument)
                 << "pass " + llvm::Twine(int64_t(options->pass)) +
                        " is none of TandemLayerForward, TandemLayerBackward "
                        "and TandemLayerRecompute");
    return nullptr;
  }
  LayerPassOptions wanted;
  wanted.pass = *pass;
  wanted.stored = getStored(options->stored, options->numStored);
  wanted.hasPlainOutputs = options->hasPlainOutputs;
  return createHandle(layer->layer->compile(wanted));
}

bool tandemCheckRecipe(const char *recipe, const char *const *path,
                       intptr_t pathLength) {
  llvm::Error error =
      checkRecipe(orElse(recipe, ""), getTexts(path, pathLength));
  if (!error)
    return true;
  setLastError(std::move(error));
  return false;
}
